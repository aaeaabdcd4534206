"""Lists on the stage: assignments of rows to files, which some tasks make and others execute."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa

from parquetry.runtime.stage.location import StageLocation, validated_reads


def write_list(location: StageLocation, batches: Iterable[pa.RecordBatch]) -> str:
    """Write the rows, at least one batch, to a new file of the stage, and return its name."""
    name = f"{uuid.uuid4().hex}.list"
    upcoming = iter(batches)
    first = next(upcoming)
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with location.create(name) as sink, pa.ipc.new_file(sink, first.schema, options=options) as file:
        file.write_batch(first)
        for batch in upcoming:
            file.write_batch(batch)
    return name


class StagedList:
    """The rows of a list on the stage: all of them, or ``rows`` rows from ``start``.

    The file stays compressed in memory.
    """

    def __init__(
        self, location: StageLocation, name: str, *, start: int = 0, rows: int | None = None
    ) -> None:
        self._location = location
        self._name = name
        self._content = location.read(name)
        self._start = start
        self._stop = None if rows is None else start + rows

    def batches(self, most_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in their order, at most ``most_rows`` at a time."""
        passed = 0
        with validated_reads(self._location, self._name) as check, pa.ipc.open_file(self._content) as file:
            for number in range(file.num_record_batches):
                batch = check(file.get_batch(number))
                low = max(self._start - passed, 0)
                stop = batch.num_rows if self._stop is None else min(self._stop - passed, batch.num_rows)
                for start in range(low, stop, most_rows):
                    yield batch.slice(start, min(most_rows, stop - start))
                passed += batch.num_rows


def read_list(location: StageLocation, name: str) -> pa.Table:
    """Return all rows of the list."""
    with validated_reads(location, name) as check, pa.ipc.open_file(location.read(name)) as file:
        return check(file.read_all())
