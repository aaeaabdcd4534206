"""Which files a source's path means."""

from __future__ import annotations

import os

import pytest

from parquetry.message import message_from_json, message_json
from parquetry.runtime.errors import InvalidDataError, MissingSourceError
from parquetry.runtime.sources.listing import glob_expression, list_files, open_file, split_pattern
from parquetry.runtime.spec.source_paths import normalised_path
from parquetry.runtime.storage.local import LocalStore


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
        ("*.parquet", []),
        ("l*/b.csv", ["landing/b.csv"]),
        ("{landing,other}/*.csv", ["landing/b.csv"]),
        ("**/c.parquet", ["landing/x/c.parquet"]),
        ("./landing/*.csv", ["./landing/b.csv"]),
    ],
)
def test_patterns_match_as_declared(landing, pattern, found):
    assert [f.file.path for f in list_files(pattern, base=str(landing))] == found


def test_a_file_is_found_once_whatever_links_lead_to_it(landing):
    (landing / "landing/a.csv").symlink_to("b.csv")
    (landing / "landing/x/b.csv").symlink_to("../b.csv")
    (landing / "landing/_kept.csv").write_text("elsewhere")
    for name in ("n", "m"):
        (landing / f"landing/{name}.csv").symlink_to(landing / "landing/_kept.csv")

    def found(pattern):
        return [f.file.path.removeprefix("landing/") for f in list_files(pattern, base=str(landing))]

    assert found("landing/*.csv") == ["b.csv", "m.csv"]
    assert found("landing/**/*.csv") == ["b.csv", "m.csv"]
    assert found("landing") == ["a.parquet", "b.csv", "m.csv", "x/c.parquet"]
    # A link that a path means by itself is a file like any other, and so is one to a file that is not meant.
    assert found("landing/a.csv") == ["a.csv"]
    assert found("landing/[an].csv") == ["a.csv", "n.csv"]


def test_two_files_of_one_content_and_two_hard_links_are_two_files(landing):
    (landing / "landing/c.csv").hardlink_to(landing / "landing/b.csv")
    (landing / "landing/d.csv").write_text("b.csv")
    (landing / "landing/e.csv").symlink_to("c.csv")
    found = [f.file.path for f in list_files("landing/*.csv", base=str(landing))]
    assert found == ["landing/b.csv", "landing/c.csv", "landing/d.csv"]


@pytest.mark.parametrize("name", ["_kept", ".kept", "_kept/deeper"])
def test_a_link_to_what_is_passed_over_is_followed(landing, name):
    kept = landing / "landing" / name
    kept.mkdir(parents=True)
    (kept / "k.csv").write_text("k")
    (landing / "landing/day").symlink_to(kept)
    (landing / "landing/l.csv").symlink_to(kept / "k.csv")
    found = [f.file.path for f in list_files("landing/**/*.csv", base=str(landing))]
    assert found == ["landing/b.csv", "landing/day/k.csv"]
    assert [f.file.path for f in list_files("landing/l*.csv", base=str(landing))] == ["landing/l.csv"]


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
    with pytest.raises(InvalidDataError, match=r"landing/\*\.csv matches the file b'caf\\xe9\.csv'.*rename"):
        list_files("landing/*.csv", base=str(tmp_path))
    assert list_files("landing/*.json", base=str(tmp_path)) == ()


def test_a_local_name_that_hadoop_does_not_take_is_told(landing):
    (landing / "landing/y=1:2").mkdir()
    (landing / "landing/y=1:2/a.csv").touch()
    assert [f.file.path for f in list_files("landing/y*/*", base=str(landing))] == ["landing/y=1:2/a.csv"]
    (landing / "landing/12:30.csv").touch()
    with pytest.raises(InvalidDataError, match=r"the file '12:30\.csv', but .* ':'; rename it"):
        list_files("landing/*.csv", base=str(landing))


def test_patterns_split_before_the_first_wildcard():
    assert split_pattern("s3://bucket/in/2024-*/x.csv") == ("s3://bucket/in", "2024-*/x.csv")
    assert split_pattern("/in") == ("/in", "")
    assert split_pattern("/*.csv") == ("/", "*.csv")


