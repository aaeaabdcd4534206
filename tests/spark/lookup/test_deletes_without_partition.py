"""Deletes that know a key and no partition, as change data capture sends them."""

from __future__ import annotations

import json
import shutil

import pytest

import parquetry
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.operating.run import RunView
from parquetry.compiler.jobs.results import JobOutcome, RunResult
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.table_spec import Column, KeyScope, TableSpec
from tests.support.judges import HudiRs

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(name="id", type="string", nullable=False),
    Column(name="p", type="string"),
    Column(name="q", type="int"),
    Column(name="v", type="bigint"),
)
SCHEMA = "id string, p string, q int, v bigint, op string"
CDC = {"delete_when": "op = 'D'", "drop": ["op"]}


class Feed:
    """A table, made where there is none, and the changes that are sent to it."""

    def __init__(self, spark, path, **changes):
        given = {
            "name": "t",
            "columns": COLUMNS,
            "record_key": ("id",),
            "ordering": "v",
            "partition_by": ("p", "q"),
        }
        self.spark = spark
        if path.exists():
            self.table = parquetry.open(path)
        else:
            self.table = parquetry.create(path, TableSpec(**(given | changes)))

    def send(self, *rows):
        return self.table.upsert(self.frame(*rows), **CDC)

    def frame(self, *rows):
        return self.spark.createDataFrame(list(rows), SCHEMA)

    def rows(self):
        found = HudiRs().read(self.table.uri).to_pylist()
        return sorted((r["id"], r["p"], r["q"], r["v"]) for r in found)


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory):
    """The folder of a table with four rows."""
    path = tmp_path_factory.mktemp("written") / "t"
    rows = (("a", "x", 1, 1, "U"), ("b", "x", 2, 1, "U"), ("c", "y", 1, 1, "U"), ("d", "y", 1, 1, "U"))
    Feed(spark, path).send(*rows)
    return path


@pytest.fixture
def feed(spark, written, tmp_path):
    """A table with four rows, for one test."""
    shutil.copytree(written, tmp_path / "t")
    return Feed(spark, tmp_path / "t")


def test_a_key_alone_deletes_wherever_it_lies(feed):
    result = feed.send(("a", None, None, 2, "D"), ("c", None, None, 2, "D"), ("e", "z", 1, 1, "U"))
    assert (result.inserted_rows, result.deleted_rows, result.unmatched_deletes) == (1, 2, 0)
    assert feed.rows() == [("b", "x", 2, 1), ("d", "y", 1, 1), ("e", "z", 1, 1)]


def test_a_delete_by_key_with_null_partition_columns_does_too(feed):
    result = feed.table.delete(feed.frame(("a", None, None, 2, "D"), ("d", None, None, 0, "D")).drop("op"))
    assert (result.deleted_rows, result.late_rows, result.unmatched_deletes) == (1, 1, 0)
    assert feed.rows() == [("b", "x", 2, 1), ("c", "y", 1, 1), ("d", "y", 1, 1)]


def test_where_rows_have_no_partition_either_only_they_are_deleted(feed):
    feed.send(("a", None, None, 1, "U"))
    result = feed.send(("a", None, None, 2, "D"))
    assert (result.deleted_rows, result.unmatched_deletes) == (1, 0)
    assert ("a", "x", 1, 1) in feed.rows()
    assert ("a", None, None, 1) not in feed.rows()


def test_rows_of_the_same_batch_take_part(feed):
    result = feed.send(
        ("new", "x", 1, 1, "U"),
        ("new", None, None, 2, "D"),
        ("a", "y", 1, 3, "U"),
        ("a", None, None, 2, "D"),
        ("b", "x", 2, 3, "U"),
        ("b", None, None, 2, "D"),
        ("c", "y", 1, 2, "U"),
        ("c", None, None, 3, "D"),
    )
    assert feed.rows() == [("a", "y", 1, 3), ("b", "x", 2, 3), ("d", "y", 1, 1)]
    assert (result.inserted_rows, result.updated_rows, result.deleted_rows) == (1, 1, 2)
    assert result.unmatched_deletes == 1


def test_a_partition_that_is_given_in_part_is_where_the_row_is_looked_for(feed):
    result = feed.send(("a", "x", None, 2, "D"), ("a", "y", 1, 2, "D"), ("c", "y", 1, 2, "D"))
    assert (result.deleted_rows, result.unmatched_deletes) == (1, 2)
    assert feed.rows() == [("a", "x", 1, 1), ("b", "x", 2, 1), ("d", "y", 1, 1)]


def test_deletes_that_find_nothing_are_counted_and_shown(feed):
    before = feed.rows()
    result = feed.send(("zz", None, None, 2, "D"), ("a", "y", 1, 2, "D"))
    assert result.instant is None
    assert result.unmatched_deletes == 2
    assert feed.table.delete(feed.frame(("zz", "x", 1, 2, "D")).drop("op")).unmatched_deletes == 1
    assert feed.rows() == before

    late = feed.send(
        ("a", "x", 1, 0, "D"), ("b", "x", 2, 0, "U"), ("n", "x", 1, 0, "U"), ("n2", "y", 1, 0, "D")
    )
    assert (late.late_rows, late.inserted_rows, late.deleted_rows, late.unmatched_deletes) == (2, 1, 0, 1)
    outcomes = [
        JobOutcome(
            table="t", name="ingest", result=JobResult(table="t", job="ingest", files_read=1, commit=c)
        )
        for c in (result, late)
    ]
    shown = RunResult(run_id="r", outcomes=tuple(outcomes))
    first, second, *_ = RunView().text(shown, Paint(enabled=False)).splitlines()
    assert first == "t ingest  1 file read, no rows to write; 2 deletes found no row with their key"
    assert second.startswith("t ingest  1 inserted, 0 updated, 0 deleted, 2 late; ")
    assert second.endswith("; 1 deletes found no row with their key")
    assert (
        json.loads(json.dumps(RunView().json(shown)))["jobs"][0]["result"]["commit"]["unmatched_deletes"] == 2
    )


def test_in_a_table_of_unique_keys_deletes_that_find_nothing_are_counted_too(spark, tmp_path):
    feed = Feed(spark, tmp_path / "t", key_scope=KeyScope.TABLE)
    feed.send(("a", "x", 1, 1, "U"))
    result = feed.send(("a", None, None, 2, "D"), ("b", None, None, 2, "D"), ("c", "x", 1, 2, "D"))
    assert (result.deleted_rows, result.unmatched_deletes) == (1, 2)
    assert feed.rows() == []


@pytest.mark.parametrize(
    ("scope", "deleted"),
    [(KeyScope.TABLE, ["a", "b"]), (KeyScope.PARTITION, ["b"])],
    ids=str,
)
def test_a_partition_that_is_given_counts_where_keys_are_unique_by_partition(spark, tmp_path, scope, deleted):
    feed = Feed(spark, tmp_path / "t", key_scope=scope)
    feed.send(("a", "x", 1, 1, "U"), ("b", "x", 1, 1, "U"), ("c", "x", 1, 1, "U"))
    result = feed.table.delete(feed.frame(("a", "y", 1, 2, "D"), ("b", "x", 1, 2, "D")).drop("op"))
    assert (result.deleted_rows, result.unmatched_deletes) == (len(deleted), 2 - len(deleted))
    assert [row[0] for row in feed.rows()] == sorted({"a", "b", "c"} - set(deleted))
