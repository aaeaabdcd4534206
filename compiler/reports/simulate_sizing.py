"""Simulated sizing of a write: the runtime's own decision on given or live file sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from parquetry.errors import UsageError
from parquetry.message import command
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.record_size import FileSample, estimate_record_size
from parquetry.runtime.layout.simulation import simulate_sizing
from parquetry.runtime.layout.sizing import SizingPlan, plan_inserts
from parquetry.runtime.spec.masking import masked_partition
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.rereading import retry_stale
from parquetry.text import shell

DEFAULT_RECORD_SIZE_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Given limits; None takes that of the table, or the default without a table."""

    max_file_size_bytes: int | None = None
    small_file_limit_bytes: int | None = None
    insert_split_size: int | None = None
    record_size_bytes: int | None = None
    min_fill: float | None = None

    def over(self, policy: SizingPolicy) -> SizingPolicy:
        """Return the policy with the given limits in place of its own."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return replace(policy, **{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The plan of a simulated write. ``table`` and ``partition`` are None for given sizes."""

    plan: SizingPlan
    policy: SizingPolicy
    table: str | None = None
    partition: str | None = None
    record_size_origin: str = "given"


def simulate_given(file_sizes: Sequence[int], *, inserts: int, limits: Limits) -> Simulation:
    """Return the plan for files of the given sizes, named File_1, File_2, ... in order."""
    policy = limits.over(SizingPolicy())
    record = policy.record_size_bytes or DEFAULT_RECORD_SIZE_BYTES
    named = [(f"File_{number}", size) for number, size in enumerate(file_sizes, start=1)]
    plan = simulate_sizing(named, record_size_bytes=record, inserts=inserts, policy=policy)
    origin = "given" if policy.record_size_bytes else "assumed"
    return Simulation(plan=plan, policy=policy, record_size_origin=origin)


@retry_stale
def simulate_table(
    store: ObjectStore,
    *,
    inserts: int,
    limits: Limits,
    partition: str | None,
    declared: TableSpec | None,
) -> Simulation:
    """Return the plan for the live files of one partition, under the table's limits or the given ones.

    Args:
        store: the store of the table.
        inserts: the number of rows to insert.
        limits: limits in place of the table's.
        partition: the partition; None if the table has only one.
        declared: the declared spec, whose personal data is masked beside that of the applied one.

    Raises:
        UsageError: if the partition is missing or unknown; the message lists partitions, masked.

    """
    handle = open_table(store, declared=declared)
    timeline = handle.timeline()
    view = handle.view(timeline)
    chosen = _partition(view.partitions(), partition, table=handle.name, shown_by=handle.shown_by)
    slices = view.slices(chosen)
    policy = limits.over(handle.effective_spec(timeline).sizing)
    learned = estimate_record_size(_samples(timeline, slices))
    record = policy.record_size_bytes or learned or DEFAULT_RECORD_SIZE_BYTES
    origin = "given" if policy.record_size_bytes else "learned" if learned else "assumed"
    return Simulation(
        plan=plan_inserts(slices=slices, inserts=inserts, record_size_bytes=record, policy=policy),
        policy=policy,
        table=handle.name,
        partition=chosen,
        record_size_origin=origin,
    )


def _partition(
    partitions: Sequence[str], wanted: str | None, *, table: str, shown_by: TableSpec | None
) -> str:
    """Return the wanted partition, or the only one; raise UsageError if the choice is unclear."""
    if wanted is None:
        if len(partitions) > 1:
            named = list(dict.fromkeys(masked_partition(path, shown_by) for path in partitions))
            shown = ", ".join(named[:_SHOWN]) + (", ..." if len(named) > _SHOWN else "")
            raise UsageError(
                "table {table} has {partitions} partitions and each is sized for itself: choose one with "
                "--partition ({names})",
                table=table,
                partitions=len(partitions),
                names=shown,
            )
        return partitions[0] if partitions else ""
    if wanted not in partitions:
        lists = command("inspect", shell.path_word(table))
        raise UsageError(
            "table {table} has no partition {partition!r}; {command} lists them",
            table=table,
            partition=wanted,
            command=lists,
        )
    return wanted


def _samples(timeline: Timeline, slices: Sequence[FileSlice]) -> list[FileSample]:
    """Return the rows of each file as its commit counted them; files of archived commits are left out."""
    samples = []
    for file_slice in slices:
        if not timeline.is_completed(file_slice.instant):
            continue
        stats = timeline.commit_metadata(file_slice.instant).stats.get(file_slice.partition, ())
        rows = next((stat.num_writes for stat in stats if stat.file_id == file_slice.file_id), 0)
        samples.append(FileSample(instant=file_slice.instant, rows=rows, data_bytes=file_slice.size_bytes))
    return samples


_SHOWN = 8
