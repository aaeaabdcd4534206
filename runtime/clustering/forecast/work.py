"""What rewriting files costs: bytes, the time of cores, and requests; predicted, and as it was measured.

A replacecommit records what was measured of it (:data:`WORK_KEY`), and a group of a plan how many bytes its
sample promises (:data:`EXPECTED_BYTES_KEY`). The ranges of later predictions come from the errors of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from parquetry.runtime.clustering.forecast.intervals import PredictionInterval, Prior, error_of, interval
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.codec import UNLESS_NONE, from_json_value, parsed_json, to_json_value

WORK_KEY: Final = "parquetry.work"
"""Where a replacecommit says what it took, and what that was expected to be."""

EXPECTED_BYTES_KEY: Final = "parquetry.expected_bytes"
"""Where a group of a plan says how many bytes its files will have, by a sample of its rows."""

DEFAULT_THROUGHPUT: Final = 8 * 1024 * 1024
"""The stored bytes that a core reads, puts in order and writes in a second, where nothing was measured.

In the benchmarks W4b, W4c and W7 these were 8.3 to 11.3 MiB, in W4a, which copies pages, 17 to 24.
"""

BYTES_OF_COPIES: Final = Prior(mean=-0.02, deviation=0.04, weight=4)
BYTES_IN_ORDER: Final = Prior(mean=0.22, deviation=0.16, weight=4)
"""By sizes, files are expected to have as many bytes as those that they are made of.

These priors, and those below, were measured on 60 tables of five kinds (tests/support/costed_changes.py).
"""

BYTES_BY_SAMPLE: Final = Prior(mean=0.012, deviation=0.016, weight=4)
THROUGHPUT: Final = Prior(mean=0.1, deviation=0.4, weight=2)

_MILLISECONDS: Final = 1000
_FEWEST_MILLISECONDS: Final = 100
"""So many are added to both when a throughput is held against what it was expected to be."""

_READS_OF_COMMIT: Final = 40
_READS_OF_FILE: Final = 8
_READ_BYTES: Final = 256 * 1024
_WRITES_OF_COMMIT: Final = 30
_WRITES_OF_FILE: Final = 3
_PART_BYTES: Final = 16 * 1024 * 1024
_MORE_REQUESTS: Final = 2
"""It may take so many times as many requests, or as few: tables have other columns, and other row groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringWork:
    """What one clustering took. ``layout`` is the digest of what its rows were arranged by.

    ``core_milliseconds`` are those of all cores that Spark had while ``attempted_bytes`` were rewritten, also
    those of groups that could not be published. ``sampled_bytes`` are what a sample promised to be written,
    None without one. ``expected_bytes`` and ``expected_core_milliseconds`` are ranges that were predicted.
    """

    files: int
    read_bytes: int
    written_files: int
    written_bytes: int
    attempted_bytes: int
    core_milliseconds: int
    expected_bytes: PredictionInterval
    expected_core_milliseconds: PredictionInterval
    layout: str | None = field(default=None, metadata=UNLESS_NONE)
    sampled_bytes: int | None = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """About how many requests a rewrite takes that read, and that write or list."""

    reads: PredictionInterval
    writes: PredictionInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkBasis:
    """What a prediction is made of: numbers of past clusterings, and whether a sample of the rows.

    ``throughput`` is the bytes that a core is expected to read in a second; without past ones it is assumed.
    """

    past_bytes: int
    past_throughputs: int
    throughput: int
    sampled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkForecast:
    """What rewriting some files will take; ranges hold in 80 of 100 cases."""

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
    """The forecast for ``files`` of so many bytes, by what ``past`` clusterings of the table took.

    How bytes shrink is known of the same ``layout`` alone, unless a sample promises ``sampled_bytes``;
    ``copies`` says that rows stay as they come.
    """
    if sampled_bytes is None:
        expected, prior = read_bytes, BYTES_OF_COPIES if copies else BYTES_IN_ORDER
        pairs = [(one.read_bytes, one.written_bytes) for one in past if one.layout == layout]
    else:
        expected, prior = sampled_bytes, BYTES_BY_SAMPLE
        pairs = [(one.sampled_bytes, one.written_bytes) for one in past if one.sampled_bytes is not None]
    errors = [error_of(expected=promised, measured=written) for promised, written in pairs]
    throughputs = [_throughput(one) for one in past if one.attempted_bytes]
    throughput = median(throughputs) if throughputs else DEFAULT_THROUGHPUT
    late = [
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
            read_bytes / throughput * _MILLISECONDS, late, THROUGHPUT, floor_at=_FEWEST_MILLISECONDS
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
    """About how many requests it takes to read files, and what is known of the table besides.

    As counted on S3, like those of :func:`write_requests`, for 4 to 16 files of 0.3 to 12 MiB in all.
    """
    return _READS_OF_COMMIT + _READS_OF_FILE * files + size_bytes // _READ_BYTES


def write_requests(files: int, size_bytes: int) -> int:
    """About how many requests it takes to write files, and to commit them; those that list count too."""
    return _WRITES_OF_COMMIT + _WRITES_OF_FILE * files + size_bytes // _PART_BYTES


def expected_requests(work: ClusteringWork) -> Requests:
    """About how many requests a clustering was expected to take."""
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
    return PredictionInterval(low=low // _MORE_REQUESTS, high=high * _MORE_REQUESTS)


def _throughput(one: ClusteringWork) -> float:
    """Bytes that a core read in a second."""
    return one.attempted_bytes * _MILLISECONDS / max(one.core_milliseconds, 1)


def in_commit(work: ClusteringWork | None) -> dict[str, str]:
    """What a replacecommit says of the work; nothing where it was not measured."""
    return {} if work is None else {WORK_KEY: json.dumps(to_json_value(work), separators=(",", ":"))}


def read_work(extra: Mapping[str, str]) -> ClusteringWork | None:
    """What :func:`in_commit` said; None without it, and where it is not understood."""
    if WORK_KEY not in extra:
        return None
    try:
        work = from_json_value(ClusteringWork, parsed_json(extra[WORK_KEY]), place=WORK_KEY)
    except (ValueError, InvalidDataError):
        return None
    return work if _is_possible(work) else None


def _is_possible(work: ClusteringWork) -> bool:
    """Whether these can have been measured: any program may write to a commit."""
    sizes = (work.read_bytes, work.written_bytes, work.attempted_bytes, work.sampled_bytes or 0)
    counts = (work.files, work.written_files, work.core_milliseconds, *sizes)
    ranges = (work.expected_bytes, work.expected_core_milliseconds)
    return min(counts) >= 0 and all(0 <= one.low <= one.high for one in ranges)


def read_expected_bytes(extra: Mapping[str, str]) -> int | None:
    """The bytes that a group of a plan promises; None without a sample."""
    said = extra.get(EXPECTED_BYTES_KEY, "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None  # noqa: PLR2004 - 64 bits
