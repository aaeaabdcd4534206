"""Rows of one key without an ordering value between them: the last to arrive counts, however they are read."""

from __future__ import annotations

import gzip
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.main import execute
from parquetry.runtime.spark.session.settings import session_settings
from parquetry.runtime.spark.write import write
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements
from parquetry.runtime.spec.table_spec import Column, KeyScope, Operation, Source, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.open import open_table
from parquetry.runtime.write.request import WriteRequest
from tests.support.local_spark import local_spark

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(name="id", type="bigint", nullable=False),
    Column(name="day", type="string"),
    Column(name="seq", type="bigint"),
    Column(name="text", type="string"),
)
KINDS = ("csv", "csv.gz", "multiline", "json", "parquet")


@pytest.fixture(scope="module")
def spark():
    return local_spark("arrival")


def write_file(path, kind, rows):
    if kind == "parquet":
        table = pa.Table.from_pylist(
            rows,
            pa.schema(
                [
                    ("id", pa.int64()),
                    ("day", pa.string()),
                    ("seq", pa.int64()),
                    ("text", pa.string()),
                    ("op", pa.string()),
                ]
            ),
        )
        pq.write_table(table, path, row_group_size=4)
        return
    if kind == "json":
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        text = "id,day,seq,text,op\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())


def ingested(spark, root, kind, deliveries, *, runs, split_bytes, ordering=None, scope=KeyScope.PARTITION):
    """The rows of a table after so many runs, read with pyarrow from the files of the newest slices."""
    source = Source(
        name="s",
        format="json" if kind == "json" else "parquet" if kind == "parquet" else "csv",
        path="in/*",
        operation=Operation.UPSERT,
        delete_when="op = 'D'",
        drop=("op",),
        options={"multiLine": "true"} if kind == "multiline" else {},
    )
    by_day = ("day",) if scope is KeyScope.TABLE else ()
    spec = TableSpec(
        name="t",
        columns=COLUMNS,
        record_key=("id",),
        partition_by=by_day,
        key_scope=scope,
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
    handle = open_table(open_store(location))
    slices = handle.view(handle.timeline()).all_slices(handle.timeline().last_settled())
    rows = [row for part in slices for row in pq.ParquetFile(f"{location}/{part.path}").read().to_pylist()]
    found = {row["id"]: (row["day"], row["seq"], row["text"]) for row in rows}
    assert len(found) == len(rows)
    return found


def folded(rows, *, ordering):
    """What a dictionary holds after the rows, one after the other."""
    table = {}
    for row in rows:
        if ordering and row["id"] in table and row["seq"] < table[row["id"]][1]:
            continue
        if row["op"] == "D":
            table.pop(row["id"], None)
        else:
            table[row["id"]] = (row["day"], row["seq"], row["text"])
    return table


@pytest.mark.parametrize("ordering", [None, "seq"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_the_same_for_the_same_files_however_they_are_split(spark, tmp_path, kind, ordering):
    rng = random.Random(f"{kind} {ordering}")
    for number in range(3):
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
        cuts = sorted(rng.sample(range(1, 60), rng.randrange(1, 6)))
        deliveries = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 60], strict=True)]
        found = ingested(
            spark,
            tmp_path / str(number),
            kind,
            deliveries,
            runs=rng.randrange(1, 4) if number else 1,
            split_bytes=rng.choice([64, 300, 10**8]),
            ordering=ordering,
            scope=rng.choice(list(KeyScope)),
        )
        assert found == folded(rows, ordering=ordering), number


@pytest.mark.parametrize("operation", [Operation.UPSERT, Operation.INSERT])
def test_rows_of_this_process_arrive_in_their_order(spark, tmp_path, operation):
    spec = TableSpec(name="t", columns=COLUMNS, record_key=("id",))
    job = JobPlan(
        kind=JobKind.CREATE,
        project="p",
        target="dev",
        table="t",
        location=str(tmp_path / "t"),
        directory=str(tmp_path),
        spec=spec,
        source=None,
        requirements=Requirements(exists=False, applied_number=None),
    )
    execute(job)
    rng = random.Random(7)
    rows = [
        {"id": rng.randrange(9), "day": "a", "seq": 0, "text": f"{rng.randrange(10**9)}", "op": "U"}
        for _ in range(99)
    ]
    table = pa.Table.from_pylist(rows).drop_columns(["op"])
    request = WriteRequest(operation=operation, drop_duplicates=operation is Operation.INSERT)
    write(spark, open_table(open_store(str(tmp_path / "t"))), table, request)
    assert stored(str(tmp_path / "t")) == folded(rows, ordering=None)
