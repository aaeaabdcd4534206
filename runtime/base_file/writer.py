"""One base file: its exact name, its marker, and Hudi's meta columns and footer keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.message import Value
from parquetry.runtime.arrow.columns import parquet_column_numbers, parquet_columns
from parquetry.runtime.base_file.encoding import EncodedRows, RowGroupEncoder
from parquetry.runtime.base_file.encrypted import EncryptedFile
from parquetry.runtime.base_file.footer import AddedKeys, FooterKeys
from parquetry.runtime.base_file.merge import RowChanges, apply_changes
from parquetry.runtime.base_file.model import Bucket, WriteContext, WrittenFile, new_file_id
from parquetry.runtime.base_file.reader import BaseFileReader, RowGroupRange
from parquetry.runtime.base_file.rows import DICTIONARY, ORIGIN, RowOrigin, stored_schema
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.parquet.assembly import ParquetAssembly, ParquetParts
from parquetry.runtime.parquet.chunk import Chunk
from parquetry.runtime.parquet.encryption import encryption_properties
from parquetry.runtime.parquet.footer import CLUSTERING, NAN_UNBOUNDED
from parquetry.runtime.parquet.tail import MAGIC
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.meta_columns import (
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
)
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.table.partition_metadata import put_partition_metadata
from parquetry.runtime.timeline.commit import WriteStat
from parquetry.runtime.timeline.markers import MarkerKind, put_marker

_CONSTANT_COLUMNS: Final = frozenset({COMMIT_TIME, PARTITION_PATH, FILE_NAME})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedColumns:
    """Columns of a row group, encoded again, with their names and the origin of each row."""

    names: tuple[str, ...]
    encoded: EncodedRows
    origins: npt.NDArray[np.int8]


class BaseFileWriter:
    """Writes file number ``rollover`` of a bucket, row group by row group.

    The file appears under its name when :meth:`finish` returns. A ``with`` block that ends with an exception
    leaves no file. If the file must be encrypted and its key is not available, the constructor raises
    KeyUnavailableError before it writes a marker. ``template`` is a parquet file without rows that has the
    columns. ``base_clustering`` is the layout digest of the base file.
    """

    def __init__(
        self,
        context: WriteContext,
        bucket: Bucket,
        rollover: int,
        *,
        encoder: RowGroupEncoder,
        template: ParquetParts,
        base_clustering: str | None,
    ) -> None:
        file_id = bucket.file_id if rollover == 0 else new_file_id(context.instant, bucket.index, rollover)
        self.name = BaseFileName(partition=bucket.partition, file_id=file_id, instant=context.instant)
        self.rows = 0
        self._context = context
        self._bucket = bucket
        self._rollover = rollover
        self._base = bucket.base if rollover == 0 else None
        self._base_clustering = base_clustering if self._base else None
        self._encoder = encoder
        self._empty = context.files.meta_columns.empty
        self._keys = FooterKeys(
            context.avro_schema, None if RECORD_KEY in self._empty else context.files.bloom_filter
        )
        self._column_numbers = parquet_column_numbers(file_schema(stored_schema(context.schema)))
        self._origins = np.zeros(len(RowOrigin), np.int64)
        self._resources = ExitStack()
        key = context.files.encryption_key
        properties = None if key is None else encryption_properties(key, context.store.allowed)
        self._put_marker()
        sink = self._resources.enter_context(context.store.create_file(self.name.path))
        self._assembly: ParquetAssembly | EncryptedFile
        if key is None:
            self._assembly = ParquetAssembly(sink, template)
        else:
            schema = file_schema(stored_schema(context.schema))
            self._assembly = EncryptedFile(sink, encoder, schema, reference=key, properties=properties)
            self._resources.callback(self._assembly.abort)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    def size_bytes(self, more: AddedKeys = AddedKeys()) -> int:  # noqa: B008 - frozen
        """Return the largest possible size of the file if it is finished now.

        ``more`` are keys that the file would also get. Their footer entries count, their cells do not.
        """
        return self._assembly.size_bytes + self._keys.size_bytes(more)

    def added_bytes(self, encoded: EncodedRows) -> int:
        """Return how many bytes a row group adds at most, without the footer entries for its keys."""
        return encoded.size_bytes + self._assembly.encryption_bytes(encoded.parts)

    def encode(self, rows: pa.Table) -> EncodedRows:
        """Return the rows encoded as a row group of this file, without appending it.

        Raises:
            InvalidDataError: If a column that may not be null has nulls.
        """
        return self._encode(self._with_constants(rows.drop_columns([ORIGIN])))

    def append(self, rows: pa.Table, encoded: EncodedRows) -> None:
        """Write rows whose row group is already encoded."""
        sorted_by = [place for name in self._context.sorted_by for place in self._column_numbers[name]]
        if isinstance(self._assembly, EncryptedFile):
            self._assembly.append(encoded, sorted_by=sorted_by)
        else:
            self._assembly.append(encoded.parts, 0, unbounded=encoded.unbounded, sorted_by=sorted_by)
        self._count(rows.column(ORIGIN).to_numpy())
        self._add_keys(encoded)

    def encode_remaining(self, rows: pa.RecordBatch, dictionaries: Iterable[str]) -> EncodedRows:
        """Return the rows that remain of a row group, encoded again with the name of this file.

        ``rows`` are as :class:`UndecodedColumns` reads them. The columns with the parquet paths
        ``dictionaries`` had one in the base file.
        """
        table = pa.Table.from_batches([rows])
        own = self._own_columns(rows.num_rows)
        table = table.add_column(META_COLUMNS.index(FILE_NAME), FILE_NAME, own.pop(FILE_NAME))
        for name, values in own.items():
            table = table.set_column(META_COLUMNS.index(name), name, values)
        return self._encoder.encode_again(table, dictionaries)

    def append_remaining(self, encoded: EncodedRows) -> None:
        """Write a row group from :meth:`encode_remaining`."""
        self._copies.append(encoded.parts, 0, unbounded=encoded.unbounded)
        self._count(np.full(encoded.rows.num_rows, RowOrigin.COPIED, np.int8))
        self._add_keys(encoded)

    def copy(self, reader: BaseFileReader, parts: ParquetParts, group: RowGroupRange) -> None:
        """Copy a row group of the base file, except its meta columns that are the same in all rows."""
        rows = group.end - group.first
        own = pa.table(self._own_columns(rows))
        chunks = self._encoder.encode_constants(own).parts.chunks(0)
        self._copies.append(
            parts,
            group.number,
            replaced=dict(zip(map(META_COLUMNS.index, own.column_names), chunks, strict=True)),
            unbounded=_columns_hiding_nan(reader, parts, group),
        )
        self._count(np.full(rows, RowOrigin.COPIED, np.int8))
        self._add_stored_keys(reader, parts, group)

    def encode_changed(
        self, stored: pa.RecordBatch, changes: RowChanges, kept: Collection[str]
    ) -> ChangedColumns:
        """Return the columns of an updated row group, encoded, except those ``kept``."""
        names = [name for name in stored.schema.names if name not in {*kept, *self._empty}]
        part = replace(changes, rows=changes.rows.select(names))
        rows = pa.Table.from_batches([apply_changes(stored.select(names), part)])
        origins = rows.column(ORIGIN).to_numpy()
        rows = rows.drop_columns([ORIGIN])
        for name, values in self._own_columns(rows.num_rows).items():
            rows = rows.append_column(name, values)
        return ChangedColumns(names=tuple(rows.column_names), encoded=self._encode(rows), origins=origins)

    def patch(
        self, reader: BaseFileReader, parts: ParquetParts, group: RowGroupRange, columns: ChangedColumns
    ) -> None:
        """Copy a row group of the base file with some of its columns replaced."""
        places = [place for name in columns.names for place in self._column_numbers[name]]
        self._copies.append(
            parts,
            group.number,
            replaced=dict(zip(places, columns.encoded.parts.chunks(0), strict=True)),
            unbounded={
                *(places[number] for number in columns.encoded.unbounded),
                *(_columns_hiding_nan(reader, parts, group) - {*places}),
            },
        )
        self._count(columns.origins)
        self._add_stored_keys(reader, parts, group)

    def encode_columns(self, columns: pa.Table, rows: int) -> ChangedColumns:
        """Return columns of rows from other files, encoded, with the meta columns that are not from there."""
        constants = {PARTITION_PATH: _constant(self._bucket.partition, rows), **self._own_columns(rows)}
        fields = [*columns.schema, *(pa.field(name, values.type) for name, values in constants.items())]
        table = pa.table([*columns.columns, *constants.values()], schema=pa.schema(fields))
        return ChangedColumns(
            names=tuple(table.column_names),
            encoded=self._encode(table),
            origins=np.full(rows, RowOrigin.COPIED, np.int8),
        )

    def join(
        self,
        sources: Sequence[tuple[BaseFileReader, ParquetParts, RowGroupRange]],
        joined: Mapping[int, Chunk],
        columns: ChangedColumns,
    ) -> None:
        """Write row groups of other files as one row group.

        Args:
            sources: The row groups, in the order of their rows.
            joined: Chunks with copied pages, by the number of the parquet column.
            columns: The encoded columns that are not joined.
        """
        places = [place for name in columns.names for place in self._column_numbers[name]]
        chunks = {**joined, **dict(zip(places, columns.encoded.parts.chunks(0), strict=True))}
        self._copies.append_chunks(
            [chunks[place] for place in range(len(chunks))],
            len(columns.origins),
            unbounded={
                *(places[number] for number in columns.encoded.unbounded),
                *(frozenset[int]().union(*(_columns_hiding_nan(*source) for source in sources)) - {*places}),
            },
        )
        self._count(columns.origins)
        for reader, parts, group in sources:
            self._add_stored_keys(reader, parts, group)

    def finish(self) -> WrittenFile:
        """Complete the file, so that it appears under its name.

        Raises:
            ConflictError: If the in-flight instant of the write is gone, or the bucket was abandoned. The
                file is then deleted, unless the write was published.
        """
        self._check_not_abandoned()
        entries = self._keys.entries() | self._clustering_entry() | self._nan_entry()
        if isinstance(self._assembly, EncryptedFile):
            metadata = self._assembly.finish(entries)
        else:
            metadata = pq.read_metadata(pa.BufferReader(MAGIC + self._assembly.finish(entries)))
        assert metadata.num_rows == self.rows
        self._resources.close()
        try:
            self._check_not_abandoned()
        except ConflictError:
            # Another attempt of this task may have written the same file, and its write is archived by now.
            if not self._context.guard.is_published(self._context.store):
                self._context.store.delete(self.name.path)
            raise
        stat = WriteStat(
            file_id=self.name.file_id,
            path=self.name.path,
            partition_path=self._bucket.partition,
            prev_commit=self._base.instant if self._base else None,
            num_writes=self.rows,
            num_update_writes=int(self._origins[RowOrigin.UPDATED]),
            num_inserts=int(self._origins[RowOrigin.INSERTED]),
            file_size_bytes=self._assembly.data_bytes,
        )
        has_key_range = isinstance(self._assembly, ParquetAssembly)
        return WrittenFile(
            stat=stat,
            min_key=self._keys.min_key if has_key_range else None,
            max_key=self._keys.max_key if has_key_range else None,
            metadata=metadata,
        )

    @property
    def _copies(self) -> ParquetAssembly:
        assert isinstance(self._assembly, ParquetAssembly), "no row group is copied into an encrypted file"
        return self._assembly

    def _clustering_entry(self) -> dict[str, str]:
        """Return the footer entry with the layout digest, none after inserts into a base file."""
        kept = self._base_clustering if not self._origins[RowOrigin.INSERTED] else None
        digest = self._context.clustering or kept
        return {} if digest is None else {CLUSTERING: digest}

    def _nan_entry(self) -> dict[str, str]:
        """Return the footer entry that vouches for bounds of floating-point columns; none if encrypted."""
        columns = parquet_columns(file_schema(stored_schema(self._context.schema)).empty_table())
        if isinstance(self._assembly, EncryptedFile) or not any(
            pa.types.is_floating(values.type) for _, values in columns
        ):
            return {}
        return {NAN_UNBOUNDED: str(self._assembly.data_bytes - len(MAGIC))}

    def _encode(self, rows: pa.Table) -> EncodedRows:
        try:
            return self._encoder.encode(rows)
        except pa.ArrowInvalid as error:
            raise InvalidDataError(
                "{file}: {reason}; supply a value in every row, or declare the column nullable",
                file=Value.uri(f"{self._context.store.uri}/{self.name.path}"),
                reason=quoted_library_text(str(error)),
            ) from error

    def _count(self, origins: npt.NDArray[np.int8]) -> None:
        self.rows += len(origins)
        self._origins += np.bincount(origins, minlength=len(RowOrigin))

    def _add_keys(self, encoded: EncodedRows) -> None:
        if not self._keys.add_bounds(encoded.parts.bounds(0, META_COLUMNS.index(RECORD_KEY))):
            for keys in encoded.rows.column(RECORD_KEY).chunks:
                self._keys.add_keys(keys)

    def _add_stored_keys(self, reader: BaseFileReader, parts: ParquetParts, group: RowGroupRange) -> None:
        if not self._keys.add_bounds(parts.bounds(group.number, META_COLUMNS.index(RECORD_KEY))):
            for keys in reader.keys(group):
                self._keys.add_keys(keys)

    def _put_marker(self) -> None:
        context = self._context
        if self._rollover == 0 and context.has_markers:
            return
        kind = MarkerKind.MERGE if self._base else MarkerKind.CREATE
        put_marker(context.store, context.instant, self.name.path, kind)
        if self._rollover == 0:
            put_partition_metadata(context.store, self._bucket.partition, instant=context.instant)

    def _own_columns(self, rows: int) -> dict[str, pa.Array]:
        """Return the meta columns that do not depend on the rows: the file name, and the empty ones."""
        empty = {name: pa.nulls(rows, _meta_type(name)) for name in self._empty}
        return {FILE_NAME: _constant(self.name.name, rows), **empty}

    def _with_constants(self, rows: pa.Table) -> pa.Table:
        """Return the rows with all five meta columns in Hudi's order."""
        own = dict(zip(rows.column_names, rows.columns, strict=True))
        own[PARTITION_PATH] = _constant(self._bucket.partition, rows.num_rows)
        own |= self._own_columns(rows.num_rows)
        schema = file_schema(rows.schema)
        return pa.table([own[name] for name in schema.names], schema=schema)

    def _check_not_abandoned(self) -> None:
        context = self._context
        # In this order: the note of abandoned buckets is deleted after the in-flight file.
        if context.guard.is_abandoned(context.store, self._bucket.index):
            raise ConflictError(
                "{table}: clustering {instant} gave up files of partition {partition}, which another "
                "writer changes; the next clustering includes them",
                table=context.store.uri,
                instant=context.instant,
                partition=Value.partition(self._bucket.partition),
            )
        if not context.guard.is_pending(context.store):
            raise ConflictError(
                "{table}: the write of instant {instant} has been rolled back by another writer; run "
                "it again",
                table=context.store.uri,
                instant=context.instant,
            )


