"""The tasks of a group with too many rows for one task: they divide rows into ranges, and write a range each.

This module does not import Spark, because workers only need pyarrow. Spark transports rows as messages in
Arrow's format. Each message has some rows of one range. Spark only uses the receiver and the order of the
messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, groupby, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.message import Value
from parquetry.runtime.arrow.fingerprint import Tally
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.base_file.model import WriteContext, WrittenBucket
from parquetry.runtime.base_file.result import RESULT_SCHEMA, failure_row, result_rows
from parquetry.runtime.base_file.task import BUCKET
from parquetry.runtime.clustering.rewrite.input_sample import sample_share
from parquetry.runtime.clustering.rewrite.order import (
    SAMPLE_BYTES,
    Boundaries,
    OrderKeys,
    RowOrder,
    boundaries_of,
    gathered,
)
from parquetry.runtime.clustering.rewrite.runs import ArrangedRows, runs_of, sort_range
from parquetry.runtime.clustering.rewrite.task import (
    GroupWork,
    append_in_order,
    context_of,
    readers_of,
    run_bytes_of,
)
from parquetry.runtime.clustering.rewrite.writer import SpreadingWriter
from parquetry.runtime.errors import RetryWrite, is_outage
from parquetry.runtime.layout.model import FileSlice

MESSAGE_BYTES: Final = 1024 * 1024
"""The approximate size limit of a message."""

RANGE: Final = "range_number"
RUN: Final = "run"
_ROWS, _ROW_BYTES, _ROWS_READ, _HASH = "row_count", "row_bytes", "rows_read", "hash"
_FILE_MISSING, _CONTENT = "file_missing", "content"

MESSAGE_DDL: Final = (
    f"{BUCKET} int, {RANGE} int, {RUN} bigint, {_ROWS} bigint, {_ROW_BYTES} bigint, {_ROWS_READ} bigint, "
    f"{_HASH} bigint, {_FILE_MISSING} boolean, {_CONTENT} binary"
)
"""The schema of the messages for Spark."""

_SCHEMA: Final = pa.schema(
    [
        (BUCKET, pa.int32()),
        (RANGE, pa.int32()),
        (RUN, pa.int64()),
        (_ROWS, pa.int64()),
        (_ROW_BYTES, pa.int64()),
        (_ROWS_READ, pa.int64()),
        (_HASH, pa.int64()),
        (_FILE_MISSING, pa.bool_()),
        (_CONTENT, pa.binary()),
    ]
)
_STRIDE: Final = b"stride"
_TALLY: Final = -1
_RUN_SHIFT: Final = 32
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")

RangeTask = Callable[[Iterable[pa.RecordBatch]], Batches]
Shares = Sequence[tuple[FileSlice, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The sampled rows of a group with only the columns of its order, and the number and width of all rows.

    ``row_bytes`` is the memory of a row with all columns.
    """

    sample: pa.Table
    rows: int
    row_bytes: float


@dataclass(frozen=True, kw_only=True)
class Division:
    """The division of a group's order into ranges, and of these among its tasks; all tasks compute the same.

    ``sample`` has rows of the group, ``ranks`` the rows by which a strategy ranks values.
    """

    order: RowOrder
    sample: pa.Table
    ranks: pa.Table
    tasks: int
    ranges: int

    @cached_property
    def keys(self) -> OrderKeys:
        """The sort keys of rows."""
        return OrderKeys(self.order, self.ranks)

    @cached_property
    def boundaries(self) -> Boundaries:
        """The boundaries of the ranges, each with about as many rows."""
        return boundaries_of(self.keys.of(self.sample), self.ranges)

    @cached_property
    def task_of(self) -> npt.NDArray[np.int64]:
        """The task of each range: neighbours go to the same task, and tasks get about equally many rows."""
        _, starts = self.boundaries.divide(self.keys.of(self.sample))
        middles = starts[:-1] + starts[1:]
        tasks: npt.NDArray[np.int64] = middles * self.tasks // max(2 * self.sample.num_rows, 1)
        return np.minimum(tasks, self.tasks - 1)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields to send; the cached values are computed again where they are needed."""
        return {name: getattr(self, name) for name in ("order", "sample", "ranks", "tasks", "ranges")}


def sampler(context: WriteContext, order: RowOrder, shares: Shares, *, stride: int) -> RangeTask:
    """Return a task function that samples the rows of each share that it gets.

    The function takes share numbers, as for ``mapInArrow``. It yields one message for each share, with every
    ``stride``-th row.
    """

    def sample(numbers: Iterable[pa.RecordBatch]) -> Batches:
        for number in _numbers(numbers):
            try:
                share_sample = sample_share(context, shares[number], order, stride=stride)
            except RetryWrite:
                yield _message(run=number, is_file_missing=True)
            else:
                metadata = {_STRIDE: str(share_sample.stride)}
                content = _packed(share_sample.sample.replace_schema_metadata(metadata))
                yield _message(
                    run=number, rows=share_sample.rows, row_bytes=share_sample.row_bytes, content=content
                )

    return sample


def merge_samples(messages: Iterable[pa.RecordBatch]) -> Batches:
    """Merge the messages of :func:`sampler` into one message with a systematic sample, of at most 8 MiB.

    The messages have to arrive in the order of their shares.
    """
    sample: SystematicSample | None = None
    rows = all_bytes = 0
    is_file_missing = False
    for message in _received(messages):
        if message.is_file_missing:
            is_file_missing = True
            continue
        share = _unpacked(message.content)
        stride = int(share.schema.metadata[_STRIDE])
        share = share.replace_schema_metadata(None)
        sample = sample or SystematicSample(share.schema, most_bytes=SAMPLE_BYTES, stride=stride)
        sample.widen(stride)
        first = -(-rows // stride)
        for batch in share.to_batches():
            sample.add(stride * np.arange(first, first + batch.num_rows), batch)
            first += batch.num_rows
        rows += message.rows
        all_bytes += message.rows * message.row_bytes
    if is_file_missing or sample is None:
        yield _message(is_file_missing=True)
        return
    content = _packed(sample.rows_by_number()[1])
    yield _message(rows=rows, row_bytes=all_bytes // max(rows, 1), content=content)


def read_sample(rows: Sequence[Any]) -> Sampled | None:
    """Return the sample of :func:`merge_samples` from Spark's rows, or None if a file is gone."""
    (row,) = rows
    if row[_FILE_MISSING]:
        return None
    return Sampled(sample=_unpacked(row[_CONTENT]), rows=row[_ROWS], row_bytes=row[_ROW_BYTES])


