"""Whether a write may be published: what has to hold under the lock, checked against the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from parquetry.message import Message, Value
from parquetry.runtime.commit.conflicts import (
    Conflict,
    Verdict,
    find_conflict,
    work_of_commit,
    work_of_outcome,
)
from parquetry.runtime.commit.damaged_files import check_published
from parquetry.runtime.commit.inserted_keys import inserted_keys_of
from parquetry.runtime.commit.outcome import WriteOutcome
from parquetry.runtime.commit.recovery import clustered_by_hudi
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.commit.workload_profile import KeyRanges
from parquetry.runtime.errors import CorruptTableError, StaleTimelineError
from parquetry.runtime.sources.ledger import (
    Consumption,
    EntryKind,
    consumed_by,
    history,
    in_common,
    newest_until,
    table_history,
    who_read,
)
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.evolution import is_widening
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.source_paths import place_of
from parquetry.runtime.spec.table_spec import Extra, RetentionPolicy, TableSpec
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.applied import check_owner, read_newer
from parquetry.runtime.table.open import check_writable
from parquetry.runtime.table.partition_metadata import partition_metadata_path, put_partition_metadata
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.effective_writes import EffectiveWrites, completed_being_rolled_back
from parquetry.runtime.timeline.instant import Action, Instant, State

SOURCES_KEY: Final = "parquetry.sources"
NONCE_KEY: Final = "parquetry.nonce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What a writer has read before it takes the lock, so that others need not wait for it.

    ``timeline`` remembers what the writes did that completed before, ``inserted`` between which keys they
    inserted, by instant. ``taken`` is what the ledger says against the write.
    """

    timeline: Timeline
    inserted: Mapping[str, KeyRanges]
    taken: Conflict | None


def read_ahead(transaction: Transaction, outcome: WriteOutcome) -> Ahead:
    """Read what :func:`validate` will ask for, as far as it is there already.

    What completes afterwards is read under the lock. The ledger is not asked again there: what others
    took after ``Ahead.timeline`` they say in commits that are then looked at, and a restore between is
    noticed by itself.
    """
    before = transaction.timeline
    timeline = before.reload()
    others = [instant.time for instant in _completed_since(before, timeline)]
    if any(outcome.stats.values()):
        # What is to be there beside the files of the write.
        map_each([i.time for i in timeline.completed_writes], lambda time: _commit_of(timeline, time))
    inserted: dict[str, KeyRanges] = {}
    metadata = zip(others, map_each(others, lambda time: _commit_of(timeline, time)), strict=True)
    known = {time: found for time, found in metadata if found is not None}
    if outcome.footprint.inserted_keys:
        times = list(known)
        keys = map_each(times, lambda time: inserted_keys_of(transaction.store, time, known[time]))
        inserted = dict(zip(times, keys, strict=True))
    with suppress(CorruptTableError):
        # Remembered; whoever needs it is told then.
        _ = timeline.groups_in_pending_clustering
    taken = _taken_before(transaction, outcome, timeline)
    return Ahead(timeline=timeline, inserted=inserted, taken=taken)


def validate(transaction: Transaction, outcome: WriteOutcome, ahead: Ahead, now: Timeline) -> Conflict | None:
    """Why the write may not be published, to be called while the lock is held; ``now`` was read under it.

    Raises UnsupportedTableError when the table may not be written to any more, CorruptTableError when files
    of the partitions that it writes to are gone or damaged, ForeignTableError when it was applied for
    another target.
    """
    before = transaction.timeline
    reason = (
        _damaged_files(transaction, now)
        or _rolled_back_meanwhile(transaction, now)
        or _savepointed_meanwhile(transaction, now)
        or _missing_data(transaction, outcome, now)
        or _applied_meanwhile(transaction, outcome)
    )
    if reason is not None:
        return Conflict(verdict=Verdict.RETRY, reason=reason)
    _check_table(transaction, now)
    groups = (
        frozenset() if outcome.operation == CLUSTER else work_of_outcome(transaction.instant, outcome).touched
    )
    if reason := clustered_by_hudi(groups, now):
        return Conflict(verdict=Verdict.REFUSED, reason=reason)
    others = _completed_since(before, now)
    return ahead.taken or _first_conflict(transaction, outcome, others, now, inserted=ahead.inserted)


def revalidate(transaction: Transaction, outcome: WriteOutcome, validated: Timeline) -> Conflict | None:
    """Why a published write may not stand, after the lock was lost; the lock is held again.

    Who takes a lock of ours away rolls its write back first unless it is published already. So if
    it was not, nobody of ours has published beside it. Another program may have: what it began
    before this commit could be seen counts, as far as it completed after the validation.
    """
    now = validated.reload()
    completed = transaction.state(State.COMPLETED)
    reason = _damaged_files(transaction, now)
    if reason is None and completed.file_name not in now.files:
        reason = f"another writer has rolled {transaction.instant} back after it was published"
    if reason is None and transaction.instant in completed_being_rolled_back(now):
        reason = f"{transaction.instant} is being rolled back"
    if reason is not None:
        return Conflict(verdict=Verdict.RETRY, reason=reason)
    visible_ms = now.files[completed.file_name].modified_ms
    unaware = [
        instant
        for instant in _completed_since(validated, now)
        if instant.time != transaction.instant
        and NONCE_KEY not in now.commit_metadata(instant.time).extra
        and _begun_ms(instant, now) <= visible_ms
    ]
    return _first_conflict(transaction, outcome, unaware, now, inserted={})


