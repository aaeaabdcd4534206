"""Reading the base file of a merge: rows as record batches, and row groups to copy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.message import Field, Value
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.schema import fields_named
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.base_file.rows import filled_times, one_batch, stored_schema, unnumbered_schema
from parquetry.runtime.base_file.undecoded import UndecodedColumns
from parquetry.runtime.errors import CorruptTableError, NotFoundError, RetryWrite, StorageError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.announcement import announce_chunks
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.column_reader import delta_columns
from parquetry.runtime.parquet.encryption import file_with_footer, is_encrypted, open_footer
from parquetry.runtime.parquet.footer import CLUSTERING, leaves_nan_unbounded
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, META_COLUMNS, PARTITION_PATH, RECORD_KEY
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.ranged_input import RangedInput

_LARGE_ROW_GROUP = 64 * 1024 * 1024
_READ_AHEAD = 1024 * 1024
_LARGEST_READ_AHEAD: Final = 4 * 1024 * 1024
_SMALL_BYTES_PER_VALUE = 2.5
_SMALL_DICTIONARY_BYTES = 16 * 1024
_NO_DICTIONARY = 2**31
_LONG_VALUE_BYTES: Final = 64
_MAX_ROWS: Final = 131_072
_UNKNOWN_ROWS: Final = 4096
_COPIED_WRITERS = ("parquet-cpp-arrow ",)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupRange:
    """Row group ``number`` of a base file, with rows ``first`` to ``end`` (exclusive) of the file."""

    number: int
    first: int
    end: int


class _NamedFile:
    """A file from which row groups are copied; errors name it."""

    def __init__(self, content: pa.NativeFile, place: Field) -> None:
        self._content = content
        self._place = place

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return int(self._content.size())

    def read_at(self, count: int, at: int) -> bytes:
        """Return ``count`` bytes from position ``at``.

        Raises:
            RetryWrite: If the file no longer exists.
            CorruptTableError: If the file is now shorter.
        """
        with reading(self._place):
            content: bytes = self._content.read_at(count, at)
            if len(content) < count:
                raise ValueError(f"it has fewer than {count} bytes from position {at} on")
        return content


class BaseFileReader:
    """Reads one base file from front to back.

    Batches have the columns of ``schema``: commit time, sequence number if it is wanted, and key, then the
    table's columns, also if the file has an older schema. A row without a commit time has that of its file.
    Text columns with small dictionaries stay dictionaries, so that they are not decoded and encoded again.
    """

    def __init__(
        self,
        content: pa.NativeFile,
        *,
        file: pq.ParquetFile,
        conformer: Conformer,
        dictionaries: frozenset[str],
        batch_bytes: int,
        instant: str,
        place: Field,
    ) -> None:
        self._instant = instant
        self._content = content
        self._file = file
        self._dictionaries = dictionaries
        self._conformer = conformer
        self._batch_bytes = batch_bytes
        self._arrow_bytes_per_row = 4 * self._stored_bytes_per_row()
        self._max_rows = _MAX_ROWS
        self._undecoded_readers: dict[str | None, UndecodedColumns] = {}
        longest = longest_repeated_value(file.metadata, conformer.source.names)
        if longest is not None:
            self._max_rows = min(_UNKNOWN_ROWS, batch_bytes // longest)
        self.place = place
        self.rows: int = file.metadata.num_rows
        self.schema = conformer.schema

    @property
    def clustering(self) -> str | None:
        """The layout digest in the footer of the file, or None."""
        digest = (self._file.metadata.metadata or {}).get(CLUSTERING.encode())
        return None if digest is None else digest.decode()

    @property
    def row_groups(self) -> list[RowGroupRange]:
        """The row groups in order."""
        metadata = self._file.metadata
        rows = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        ends = list(accumulate(rows))
        return [
            RowGroupRange(number=number, first=end - count, end=end)
            for number, (count, end) in enumerate(zip(rows, ends, strict=True))
        ]

    @cached_property
    def parts(self) -> ParquetParts | None:
        """The row groups for copying; None if the file is encrypted or not written by Arrow C++."""
        if is_encrypted(self._file.metadata) or not self._file.metadata.created_by.startswith(
            _COPIED_WRITERS
        ):
            return None
        with reading(self.place):
            return ParquetParts(_NamedFile(self._content, self.place))

    @cached_property
    def has_every_time(self) -> bool:
        """True if each row stores a commit time, by the statistics of a file with the columns of Hudi."""
        groups = (self._file.metadata.row_group(n) for n in range(self._file.metadata.num_row_groups))
        times = [
            group.column(META_COLUMNS.index(COMMIT_TIME)).statistics for group in groups if group.num_rows
        ]
        return all(known is not None and known.has_null_count and not known.null_count for known in times)

    @cached_property
    def bounds_hide_nan(self) -> bool:
        """True if its floating-point columns may contain a NaN although they have bounds."""
        return not leaves_nan_unbounded(self._file.metadata)

    def batches(self, group: RowGroupRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group in batches whose size depends on the file alone."""
        rows = self._batch_rows
        seen_rows = seen_bytes = 0
        for batch in self._read(group, self._conformer.source.names, rows):
            conformed = self._with_times(self._conformer(batch))
            seen_rows += conformed.num_rows
            seen_bytes += batch_arrow_bytes(conformed)
            yield conformed
        if seen_rows:
            self._arrow_bytes_per_row = max(seen_bytes / seen_rows, 1)
            self._max_rows = _MAX_ROWS

    def columns(
        self, group: RowGroupRange, names: Sequence[str], *, max_rows: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return batches of at most ``max_rows`` rows with some columns of a row group.

        The file must have the columns.
        """
        conformer = self._conformer.only(names)
        rows = self._batch_rows if max_rows is None else min(self._batch_rows, max_rows)
        return (
            self._with_times(conformer(batch)) for batch in self._read(group, conformer.source.names, rows)
        )

    def undecoded_columns(self, parts: ParquetParts, *, decoded: str | None) -> UndecodedColumns:
        """Return a reader that decodes as little as possible, except for the column ``decoded``."""
        if decoded not in self._undecoded_readers:
            self._undecoded_readers[decoded] = UndecodedColumns(
                self._content,
                parts,
                self._file.metadata,
                dictionaries=(self._dictionaries | {PARTITION_PATH}) - delta_columns(self._file.metadata),
                decoded=decoded,
                buffer_bytes=read_ahead_bytes(self._content, self._file.metadata),
            )
        return self._undecoded_readers[decoded]

    def whole(self, group: RowGroupRange) -> pa.RecordBatch:
        """Return all rows of a row group as one batch."""
        with reading(self.place):
            rows = self._file.read_row_group(
                group.number, columns=self._conformer.source.names, use_threads=False
            )
        return self._with_times(self._conformer(one_batch(rows.to_batches())))

    def keys(self, group: RowGroupRange) -> Iterator[pa.StringArray]:
        """Yield the record keys of a row group."""
        for batch in self._read(group, [RECORD_KEY], _MAX_ROWS):
            yield batch.column(0)

    def _with_times(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows. One without a commit time gets that of its file, in which it was written."""
        at = rows.schema.get_field_index(COMMIT_TIME)
        if at < 0:
            return rows
        lacks_empty = pc.index(rows.column(at).dictionary, "").as_py() < 0
        if lacks_empty and not rows.column(at).null_count:
            return rows
        times = filled_times(rows.column(at).cast(pa.string()), self._instant)
        return rows.set_column(at, rows.schema.field(at), times.dictionary_encode())

    def _read(self, group: RowGroupRange, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        with reading(self.place):
            batches = self._file.iter_batches(
                rows, row_groups=[group.number], columns=columns, use_threads=False
            )
        while True:
            with reading(self.place):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    @property
    def _batch_rows(self) -> int:
        """The number of rows of the next batches, from the size of the rows so far."""
        return max(min(int(self._batch_bytes / self._arrow_bytes_per_row), self._max_rows), 1)

    def _stored_bytes_per_row(self) -> float:
        metadata = self._file.metadata
        groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
        return float(max(sum(group.total_byte_size for group in groups) / max(metadata.num_rows, 1), 1))


@contextmanager
def open_base_file(
    store: ObjectStore,
    base: FileSlice,
    schema: pa.Schema,
    *,
    decoded: frozenset[str],
    batch_bytes: int,
    is_reordered: bool = False,
) -> Iterator[BaseFileReader]:
    """Yield a reader of the slice.

    Args:
        store: The store of the table.
        base: The file slice to read.
        schema: The table's columns, without meta columns.
        decoded: Columns that are never read as dictionaries.
        batch_bytes: The approximate size of the batches in Arrow bytes.
        is_reordered: Whether the rows get a new order. Their sequence numbers are then not read.

    Raises:
        RetryWrite: If the file no longer exists, because a clean removed a slice that is no longer the
            newest.
        CorruptTableError: If it is not a complete parquet file.
        KeyUnavailableError: If it is encrypted and its key is not available here.
    """
    place = Value.uri(f"{store.uri}/{base.path}")
    try:
        content = store.open_input(base.path)
    except NotFoundError as error:
        raise _removed_error(place) from error
    with content:
        with reading(place):
            metadata, decryption = open_footer(content, store.allowed, place=place)
            small = small_dictionaries(metadata, schema).keys() - decoded
            # The clustering of Hudi 0.15 leaves the meta columns out where they are empty.
            small |= {COMMIT_TIME} & {*metadata.schema.names}
            dictionaries = frozenset(small - delta_columns(metadata))
            file = file_with_footer(
                content,
                metadata,
                decryption,
                read_dictionary=sorted(dictionaries),
                pre_buffer=False,
                buffer_size=read_ahead_bytes(content, metadata),
            )
        wanted = unnumbered_schema(schema) if is_reordered else stored_schema(schema)
        source = fields_named(file.schema_arrow, wanted)
        if not read_ahead_bytes(content, metadata):
            announce_chunks(content, metadata, source.names)
        conformer = Conformer(source, wanted, place=place)
        yield BaseFileReader(
            content,
            file=file,
            conformer=conformer,
            dictionaries=dictionaries,
            batch_bytes=batch_bytes,
            instant=base.instant,
            place=place,
        )


@contextmanager
def reading(place: Field) -> Iterator[None]:
    """Convert errors of reading a parquet file to errors that name the file and a remedy.

    Raises:
        RetryWrite: If the file no longer exists.
        StorageError: If the operating system reports an error.
        CorruptTableError: If Arrow cannot parse the file.
    """
    try:
        yield
    except (FileNotFoundError, NotFoundError) as error:
        raise _removed_error(place) from error
    except ValueError as error:  # pyarrow.ArrowInvalid is one
        raise _corrupt(place, error) from error
    except OSError as error:
        if error.errno is not None:
            raise StorageError(
                "cannot read {file}: {reason}; check the disk, then run again",
                file=place,
                reason=error.strerror,
            ) from error
        raise _corrupt(place, error) from error


def _removed_error(place: Field) -> RetryWrite:
    return RetryWrite("{file} was removed by a clean while it was read", file=place)


def _corrupt(place: Field, error: Exception) -> CorruptTableError:
    reason = str(error).splitlines()[0].rstrip(".")
    return CorruptTableError(
        "{file} is not a whole parquet file ({reason}); restore the table to a savepoint before it "
        "was written, or put the file back from a backup",
        file=place,
        reason=quoted_library_text(reason),
    )


def small_dictionaries(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[str, int]:
    """Return the text columns that have a small dictionary in every row group, with the bytes of all of them.

    The bytes are the compressed ones, because a footer has no other size of a dictionary. A column counts as
    small up to 2.5 uncompressed bytes per value, and its dictionaries take no more than that in memory.
    """
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    stored: dict[str, tuple[int, int, int]] = {}
    for group in (metadata.row_group(index) for index in range(metadata.num_row_groups)):
        for column in (group.column(index) for index in range(group.num_columns)):
            name = column.path_in_schema
            if name in texts:
                dictionary_bytes = _dictionary_bytes(column)
                if dictionary_bytes > _SMALL_DICTIONARY_BYTES:
                    texts.discard(name)
                size, values, all_bytes = stored.get(name, (0, 0, 0))
                stored[name] = (
                    size + column.total_uncompressed_size,
                    values + column.num_values,
                    all_bytes + dictionary_bytes,
                )
    return {
        name: dictionary_bytes
        for name, (size, values, dictionary_bytes) in sorted(stored.items())
        if name in texts and size <= _SMALL_BYTES_PER_VALUE * values
    }


def _dictionary_bytes(column: pq.ColumnChunkMetaData) -> int:
    """Return the stored bytes of a column chunk's dictionary; without one, more than any limit."""
    if not column.has_dictionary_page:
        return _NO_DICTIONARY
    return int(column.data_page_offset - column.dictionary_page_offset)


def longest_repeated_value(metadata: pq.FileMetaData, names: Collection[str]) -> int | None:
    """Return the bytes of the longest known text of these columns, at least one.

    The result is None if no values of the columns take many times more bytes in memory than in the file.
    """
    return _longest_text_bound(metadata, names) if _may_repeat_long_values(metadata, names) else None


def _may_repeat_long_values(metadata: pq.FileMetaData, names: Collection[str]) -> bool:
    """Return whether values of these columns may take many times more bytes in memory than in the file."""
    return any(
        column.physical_type == "BYTE_ARRAY"
        and (column.has_dictionary_page or "DELTA_BYTE_ARRAY" in column.encodings)
        and (_SMALL_DICTIONARY_BYTES < _dictionary_bytes(column) < _NO_DICTIONARY or _has_long_values(column))
        for column in _first_chunks(metadata, names)
    )


def _first_chunks(metadata: pq.FileMetaData, names: Collection[str]) -> list[pq.ColumnChunkMetaData]:
    """Return the metadata of these columns in the first row group, if there is one."""
    groups = [metadata.row_group(0)] if metadata.num_row_groups else []
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    return [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in names]


def _has_long_values(column: pq.ColumnChunkMetaData) -> bool:
    """Return whether a bound is long or unknown.

    A small stored dictionary does not rule long texts out: they may compress to almost nothing.
    """
    known = column.statistics
    if known is None or not known.has_min_max:
        return known is None or known.null_count != column.num_values
    return max(len(known.min_raw), len(known.max_raw)) > _LONG_VALUE_BYTES


def _longest_text_bound(metadata: pq.FileMetaData, names: Collection[str]) -> int:
    """Return the length in bytes of the longest text bound of these columns, at least one."""
    known = (chunk.statistics for chunk in _first_chunks(metadata, names))
    texts = (s for s in known if s is not None and s.has_min_max and s.physical_type == "BYTE_ARRAY")
    return max((max(len(s.min_raw), len(s.max_raw)) for s in texts), default=0) or 1


def read_ahead_bytes(content: pa.NativeFile, metadata: pq.FileMetaData) -> int:
    """Return the size of the read-ahead buffer of each column; 0 to read whole column chunks."""
    if _largest_row_group(metadata) <= _LARGE_ROW_GROUP:
        return 0
    if not isinstance(content, RangedInput):
        return _READ_AHEAD
    columns: int = metadata.num_columns
    return min(max(_LARGE_ROW_GROUP // columns, _READ_AHEAD), _LARGEST_READ_AHEAD)


def _largest_row_group(metadata: pq.FileMetaData) -> int:
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    return max(
        (sum(g.column(i).total_compressed_size for i in range(g.num_columns)) for g in groups), default=0
    )
