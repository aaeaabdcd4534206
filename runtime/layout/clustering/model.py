"""The values of clustering plans: files, groups, and the reasons why files are due or excluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from parquetry.message import PARTITION_FIELD
from parquetry.runtime.layout.clustering.sizes import SizeLimits
from parquetry.runtime.layout.model import FileKey, FileSlice
from parquetry.runtime.layout.skipping.files import Reads
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.layout.skipping.statistics import Columns
from parquetry.runtime.spec.clustering import ClusteringScope, ExecutionPolicy, PlanPolicy

STEPS_DUE: Final = "steps due"
"""The digest of a file that must be rewritten for its content, for example to encrypt it."""


class DueReason(StrEnum):
    """The reason why a file is due, as printed. A plug-in may return its own text."""

    SMALL = "small"
    OVERSIZE = "oversize"
    NEW = "new"
    POLICY = "policy"
    OVERLAP = "overlap"


class ExclusionReason(StrEnum):
    """The reason why a file is not rewritten."""

    PARTITION = "partition"
    KEPT = "kept"
    RESERVED = "reserved"
    HEALTHY = "healthy"
    NOT_PICKED = "not picked"
    NO_GAIN = "no gain"
    BUDGET = "budget"
    LARGER_THAN_BUDGET = "larger than budget"
    GROUPS = "groups"
    FILES = "files"


REASON_TEXTS: Mapping[ExclusionReason, str] = {
    ExclusionReason.PARTITION: "not in a partition that clustering.plan.partitions chooses",
    ExclusionReason.KEPT: "older than the policy, and clustering.existing is keep",
    ExclusionReason.RESERVED: "in use",
    ExclusionReason.HEALTHY: "of good size and in order",
    ExclusionReason.NOT_PICKED: "not of the target size, but clustering.plan.strategy ignores sizes",
    ExclusionReason.NO_GAIN: "a rewrite would gain nothing",
    ExclusionReason.BUDGET: "over the byte budget of this run",
    ExclusionReason.LARGER_THAN_BUDGET: (
        "larger than the byte budget of a run; the first run that rewrites nothing else rewrites it"
    ),
    ExclusionReason.GROUPS: "over clustering.plan.max_groups",
    ExclusionReason.FILES: "over the number of files in one plan",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringFile(FileSlice):
    """The newest slice of a file group, with the facts that clustering needs.

    ``digest`` is that of the execution policy under which the file was written. It is None if no clustering
    wrote the file, and STEPS_DUE if its content does not fulfil the policy. ``columns`` has the bounds of the
    columns that the policy uses, by lower-case name.
    """

    digest: str | None = None
    columns: Columns = field(default_factory=dict)


def rows_of(files: Sequence[ClusteringFile]) -> int | None:
    """Return the total rows of the files, or None if those of any file are unknown."""
    known = [file.rows for file in files if file.rows is not None]
    return sum(known) if len(known) == len(files) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The spelling of values in partition paths; ``columns`` are (name, Spark type), in folder order."""

    columns: tuple[tuple[str, str], ...] = ()
    hive_style: bool = True
    url_encode: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The facts about a table, besides its files, that a plan needs.

    ``reserved`` has the reason for each file group that must not be rewritten, such as a pending plan or an
    active writer. Files of instants up to ``kept_until`` are not rewritten (``existing: keep``), unless steps
    are due: an old order may stay, but unencrypted values may not. ``queries`` are the conditions of the
    declared queries, on columns of ``types`` (Spark types by lower-case name).
    """

    max_file_size_bytes: int
    partitioning: Partitioning = field(default_factory=Partitioning)
    reserved: Mapping[FileKey, str] = field(default_factory=dict)
    kept_until: str | None = None
    queries: tuple[Predicate, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """The facts that a plan strategy may use.

    ``depths`` maps a file id to the file's overlap depth: at the point within the file that most sorted runs
    cover, the number of these runs, with the file's own run. Files whose statistics do not determine it are
    absent. A file that no clustering wrote is a run of its own.
    """

    plan: PlanPolicy
    execution: ExecutionPolicy
    limits: SizeLimits
    depths: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedFile:
    """A file that is not rewritten; ``detail`` is a more specific reason for this file."""

    file: ClusteringFile
    reason: ExclusionReason
    detail: str | None = None

    @property
    def text(self) -> str:
        """The reason as a phrase without a period."""
        return self.detail or REASON_TEXTS[self.reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """Files of one partition that are rewritten together, into about ``output_files`` files.

    ``scope`` shows whether the limits of a group bound it or, for one order over a partition, only the
    partition. ``reasons`` has the due reason by file id. ``benefit`` is the number of files that readers no
    longer have to open: files that are merged away, and files that cover the same point, except for one.
    """

    partition: str = field(metadata=PARTITION_FIELD)
    files: tuple[ClusteringFile, ...]
    output_files: int
    benefit: float
    reasons: Mapping[str, str]
    scope: ClusteringScope = ClusteringScope.GROUP

    @property
    def size_bytes(self) -> int:
        """The bytes that the rewrite reads; it writes about as many."""
        return sum(file.size_bytes for file in self.files)

    @property
    def oldest_instant(self) -> str:
        """The instant at which the oldest file was written."""
        return min(file.instant for file in self.files)


class ChosenBy(StrEnum):
    """The basis of a choice of ``scope: auto``: no declared query, statistics alone, or a sample of rows."""

    NO_QUERIES = "no queries"
    STATISTICS = "statistics"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeFigures:
    """The costs of a scope for the due files of a partition, and its benefit for queries.

    ``shuffled_bytes`` are the part of ``rewritten_bytes`` that also passes through Spark's shuffle and its
    local disk. ``queries`` has, by name, the expected reads of declared queries from these files.
    ``expected_rows`` and ``expected_bytes`` are their sums, weighted by the queries' weights; None without a
    forecast.
    """

    groups: int
    rewritten_files: int
    rewritten_bytes: int
    shuffled_bytes: int
    files_after: int
    queries: Mapping[str, Reads] = field(default_factory=dict)
    expected_rows: int | None = None
    expected_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeChoice:
    """The choice of ``scope: auto`` for a partition whose due files make more than one group, and its basis.

    ``whole`` has the figures of one order over the partition; None if it was not examined because no query
    could gain.
    """

    partition: str = field(metadata=PARTITION_FIELD)
    scope: ClusteringScope
    chosen_by: ChosenBy
    group: ScopeFigures
    whole: ScopeFigures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """The due files of a table under its clustering policy.

    ``groups`` is everything that a run without limits would rewrite: first the group with the oldest file,
    then the best benefit per byte. If it is empty, nothing is due. ``excluded`` has all other files with
    their reasons, in the order of the files. ``choices`` are those of ``scope: auto`` for the partitions of
    the groups.
    """

    groups: tuple[PlannedGroup, ...] = ()
    excluded: tuple[ExcludedFile, ...] = ()
    choices: tuple[ScopeChoice, ...] = ()

    @property
    def files_before(self) -> int:
        """The number of files that are rewritten."""
        return sum(len(group.files) for group in self.groups)

    @property
    def files_after(self) -> int:
        """The number of files that they become."""
        return sum(group.output_files for group in self.groups)

    @property
    def rewritten_bytes(self) -> int:
        """The bytes of the files that are rewritten."""
        return sum(group.size_bytes for group in self.groups)
