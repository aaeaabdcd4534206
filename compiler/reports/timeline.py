"""A table's timeline as a report: what each instant wrote, replaced and removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from parquetry.compiler.evidence.money import MeasuredCosts, PlanPrices, clustering_costs
from parquetry.message import PARTITION_FIELD, Text, command
from parquetry.runtime.clustering.forecast.queries import MeasuredQuery, read_measured
from parquetry.runtime.clustering.forecast.work import read_work
from parquetry.runtime.commit.workload_profile import INSERTED_KEYS
from parquetry.runtime.errors import CorruptTableError, TableNotFoundError
from parquetry.runtime.publish.publishing import lag_warnings
from parquetry.runtime.services.source_files import BY_KEY
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.masking import has_masked_partitions, pii_columns
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import SCHEMA_KEY, CommitMetadata
from parquetry.runtime.timeline.instant import (
    WRITE_ACTIONS,
    Action,
    Instant,
    Timezone,
    parse_instant_ms,
)
from parquetry.runtime.timeline.rereading import retry_stale
from parquetry.runtime.timeline.rollback import RollbackMetadata
from parquetry.runtime.write.plan import DECISIONS_KEY
from parquetry.text.secret_names import MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """The rows that an instant inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """The files that an instant added, the file groups it replaced, and the files that it deleted."""

    added: int = 0
    replaced: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantReport:
    """One instant. ``operation`` is in the words of the specs, or None if there is none or it is not known.

    Of pending instants, only a clustering has one.

    ``queries`` are the measurements of a clustering, and ``costs`` its costs if there are prices.
    ``age_seconds`` is the time since a pending instant began; None for completed ones.
    """

    time: str
    action: str
    state: str
    operation: str | None
    rows: RowCounts = RowCounts()
    files: FileCounts = FileCounts()
    bytes_written: int = 0
    partitions: tuple[str, ...] = field(default=(), metadata=PARTITION_FIELD)
    extra: Mapping[str, str] = field(default_factory=dict)
    queries: tuple[MeasuredQuery, ...] = ()
    costs: MeasuredCosts | None = None
    age_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TimelineReport(Brief):
    """The active timeline of a table, oldest first; or a single instant on request.

    ``warnings`` describe errors in the records of the table.
    """

    table: str
    instants: tuple[InstantReport, ...]
    is_single: bool
    warnings: tuple[Text, ...] = ()


@retry_stale
def report_timeline(
    store: ObjectStore,
    *,
    instant: str | None = None,
    declared: TableSpec | None = None,
    prices: PlanPrices | None = None,
) -> TimelineReport:
    """Return the instants of the table in ``store``, or one of them.

    Values of columns that the applied spec or the ``declared`` one marks as personal data are masked.

    Args:
        store: the store of the table.
        instant: the time of a single instant, or None for all of the active timeline.
        declared: the declared spec.
        prices: the prices with which the costs of clusterings are computed, or None.

    Raises:
        TableNotFoundError: if there is no table or no such instant.

    """
    handle = open_table(store, declared=declared)
    timeline = handle.timeline()
    wanted = [i for i in timeline.instants if instant in (None, i.time)]
    if instant is not None and not wanted:
        raise TableNotFoundError(
            "the active timeline of {table} has no instant {instant}; {command} lists them",
            table=handle.name,
            instant=instant,
            command=command("timeline", handle.name),
        )
    hidden, zone = _hidden(handle.shown_by), handle.config.timezone
    report = TimelineReport(
        table=handle.name,
        instants=tuple(_without_keys(instant_report(timeline, i, zone, prices), hidden) for i in wanted),
        is_single=instant is not None,
        warnings=(*(() if handle.fault is None else (handle.fault.message,)), *lag_warnings(handle)),
    )
    report = handle.cleared(report)
    return replace(report, instants=tuple(map(_with_distinct_partitions, report.instants)))


def _with_distinct_partitions(report: InstantReport) -> InstantReport:
    """Return the report with one of the partitions that are equal, as masked ones may be."""
    return replace(report, partitions=tuple(dict.fromkeys(report.partitions)))


