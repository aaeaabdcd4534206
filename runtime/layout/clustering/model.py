"""The values that clustering plans are made of: files, why they are due or not, and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from parquetry.runtime.layout.clustering.sizes import SizeLimits
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import Touched
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.layout.skipping.statistics import Columns
from parquetry.runtime.spec.clustering import ClusteringScope, ExecutionPolicy, PlanPolicy

FileKey = tuple[str, str]
"""A file group: partition and file id."""

STEPS_DUE: Final = "steps due"
"""The digest of a file that is to be rewritten for its content, such as to be encrypted."""


class DueReason(StrEnum):
    """Why a file is due, as it is printed. A plug-in gives its own words."""

    SMALL = "small"
    OVERSIZE = "oversize"
    NEW = "new"
    POLICY = "policy"
    OVERLAP = "overlap"


class ExclusionReason(StrEnum):
    """Why a file is not rewritten."""

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


IN_WORDS: Mapping[ExclusionReason, str] = {
    ExclusionReason.PARTITION: "not in a partition that clustering.plan.partitions chooses",
    ExclusionReason.KEPT: "older than the policy, and clustering.existing is keep",
    ExclusionReason.RESERVED: "in use",
    ExclusionReason.HEALTHY: "of good size and in order",
    ExclusionReason.NOT_PICKED: (
        "of another size than the target, which clustering.plan.strategy does not mind"
    ),
    ExclusionReason.NO_GAIN: "a rewrite would gain nothing",
    ExclusionReason.BUDGET: "over the byte budget of this run",
    ExclusionReason.LARGER_THAN_BUDGET: (
        "larger than the byte budget of a run; the first run that rewrites nothing else takes it"
    ),
    ExclusionReason.GROUPS: "over clustering.plan.max_groups",
    ExclusionReason.FILES: "over the number of files in one plan",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringFile:
    """The newest slice of a file group, as clustering sees it.

    ``digest`` is that of the execution policy that it was written by, None when no clustering wrote it,
    STEPS_DUE when its content is not what the policy wants. ``columns`` has bounds of the columns that
    clustering is about, by lower-case name.
    """

    partition: str
    file_id: str
    instant: str
    path: str
    size_bytes: int
    rows: int | None = None
    digest: str | None = None
    columns: Columns = field(default_factory=dict)

    @property
    def key(self) -> FileKey:
        """The file group."""
        return self.partition, self.file_id

    @property
    def slice(self) -> FileSlice:
        """The file as those know it who read it."""
        return FileSlice(
            partition=self.partition,
            file_id=self.file_id,
            instant=self.instant,
            path=self.path,
            size_bytes=self.size_bytes,
            rows=self.rows,
        )


def rows_of(files: Sequence[ClusteringFile]) -> int | None:
    """The rows of all files; None where those of one are not known."""
    known = [file.rows for file in files if file.rows is not None]
    return sum(known) if len(known) == len(files) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How partition paths spell values: (column, Spark type) in the order of the folders."""

    columns: tuple[tuple[str, str], ...] = ()
    hive_style: bool = True
    url_encode: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a plan has to know of the table besides its files.

    ``reserved`` says of file groups why they must be left alone: pending plans, writers at work.
    Files of instants up to ``kept_until`` stay as they are (``existing: keep``), unless steps are due:
    an order may stay, values in the clear may not. ``queries`` are the conditions of the declared
    queries, on columns of ``types`` (Spark types by lower-case name).
    """

    max_file_size_bytes: int
    partitioning: Partitioning = field(default_factory=Partitioning)
    reserved: Mapping[FileKey, str] = field(default_factory=dict)
    kept_until: str | None = None
    queries: tuple[Predicate, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What a plan strategy may go by.

    ``depths`` says by file id how many sorted runs, the file's own among them, cover the point of
    the clustering columns within the file that most of them cover; absent where statistics do not
    say. A file that no clustering wrote is a run of its own.
    """

    plan: PlanPolicy
    execution: ExecutionPolicy
    limits: SizeLimits
    depths: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedFile:
    """A file that is left as it is; ``detail`` adds to the reason what is known of this one."""

    file: ClusteringFile
    reason: ExclusionReason
    detail: str | None = None

    @property
    def words(self) -> str:
        """The reason as a sentence without end."""
        return self.detail or IN_WORDS[self.reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """Files of one partition to be rewritten together, into about ``output_files``.

    ``scope`` says whether it is cut by the group's limits or, for rows to be in one order, only by the
    partition. ``reasons`` are why, by file id. ``benefit`` is how many fewer files readers open: those that
    are merged away, and of those that cover one point all but one.
    """

    partition: str
    files: tuple[ClusteringFile, ...]
    output_files: int
    benefit: float
    reasons: Mapping[str, str]
    scope: ClusteringScope = ClusteringScope.GROUP

    @property
    def size_bytes(self) -> int:
        """The bytes that are read; about as many are written."""
        return sum(file.size_bytes for file in self.files)


class ChosenBy(StrEnum):
    """What ``scope: auto`` went by: that no query is declared, statistics alone, or a sample of the rows."""

    NO_QUERIES = "no queries"
    STATISTICS = "statistics"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeFigures:
    """What a scope costs on the due files of a partition, and what it is good for.

    ``shuffled_bytes`` of the ``rewritten_bytes`` go through Spark's shuffle, and its local disk, too.
    ``queries`` is what declared queries are expected to read of these files, by name; ``expected_rows`` and
    ``expected_bytes`` are that in all, each query as often as its weight says, None without a forecast.
    """

    groups: int
    rewritten_files: int
    rewritten_bytes: int
    shuffled_bytes: int
    files_after: int
    queries: Mapping[str, Touched] = field(default_factory=dict)
    expected_rows: int | None = None
    expected_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeChoice:
    """What ``scope: auto`` chose for a partition whose due files make more than one group, and by what.

    ``whole`` is the partition in one order; None where that was not looked at, as no query could gain.
    """

    partition: str
    scope: ClusteringScope
    chosen_by: ChosenBy
    group: ScopeFigures
    whole: ScopeFigures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """What is due under the clustering policy of a table.

    ``groups`` is all that a run without limits would rewrite, the best benefit per byte first; when
    it is empty nothing is due. ``excluded`` has every other file with its reason, in their order.
    ``choices`` are those of ``scope: auto`` for the partitions of the groups.
    """

    groups: tuple[PlannedGroup, ...] = ()
    excluded: tuple[ExcludedFile, ...] = ()
    choices: tuple[ScopeChoice, ...] = ()

    @property
    def files_before(self) -> int:
        """The files that are rewritten."""
        return sum(len(group.files) for group in self.groups)

    @property
    def files_after(self) -> int:
        """The files they become."""
        return sum(group.output_files for group in self.groups)

    @property
    def rewritten_bytes(self) -> int:
        """The bytes of the files that are rewritten."""
        return sum(group.size_bytes for group in self.groups)