def _taken_before(transaction: Transaction, outcome: WriteOutcome, now: Timeline) -> Conflict | None:
    """Whether the ledger has changed under what the write took since its source was listed.

    That may be long before the transaction began, while Spark started or in an attempt that lost. Of a
    Hudi table the write took what follows where the ledger ended: if that has moved on, rows would be
    taken twice, and if a restore has moved it back, rows would never be taken.
    """
    effective = EffectiveWrites(now, transaction.table.config.archive_folder)
    for mine in outcome.footprint.consumed:
        if mine.batch is not None:
            if entries := history(transaction.store, mine.source, effective, batch=mine.batch):
                reason = f"{entries[0][0]} has written the same batch of source {mine.source}"
                return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
            continue
        if mine.reading is not None:
            entries = table_history(transaction.store, effective)
            if mine.kind is EntryKind.INGESTED and who_read(entries, mine) is not None:
                reason = f"another run has read the same files of source {mine.source} in full"
                return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
            continue
        entries = table_history(transaction.store, effective)
        listed = set(mine.listed)
        for time, entry in entries:
            is_news = mine.until is None and time not in listed and entry.kind.takes
            if is_news and _counts_for(mine, entry) and in_common(mine.files, entry, _place_in(mine)):
                reason = f"{time} has consumed the same files of source {mine.source}"
                return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
        end = newest_until(pair for pair in entries if mine.is_of_one_table_with(pair[1]))
        if mine.until is not None and end != mine.since:
            reason = (
                f"source {mine.source} was listed after {mine.since}, and has been read up to {end} since"
            )
            return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
    return None


def _completed_since(before: Timeline, now: Timeline) -> list[Instant]:
    return [instant for instant in now.completed_writes if not before.is_completed(instant.time)]


def _commit_of(timeline: Timeline, time: str) -> CommitMetadata | None:
    """What a completed write did; None when it cannot be read now: it is read again under the lock."""
    try:
        return timeline.commit_metadata(time)
    except (StaleTimelineError, CorruptTableError):
        return None


def _begun_ms(instant: Instant, timeline: Timeline) -> int:
    """When a write was announced; the beginning of time when it left no announcement."""
    requested = timeline.files.get(instant.with_state(State.REQUESTED).file_name)
    return 0 if requested is None else requested.modified_ms


def _damaged_files(transaction: Transaction, now: Timeline) -> str | None:
    for state in (State.REQUESTED, State.INFLIGHT):
        if transaction.state(state).file_name not in now.files:
            return f"another writer has rolled {transaction.instant} back"
    return None


def _rolled_back_meanwhile(transaction: Transaction, now: Timeline) -> str | None:
    """Whether something that the write built on was taken back."""
    before = transaction.timeline
    for restore in now.of(Action.RESTORE):
        if not restore.is_completed or not before.contains(
            restore.time, Action.RESTORE, state=State.COMPLETED
        ):
            return f"the table was restored to a savepoint ({restore.time})"
    for rollback in now.of(Action.ROLLBACK):
        if not rollback.is_completed and (
            now.rollback_plan(rollback.time).instant.time == transaction.instant
        ):
            return f"{transaction.instant} is being rolled back by {rollback.time}"
    if victims := completed_being_rolled_back(now):
        return f"{victims[0]} is being rolled back"
    first = now.completed_writes[0].time if now.completed_writes else None
    for instant in before.completed_writes:
        # What left the timeline at its old end was archived, anything else was undone.
        if not now.is_completed(instant.time) and (first is None or instant.time > first):
            return f"{instant.time}, which the write built on, was rolled back"
    for instant in before.pending_writes:
        if not now.contains(instant.time) and first is not None and instant.time < first:
            return f"{instant.time}, which was pending, may have been completed and archived meanwhile"
    return None


def _savepointed_meanwhile(transaction: Transaction, now: Timeline) -> str | None:
    """Whether a savepoint lies behind: it protects the table without this write, which would be in it."""
    behind = (time for time in now.savepoints if time > transaction.instant)
    return next((f"{time} was savepointed, which is newer than this write" for time in behind), None)