@pytest.mark.parametrize("path", ["*.csv", "landing-*/x.csv", "{a,b}/x.csv", "**/x.csv"])
def test_a_wildcard_in_the_first_part_of_a_relative_path_starts_at_the_base(path):
    assert split_pattern(path) == ("", path)
    assert split_pattern(f"/{path}") == ("/", path)


def test_only_what_may_match_is_listed(landing, monkeypatch):
    listed = []
    entries = LocalStore._entries
    monkeypatch.setattr(
        LocalStore, "_entries", lambda *at: listed.append(f"{at[0].root}/{at[1]}".rstrip("/")) or entries(*at)
    )
    list_files("landing/*.csv", base=str(landing))
    assert set(listed) == {f"{landing}/landing"}


@pytest.mark.parametrize("path", ["landing/x*", "l*ng", "landing/{x,y}", "*/x"])
def test_a_path_that_matches_folders_alone_is_refused_with_what_matches_their_files(landing, path):
    with pytest.raises(
        InvalidDataError, match=r"matches the folder .*/(landing|x), and no file; write"
    ) as caught:
        list_files(path, base=str(landing))
    deeper = str(caught.value).rpartition(", or ")[2].partition(" for")[0]
    assert [f.file.path for f in list_files(deeper, base=str(landing))][-1] == "landing/x/c.parquet"


@pytest.mark.parametrize("path", ["landing/*.parquet", "landing/{a,f}.parquet", "l*g/*.parquet"])
def test_a_folder_that_is_called_as_the_files_beside_it_is_told(landing, path):
    folder = landing / "landing/f.parquet"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    assert [f.file.path for f in list_files(path, base=str(landing))] == ["landing/a.parquet"]
    (folder / "part-0.parquet").touch()
    with pytest.raises(
        InvalidDataError, match=r"matches the folder \S+/f\.parquet, and files; write"
    ) as caught:
        list_files(path, base=str(landing))
    deeper = str(caught.value).rpartition(", or ")[2].partition(" for")[0]
    assert [f.file.path for f in list_files(deeper, base=str(landing))] == [
        "landing/f.parquet/part-0.parquet"
    ]


def test_a_folder_may_be_called_as_the_files_that_are_read_of_it(landing):
    folder = landing / "landing/f.parquet"
    folder.mkdir()
    for name in ("part-0.parquet", "notes.txt"):
        (folder / name).touch()
    found = [f.file.path for f in list_files("landing/**/*.parquet", base=str(landing))]
    assert found == ["landing/a.parquet", "landing/f.parquet/part-0.parquet", "landing/x/c.parquet"]


def test_a_folder_of_nothing_but_folders_may_be_waited_at(tmp_path):
    (tmp_path / "landing/done").mkdir(parents=True)
    assert list_files("landing/d*", base=str(tmp_path)) == ()
    (tmp_path / "landing/done/a.csv").write_text("x")
    assert list_files("landing/*", base=str(tmp_path)) == ()


@pytest.mark.parametrize(
    "path", ["landing/_SUCCESS", "landing/_*", "landing/*/.x.csv", "landing/*/_temporary/*"]
)
def test_a_path_that_can_only_match_hidden_names_is_refused(landing, path):
    with pytest.raises(InvalidDataError, match=r"never matches a file: .* names that begin with '_' or '\.'"):
        list_files(path, base=str(landing))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("in/a.csv", "/p/in/a.csv"),
        ("./in/a.csv", "/p/in/a.csv"),
        ("in/../in//a.csv", "/p/in/a.csv"),
        ("/p/in/a.csv", "/p/in/a.csv"),
        ("file:/p/in/a.csv", "/p/in/a.csv"),
        ("file://localhost/p/in/a.csv", "/p/in/a.csv"),
        ("FILE:///p/./in/a.csv", "/p/in/a.csv"),
        ("in/a:b.csv", "/p/in/a:b.csv"),
        ("s3://b/in/a.csv", "s3://b/in/a.csv"),
        ("s3a://b//in/a.csv", "s3://b/in/a.csv"),
        ("GS://b//in/a.csv", "gs://b/in/a.csv"),
        ("s3://b/in/../a.csv", "s3://b/in/../a.csv"),
    ],
)
def test_a_file_is_at_one_place_however_its_path_is_spelled(path, place):
    assert normalised_path(path, "/p") == place


