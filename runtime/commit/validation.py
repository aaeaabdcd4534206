"""The validation of a write before publication: its conditions, checked against the store under the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from parquetry.message import Message, Value
from parquetry.runtime.commit.conflicts import (
    Conflict,
    Verdict,
    WriteEffects,
    effects_of_commit,
    find_conflict,
)
from parquetry.runtime.commit.damaged_files import check_published
from parquetry.runtime.commit.inserted_keys import inserted_keys_of
from parquetry.runtime.commit.outcome import WriteOutcome
from parquetry.runtime.commit.recovery import foreign_clustering_conflict
from parquetry.runtime.commit.table_lock import lock_method_of
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.commit.workload_profile import KeyRanges
from parquetry.runtime.errors import CorruptTableError, StaleTimelineError
from parquetry.runtime.sources.ledger import (
    Consumption,
    EntryKind,
    common_files,
    consumed_by,
    equal_full_read,
    history,
    newest_read,
    table_history,
)
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.spec.evolution import is_widening
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.source_paths import normalised_path
from parquetry.runtime.spec.table_spec import Extra, RetentionPolicy, TableSpec
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.applied import check_owner, read_newer
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.effective_writes import EffectiveWrites, invalid_completed_writes
from parquetry.runtime.timeline.instant import Action, Instant, State

SOURCES_KEY: Final = "parquetry.sources"
NONCE_KEY: Final = "parquetry.nonce"

FileSizes: TypeAlias = Mapping[str, Mapping[str, int]]
"""The sizes of files in bytes, by partition and path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A write that may become a commit: its outcome, its effects, and the content of its completed file."""

    outcome: WriteOutcome
    effects: WriteEffects
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchedState:
    """Data that a writer reads before it takes the lock, so that other writers wait less.

    ``timeline`` has cached the commits that completed before. ``inserted`` are the key ranges that they
    inserted, by instant. ``ledger_conflict`` is the conflict that the ledger shows, or None.
    """

    timeline: Timeline
    inserted: Mapping[str, KeyRanges]
    ledger_conflict: Conflict | None


def prefetch(transaction: Transaction, outcome: WriteOutcome) -> PrefetchedState:
    """Read the data that :func:`validate` needs, as far as it exists before the lock is taken.

    Writes that complete afterwards are read under the lock. The ledger is not read again there: source files
    that others consumed after the returned timeline are named in commits that are then checked, and a restore
    in between is detected separately.
    """
    before = transaction.timeline
    timeline = transaction.recent_timeline()
    others = [instant.time for instant in _completed_since(before, timeline)]
    if any(outcome.stats.values()):
        # The validation compares the listed files with all commits of the timeline.
        map_each([i.time for i in timeline.completed_writes], lambda time: _commit_of(timeline, time))
    inserted: dict[str, KeyRanges] = {}
    metadata = zip(others, map_each(others, lambda time: _commit_of(timeline, time)), strict=True)
    known = {time: found for time, found in metadata if found is not None}
    if outcome.footprint.inserted_keys:
        times = list(known)
        keys = map_each(times, lambda time: inserted_keys_of(transaction.store, time, known[time]))
        inserted = dict(zip(times, keys, strict=True))
    with suppress(CorruptTableError):
        # The timeline caches the plans. An error is raised when the validation needs them.
        _ = timeline.groups_in_pending_clustering
    ledger_conflict = _ledger_conflict(transaction, outcome, timeline)
    return PrefetchedState(timeline=timeline, inserted=inserted, ledger_conflict=ledger_conflict)


def list_partitions(store: ObjectStore, outcome: WriteOutcome) -> FileSizes:
    """Return the sizes of all files in the partitions to which the write added files."""
    listings = store.list_each(sorted(partition for partition, stats in outcome.stats.items() if stats))
    return {path: {info.path: info.size_bytes for info in infos} for path, infos in listings.items()}


def validate(
    transaction: Transaction,
    candidate: Candidate,
    prefetched: PrefetchedState,
    current: Timeline,
    listings: FileSizes,
) -> Conflict | None:
    """Return why the write must not be published, or None; the lock must be held.

    Args:
        transaction: The attempt that made the write.
        candidate: The write to validate.
        prefetched: The result of :func:`prefetch`.
        current: The timeline, as read under the lock.
        listings: The result of :func:`list_partitions`, as read under the lock.

    Raises:
        UnsupportedTableError: If the table must no longer be written to.
        CorruptTableError: If files of the partitions that it writes to are missing or damaged.
        ForeignTableError: If the table was applied for another target.
        StaleTimelineError: If the table got another timeline layout, so that ``current`` is not its timeline.
    """
    before = transaction.timeline
    outcome = candidate.outcome
    reason = (
        _locked_otherwise(transaction, current)
        or _missing_state_files(transaction, current)
        or _rolled_back_meanwhile(transaction, current)
        or _savepointed_meanwhile(transaction, current)
        or _missing_file(outcome, listings)
        or _applied_meanwhile(transaction, outcome)
    )
    if reason is not None:
        return Conflict(verdict=Verdict.RETRY, reason=reason)
    _check_published(transaction, outcome, current, listings)
    groups = frozenset() if outcome.operation == CLUSTER else candidate.effects.touched
    if reason := foreign_clustering_conflict(groups, current):
        return Conflict(verdict=Verdict.REFUSED, reason=reason)
    others = _completed_since(before, current)
    return prefetched.ledger_conflict or _gravest_conflict(
        transaction, candidate, others, current, inserted=prefetched.inserted
    )


def revalidate(transaction: Transaction, candidate: Candidate, validated: Timeline) -> Conflict | None:
    """Return why a write that was published must be revoked after the lock was lost, or None.

    The lock must be held again. A writer of this project that removes a lock first rolls back the holder's
    write unless it is published. So if the write was not rolled back, no writer of this project has published
    at the same time. Another program may have: its writes count if they began before this commit was visible
    and completed after the validation. ``validated`` is the timeline of that validation.
    """
    current = validated.reload()
    completed = current.write_at(transaction.instant)
    reason = _missing_state_files(transaction, current)
    if reason is None and (completed is None or not completed.is_completed):
        reason = f"another writer has rolled {transaction.instant} back after it was published"
    if reason is None and transaction.instant in invalid_completed_writes(current):
        reason = f"{transaction.instant} is being rolled back"
    if reason is not None or completed is None:
        return Conflict(verdict=Verdict.RETRY, reason=reason or "")
    visible_ms = current.files[completed.file_name].modified_ms
    unaware = [
        instant
        for instant in _completed_since(validated, current)
        if instant.time != transaction.instant
        and NONCE_KEY not in current.commit_metadata(instant.time).extra
        and _requested_ms(instant, current) <= visible_ms
    ]
    return _gravest_conflict(transaction, candidate, unaware, current, inserted={})


def _ledger_conflict(transaction: Transaction, outcome: WriteOutcome, current: Timeline) -> Conflict | None:
    """Return a conflict if the ledger shows that the consumed data has changed since the source was listed.

    The listing may be much older than the transaction, as Spark had to start or an attempt was lost. A read
    of a Hudi table begins where the ledger ended. If the ledger has advanced since, rows would be ingested
    twice. If a restore has moved it back, rows would never be ingested.
    """
    effective = EffectiveWrites(current)
    for mine in outcome.footprint.consumed:
        if mine.batch is not None:
            if entries := history(transaction.store, mine.source, effective, batch=mine.batch):
                reason = f"{entries[0][0]} has written the same batch of source {mine.source}"
                return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
            continue
        if mine.reading is not None:
            entries = table_history(transaction.store, effective)
            if mine.kind is EntryKind.INGESTED and equal_full_read(entries, mine) is not None:
                reason = f"another run has read the same files of source {mine.source} in full"
                return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
            continue
        entries = table_history(transaction.store, effective)
        listed = set(mine.listed)
        for time, entry in entries:
            is_news = mine.until is None and time not in listed and entry.kind.counts_as_ingested
            if (
                is_news
                and _is_relevant_entry(mine, entry)
                and common_files(mine.files, entry, _path_resolver(mine))
            ):
                reason = f"{time} has consumed the same files of source {mine.source}"
                return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
        last = newest_read(pair for pair in entries if mine.reads_same_table_as(pair[1]))
        end = None if last is None else last.until
        if mine.until is not None and end != mine.since:
            reason = (
                f"source {mine.source} was listed after {mine.since}, and has been read up to {end} since"
            )
            return Conflict(verdict=Verdict.SUPERSEDED, reason=reason)
    return None


def _completed_since(before: Timeline, current: Timeline) -> list[Instant]:
    """Return the writes that completed between two timelines."""
    return [instant for instant in current.completed_writes if not before.is_completed(instant.time)]


def _commit_of(timeline: Timeline, time: str) -> CommitMetadata | None:
    """Return a commit's metadata, or None if it cannot be read yet. It is read again under the lock."""
    try:
        return timeline.commit_metadata(time)
    except (StaleTimelineError, CorruptTableError):
        return None