def scatterer(context: WriteContext, division: Division, shares: Shares) -> RangeTask:
    """Return a task function that yields the rows of each share that it gets, as messages to other tasks.

    The function takes share numbers, as for ``mapInArrow``. The messages go to the tasks that write their
    rows. From each share, each task also gets the number of rows that the share sends it, and one task the
    number of rows that the share has read.
    """

    def scatter(numbers: Iterable[pa.RecordBatch]) -> Batches:
        for number in _numbers(numbers):
            yield from _scattered(context, division, shares[number], number)
            pa.default_memory_pool().release_unused()

    return scatter


def gatherer(context: WriteContext, group: GroupWork, division: Division, *, rows: int) -> RangeTask:
    """Return a task function that writes the rows which other tasks have sent to its bucket.

    It gets the messages sorted by range and run, as for ``mapInArrow``. With the schema ``RESULT_DDL``, it
    yields the files of the bucket, and the rows that shares have read as buckets with negative numbers. If a
    file is gone, it yields only the bucket's number.

    Args:
        context: The write context.
        group: The clustering group.
        division: The division of the group.
        rows: The number of rows in the group.

    """

    def gather(messages: Iterable[pa.RecordBatch]) -> Batches:
        received = _received(messages)
        first = next(received, None)
        if first is None:
            return
        number = group.numbers[first.task]
        try:
            written = _Gathering(context_of(context, group, rows=rows), group, division)
            yield from written.results(first, received)
        except RetryWrite:
            yield pa.RecordBatch.from_pylist([{"bucket": number}], schema=RESULT_SCHEMA)
        except ParquetryError as failure:
            if is_outage(failure):
                raise
            yield failure_row(number, failure)
        for _ in received:
            # Spark waits for a task that does not consume all its input.
            continue
        pa.default_memory_pool().release_unused()

    return gather


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A message with ``rows`` rows of a range or, if ``range`` is ``_TALLY``, with the row count of a share.

    A count is the number of rows that the share sends to the task. ``rows_read`` and ``hash`` are the number
    and the fingerprint of the rows that the share has read, in one of its messages. ``row_bytes`` is the
    memory of a sampled row. ``is_file_missing`` is set if a file of the share is gone.
    """

    task: int
    range: int
    run: int
    rows: int
    row_bytes: int
    rows_read: int | None
    hash: int | None
    is_file_missing: bool
    content: pa.Buffer | None


class _Gathering:
    """Writes the rows of one task to its files."""

    def __init__(self, context: WriteContext, group: GroupWork, division: Division) -> None:
        self._context = context
        self._group = group
        self._division = division
        self._written = Tally()

    def results(self, first: _Message, received: Iterator[_Message]) -> Batches:
        """Yield the results of the task, and check that it got and wrote all rows that were sent to it."""
        bucket = self._group.bucket(self._context.instant, first.task)
        ranges = groupby(chain((first,), received), key=lambda message: message.range)
        number, tallies = next(ranges)
        assert number == _TALLY, "the first messages of a task contain the number of its rows"
        tally_messages = list(tallies)
        if any(message.is_file_missing for message in tally_messages):
            raise RetryWrite("a clean deleted a file during the clustering")
        expected = sum(message.rows for message in tally_messages)
        with SpreadingWriter(self._context, bucket, rows=expected, ordered=True) as writer:
            append_in_order(writer, self._group, self._written.counted(self._ordered(ranges)))
            files = writer.finish()
        in_files = sum(file.stat.num_writes for file in files)
        if not expected == self._written.rows == in_files:
            raise ParquetryError(
                "partition {partition}: a clustering task had to write {expected_rows} rows; it received "
                "{received_rows} and wrote {written_rows}. The group is not published; report this with the "
                "clustering spec",
                partition=Value.partition(self._group.partition),
                expected_rows=expected,
                received_rows=self._written.rows,
                written_rows=in_files,
            )
        yield result_rows(_counted(bucket.index, self._written.rows, self._written.fingerprint, tuple(files)))
        for message in tally_messages:
            if message.rows_read is not None and message.hash is not None:
                yield result_rows(_counted(-1 - message.run, message.rows_read, message.hash % 2**64))

    def _ordered(self, ranges: Iterator[tuple[int, Iterator[_Message]]]) -> Batches:
        """Yield the rows of each range in order."""
        division = self._division
        for number, messages in ranges:
            pieces = (batch for message in messages for batch in _unpacked(message.content).to_batches())
            if number in division.boundaries.shared_ranges:
                yield from pieces
            else:
                yield from sort_range(
                    pieces,
                    division.keys,
                    run_bytes=run_bytes_of(self._context),
                    encrypt_spills=self._context.files.encryption_key is not None,
                )


def _counted(number: int, rows: int, fingerprint: int, files: tuple[Any, ...] = ()) -> WrittenBucket:
    """Return a result with a row count and a fingerprint in place of a file."""
    return WrittenBucket(
        index=number, files=files, consumed_rows=rows, consumed_hash=fingerprint, late_rows=0
    )


def _scattered(context: WriteContext, division: Division, slices: Sequence[FileSlice], share: int) -> Batches:
    """Yield the messages of one share: its rows by range, then the row counts for each task.

    If a file is gone, each task gets a message about that instead of the counts.
    """
    read = Tally()
    sent = np.zeros(division.tasks, np.int64)
    batches = (
        batch
        for reader in readers_of(context, slices)
        for part in reader.row_groups
        for batch in reader.batches(part)
    )
    runs = count(share << _RUN_SHIFT)
    is_file_missing = False
    try:
        for held in runs_of(read.counted(batches), run_bytes_of(context)):
            rows = gathered(held)
            order, starts = division.boundaries.divide(division.keys.of(rows))
            arranged = ArrangedRows(rows, order)
            for number, (start, end) in enumerate(pairwise(starts.tolist())):
                task = int(division.task_of[number])
                sent[task] += end - start
                for piece in arranged.pieces(start, end, most_bytes=MESSAGE_BYTES):
                    content = _packed(pa.Table.from_batches([piece]))
                    yield _message(
                        task=task, range_=number, run=next(runs), rows=piece.num_rows, content=content
                    )
            del rows, arranged  # frees the memory before the next run is read
    except RetryWrite:
        is_file_missing = True
    for task in range(division.tasks):
        rows_sent = int(sent[task])
        if is_file_missing:
            yield _message(task=task, run=share, is_file_missing=True)
        elif task == share % division.tasks:
            signed = read.fingerprint - (2**64 if read.fingerprint >= 2**63 else 0)
            yield _message(task=task, run=share, rows=rows_sent, rows_read=read.rows, hash_=signed)
        else:
            yield _message(task=task, run=share, rows=rows_sent)


def _numbers(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column(0).to_pylist()]


def _message(
    *,
    task: int = 0,
    range_: int = _TALLY,
    run: int = 0,
    rows: int = 0,
    row_bytes: int = 0,
    rows_read: int | None = None,
    hash_: int | None = None,
    is_file_missing: bool = False,
    content: pa.Buffer | None = None,
) -> pa.RecordBatch:
    """Return a message as a batch of one row."""
    values: list[Any] = [task, range_, run, rows, row_bytes, rows_read, hash_, is_file_missing]
    columns = [pa.array([value], kind) for value, kind in zip(values, _SCHEMA.types[:-1], strict=True)]
    if content is None:
        blob = pa.array([None], pa.binary())
    else:
        offsets = pa.array([0, content.size], pa.int32()).buffers()[1]
        blob = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, content])
    return pa.RecordBatch.from_arrays([*columns, blob], schema=_SCHEMA)


def _received(batches: Iterable[pa.RecordBatch]) -> Iterator[_Message]:
    for batch in batches:
        plain = batch.select(_SCHEMA.names[:-1]).to_pylist()
        contents = batch.column(_CONTENT)
        for row, content in zip(plain, contents, strict=True):
            yield _Message(
                task=row[BUCKET],
                range=row[RANGE],
                run=row[RUN],
                rows=row[_ROWS],
                row_bytes=row[_ROW_BYTES],
                rows_read=row[_ROWS_READ],
                hash=row[_HASH],
                is_file_missing=row[_FILE_MISSING],
                content=content.as_buffer(),
            )


def _packed(rows: pa.Table) -> pa.Buffer:
    """Return the rows as a compressed stream in Arrow's IPC format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows.combine_chunks())
    return sink.getvalue()


def _unpacked(content: pa.Buffer | bytes | None) -> pa.Table:
    """Return the rows in one piece; there may be none."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all().combine_chunks()
