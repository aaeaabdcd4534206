"""The cost of rewriting files in bytes, core time and requests, both predicted and measured.

A replacecommit records its measured cost (:data:`WORK_KEY`), and a group of a plan the bytes that its sample
predicts (:data:`EXPECTED_BYTES_KEY`). The errors of these predictions determine later prediction intervals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from parquetry.runtime.clustering.forecast.intervals import PredictionInterval, Prior, error_of, interval
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.codec import OMIT_EMPTY, from_json_value, parsed_json, to_json_value

WORK_KEY: Final = "parquetry.work"
"""The key in a replacecommit with its measured and its expected work."""

EXPECTED_BYTES_KEY: Final = "parquetry.expected_bytes"
"""The key in a plan's group with the bytes that its files will have, by a sample of its rows."""

DEFAULT_THROUGHPUT: Final = 8 * 1024 * 1024
"""The stored bytes that a core reads, orders and writes per second, if nothing was measured.

The benchmarks W4b, W4c and W7 measured 8.3 to 11.3 MiB, and W4a, which copies pages, 17 to 24 MiB.
"""

BYTES_OF_COPIES: Final = Prior(mean=-0.02, deviation=0.04, weight=4)
BYTES_IN_ORDER: Final = Prior(mean=0.11, deviation=0.17, weight=4)
"""Without a sample, new files are expected to have as many bytes as the files that they are made of.

This prior, the one above and those below were measured on 60 tables of five kinds
(tests/support/costed_changes.py).
"""

BYTES_BY_SAMPLE: Final = Prior(mean=0.018, deviation=0.01, weight=4)
THROUGHPUT: Final = Prior(mean=0.1, deviation=0.4, weight=2)

_MILLISECONDS: Final = 1000
_FEWEST_MILLISECONDS: Final = 100
"""The floor that is added to the expected and the measured time when their error is computed."""

_READS_OF_COMMIT: Final = 40
_READS_OF_FILE: Final = 8
_READ_BYTES: Final = 256 * 1024
_WRITES_OF_COMMIT: Final = 30
_WRITES_OF_FILE: Final = 3
_PART_BYTES: Final = 16 * 1024 * 1024
_REQUESTS_FACTOR: Final = 2
"""The factor that widens the interval of requests both ways, as tables differ in columns and row groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringWork:
    """The measured work of one clustering. ``layout`` is the digest of the policy that arranged its rows.

    ``core_milliseconds`` is the time of all of Spark's cores while ``attempted_bytes`` were rewritten,
    including groups that could not be published. ``sampled_bytes`` are the bytes that a sample predicted,
    None without one. ``expected_bytes`` and ``expected_core_milliseconds`` are predicted intervals.
    """

    files: int
    read_bytes: int
    written_files: int
    written_bytes: int
    attempted_bytes: int
    core_milliseconds: int
    expected_bytes: PredictionInterval
    expected_core_milliseconds: PredictionInterval
    layout: str | None = field(default=None, metadata=OMIT_EMPTY)
    sampled_bytes: int | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The approximate number of read requests, and of write and list requests, of a rewrite."""

    reads: PredictionInterval
    writes: PredictionInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkBasis:
    """The basis of a prediction: the numbers of past clusterings, and whether rows were sampled.

    ``throughput`` is the expected number of bytes that a core reads per second. Without past clusterings it
    is the default.
    """

    past_bytes: int
    past_throughputs: int
    throughput: int
    sampled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkForecast:
    """The predicted work of rewriting some files; intervals hold in 80 of 100 cases."""

    read_bytes: int
    written_bytes: PredictionInterval
    core_milliseconds: PredictionInterval
    read_requests: PredictionInterval
    write_requests: PredictionInterval
    basis: WorkBasis