def _requested_ms(instant: Instant, timeline: Timeline) -> int:
    """Return the time at which a write was requested, in milliseconds, or 0 if its requested file is gone."""
    requested = timeline.files.get(instant.requested.file_name)
    return 0 if requested is None else requested.modified_ms


def _missing_state_files(transaction: Transaction, current: Timeline) -> str | None:
    """Return a message if state files of this write are missing.

    Another writer has rolled it back then.
    """
    for pending in transaction.requested.pending_states:
        if pending.file_name not in current.files:
            return f"another writer has rolled {transaction.instant} back"
    return None


def _rolled_back_meanwhile(transaction: Transaction, current: Timeline) -> str | None:
    """Return a message if this write, or something that it used, was rolled back meanwhile."""
    before = transaction.timeline
    for restore in current.of(Action.RESTORE):
        if not restore.is_completed or not before.contains(
            restore.time, Action.RESTORE, state=State.COMPLETED
        ):
            return f"the table was restored to a savepoint ({restore.time})"
    for rollback in current.of(Action.ROLLBACK):
        if not rollback.is_completed and (
            current.rollback_plan(rollback.time).instant.time == transaction.instant
        ):
            return f"{transaction.instant} is being rolled back by {rollback.time}"
    if victims := invalid_completed_writes(current):
        return f"{victims[0]} is being rolled back"
    first = current.completed_writes[0].time if current.completed_writes else None
    for instant in before.completed_writes:
        # A write that left the timeline at its old end was archived; any other was rolled back.
        if not current.is_completed(instant.time) and (first is None or instant.time > first):
            return f"{instant.time}, which the write built on, was rolled back"
    for instant in before.pending_writes:
        if not current.contains(instant.time) and first is not None and instant.time < first:
            return f"{instant.time}, which was pending, may have been completed and archived meanwhile"
    return None


