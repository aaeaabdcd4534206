"""Micro-batches: each one once, whatever Spark repeats."""

from __future__ import annotations

import pytest

import parquetry
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.table_spec import Column, TableSpec

pytestmark = pytest.mark.spark

SPEC = TableSpec(
    name="t",
    columns=(Column(name="id", type="bigint", nullable=False), Column(name="batch", type="bigint")),
    record_key=("id",),
)


@pytest.fixture
def table(tmp_path):
    return parquetry.create(tmp_path / "t", SPEC)


def run(spark, tmp_path, write_batch, name="a"):
    source = tmp_path / f"source-{name}"
    source.mkdir(exist_ok=True)
    query = (
        spark.readStream.schema("id bigint, batch bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(source))
        .writeStream.foreachBatch(write_batch)
        .option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def add_files(spark, tmp_path, batches, name="a"):
    for batch in batches:
        frame = spark.range(batch * 3, batch * 3 + 3, 1, 1).selectExpr("id", f"{batch}L AS batch")
        frame.write.mode("append").parquet(str(tmp_path / f"source-{name}"))


def test_batches_are_written_once(spark, tmp_path, table):
    add_files(spark, tmp_path, [0, 1])
    write_batch = table.batch_writer("insert")
    seen = []

    def twice(frame, batch_id):
        write_batch(frame, batch_id)
        seen.append(batch_id)
        write_batch(frame, batch_id)

    query = run(spark, tmp_path, twice)
    assert seen == [0, 1]
    assert table.read(spark).count() == 6
    # Another query begins to count its batches at 0 as well: those are others.
    add_files(spark, tmp_path, [7], name="b")
    run(spark, tmp_path, table.batch_writer("insert"), name="b")
    assert table.read(spark).count() == 9
    assert (tmp_path / "t/.hoodie/.parquetry/sources").joinpath(f"stream%3A{query.id}").is_dir()


def test_a_batch_that_failed_after_its_commit_is_passed_over(spark, tmp_path, table):
    add_files(spark, tmp_path, [0, 1])
    write_batch = table.batch_writer("insert", stream="landing")

    def fails(frame, batch_id):
        write_batch(frame, batch_id)
        if batch_id == 1:
            raise RuntimeError("killed here")

    with pytest.raises(Exception, match="killed here"):
        run(spark, tmp_path, fails)
    assert table.read(spark).count() == 6
    add_files(spark, tmp_path, [2])
    run(spark, tmp_path, write_batch)
    assert sorted((r.id, r.batch) for r in table.read(spark).collect()) == [(i, i // 3) for i in range(9)]


def test_upserts_and_deletes_by_batch(spark, tmp_path, table):
    add_files(spark, tmp_path, [0, 1, 2])
    run(spark, tmp_path, table.batch_writer("upsert", delete_when="id % 3 = 0 AND batch > 0"))
    assert sorted(r.id for r in table.read(spark).collect()) == [0, 1, 2, 4, 5, 7, 8]


def test_batches_without_rows_make_no_commit(spark, tmp_path, table):
    add_files(spark, tmp_path, [0])
    before = len(table.timeline().instants)
    run(
        spark, tmp_path, lambda frame, batch_id: table.batch_writer("insert")(frame.where("id < 0"), batch_id)
    )
    assert len(table.timeline().instants) == before


def test_a_batch_writer_is_for_streams(spark, table):
    with pytest.raises(
        InvalidDataError, match="belongs to no streaming query; pass the writer to foreachBatch"
    ):
        table.batch_writer("insert")(spark.range(1), 0)
