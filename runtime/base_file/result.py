"""What a task says about the files it wrote, or why it could not, as rows of plain values.

Failures that are the same in every attempt travel as rows too: as an exception in a worker they
would be retried in vain and arrive as the text of a traceback.
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
"""The rows' schema for Spark."""

RESULT_SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in _COLUMNS.items()])
"""The rows' schema for Arrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """One file as the driver knows it."""

    bucket: int
    stat: WriteStat
    min_key: str | None
    max_key: str | None
    statistics: FileStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketResult:
    """What a bucket took in; see :class:`~parquetry.runtime.base_file.model.WrittenBucket`."""

    bucket: int
    consumed_rows: int
    consumed_hash: int
    late_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResults:
    """All files of a write by path, and all buckets by number; ``failures`` are of buckets without a file."""

    files: tuple[FileResult, ...]
    buckets: Mapping[int, BucketResult]
    failures: Mapping[int, ParquetryError] = field(default_factory=dict)

    @property
    def late_rows(self) -> int:
        """Incoming rows and deletes that lost against stored rows."""
        return sum(bucket.late_rows for bucket in self.buckets.values())


def result_rows(written: WrittenBucket) -> pa.RecordBatch:
    """A row per file, the bucket's own numbers on the first; one row without a path if there is none."""
    rows = [_file_row(written.index, file) for file in written.files] or [{"bucket": written.index}]
    signed = written.consumed_hash - (2**64 if written.consumed_hash >= 2**63 else 0)
    rows[0] |= {
        "consumed_rows": written.consumed_rows,
        "consumed_hash": signed,
        "late_rows": written.late_rows,
    }
    return pa.RecordBatch.from_pylist(rows, schema=RESULT_SCHEMA)


def failure_row(bucket: int, failure: ParquetryError | RetryWrite) -> pa.RecordBatch:
    """A row that makes :func:`read_results` raise the failure."""
    row = {"bucket": bucket, "failure": failure_json(failure)}
    return pa.RecordBatch.from_pylist([row], schema=RESULT_SCHEMA)


def read_results(rows: Iterable[Mapping[str, Any]]) -> WriteResults:
    """The files and buckets that all tasks reported.

    Raises what a task failed with, a RetryWrite only when nothing worse happened: then the write
    may succeed from the present state of the table.
    """
    results, failures = _sorted_out(rows)
    if failures:
        failures.sort(key=lambda failed: (isinstance(failed[1], RetryWrite), failed[0]))
        raise failures[0][1]
    return results


def read_each(rows: Iterable[Mapping[str, Any]]) -> WriteResults:
    """As :func:`read_results`, for buckets that stand for themselves: one's failure leaves it out.

    Raised all the same is what is no fault of the bucket's rows or files; see :func:`leaves_out`.
    """
    results, failed = _sorted_out(rows)
    failures: dict[int, ParquetryError] = {}
    for bucket, failure in failed:
        if not leaves_out(failure):
            raise failure
        failures[bucket] = failure
    return replace(results, failures=failures)


def leaves_out(failure: Exception) -> TypeGuard[ParquetryError]:
    """Whether a failure is of what was read for a bucket, so that the bucket is left out and others go on.

    A store that refuses or breaks, another writer that won and a bug are of the whole write; a file
    that is not there is the bucket's own.
    """
    return (
        isinstance(failure, ParquetryError)
        and not isinstance(failure, ConflictError)
        and not is_outage(failure)
    )


def _sorted_out(rows: Iterable[Mapping[str, Any]]) -> tuple[WriteResults, list[tuple[int, Exception]]]:
    """What tasks wrote, and the buckets that failed with what they failed with."""
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