def _savepointed_meanwhile(transaction: Transaction, current: Timeline) -> str | None:
    """Return a message if a newer instant was savepointed meanwhile.

    Such a savepoint protects the table without this write, although the write is older.
    """
    behind = (time for time in current.savepoints if time > transaction.instant)
    return next(
        (f"a savepoint of {time}, which is newer than this write, was created" for time in behind), None
    )


def _missing_file(outcome: WriteOutcome, listings: FileSizes) -> Message | None:
    """Return a message if a file of the write is missing or has another size."""
    for partition, sizes in listings.items():
        for stat in outcome.stats[partition]:
            if sizes.get(stat.path) != stat.file_size_bytes:
                return Message("the file {file} is missing or has another size", file=Value.file(stat.path))
    return None


def _applied_meanwhile(transaction: Transaction, outcome: WriteOutcome) -> str | None:
    """Return a message if a spec was applied meanwhile that requires other files.

    Apply holds the lock too. Settings that only arrange rows in files do not count. Clustering writes rows
    that the table already has, so two rules suffice for it. The encryption must be the same. No column or
    field may be dropped: the clustered files are newer than the drop, so no reader would look for left-over
    values in them. New columns may be missing from its files, as from any older file.
    """
    table = transaction.table
    newer = read_newer(transaction.store, table.applied, owner=table.owner)
    if newer is None:
        return None
    check_owner(transaction.store.uri, table.owner, project=table.project, applied=newer.ref)
    is_accepted = _accept_clustered_files if outcome.operation == CLUSTER else _make_same_files
    if table.spec is not None and is_accepted(table.spec, newer.spec):
        return None
    return f"record {newer.ref.number} was applied meanwhile, and its spec requires different files"


def _make_same_files(before: TableSpec, now: TableSpec) -> bool:
    """Return whether both specs require the same files, apart from their size, order and retention."""
    return _of_files(before) == _of_files(now)


def _accept_clustered_files(before: TableSpec, now: TableSpec) -> bool:
    """Return whether clustered files written under ``before`` are still valid under ``now``."""
    types = {column.name: parse_type(column.type) for column in now.columns}
    return before.files.encryption_key == now.files.encryption_key and all(
        column.name in types and is_widening(parse_type(column.type), types[column.name])
        for column in before.columns
    )


