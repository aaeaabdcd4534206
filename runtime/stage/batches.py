"""Files of Arrow batches of which each can be read by its byte range alone."""

from __future__ import annotations

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

    In a store those of a group lie side by side, so that they are one request: until the last has come
    they wait on the local disk. ``batches`` says afterwards where they are.
    """

    def __init__(self, place: StagePlace, name: str, schema: pa.Schema) -> None:
        self.batches: dict[str, list[dict[str, int]]] = {}
        self._place = place
        self._name = name
        self._stack = ExitStack()
        self._folder = scratch_folder()
        sink = place.create(name) if place.is_mapped else TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file: Any = self._stack.enter_context(sink)
        self._sink = BatchSink(self._file, schema, compress=not place.is_mapped)

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
        """Write rows of the group, the first of which has that reference."""
        with nullcontext() if self._place.is_mapped else as_storage_error(self._folder):
            written = self._sink.write(rows, first=first & PLACE_MASK)
        self.batches.setdefault(group, []).extend(written)

    def _put_together(self) -> None:
        with self._place.create(self._name) as sink:
            for batches in self.batches.values():
                for batch in batches:
                    self._file.seek(batch["offset"])
                    batch["offset"] = sink.tell()
                    sink.write(self._file.read(batch["size"]))