def forecast_work(
    past: Sequence[ClusteringWork],
    *,
    files: int,
    read_bytes: int,
    written_files: int,
    sampled_bytes: int | None = None,
    layout: str | None = None,
    copies: bool = False,
) -> WorkForecast:
    """Return the predicted work of rewriting ``files`` files, from past clusterings of the table.

    Args:
        past: The recorded work of past clusterings.
        files: The number of files to rewrite.
        read_bytes: Their size.
        written_files: The number of new files.
        sampled_bytes: The new bytes that a sample predicts. Without a sample, they are predicted from past
            clusterings with the same ``layout``.
        layout: The digest of the execution policy.
        copies: Whether rows keep their order, as with stitch.

    """
    if sampled_bytes is None:
        expected, prior = read_bytes, BYTES_OF_COPIES if copies else BYTES_IN_ORDER
        pairs = [(one.read_bytes, one.written_bytes) for one in past if one.layout == layout]
    else:
        expected, prior = sampled_bytes, BYTES_BY_SAMPLE
        pairs = [(one.sampled_bytes, one.written_bytes) for one in past if one.sampled_bytes is not None]
    errors = [error_of(expected=predicted, measured=written) for predicted, written in pairs]
    throughputs = [_throughput(one) for one in past if one.attempted_bytes]
    throughput = median(throughputs) if throughputs else DEFAULT_THROUGHPUT
    time_errors = [
        error_of(
            expected=one.attempted_bytes / throughput * _MILLISECONDS,
            measured=one.core_milliseconds,
            floor=_FEWEST_MILLISECONDS,
        )
        for one in past
        if one.attempted_bytes
    ]
    written = interval(expected, errors, prior)
    requests = _requests(files, read_bytes, written_files=written_files, written_bytes=written)
    return WorkForecast(
        read_bytes=read_bytes,
        written_bytes=written,
        core_milliseconds=interval(
            read_bytes / throughput * _MILLISECONDS, time_errors, THROUGHPUT, floor_at=_FEWEST_MILLISECONDS
        )
        if read_bytes
        else PredictionInterval.exactly(0),
        read_requests=requests.reads,
        write_requests=requests.writes,
        basis=WorkBasis(
            past_bytes=len(errors),
            past_throughputs=len(throughputs),
            throughput=round(throughput),
            sampled=sampled_bytes is not None,
        ),
    )


def read_requests(files: int, size_bytes: int) -> int:
    """Return about how many requests it takes to read files and the metadata of the table.

    The constants, like those of :func:`write_requests`, were measured on S3 for 4 to 16 files of 0.3 to 12
    MiB in all.
    """
    return _READS_OF_COMMIT + _READS_OF_FILE * files + size_bytes // _READ_BYTES


def write_requests(files: int, size_bytes: int) -> int:
    """Return about how many requests it takes to write and commit files, including list requests."""
    return _WRITES_OF_COMMIT + _WRITES_OF_FILE * files + size_bytes // _PART_BYTES


def expected_requests(work: ClusteringWork) -> Requests:
    """Return about how many requests a clustering was expected to take."""
    return _requests(
        work.files, work.read_bytes, written_files=work.written_files, written_bytes=work.expected_bytes
    )


def _requests(
    files: int, read_bytes: int, *, written_files: int, written_bytes: PredictionInterval
) -> Requests:
    if not files:
        return Requests(reads=PredictionInterval.exactly(0), writes=PredictionInterval.exactly(0))
    reads = read_requests(files, read_bytes)
    return Requests(
        reads=_about(low=reads, high=reads),
        writes=_about(
            low=write_requests(written_files, written_bytes.low),
            high=write_requests(written_files, written_bytes.high),
        ),
    )


def _about(*, low: int, high: int) -> PredictionInterval:
    """Return the interval widened by the factor for requests."""
    return PredictionInterval(low=low // _REQUESTS_FACTOR, high=high * _REQUESTS_FACTOR)


def _throughput(one: ClusteringWork) -> float:
    """Return the bytes that a core read per second."""
    return one.attempted_bytes * _MILLISECONDS / max(one.core_milliseconds, 1)


def work_metadata(work: ClusteringWork) -> dict[str, str]:
    """Return the metadata of a replacecommit with its work."""
    return {WORK_KEY: json.dumps(to_json_value(work), separators=(",", ":"))}


def read_work(extra: Mapping[str, str]) -> ClusteringWork | None:
    """Return the work that :func:`work_metadata` recorded, or None if it is missing or invalid."""
    if WORK_KEY not in extra:
        return None
    try:
        work = from_json_value(ClusteringWork, parsed_json(extra[WORK_KEY]), place=WORK_KEY)
    except (ValueError, InvalidDataError):
        return None
    return work if _is_possible(work) else None


def _is_possible(work: ClusteringWork) -> bool:
    """Return whether these values can have been measured, because any program may write a commit."""
    sizes = (work.read_bytes, work.written_bytes, work.attempted_bytes, work.sampled_bytes or 0)
    counts = (work.files, work.written_files, work.core_milliseconds, *sizes)
    ranges = (work.expected_bytes, work.expected_core_milliseconds)
    return min(counts) >= 0 and all(0 <= one.low <= one.high for one in ranges)


def read_expected_bytes(extra: Mapping[str, str]) -> int | None:
    """Return the predicted bytes in the metadata of a plan's group, or None without a sample."""
    text = extra.get(EXPECTED_BYTES_KEY, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None  # noqa: PLR2004 - 64 bits
