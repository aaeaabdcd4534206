"""The file of a stage with the keys of a task's rows, in Parquet, which Spark reads too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.stage.batches import GroupedFile
from parquetry.runtime.stage.index import POSITION_MASK
from parquetry.runtime.stage.location import StageLocation, as_storage_error, scratch_folder


class KeysFile:
    """A context manager that writes the keys file ``name``.

    Batches have the references of their rows in the column ``reference``. If the ``rows`` themselves are
    renumbered, the keys are kept on the local disk until the last row has arrived.
    """

    def __init__(
        self,
        location: StageLocation,
        name: str,
        schema: pa.Schema,
        *,
        rows: GroupedFile | None,
        reference: str,
        dictionaries: Sequence[str],
    ) -> None:
        self._location = location
        self._name = name
        self._schema = schema
        self._reference = reference
        self._dictionaries = list(dictionaries)
        self._rows = None if location.is_mapped else rows
        self._stack = ExitStack()
        self._groups: list[list[tuple[str, int]]] = []
        self._folder = scratch_folder()
        if self._rows is None:
            self._keys = self._stack.enter_context(self._parquet())
        else:
            kept = TemporaryFile(dir=self._folder)  # noqa: SIM115 - the stack closes it
            self._file: Any = self._stack.enter_context(kept)
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            self._kept = pa.ipc.new_stream(self._file, schema, options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rows is None or kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._number(self._rows)

    def write(self, keys: pa.RecordBatch, groups: Sequence[tuple[str, int]]) -> None:
        """Write keys; ``groups`` are the consecutive groups with their row counts."""
        if self._rows is None:
            self._keys.write_batch(keys)
            return
        self._groups.append(list(groups))
        with as_storage_error(self._folder):
            self._kept.write_batch(keys)

    @contextmanager
    def _parquet(self) -> Iterator[pq.ParquetWriter]:
        """Yield a writer of the Parquet file in the stage."""
        with (
            self._location.create(self._name) as sink,
            pq.ParquetWriter(
                sink,
                self._schema,
                compression="snappy",
                use_dictionary=self._dictionaries,
                store_schema=False,
            ) as writer,
        ):
            yield writer

    def _number(self, rows: GroupedFile) -> None:
        """Write the kept keys with the new references of their rows."""
        with as_storage_error(self._folder):
            self._kept.close()
            self._file.seek(0)
        after = dict(rows.starts())
        with self._parquet() as file, pa.ipc.open_stream(self._file) as kept:
            for groups, keys in zip(self._groups, kept, strict=True):
                numbers = []
                for group, count in groups:
                    numbers.append(np.arange(after[group], after[group] + count))
                    after[group] += count
                at = keys.schema.get_field_index(self._reference)
                task = keys.column(at)[0].as_py() & ~POSITION_MASK
                found = pa.array(np.concatenate(numbers) + task, pa.int64())
                file.write_batch(keys.set_column(at, keys.schema.field(at), found))
