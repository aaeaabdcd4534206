"""Rows of one key without an ordering value between them: the last to arrive counts, however they are read."""

from __future__ import annotations

import gzip
import json
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.main import execute
from parquetry.runtime.sources.due import DueBatch
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.sources.listing import list_files
from parquetry.runtime.spark.ingest import write_batch
from parquetry.runtime.spark.session.settings import session_settings
from parquetry.runtime.spark.write import write
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements
from parquetry.runtime.spec.table_spec import Column, KeyScope, Operation, Source, TableSpec, Ties
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.write.request import WriteRequest
from parquetry.table import create
from tests.support import hudi_rs
from tests.support.effort import each_value_once, in_full
from tests.support.local_spark import local_spark

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(name="id", type="bigint", nullable=False),
    Column(name="day", type="string"),
    Column(name="seq", type="bigint"),
    Column(name="text", type="string"),
)
DDL = "id bigint, day string, seq bigint, text string"
KINDS = ("csv", "csv.gz", "multiline", "json", "parquet", "orc")
SPLITS_OF_A_KIND = 9


@pytest.fixture(scope="module")
def spark():
    return local_spark("arrival")


FILE_SCHEMA = pa.schema(
    {"id": pa.int64(), "day": pa.string(), "seq": pa.int64(), "text": pa.string(), "op": pa.string()}
)


def write_file(path, kind, rows):
    match kind:
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows, FILE_SCHEMA), path, row_group_size=4)
        case "orc":
            orc.write_table(pa.Table.from_pylist(rows, FILE_SCHEMA), path)
        case "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case _:
            cells = ([("" if cell is None else str(cell)) for cell in row.values()] for row in rows)
            text = "id,day,seq,text,op\n" + "".join(",".join(row) + "\n" for row in cells)
            path.write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())


def ingested(spark, root, kind, deliveries, *, runs, split_bytes, ordering=None, scope=None):
    """The rows of a table after so many runs, as hudi-rs reads them; partitioned by day if there is a scope."""
    source = Source(
        name="s",
        format=kind if kind in ("json", "parquet", "orc") else "csv",
        path="in/*",
        operation=Operation.UPSERT,
        delete_when="op = 'D'",
        drop=("op",),
        options={"multiLine": "true"} if kind == "multiline" else {},
    )
    spec = TableSpec(
        name="t",
        columns=COLUMNS,
        record_key=("id",),
        partition_by=("day",) if scope else (),
        key_scope=scope or KeyScope.PARTITION,
        ordering=ordering,
        sources=(source,),
    )
    (root / "in").mkdir(parents=True)
    location = str(root / "t")

    def run(job_kind, **changes):
        job = JobPlan(
            kind=job_kind,
            project="p",
            target="dev",
            table="t",
            location=location,
            directory=str(root),
            spec=spec,
            **changes,
        )
        execute(job, session=lambda _: spark)

    run(JobKind.CREATE, source=None, requirements=Requirements(exists=False, applied_number=None))
    ends = [round(len(deliveries) * number / runs) for number in range(runs + 1)]
    for first, last in zip(ends, ends[1:], strict=False):
        for number in range(first, last):
            write_file(
                root / "in" / f"{number:03d}.{kind.replace('multiline', 'csv')}", kind, deliveries[number]
            )
        if first < last:
            settings = {
                "spark.sql.files.maxPartitionBytes": str(split_bytes),
                "spark.sql.files.openCostInBytes": "0",
            }
            with session_settings(spark, settings):
                run(JobKind.INGEST, source="s", requirements=Requirements(exists=True, applied_number=None))
    return stored(location)


def stored(location):
    rows = hudi_rs.read(location).to_pylist()
    found = {(row["day"], row["id"]): (row["seq"], row["text"]) for row in rows}
    assert len(found) == len(rows)
    return found


def folded(rows, *, ordering, scope=None):
    """The rows that there are after these, one after the other."""
    table = {}
    for row in rows:
        same = [
            key
            for key in table
            if key[1] == row["id"] and (scope is not KeyScope.PARTITION or row["day"] in (None, key[0]))
        ]
        if ordering and any(row["seq"] < table[key][0] for key in same) and row["op"] != "D":
            continue
        for key in same:
            if not ordering or row["seq"] >= table[key][0]:
                del table[key]
        if row["op"] != "D":
            table[row["day"], row["id"]] = (row["seq"], row["text"])
    return table


def random_rows(rng, *, scope):
    rows = [
        {
            "id": rng.randrange(12),
            "day": rng.choice("ab"),
            "seq": rng.randrange(4),
            "text": f"{rng.randrange(10**9)}",
            "op": "D" if rng.random() < 0.3 else "U",
        }
        for _ in range(60)
    ]
    for row in rows:
        if scope is KeyScope.PARTITION and row["op"] == "D" and rng.random() < 0.7:
            row["day"] = None
    return rows


