"""Base files as a table that hudi-rs reads."""

from __future__ import annotations

import random

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.model import Bucket, WriteContext, new_file_id
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.commit.outcome import WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.avro import table_avro_schema, with_meta_columns
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import create_table
from parquetry.runtime.timeline.instant import Action
from tests.support import hudi_rs
from tests.support.base_files import Incoming, batches, slice_of
from tests.support.model import freeze
from tests.support.rows import TYPES, make_row

# hudi-rs 0.5.0 cannot resize smallint; everything else of the types it reads.
NAMES = [name for name in TYPES if name != "c_short"]
COLUMNS = (
    Column(name="id", type="string", nullable=False),
    Column(name="p", type="string"),
    *(Column(name=name, type=TYPES[name].spark) for name in NAMES),
)
PARTITION = "p=a"


def test_hudi_rs_reads_what_was_created_merged_copied_and_rolled_over(tmp_path):
    rnd = random.Random(7)
    handle = create_table(
        open_store(tmp_path / "t"),
        TableSpec(name="t", columns=COLUMNS, record_key=("id",), partition_by=("p",)),
        project="tests",
    )
    model: dict[str, dict] = {}

    def fresh(keys):
        return {key: {"id": key, "p": "a"} | make_row(rnd, NAMES) for key in keys}

    def commit(rows: list[Incoming], base: FileSlice | None, limit: int) -> list[FileSlice]:
        slices = []

        def body(transaction):
            context = WriteContext(
                store=transaction.store,
                instant=transaction.instant,
                schema=arrow_schema(COLUMNS),
                avro_schema=with_meta_columns(table_avro_schema("t", COLUMNS)),
                files=FilesPolicy(row_group_size_bytes=6000, compression="zstd"),
                max_file_size_bytes=limit,
                guard=transaction.guard,
            )
            transaction.ensure_inflight()
            inserts = sum(row.position is None for row in rows)
            file_id = base.file_id if base else new_file_id(transaction.instant, 0)
            to = Bucket(index=0, partition=PARTITION, file_id=file_id, base=base, expected_inserts=inserts)
            written = write_bucket(context, to, batches(rows, context.schema, batch_rows=40))
            slices.extend(map(slice_of, written.files))
            return WriteOutcome(
                operation="UPSERT",
                schema_json=table_avro_schema("t", COLUMNS),
                stats={PARTITION: tuple(file.stat for file in written.files)},
            )

        run_write(handle, action=Action.COMMIT, operation="UPSERT", body=body)
        found = hudi_rs.read(str(tmp_path / "t"))
        rows_read = [{name: row[name] for name in ("id", "p", *NAMES)} for row in found.to_pylist()]
        assert sorted(map(repr, map(freeze, rows_read))) == sorted(map(repr, map(freeze, model.values())))
        return slices

    first = fresh(f"k{n:03}" for n in range(300))
    model |= first
    (base,) = commit([Incoming(key=k, values=v) for k, v in first.items()], None, 10**8)
    change, more = fresh(["k002"]), fresh(f"m{n:03}" for n in range(300))
    model |= change | more
    del model["k299"]
    rows = [
        Incoming(key="k002", position=2, values=change["k002"]),
        Incoming(key="k299", position=299, delete=True),
        *(Incoming(key=k, values=v) for k, v in more.items()),
    ]
    files = commit(rows, base, base.size_bytes)
    assert len(files) > 1
    assert files[0].file_id == base.file_id