def test_one_star_does_not_cross_folders():
    assert glob_expression("*.csv").matching(["a.csv"])
    assert not glob_expression("*.csv").matching(["x/a.csv"])
    assert not glob_expression("[!x]a.csv").matching(["/a.csv"])


def test_a_name_with_a_line_break_matches_as_any_other():
    assert glob_expression("**").matching(["x/a\nb.csv"])
    assert glob_expression("**/*.csv").matching(["x\ny/a\nb.csv"])


def test_a_file_that_hadoop_is_still_writing_is_left_out(landing):
    (landing / "landing/d.csv._COPYING_").touch()
    assert [f.file.path for f in list_files("landing/*", base=str(landing))] == [
        "landing/a.parquet",
        "landing/b.csv",
    ]


def test_a_pattern_that_means_nothing_is_named():
    with pytest.raises(InvalidDataError, match=r"\[z-a\].*write ranges as"):
        glob_expression("in/[z-a]*.csv")
    with pytest.raises(InvalidDataError, match=r"'\{a,\{b,c\}\}\.csv' has braces within braces; write each"):
        glob_expression("{a,{b,c}}.csv")


def test_the_folder_before_the_first_wildcard_can_be_asked_for(landing):
    for path in ("elsewhere/*.csv", "elsewhere/**/x.csv", "landing/y/*", "elsewhere/x=*/y/*.csv"):
        assert list_files(path, base=str(landing)) == ()
        with pytest.raises(MissingSourceError, match="there is no folder"):
            list_files(path, base=str(landing), must_exist=True)
    (landing / "elsewhere").mkdir()
    for path in ("elsewhere/*.csv", "landing/nothing*", "landing/*/nothing", "*.csv"):
        assert list_files(path, base=str(landing), must_exist=True) == ()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "pattern",
    [
        "**/" * 12 + "*.csv",
        "**/" * 1000 + "*.csv",
        "*" * 400 + "x.csv",
        "**a" * 300 + "x.csv",
        "{a,**}" * 200 + "x.csv",
        "{*,?,**/}" * 100 + "x.csv",
        "[a-z]*" * 200 + "x.csv",
    ],
    ids=["twelve", "thousand", "stars", "letters", "braces", "mixed", "classes"],
)
def test_a_pattern_of_many_wildcards_is_matched_at_once(tmp_path, pattern):
    folder = tmp_path / "landing" / ("a/" * 100)
    folder.mkdir(parents=True)
    for number in range(50):
        (folder / f"{'a' * 200}{number}.csv").touch()
    expected = 50 if pattern.endswith("/*.csv") else 0
    assert len(list_files(f"landing/{pattern}", base=str(tmp_path))) == expected


def test_a_pattern_longer_than_any_path_is_refused(tmp_path):
    for pattern in ("*" * 5000, "[" * 1_000_000, "{a," * 100_000):
        with pytest.raises(InvalidDataError, match="characters, but a path has at most 4,096; shorten it"):
            list_files(pattern, base=str(tmp_path))


def test_names_that_are_no_utf_8_match_by_their_characters():
    assert glob_expression("a?.csv").matching(["a\udcff.csv", "ab.csv", "a/.csv", "abc.csv"]) == {
        "a\udcff.csv",
        "ab.csv",
    }


def test_a_name_that_is_not_utf_8_is_quoted_and_can_be_masked(landing):
    folder = landing / "landing/day=secret"
    folder.mkdir()
    (folder / os.fsdecode(b"\xff.csv")).touch()
    with pytest.raises(InvalidDataError) as caught:
        list_files("landing/**/*.csv", base=str(landing))
    assert r"matches the file b'day=secret/\xff.csv', but" in str(caught.value)
    assert "secret" not in str(caught.value.message)
    assert message_from_json(message_json(caught.value.message)) == caught.value.message
