"""The rules by which writes exclude each other, as pure functions over the effects of two writes.

The rules follow optimistic concurrency control (Kung and Robinson, 1981): data on which a write relies must
not be changed by a write that completed after the first one had read the timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parquetry.message import Message, Text, Value
from parquetry.runtime.commit.outcome import Footprint, KeyRange
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.table_spec import KeyScope
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.versions import FileGroupId

_TABLE_OVERWRITE = "INSERT_OVERWRITE_TABLE"
_OVERWRITES = frozenset({"INSERT_OVERWRITE", _TABLE_OVERWRITE, "DELETE_PARTITION"})


class Verdict(StrEnum):
    """The consequence of a conflict for the write that comes second."""

    SUPERSEDED = "superseded"
    REFUSED = "refused"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The reason why a write cannot be published as it is, and the consequence."""

    verdict: Verdict
    reason: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEffects:
    """The effects of a write that matter to other writes.

    ``merged`` file groups got a new slice, ``replaced`` groups are gone, ``inserted`` partitions got rows
    with new keys, and ``overwritten`` partitions lost all previous rows.
    """

    instant: str
    operation: str
    merged: frozenset[FileGroupId] = frozenset()
    replaced: frozenset[FileGroupId] = frozenset()
    partitions: frozenset[str] = frozenset()
    inserted: frozenset[str] = frozenset()
    overwritten: frozenset[str] = frozenset()
    overwrites_table: bool = False
    schema: str | None = None
    consumed: tuple[Consumption, ...] = ()
    inserted_keys: Mapping[str, KeyRange] = field(default_factory=dict)

    @property
    def touched(self) -> frozenset[FileGroupId]:
        """The existing file groups that the write changed or replaced."""
        return self.merged | self.replaced


def effects_of_commit(
    instant: str,
    metadata: CommitMetadata,
    consumed: tuple[Consumption, ...] = (),
    inserted_keys: Mapping[str, KeyRange] | None = None,
) -> WriteEffects:
    """Return the effects of a completed write of any program, according to its commit metadata.

    Args:
        instant: The instant of the write.
        metadata: Its commit metadata.
        consumed: The source files that the write ingested, from the ledger.
        inserted_keys: The range of inserted keys by partition; a partition without an entry has an unknown
            range.
    """
    overwrites = metadata.operation in _OVERWRITES
    clusters = metadata.operation == CLUSTER
    stats = tuple(metadata.all_stats())
    return WriteEffects(
        instant=instant,
        operation=metadata.operation,
        merged=frozenset((s.partition_path, s.file_id) for s in stats if s.prev_commit is not None),
        replaced=_groups(metadata.replaced),
        partitions=metadata.partitions,
        inserted=frozenset(
            s.partition_path for s in stats if not clusters and (s.num_inserts > 0 or s.prev_commit is None)
        ),
        overwritten=metadata.partitions if overwrites else frozenset(),
        overwrites_table=metadata.operation == _TABLE_OVERWRITE,
        schema=metadata.schema,
        consumed=consumed,
        inserted_keys=inserted_keys or {},
    )


def effects_of_write(instant: str, metadata: CommitMetadata, footprint: Footprint) -> WriteEffects:
    """Return the effects of a write that is about to be published, including those of its footprint."""
    effects = effects_of_commit(instant, metadata, footprint.consumed, footprint.inserted_keys)
    return replace(
        effects,
        partitions=effects.partitions | footprint.overwritten,
        overwritten=effects.overwritten | footprint.overwritten,
        overwrites_table=effects.overwrites_table or footprint.overwrites_table,
    )


def find_conflict(
    mine: WriteEffects, theirs: WriteEffects, *, footprint: Footprint, schema_before: str | None
) -> Conflict | None:
    """Return the reason why ``mine`` must not follow ``theirs``, or None if it may.

    The order of the two instants does not matter, only what ``mine`` had read.

    Args:
        mine: The write that is about to be published.
        theirs: A write that completed after ``mine`` had read the timeline.
        footprint: The data on which ``mine`` relied.
        schema_before: The schema that was valid when ``mine`` read the timeline.
    """
    for mine_consumed in mine.consumed:
        if any(overlaps(mine_consumed, other) for other in theirs.consumed):
            reason = f"{theirs.instant} has consumed the same files of source {mine_consumed.source}"
            return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
    if _both_overwrite(mine, theirs):
        reason = (
            f"{theirs.instant} ({theirs.operation}) has overwritten a partition that this write overwrites"
        )
        return Conflict(verdict=Verdict.REFUSED, reason=reason)
    retry = _retry_reason(mine, theirs, footprint, schema_before)
    return None if retry is None else Conflict(verdict=Verdict.RETRY, reason=retry)