def _without_keys(report: InstantReport, hidden: frozenset[str]) -> InstantReport:
    """Return the report with the values of these keys of commit metadata masked."""
    extra = {key: MASK if key in hidden else value for key, value in report.extra.items()}
    return replace(report, extra=extra)


def _hidden(spec: TableSpec | None) -> frozenset[str]:
    """Return the keys of commit metadata whose values contain personal partition values or record keys."""
    if spec is None:
        return frozenset()
    if has_masked_partitions(spec):
        return frozenset({DECISIONS_KEY, INSERTED_KEYS})
    keys = {field.partition(".")[0].lower() for field in spec.record_key}
    return frozenset({INSERTED_KEYS}) if keys & pii_columns(spec.columns) else frozenset()


def pending_seconds(timeline: Timeline, instant: Instant, zone: Timezone) -> int | None:
    """Return the seconds since an instant began, by the store's clock, or None if its name is not a time."""
    try:
        begun_ms = parse_instant_ms(instant.time, zone)
    except CorruptTableError:
        return None
    return max(0, (timeline.store.now_ms() - begun_ms) // 1000)


def is_pending_clustering(timeline: Timeline, instant: Instant) -> bool:
    """Return whether an instant is a clustering that is not completed."""
    return instant.action is Action.REPLACECOMMIT and instant.time in timeline.pending_clusterings


def instant_report(
    timeline: Timeline, instant: Instant, zone: Timezone, prices: PlanPrices | None
) -> InstantReport:
    """Return the report of one instant; personal data is not masked."""
    bare = InstantReport(
        time=instant.time, action=str(instant.action), state=str(instant.state), operation=None
    )
    if not instant.is_completed:
        operation = CLUSTER.lower() if is_pending_clustering(timeline, instant) else None
        return replace(bare, operation=operation, age_seconds=pending_seconds(timeline, instant, zone))
    if instant.action in WRITE_ACTIONS:
        return write_report(bare, timeline.commit_metadata(instant.time), prices)
    return replace(bare, files=FileCounts(removed=_removed(timeline, instant)))


def write_report(bare: InstantReport, metadata: CommitMetadata, prices: PlanPrices | None) -> InstantReport:
    """Return the report of a completed write, with the figures of its commit metadata."""
    stats = list(metadata.all_stats())
    work = read_work(metadata.extra)
    return replace(
        bare,
        # A decision about source files writes no rows, and Hudi has no operation for it.
        operation="decision" if BY_KEY in metadata.extra else metadata.operation.lower(),
        rows=RowCounts(
            inserted=sum(stat.num_inserts for stat in stats),
            updated=sum(stat.num_update_writes for stat in stats),
            deleted=sum(stat.num_deletes for stat in stats),
        ),
        files=FileCounts(
            added=len(stats), replaced=sum(len(file_ids) for file_ids in metadata.replaced.values())
        ),
        bytes_written=sum(stat.file_size_bytes for stat in stats),
        partitions=tuple(sorted(metadata.partitions)),
        extra={key: value for key, value in metadata.extra.items() if key != SCHEMA_KEY},
        queries=read_measured(metadata.extra),
        costs=None if prices is None or work is None else clustering_costs(work, prices),
    )


def _removed(timeline: Timeline, instant: Instant) -> int:
    """Return how many files a clean, a rollback or a restore deleted; 0 for other actions."""
    match instant.action:
        case Action.CLEAN:
            cleaned = timeline.clean_metadata(instant.time).partitions
            return sum(len(partition.deleted) for partition in cleaned.values())
        case Action.ROLLBACK:
            return _rolled_back(timeline.rollback_metadata(instant.time))
        case Action.RESTORE:
            rollbacks = timeline.restore_metadata(instant.time).rollbacks.values()
            return sum(map(_rolled_back, chain.from_iterable(rollbacks)))
    return 0


def _rolled_back(metadata: RollbackMetadata) -> int:
    """Return how many files a rollback deleted."""
    return sum(len(partition.deleted) for partition in metadata.partitions.values())
