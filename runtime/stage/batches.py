"""Files of Arrow batches, each of which can be read by its byte range alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from parquetry.runtime.stage.index import POSITION_MASK
from parquetry.runtime.stage.location import StageLocation, as_storage_error, scratch_folder

_BATCH_BYTES: Final = 8 * 1024 * 1024


class BatchSink:
    """A writer of Arrow IPC messages, one per batch, one after the other."""

    def __init__(self, sink: Any, schema: pa.Schema, *, compress: bool) -> None:
        options = pa.ipc.IpcWriteOptions(compression="lz4" if compress else None, use_threads=False)
        self._sink = sink
        self._stream = pa.ipc.new_stream(sink, schema, options=options)
        # Arrow writes the schema together with the first batch. So the first batch is empty and no index
        # names it.
        self._stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))

    def write(self, rows: pa.RecordBatch, *, first: int) -> list[dict[str, int]]:
        """Write the rows in batches of some MiB, and return the entry of each batch for the index.

        An entry has the number of the first row, the row count, the offset and the size. ``first`` is the
        number of the first of all rows.
        """
        step = max(int(_BATCH_BYTES * rows.num_rows / max(rows.nbytes, 1)), 1)
        written = []
        for start in range(0, rows.num_rows, step):
            offset = self._sink.tell()
            batch = rows.slice(start, step)
            self._stream.write_batch(batch)
            size = self._sink.tell() - offset
            written.append({"first": first + start, "rows": batch.num_rows, "offset": offset, "size": size})
        return written


class GroupedFile:
    """A context manager that writes the file ``name`` of a stage, with the batches of groups.

    In a store, the rows of a group lie together in batches of some MiB, so that few requests read them and
    the index stays small. To achieve this, the rows are kept on the local disk until the last row has
    arrived, and are then renumbered group by group. ``batches`` contains the position of each batch
    afterwards.
    """

    def __init__(self, location: StageLocation, name: str, schema: pa.Schema) -> None:
        self.batches: dict[str, list[dict[str, int]]] = {}
        self._location = location
        self._name = name
        self._schema = schema
        self._stack = ExitStack()
        self._folder = scratch_folder()
        sink = location.create(name) if location.is_mapped else TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file: Any = self._stack.enter_context(sink)
        self._sink = BatchSink(self._file, schema, compress=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._location.is_mapped or kind is not None:
            self._stack.__exit__(kind, error, trace)
        else:
            with self._stack:
                self._write_grouped()

    def write(self, group: str, rows: pa.RecordBatch, *, first: int) -> None:
        """Write rows of a group.

        ``first`` is the reference of the first row; it is ignored if rows are renumbered.
        """
        with nullcontext() if self._location.is_mapped else as_storage_error(self._folder):
            written = self._sink.write(rows, first=first & POSITION_MASK)
        self.batches.setdefault(group, []).extend(written)

    def starts(self) -> Mapping[str, int]:
        """Return the number of the first row of each group after renumbering."""
        starts, number = {}, 0
        for group, batches in self.batches.items():
            starts[group] = number
            number += sum(batch["rows"] for batch in batches)
        return starts

    def _write_grouped(self) -> None:
        """Write the final file from the local copy, group by group."""
        number = 0
        with self._location.create(self._name) as sink:
            grouped = BatchSink(sink, self._schema, compress=True)
            for group, pending in self.batches.items():
                self.batches[group] = []
                for rows in joined_batches(self._read(pending)):
                    self.batches[group] += grouped.write(rows, first=number)
                    number += rows.num_rows

    def _read(self, pending: Sequence[Mapping[str, int]]) -> Iterator[pa.RecordBatch]:
        for batch in pending:
            with as_storage_error(self._folder):
                self._file.seek(batch["offset"])
                message = self._file.read(batch["size"])
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)


def joined_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in larger batches of some MiB."""
    small: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        small.append(batch)
        size += batch.nbytes
        if size >= _BATCH_BYTES:
            yield pa.concat_batches(small)
            small, size = [], 0
    if small:
        yield pa.concat_batches(small)
