"""`inspect --files`: the files that hold the newest rows, each row once, as engines take their paths."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from parquetry.cli.main import command_line
from parquetry.cli.terminal.schema import answer_schema
from parquetry.compiler.reports.inspection import live_files
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.table_spec import RetentionPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import create_table
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_again, table_in_debt
from tests.support.s3_server import BUCKET
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table, view_rows


def listed(path, *options):
    result = CliRunner().invoke(command_line, ["inspect", str(path), "--files", *options])
    return result.exit_code, result.stdout


def rows_in(paths):
    """What an engine reads that knows no timeline."""
    rows = [row for path in paths for row in pq.ParquetFile(path).read(["id", "v", "p"]).to_pylist()]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["v"], row["p"]) for row in rows}


@pytest.fixture
def table(tmp_path) -> SmallTable:
    """Rows rewritten, replaced, deleted and clustered, with all their old versions on disk."""
    made = table_in_debt(tmp_path / "t")
    made.upsert({"k1": (100, "b"), "odd": (1, "a b/c%[x]")})
    cluster(OneProcessSpark(), made.handle, timing=FAST)
    made.delete(["k4"])
    made.delete_partition("p=b")
    return made


def test_an_engine_without_a_timeline_reads_the_rows_from_the_list(table, tmp_path):
    code, text = listed(tmp_path / "t")
    paths = text.splitlines()
    assert code == 0
    assert paths == sorted(paths)
    assert rows_in(paths) == view_rows(tmp_path / "t") != {}
    assert len([*(tmp_path / "t").glob("p=*/*.parquet")]) > len(paths)


def test_the_json_has_the_sizes_and_the_instant_of_the_list(table, tmp_path):
    _, text = listed(tmp_path / "t", "--format", "json")
    answer = json.loads(text)
    Draft202012Validator(answer_schema("inspect-files")).validate(answer)
    assert answer["instant"] == table.handle.timeline().completed_writes[-1].time
    assert [file["path"] for file in answer["files"]] == listed(tmp_path / "t")[1].splitlines()
    assert all(file["size_bytes"] == Path(file["path"]).stat().st_size for file in answer["files"])


def test_a_table_without_rows_has_no_lines(tmp_path):
    make_table(tmp_path / "t")
    assert listed(tmp_path / "t") == (0, "")


def test_a_list_that_would_lack_rows_is_an_error_that_names_the_file(table, tmp_path):
    lost, *_ = listed(tmp_path / "t")[1].splitlines()
    open_store(tmp_path / "t").delete(lost.removeprefix(f"{tmp_path}/t/"))
    result = CliRunner().invoke(command_line, ["inspect", str(tmp_path / "t"), "--files"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert lost.rpartition("/")[2] in result.stderr


def test_the_list_goes_to_stdout_alone(table, tmp_path):
    assert listed(tmp_path / "t", "--out", str(tmp_path / "x"))[0] == 2
    assert listed(tmp_path / "t", "--html", str(tmp_path / "x"))[0] == 2


@pytest.mark.parametrize(("scheme", "options"), [("s3", "s3_options"), ("gs", "gcs_options")])
def test_objects_are_listed_by_their_uri(scheme, options, request):
    store = open_store(f"{scheme}://{BUCKET}/live", request.getfixturevalue(options))
    spec = TableSpec(name="small", columns=COLUMNS, record_key=("id",), partition_by=("p",))
    create_table(store, spec, project="tests")
    SmallTable(store=store).upsert({"k": (1, "a")})
    (file,) = live_files(store).files
    assert re.fullmatch(rf"{scheme}://{BUCKET}/live/p=a/[^/]+\.parquet", file.path)


def test_nothing_but_live_files_is_left_behind_a_clustering_when_one_version_is_kept(tmp_path):
    """What readers need that take the newest file of each file id and know no replacecommits."""
    table = table_in_debt(tmp_path / "t")
    apply_again(table, retention=RetentionPolicy(keep_commits=None, keep_versions=1))
    table = SmallTable(store=table.store, services=True)
    steps = {
        "write": lambda: table.upsert({"k1": (100, "b"), "n": (1, "a")}),
        "clustering": lambda: cluster(OneProcessSpark(), table.handle, timing=FAST),
        "overwrite": lambda: table.overwrite({"z": (1, "a")}),
        "partition": lambda: table.delete_partition("p=b"),
    }
    for name, step in steps.items():
        step()
        left = sorted(str(path) for path in (tmp_path / "t").glob("p=*/*.parquet"))
        assert (name, left) == (name, [file.path for file in live_files(table.store).files])
    assert rows_in(left) == view_rows(tmp_path / "t") == {"z": (1, "a")}
