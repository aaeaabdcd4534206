"""Which writes exclude each other: pure rules over what two writes did.

The rules are those of optimistic concurrency control (Kung and Robinson, 1981): what a write
relied on must not have been changed by a write that completed after it had read the timeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from parquetry.message import Message, Value
from parquetry.runtime.commit.outcome import Footprint, KeyRange, WriteOutcome
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.table_spec import KeyScope
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.versions import FileGroupId

_TABLE_OVERWRITE = "INSERT_OVERWRITE_TABLE"
_OVERWRITES = frozenset({"INSERT_OVERWRITE", _TABLE_OVERWRITE, "DELETE_PARTITION"})


class Verdict(StrEnum):
    """What becomes of the write that comes second."""

    SUPERSEDED = "superseded"
    REFUSED = "refused"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why a write cannot be published as it is."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A write as far as others have to do with it.

    ``merged`` groups got a new slice, ``replaced`` groups are gone, ``inserted`` partitions got
    rows with new keys, ``overwritten`` ones lost all they had.
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
        """The file groups that existed before and do not read the same any more."""
        return self.merged | self.replaced


def work_of_commit(
    instant: str,
    metadata: CommitMetadata,
    consumed: tuple[Consumption, ...] = (),
    inserted_keys: Mapping[str, KeyRange] | None = None,
) -> Work:
    """What a completed write did, whoever made it, by what its commit says."""
    overwrites = metadata.operation in _OVERWRITES
    clusters = metadata.operation == CLUSTER
    stats = tuple(metadata.all_stats())
    return Work(
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


def work_of_outcome(instant: str, outcome: WriteOutcome) -> Work:
    """What a write that is about to be published did and relied on."""
    metadata = CommitMetadata(
        operation=outcome.operation,
        stats=outcome.stats,
        replaced=outcome.replaced,
        extra={"schema": outcome.schema_json},
    )
    work = work_of_commit(instant, metadata, outcome.footprint.consumed)
    footprint = outcome.footprint
    return Work(
        instant=instant,
        operation=work.operation,
        merged=work.merged,
        replaced=work.replaced,
        partitions=work.partitions | footprint.overwritten,
        inserted=work.inserted,
        overwritten=work.overwritten | footprint.overwritten,
        overwrites_table=work.overwrites_table or footprint.overwrites_table,
        schema=work.schema,
        consumed=work.consumed,
        inserted_keys=footprint.inserted_keys,
    )


def find_conflict(
    mine: Work, theirs: Work, *, footprint: Footprint, schema_before: str | None
) -> Conflict | None:
    """Why ``mine`` may not follow ``theirs``, None when it may.

    ``theirs`` completed after ``mine`` had read the timeline; ``schema_before`` is the schema that
    was valid then. Neither instant's order matters: what counts is what was seen.
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


def conflicting_groups(mine: Work, theirs: Work) -> frozenset[FileGroupId]:
    """The file groups that a clustering run has to leave out because ``theirs`` changed them."""
    gone = theirs.overwritten
    return frozenset(
        group
        for group in mine.replaced
        if group in theirs.touched or theirs.overwrites_table or group[0] in gone
    )


def overlaps(mine: Consumption, theirs: Consumption) -> bool:
    """Whether two writes took the same thing from the same source."""
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
    """Whether two Avro schemas are the same JSON value; what is no JSON is only the same as itself."""
    try:
        return one == other or parsed_json(one) == parsed_json(other)
    except ValueError:
        return False


def _both_overwrite(mine: Work, theirs: Work) -> bool:
    if not (mine.overwritten or mine.overwrites_table):
        return False
    if mine.overwrites_table and theirs.overwritten:
        return True
    return theirs.overwrites_table or not mine.overwritten.isdisjoint(theirs.overwritten)


def _retry_reason(mine: Work, theirs: Work, footprint: Footprint, schema_before: str | None) -> str | None:
    who = f"{theirs.instant} ({theirs.operation})"
    if common := mine.touched & theirs.touched:
        partition, file_id = min(common)
        return Message(f"{who} has changed file group {file_id} of partition ", Value.partition(partition))
    if theirs.overwrites_table or not mine.partitions.isdisjoint(theirs.overwritten):
        return f"{who} has overwritten a partition that this write changes"
    if theirs.inserted and (mine.overwrites_table or not mine.overwritten.isdisjoint(theirs.inserted)):
        return f"{who} has inserted into a partition that this write overwrites"
    if footprint.looks_up_keys and may_insert_same_key(mine, theirs, footprint.key_scope):
        return f"{who} may have inserted a key that this write inserts"
    if _schema_moved(mine.schema, theirs.schema, schema_before):
        return f"{who} has changed the schema of the table"
    return None


def may_insert_same_key(mine: Work, theirs: Work, scope: KeyScope) -> bool:
    """Whether both may have inserted one key, as far as the ranges of their keys are known."""
    if scope is KeyScope.PARTITION:
        return any(
            _ranges_meet(mine.inserted_keys.get(p), theirs.inserted_keys.get(p))
            for p in mine.inserted & theirs.inserted
        )
    return any(
        _ranges_meet(mine.inserted_keys.get(p), theirs.inserted_keys.get(q))
        for p in mine.inserted
        for q in theirs.inserted
    )


def _ranges_meet(one: KeyRange | None, other: KeyRange | None) -> bool:
    return one is None or other is None or one.overlaps(other)


def _schema_moved(mine: str | None, theirs: str | None, before: str | None) -> bool:
    if mine is None or theirs is None:
        return False
    if before is not None and same_schema(theirs, before):
        return False
    return not same_schema(mine, theirs)


def _groups(replaced: Mapping[str, tuple[str, ...]]) -> frozenset[FileGroupId]:
    return frozenset((partition, file_id) for partition, ids in replaced.items() for file_id in ids)