def _missing_data(transaction: Transaction, outcome: WriteOutcome, now: Timeline) -> str | None:
    """Whether every file is there with its size, in a folder that Hudi takes for a partition.

    CorruptTableError when another file is not there as its commit wrote it.
    """
    store = transaction.store
    partitions = sorted(partition for partition, stats in outcome.stats.items() if stats)
    listings = map_each(partitions, lambda path: {i.path: i.size_bytes for i in store.list(path)})
    for partition, sizes in zip(partitions, listings, strict=True):
        for stat in outcome.stats[partition]:
            if sizes.get(stat.path) != stat.file_size_bytes:
                return Message("the file ", Value.file(stat.path), " is not there as it was written")
        if partition_metadata_path(partition) not in sizes:
            put_partition_metadata(store, partition, instant=transaction.instant)
    there = {path: size for sizes in listings for path, size in sizes.items()}
    if partitions:
        # Clustering has read the groups that it replaces, to write their rows anew.
        replaced = () if outcome.operation == CLUSTER else outcome.replaced.items()
        groups = {(partition, file_id) for partition, ids in replaced for file_id in ids}
        check_published(transaction.table, now, there, partitions=partitions, replaced=groups)
    return None


def _applied_meanwhile(transaction: Transaction, outcome: WriteOutcome) -> str | None:
    """Whether another spec was applied since, by which the files would not be what they are.

    Who applies holds the lock too. What only decides how rows lie in files does not count. Clustering
    writes rows that the table has, so that to it only their encryption counts, and that no column or
    field went: its files are newer than the drop, so that nobody would look for left-over values in
    them. Columns that came are missing from them, as they are from any older file.
    """
    table = transaction.table
    newer = read_newer(transaction.store, table.applied, owner=table.owner)
    if newer is None:
        return None
    check_owner(transaction.store.uri, table.owner, project=table.project, applied=newer.ref)
    suits = _suit_clustered if outcome.operation == CLUSTER else _suit
    if table.spec is not None and suits(table.spec, newer.spec):
        return None
    return f"record {newer.ref.number} was applied meanwhile, and its spec wants other files"


def _suit(before: TableSpec, now: TableSpec) -> bool:
    return _of_files(before) == _of_files(now)


def _suit_clustered(before: TableSpec, now: TableSpec) -> bool:
    types = {column.name: parse_type(column.type) for column in now.columns}
    return before.files.encryption_key == now.files.encryption_key and all(
        column.name in types and is_widening(parse_type(column.type), types[column.name])
        for column in before.columns
    )


def _of_files(spec: TableSpec) -> TableSpec:
    """The part of a spec that says which files are right: not how large, how ordered, or how long kept."""
    return replace(spec, sizing=SizingPolicy(), retention=RetentionPolicy(), sources=(), extra=Extra())


def _check_table(transaction: Transaction, now: Timeline) -> None:
    """Raise UnsupportedTableError when the table was upgraded, or got a metadata table, meanwhile."""
    store = transaction.store
    config = transaction.table.confirmed_config()
    check_writable(replace(transaction.table, config=config), now, store.now_ms())


def _first_conflict(
    transaction: Transaction,
    outcome: WriteOutcome,
    others: Iterable[Instant],
    now: Timeline,
    *,
    inserted: Mapping[str, KeyRanges],
) -> Conflict | None:
    """The gravest conflict with one of these completed writes; ``inserted`` is known of some."""
    mine = work_of_outcome(transaction.instant, outcome)
    schema_before = _newest_schema(transaction.timeline)
    found: list[Conflict] = []
    for instant in others:
        metadata = now.commit_metadata(instant.time)
        consumed = tuple(_consumed(transaction.store, instant.time, metadata, outcome.footprint.consumed))
        keys = inserted.get(instant.time)
        if keys is None and mine.inserted_keys:
            keys = inserted_keys_of(transaction.store, instant.time, metadata)
        theirs = work_of_commit(instant.time, metadata, consumed, keys)
        conflict = find_conflict(mine, theirs, footprint=outcome.footprint, schema_before=schema_before)
        if conflict is not None:
            found.append(conflict)
    return min(found, key=lambda conflict: list(Verdict).index(conflict.verdict), default=None)


def _newest_schema(timeline: Timeline) -> str | None:
    for instant in reversed(timeline.completed_writes):
        if schema := timeline.commit_metadata(instant.time).schema:
            return schema
    return None


def _consumed(
    store: ObjectStore, time: str, metadata: CommitMetadata, mine: tuple[Consumption, ...]
) -> Iterator[Consumption]:
    """What a completed write took of what this write takes too, with files named as this write names them."""
    entries = [consumed_by(store, name, time) for name in sorted(_sources(metadata.extra))] if mine else []
    for consumption in mine:
        for entry in filter(None, entries):
            if not _counts_for(consumption, entry):
                continue
            common = in_common(consumption.files, entry, _place_in(consumption))
            if common or consumption.is_of_one_table_with(entry):
                yield replace(entry, source=consumption.source, files=common)


def _counts_for(mine: Consumption, entry: Consumption) -> bool:
    """Return False for an entry of another source if the write ingests again what those have ingested."""
    return not mine.apart or entry.source == mine.source


def _place_in(consumption: Consumption) -> Callable[[str], str]:
    """Which file a path means where the consumption's paths start."""
    return str if consumption.directory is None else partial(place_of, base=consumption.directory)


def _sources(extra: Mapping[str, str]) -> set[str]:
    try:
        names = parsed_json(extra.get(SOURCES_KEY, "[]"))
    except ValueError:
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