def _of_files(spec: TableSpec) -> TableSpec:
    """Return the spec without settings that do not invalidate files.

    These are sizing, retention, sources and extras.
    """
    return replace(spec, sizing=SizingPolicy(), retention=RetentionPolicy(), sources=(), extra=Extra())


def _locked_otherwise(transaction: Transaction, current: Timeline) -> str | None:
    """Return a message if the table is locked in another way now, so that this lock excludes nobody.

    Raise UnsupportedTableError if the table was upgraded, or got a metadata table, meanwhile.
    """
    table = replace(transaction.table, config=transaction.table.config_under_lock())
    check_writable(table, current, transaction.store.now_ms())
    if lock_method_of(table) != lock_method_of(transaction.table):
        return "the table is locked in another way now"
    return None


def _gravest_conflict(
    transaction: Transaction,
    candidate: Candidate,
    others: Iterable[Instant],
    current: Timeline,
    *,
    inserted: Mapping[str, KeyRanges],
) -> Conflict | None:
    """Return the gravest conflict with one of the completed writes ``others``, or None.

    ``inserted`` are the key ranges that are already known, by instant; the others are read.
    """
    mine, footprint = candidate.effects, candidate.outcome.footprint
    schema_before = _newest_schema(transaction.timeline)
    conflicts: list[Conflict] = []
    for instant in others:
        metadata = current.commit_metadata(instant.time)
        consumed = tuple(_consumed(transaction.store, instant.time, metadata, footprint.consumed))
        keys = inserted.get(instant.time)
        if keys is None and mine.inserted_keys:
            keys = inserted_keys_of(transaction.store, instant.time, metadata)
        theirs = effects_of_commit(instant.time, metadata, consumed, keys)
        conflict = find_conflict(mine, theirs, footprint=footprint, schema_before=schema_before)
        if conflict is not None:
            conflicts.append(conflict)
    return min(conflicts, key=lambda conflict: list(Verdict).index(conflict.verdict), default=None)


def _check_published(
    transaction: Transaction, outcome: WriteOutcome, current: Timeline, listings: FileSizes
) -> None:
    """Raise CorruptTableError if another file of these partitions differs from what its commit wrote."""
    if not listings:
        return
    # Clustering reads the groups that it replaces in order to rewrite their rows, so they must be intact.
    replaced = () if outcome.operation == CLUSTER else outcome.replaced.items()
    groups = {(partition, file_id) for partition, ids in replaced for file_id in ids}
    sizes = {path: size for listing in listings.values() for path, size in listing.items()}
    check_published(transaction.table, current, sizes, partitions=listings.keys(), replaced=groups)


def _newest_schema(timeline: Timeline) -> str | None:
    """Return the schema of the newest completed write that records one, or None."""
    for instant in reversed(timeline.completed_writes):
        if schema := timeline.commit_metadata(instant.time).schema:
            return schema
    return None


def _consumed(
    store: ObjectStore, time: str, metadata: CommitMetadata, mine: tuple[Consumption, ...]
) -> Iterator[Consumption]:
    """Yield the source data that a completed write and this write both took, by this write's file names."""
    entries = [consumed_by(store, name, time) for name in sorted(_sources(metadata.extra))] if mine else []
    for consumption in mine:
        for entry in filter(None, entries):
            if not _is_relevant_entry(consumption, entry):
                continue
            common = common_files(consumption.files, entry, _path_resolver(consumption))
            if common or consumption.reads_same_table_as(entry):
                yield replace(entry, source=consumption.source, files=common)


def _is_relevant_entry(mine: Consumption, entry: Consumption) -> bool:
    """Return whether an entry counts for this write.

    An entry of another source does not count if the write ingests its files again
    (``ignores_other_sources``).
    """
    return not mine.ignores_other_sources or entry.source == mine.source


def _path_resolver(consumption: Consumption) -> Callable[[str], str]:
    """Return the function that resolves a path relative to the consumption's folder."""
    return str if consumption.directory is None else partial(normalised_path, base=consumption.directory)


def _sources(extra: Mapping[str, str]) -> set[str]:
    """Return the names of the sources that a commit records."""
    try:
        names = parsed_json(extra.get(SOURCES_KEY, "[]"))
    except ValueError:
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
