"""The result of a task, its files or its failure, as rows of plain values.

A failure that is the same in every attempt is also a row. If a worker raised it, Spark would retry it in vain
and report it as the text of a traceback.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeGuard

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.runtime.base_file.model import WrittenBucket, WrittenFile
from parquetry.runtime.errors import ConflictError, RetryWrite, is_outage
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.task_failures import failure_from_json, failure_json
from parquetry.runtime.timeline.commit import WriteStat

_STAT_FIELDS: Final = tuple(part.name for part in fields(WriteStat))
_COLUMNS: Final = {
    "bucket": "int",
    "file_id": "string",
    "path": "string",
    "partition_path": "string",
    "prev_commit": "string",
    "num_writes": "bigint",
    "num_deletes": "bigint",
    "num_update_writes": "bigint",
    "num_inserts": "bigint",
    "file_size_bytes": "bigint",
    "min_key": "string",
    "max_key": "string",
    "statistics": "binary",
    "consumed_rows": "bigint",
    "consumed_hash": "bigint",
    "late_rows": "bigint",
    "failure": "string",
}
_ARROW = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}

RESULT_DDL: Final = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
"""The schema of the rows for Spark."""

RESULT_SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in _COLUMNS.items()])
"""The schema of the rows for Arrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """A written file, as the driver knows it."""

    bucket: int
    stat: WriteStat
    min_key: str | None
    max_key: str | None
    statistics: FileStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketResult:
    """The counts of a bucket's input; see :class:`~parquetry.runtime.base_file.model.WrittenBucket`."""

    bucket: int
    consumed_rows: int
    consumed_hash: int
    late_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResults:
    """The files of a write, sorted by path, its buckets, and the failures of buckets without files.

    ``deferred`` are the numbers of buckets whose work did not begin, as the time for it was over.
    """

    files: tuple[FileResult, ...]
    buckets: Mapping[int, BucketResult]
    failures: Mapping[int, ParquetryError] = field(default_factory=dict)
    deferred: frozenset[int] = frozenset()

    @property
    def late_rows(self) -> int:
        """The number of incoming rows and deletes that lost to stored rows."""
        return sum(bucket.late_rows for bucket in self.buckets.values())


def result_rows(written: WrittenBucket) -> pa.RecordBatch:
    """Return one row per file, the first with the bucket's counts; without files, one row of counts."""
    rows = [_file_row(written.index, file) for file in written.files] or [{"bucket": written.index}]
    signed = written.consumed_hash - (2**64 if written.consumed_hash >= 2**63 else 0)
    rows[0] |= {
        "consumed_rows": written.consumed_rows,
        "consumed_hash": signed,
        "late_rows": written.late_rows,
    }
    return pa.RecordBatch.from_pylist(rows, schema=RESULT_SCHEMA)


def failure_row(bucket: int, failure: ParquetryError | RetryWrite) -> pa.RecordBatch:
    """Return a row from which :func:`read_results` raises the failure."""
    row = {"bucket": bucket, "failure": failure_json(failure)}
    return pa.RecordBatch.from_pylist([row], schema=RESULT_SCHEMA)


def read_results(rows: Iterable[Mapping[str, Any]]) -> WriteResults:
    """Return the files and buckets from the rows of all tasks.

    Raises:
        ParquetryError: The failure of a task, that of the lowest bucket number.
        RetryWrite: If tasks failed with nothing else. The write may then succeed on the present state of the
            table.
    """
    results, failures = _split_results(rows)
    if failures:
        failures.sort(key=lambda failed: (isinstance(failed[1], RetryWrite), failed[0]))
        raise failures[0][1]
    return results


def read_independent_results(rows: Iterable[Mapping[str, Any]]) -> WriteResults:
    """Return the files and buckets of tasks that are independent: a failed bucket is left out.

    Raises:
        Exception: The failure of a task that concerns more than its bucket; see :func:`concerns_bucket_only`.
    """
    results, failed = _split_results(rows)
    failures: dict[int, ParquetryError] = {}
    for bucket, failure in failed:
        if not concerns_bucket_only(failure):
            raise failure
        failures[bucket] = failure
    return replace(results, failures=failures)


def concerns_bucket_only(failure: Exception) -> TypeGuard[ParquetryError]:
    """Return whether a failure concerns one bucket alone, so that the others continue without it.

    A failure of the store, a conflict with another writer and a bug concern the whole write. A file that does
    not exist concerns the bucket alone.
    """
    return (
        isinstance(failure, ParquetryError)
        and not isinstance(failure, ConflictError)
        and not is_outage(failure)
    )


def _split_results(rows: Iterable[Mapping[str, Any]]) -> tuple[WriteResults, list[tuple[int, Exception]]]:
    """Return the results of the tasks that succeeded, and bucket number and failure of the others."""
    files: list[FileResult] = []
    buckets: dict[int, BucketResult] = {}
    failures: list[tuple[int, Exception]] = []
    for row in rows:
        if row["failure"] is not None:
            failures.append((row["bucket"], failure_from_json(row["failure"])))
            continue
        if row["path"] is not None:
            files.append(_file_result(row))
        if row["consumed_rows"] is not None:
            buckets[row["bucket"]] = BucketResult(
                bucket=row["bucket"],
                consumed_rows=row["consumed_rows"],
                consumed_hash=row["consumed_hash"] % 2**64,
                late_rows=row["late_rows"],
            )
    by_path = sorted(files, key=lambda file: file.stat.path)
    return WriteResults(files=tuple(by_path), buckets=buckets), failures


def _file_row(bucket: int, file: WrittenFile) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(file.stat, name) for name in _STAT_FIELDS}
    statistics = zlib.compress(pickle.dumps(file.statistics), level=1)
    return row | {
        "bucket": bucket,
        "min_key": file.min_key,
        "max_key": file.max_key,
        "statistics": statistics,
    }


def _file_result(row: Mapping[str, Any]) -> FileResult:
    return FileResult(
        bucket=row["bucket"],
        stat=WriteStat(**{name: row[name] for name in _STAT_FIELDS}),
        min_key=row["min_key"],
        max_key=row["max_key"],
        statistics=pickle.loads(zlib.decompress(row["statistics"])),  # noqa: S301 - from our own worker
    )