def keys_of(encoded: EncodedRows) -> AddedKeys:
    """Return the keys of an encoded row group."""
    keys = encoded.rows.column(RECORD_KEY)
    bounds = encoded.parts.bounds(0, META_COLUMNS.index(RECORD_KEY))
    return AddedKeys.of(encoded.rows.num_rows, bounds, lambda: keys.chunks)


def stored_keys(reader: BaseFileReader, parts: ParquetParts, group: RowGroupRange) -> AddedKeys:
    """Return the keys of a stored row group."""
    bounds = parts.bounds(group.number, META_COLUMNS.index(RECORD_KEY))
    return AddedKeys.of(group.end - group.first, bounds, lambda: reader.keys(group))


def _columns_hiding_nan(reader: BaseFileReader, parts: ParquetParts, group: RowGroupRange) -> frozenset[int]:
    """Return the numbers of the columns whose bounds in the row group may omit a NaN."""
    return parts.floating(group.number) if reader.bounds_hide_nan else frozenset()


def file_schema(rows: pa.Schema) -> pa.Schema:
    """Return the schema of a base file: the five meta columns, then the columns of the rows."""
    meta = [pa.field(name, _meta_type(name)) for name in META_COLUMNS]
    return pa.schema([*meta, *(field for field in rows if field.name not in {*META_COLUMNS, ORIGIN})])


def _meta_type(name: str) -> pa.DataType:
    return DICTIONARY if name in _CONSTANT_COLUMNS else pa.string()


def _constant(value: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))
