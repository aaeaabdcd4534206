"""Files of Arrow batches of which each can be read by its byte range alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from parquetry.runtime.stage.index import PLACE_MASK
from parquetry.runtime.stage.place import StagePlace, as_storage_error, scratch_folder

_BATCH_BYTES: Final = 8 * 1024 * 1024


class BatchSink:
    """Arrow's messages, one batch each, one after the other."""

    def __init__(self, sink: Any, schema: pa.Schema, *, compress: bool) -> None:
        options = pa.ipc.IpcWriteOptions(compression="lz4" if compress else None, use_threads=False)
        self._sink = sink
        self._stream = pa.ipc.new_stream(sink, schema, options=options)
        # With the first batch Arrow writes the schema: it is one without rows, that nobody asks for.
        self._stream.write_batch(pa.RecordBatch.from_pylist([], schema=schema))

    def write(self, rows: pa.RecordBatch, *, first: int) -> list[dict[str, int]]:
        """Write the rows, the first of which has that number, and say where the batches of them lie."""
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
    """The file ``name`` of a stage with the batches of groups; a context manager.

    In a store the rows of a group lie side by side in batches of some MiB, so that few requests get them and
    few batches have to be remembered: until the last has come they wait on the local disk, and are then
    numbered anew, group by group. ``batches`` says afterwards where they are.
    """

    def __init__(self, place: StagePlace, name: str, schema: pa.Schema) -> None:
        self.batches: dict[str, list[dict[str, int]]] = {}
        self._place = place
        self._name = name
        self._schema = schema
        self._stack = ExitStack()
        self._folder = scratch_folder()
        sink = place.create(name) if place.is_mapped else TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file: Any = self._stack.enter_context(sink)
        self._sink = BatchSink(self._file, schema, compress=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._place.is_mapped or kind is not None:
            self._stack.__exit__(kind, error, trace)
        else:
            with self._stack:
                self._put_together()

    def write(self, group: str, rows: pa.RecordBatch, *, first: int) -> None:
        """Write rows of the group, the first of which has that reference, unless they are numbered anew."""
        with nullcontext() if self._place.is_mapped else as_storage_error(self._folder):
            written = self._sink.write(rows, first=first & PLACE_MASK)
        self.batches.setdefault(group, []).extend(written)

    def starts(self) -> Mapping[str, int]:
        """The number of the first row of each group, where rows are numbered anew."""
        starts, number = {}, 0
        for group, batches in self.batches.items():
            starts[group] = number
            number += sum(batch["rows"] for batch in batches)
        return starts

    def _put_together(self) -> None:
        number = 0
        with self._place.create(self._name) as sink:
            together = BatchSink(sink, self._schema, compress=True)
            for group, waiting in self.batches.items():
                self.batches[group] = []
                for rows in joined_batches(self._read(waiting)):
                    self.batches[group] += together.write(rows, first=number)
                    number += rows.num_rows

    def _read(self, waiting: Sequence[Mapping[str, int]]) -> Iterator[pa.RecordBatch]:
        for batch in waiting:
            with as_storage_error(self._folder):
                self._file.seek(batch["offset"])
                message = self._file.read(batch["size"])
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)


def joined_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in their order, in batches of some MiB."""
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