@pytest.mark.parametrize(("kind", "ordering"), each_value_once(KINDS, [None, "seq"]))
def test_a_table_is_the_same_for_the_same_files_however_they_are_split(spark, tmp_path, kind, ordering):
    rng = random.Random(f"{kind} {ordering}")
    for number in range(SPLITS_OF_A_KIND * 2 if in_full() else 1):
        turn = number + KINDS.index(kind) + bool(ordering)
        scope = [None, KeyScope.TABLE, KeyScope.PARTITION][turn % 3]
        rows = random_rows(rng, scope=scope)
        cuts = sorted(rng.sample(range(1, 60), rng.randrange(1, 6)))
        deliveries = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 60], strict=True)]
        runs = rng.randrange(1, 4)
        found = ingested(
            spark,
            tmp_path / str(number),
            kind,
            deliveries,
            runs=runs,
            split_bytes=rng.choice([64, 300, 10**8]),
            ordering=ordering,
            scope=scope,
        )
        assert found == folded(rows, ordering=ordering, scope=scope), (number, scope, runs)


@pytest.mark.parametrize("operation", [Operation.UPSERT, Operation.INSERT])
def test_rows_of_this_process_arrive_in_their_order(spark, tmp_path, operation):
    table = our_table(spark, tmp_path)
    rows = [row | {"op": "U", "day": "a"} for row in random_rows(random.Random(7), scope=None)]
    request = WriteRequest(operation=operation, drop_duplicates=operation is Operation.INSERT)
    write(spark, table, pa.Table.from_pylist(rows, FILE_SCHEMA).drop_columns(["op"]), request)
    assert stored(str(tmp_path / "t")) == folded(rows, ordering=None)


def our_table(spark, root, **changes):
    spec = TableSpec(name="t", columns=COLUMNS, record_key=("id",), **changes)
    create(str(root / "t"), spec)
    return open_table(open_store(str(root / "t")))


@pytest.mark.parametrize(("scope", "ordering"), each_value_once([None, KeyScope.TABLE], [None, "seq"]))
def test_rows_of_spark_that_nothing_tells_apart_are_refused(spark, tmp_path, ordering, scope):
    by_day = {"partition_by": ("day",), "key_scope": scope} if scope else {}
    table = our_table(spark, tmp_path, ordering=ordering, **by_day)
    upsert = WriteRequest(operation=Operation.UPSERT)
    same = spark.createDataFrame([(1, "a", 1, "x"), (1, "a", 1, "x"), (2, "a", 1, "y")], DDL)
    write(spark, table, same, upsert)
    tied = spark.createDataFrame([(1, "a", 2, "x"), (1, "a", 2, "y"), (2, "a", 1, "y")], DDL)
    for request in (upsert, WriteRequest(operation=Operation.INSERT, drop_duplicates=True)):
        with pytest.raises(InvalidDataError, match=r"the record key '1' differ, and no rule decides which"):
            write(spark, table, tied, request)
    assert stored(str(tmp_path / "t")) == {("a", 1): (1, "x"), ("a", 2): (1, "y")}
    if ordering:
        ordered = spark.createDataFrame([(1, "a", 2, "x"), (1, "a", 3, "y"), (2, "a", 1, "y")], DDL)
        write(spark, table, ordered, upsert)
        assert stored(str(tmp_path / "t"))["a", 1] == (3, "y")
    write(spark, table, tied, WriteRequest(operation=Operation.UPSERT, ties=Ties.ANY))
    assert stored(str(tmp_path / "t"))["a", 1] in {(2, "x"), (2, "y"), (3, "y")}


@pytest.mark.parametrize(
    ("first", "last"),
    [
        *(
            pytest.param(*names, marks=pytest.mark.long)
            for names in (("a", "b"), ("a+", "a,"), ("a%20", "a&"))
        ),
        ("a b", "a!b"),
        ("a#", "ä"),
    ],
)
def test_files_arrive_by_name_if_the_source_says_so(spark, tmp_path, first, last):
    for order, wins in (("modified", "old name"), ("name", "new name")):
        root = tmp_path / order
        (root / "in").mkdir(parents=True)
        for at, (name, text) in enumerate(((last, "new name"), (first, "old name"))):
            (root / f"in/{name}.csv").write_text(f"id,text\n1,{text}\n")
            os.utime(root / f"in/{name}.csv", (at - 0.5, at - 0.5))
        source = Source(name="s", format="csv", path="in/*", file_order=order)
        table = our_table(spark, root)
        batch = DueBatch(
            files=list_files(source.path, base=str(root), options={}),
            consumption=Consumption(source="s"),
        )
        write_batch(
            spark,
            table,
            source,
            batch,
            directory=str(root),
            storage={},
            extra={},
            clustering_budget_bytes=None,
        )
        assert [text for _, text in stored(str(root / "t")).values()] == [wins]