def conflicting_groups(mine: WriteEffects, theirs: WriteEffects) -> frozenset[FileGroupId]:
    """Return the file groups that a clustering must leave out because ``theirs`` changed them."""
    gone = theirs.overwritten
    return frozenset(
        group
        for group in mine.replaced
        if group in theirs.touched or theirs.overwrites_table or group[0] in gone
    )


def overlaps(mine: Consumption, theirs: Consumption) -> bool:
    """Return whether two writes consumed the same data of the same source."""
    if mine.source != theirs.source:
        return False
    if mine.query_id is not None and (mine.query_id, mine.batch_id) == (theirs.query_id, theirs.batch_id):
        return True
    if mine.until is not None and theirs.until is not None:
        return True
    if mine.reading is not None and mine.reading == theirs.reading:
        return True
    return not {f.path for f in mine.files}.isdisjoint(f.path for f in theirs.files)


def same_schema(one: str, other: str) -> bool:
    """Return whether two Avro schemas are the same JSON value; text that is not JSON must be identical."""
    try:
        return one == other or parsed_json(one) == parsed_json(other)
    except ValueError:
        return False


def _both_overwrite(mine: WriteEffects, theirs: WriteEffects) -> bool:
    """Return whether both writes overwrite the same partition."""
    if not (mine.overwritten or mine.overwrites_table):
        return False
    if mine.overwrites_table and theirs.overwritten:
        return True
    return theirs.overwrites_table or not mine.overwritten.isdisjoint(theirs.overwritten)


def _retry_reason(
    mine: WriteEffects, theirs: WriteEffects, footprint: Footprint, schema_before: str | None
) -> Text | None:
    who = f"{theirs.instant} ({theirs.operation})"
    if common := mine.touched & theirs.touched:
        partition, file_id = min(common)
        return Message(
            "{write} has changed file group {file_group} of partition {partition}",
            write=who,
            file_group=file_id,
            partition=Value.partition(partition),
        )
    if theirs.overwrites_table or not mine.partitions.isdisjoint(theirs.overwritten):
        return f"{who} has overwritten a partition that this write changes"
    if theirs.inserted and (mine.overwrites_table or not mine.overwritten.isdisjoint(theirs.inserted)):
        return f"{who} has inserted into a partition that this write overwrites"
    if footprint.looks_up_keys and may_insert_same_key(mine, theirs, footprint.key_scope):
        return f"{who} may have inserted a key that this write inserts"
    if _has_schema_changed(mine.schema, theirs.schema, schema_before):
        return f"{who} has changed the schema of the table"
    return None


def may_insert_same_key(mine: WriteEffects, theirs: WriteEffects, scope: KeyScope) -> bool:
    """Return whether both writes may have inserted the same key. Unknown key ranges overlap every other."""
    if scope is KeyScope.PARTITION:
        return any(
            _ranges_overlap(mine.inserted_keys.get(p), theirs.inserted_keys.get(p))
            for p in mine.inserted & theirs.inserted
        )
    return any(
        _ranges_overlap(mine.inserted_keys.get(p), theirs.inserted_keys.get(q))
        for p in mine.inserted
        for q in theirs.inserted
    )


def _ranges_overlap(one: KeyRange | None, other: KeyRange | None) -> bool:
    """Return whether the ranges overlap. None stands for an unknown range, which overlaps every other."""
    return one is None or other is None or one.overlaps(other)


def _has_schema_changed(mine: str | None, theirs: str | None, before: str | None) -> bool:
    """Return whether ``theirs`` changed the schema to another one than that of ``mine``."""
    if mine is None or theirs is None:
        return False
    if before is not None and same_schema(theirs, before):
        return False
    return not same_schema(mine, theirs)


def _groups(replaced: Mapping[str, tuple[str, ...]]) -> frozenset[FileGroupId]:
    return frozenset((partition, file_id) for partition, ids in replaced.items() for file_id in ids)
