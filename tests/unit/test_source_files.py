"""Which files a source's path means."""

from __future__ import annotations

import os

import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.source_files import glob_expression, list_files, open_file, split_pattern


@pytest.fixture
def landing(tmp_path):
    for name in ("a.parquet", "b.csv", "x/c.parquet", "_SUCCESS", ".a.parquet.crc", "x/_temporary/d.parquet"):
        path = tmp_path / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("landing/*.parquet", ["landing/a.parquet"]),
        ("landing/**/*.parquet", ["landing/a.parquet", "landing/x/c.parquet"]),
        ("landing/{a,b}.*", ["landing/a.parquet", "landing/b.csv"]),
        ("landing/[!a].csv", ["landing/b.csv"]),
        ("landing/[a-c].???", ["landing/b.csv"]),
        ("landing/*/c.parquet", ["landing/x/c.parquet"]),
        ("landing", ["landing/a.parquet", "landing/b.csv", "landing/x/c.parquet"]),
        ("landing/", ["landing/a.parquet", "landing/b.csv", "landing/x/c.parquet"]),
        ("landing/a.parquet", ["landing/a.parquet"]),
        ("elsewhere/*.parquet", []),
    ],
)
def test_patterns_match_as_declared(landing, pattern, found):
    assert [f.file.path for f in list_files(pattern, base=str(landing))] == found


def test_an_absolute_path_keeps_its_name(landing):
    pattern = f"{landing}/landing/*.csv"
    assert [f.file.path for f in list_files(pattern)] == [f"{landing}/landing/b.csv"]


def test_a_path_without_wildcards_must_exist(landing):
    with pytest.raises(InvalidDataError, match=r"no file or folder landin; correct the path"):
        list_files("landin", base=str(landing))
    (landing / "landin").mkdir()
    assert list_files("landin", base=str(landing)) == ()


def test_the_ledger_name_does_not_depend_on_the_checkout(landing, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "landing").mkdir()
    (other / "landing" / "b.csv").write_text("b.csv")
    first, second = (list_files("landing/*.csv", base=str(base))[0] for base in (landing, other))
    assert first.file.path == second.file.path
    assert first.spark_uri != second.spark_uri


def test_a_found_file_can_be_opened(landing):
    (found,) = list_files("landing/*.csv", base=str(landing))
    with open_file(found) as handle:
        assert handle.read() == b"b.csv"


def test_special_characters_in_names_are_no_pattern_for_spark(tmp_path):
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a[1].csv").write_text("x")
    (found,) = list_files("landing/*.csv", base=str(tmp_path))
    assert found.spark_uri.endswith(r"a\[1\].csv")


def test_a_name_that_is_no_utf_8_is_shown(tmp_path):
    (tmp_path / "landing").mkdir()
    with open(os.fsencode(tmp_path / "landing") + b"/caf\xe9.csv", "w"):
        pass
    with pytest.raises(
        InvalidDataError, match=r"landing/\*\.csv matches a file called b'caf\\xe9\.csv'.*rename"
    ):
        list_files("landing/*.csv", base=str(tmp_path))
    assert list_files("landing/*.json", base=str(tmp_path)) == ()


def test_patterns_split_before_the_first_wildcard():
    assert split_pattern("s3://bucket/in/2024-*/x.csv") == ("s3://bucket/in", "2024-*/x.csv")
    assert split_pattern("/in") == ("/in", "")
    assert split_pattern("/*.csv") == ("/", "*.csv")


def test_one_star_does_not_cross_folders():
    assert glob_expression("*.csv").fullmatch("a.csv")
    assert not glob_expression("*.csv").fullmatch("x/a.csv")
    assert not glob_expression("[!x]a.csv").fullmatch("/a.csv")


def test_a_pattern_that_means_nothing_is_named():
    with pytest.raises(InvalidDataError, match=r"\[z-a\].*write ranges as"):
        glob_expression("in/[z-a]*.csv")
