"""Buckets written to a local folder, and a dictionary that says what they must hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.allowed import Allowed
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.model import Bucket, WriteContext, WrittenBucket, WrittenFile, new_file_id
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.assembly import PartChunk
from parquetry.runtime.parquet.thrift import decode_struct
from parquetry.runtime.spec.avro import table_avro_schema, with_meta_columns
from parquetry.runtime.spec.table_spec import Column, FilesPolicy
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.model import ObjectStore

MIB = 1024 * 1024
FIRST = "20260101000000000"
SECOND = "20260102000000000"
THIRD = "20260103000000000"


@dataclass
class Alive:
    """A guard that says no from the n-th question on."""

    answers: int = 1_000_000
    published: bool = False

    def is_abandoned(self, store: ObjectStore, bucket: int) -> bool:
        return False

    def is_pending(self, store: ObjectStore) -> bool:
        self.answers -= 1
        return self.answers >= 0

    def is_published(self, store: ObjectStore) -> bool:
        return self.published


def context(
    folder: Path | ObjectStore, columns: Iterable[Column], *, instant: str = FIRST, **changes: Any
) -> WriteContext:
    columns = tuple(columns)
    allowed = Allowed(keys=frozenset(changes.get("files", FilesPolicy()).keys))
    settings: dict[str, Any] = {
        "store": LocalStore(str(folder), allowed) if isinstance(folder, Path) else folder,
        "instant": instant,
        "schema": arrow_schema(columns),
        "avro_schema": with_meta_columns(table_avro_schema("t", columns)),
        "files": FilesPolicy(),
        "max_file_size_bytes": 120 * MIB,
        "guard": Alive(),
    }
    return WriteContext(**(settings | changes))


@dataclass(kw_only=True)
class Incoming:
    """A row that arrives: its key, its values, and where it is stored already."""

    key: str
    values: dict[str, Any] = field(default_factory=dict)
    position: int | None = None
    delete: bool = False
    hash: int = 1


def batches(rows: Sequence[Incoming], schema: pa.Schema, *, batch_rows: int = 1000) -> list[pa.RecordBatch]:
    """The rows as they reach a task: sorted by position, nulls last."""
    ordered = sorted(rows, key=lambda row: (row.position is None, row.position or 0))
    nullable = [field.with_nullable(True) for field in schema]
    whole = pa.schema(
        [
            *nullable,
            ("_hoodie_record_key", pa.string()),
            ("__position", pa.int64()),
            ("__delete", pa.bool_()),
            ("__hash", pa.int64()),
        ]
    )
    table = pa.Table.from_pylist(
        [
            row.values
            | {
                "_hoodie_record_key": row.key,
                "__position": row.position,
                "__delete": row.delete,
                "__hash": row.hash,
            }
            for row in ordered
        ],
        schema=whole,
    )
    return table.to_batches(max_chunksize=batch_rows)


def bucket(ctx: WriteContext, index: int = 0, partition: str = "p=1", **changes: Any) -> Bucket:
    return Bucket(index=index, partition=partition, file_id=new_file_id(ctx.instant, index), **changes)


def merging(file: WrittenFile | FileSlice, index: int = 0, **changes: Any) -> Bucket:
    base = file if isinstance(file, FileSlice) else slice_of(file)
    return Bucket(index=index, partition=base.partition, file_id=base.file_id, base=base, **changes)


def slice_of(file: WrittenFile) -> FileSlice:
    stat = file.stat
    return FileSlice(
        partition=stat.partition_path,
        file_id=stat.file_id,
        instant=stat.path.rsplit("_", 1)[1].removesuffix(".parquet"),
        path=stat.path,
        size_bytes=stat.file_size_bytes,
        rows=stat.num_writes,
    )


def write(
    ctx: WriteContext, to: Bucket, rows: Sequence[Incoming], *, batch_rows: int = 1000
) -> WrittenBucket:
    return write_bucket(ctx, to, batches(rows, ctx.schema, batch_rows=batch_rows))


def read(ctx: WriteContext, files: Iterable[WrittenFile] | WrittenBucket) -> pa.Table:
    """All rows of the files in order, read column by column without any cast."""
    if isinstance(files, WrittenBucket):
        files = files.files
    tables = []
    for file in files:
        with ctx.store.open_input(file.stat.path) as source:
            tables.append(pq.ParquetFile(source).read())
    return pa.concat_tables(tables)


def page_starts(chunk: PartChunk) -> list[int]:
    """The rows of the row group with which the pages of a column chunk begin."""
    encoded = chunk.offset_index(0)
    assert encoded is not None
    (_, pages), *_ = decode_struct(encoded)[0].values()
    return [page[3][1] for page in pages.items]
