"""Synchronisation: the entry of a table in a catalog follows the table.

Partitions are those that the commits since the last sync wrote to. They are looked up, registered and updated
in batches; the folders of the table are listed for the first sync alone. The entry itself is replaced last,
with the instant up to which it follows the table, so that a sync that died is repeated. If nothing changed,
nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote

from parquetry.message import Message, Text, Value, command
from parquetry.runtime.catalog.entry import (
    LAST_SYNC,
    CatalogPartition,
    CatalogTable,
    EntryDifference,
    catalog_table,
    definition_digest,
    differences,
    is_below,
    merged,
    same_columns,
    same_location,
    shown_differences,
)
from parquetry.runtime.catalog.model import Catalog, KeyValues
from parquetry.runtime.errors import CatalogError, StalePlanError, UnsupportedTableError
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.consistent_read import read_consistently
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.schema import described, live_columns
from parquetry.runtime.table.view import FileSystemView, IncrementalSlices
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import SCHEMA_PRESERVING_OPERATIONS, CommitMetadata

_WITHOUT_VALUES: Final = ("timestamp", "timestamp_ntz", "binary")
"""Types whose values partition paths spell in another way than Hive. Such keys are registered as texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """The changes of a sync to a catalog.

    ``place`` names the entry, ``instant`` is the write up to which it follows the table. ``changes`` are the
    paths of the definition that were written, none for a new entry. ``warnings`` are findings that need
    attention although the sync did not fail.
    """

    place: str
    instant: str | None
    created: bool = False
    changes: tuple[str, ...] = ()
    partitions_added: int = 0
    partitions_updated: int = 0
    partitions_dropped: int = 0
    warnings: tuple[Text, ...] = ()

    @property
    def wrote(self) -> bool:
        """True if the definition or a partition was written."""
        partitions = self.partitions_added or self.partitions_updated or self.partitions_dropped
        return bool(self.created or self.changes or partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPreview:
    """The changes that a sync would make, read without writing.

    ``columns`` counts those of the new entry. ``definition`` is the digest of the definition that was read,
    None if there is no entry.
    """

    place: str
    created: bool
    columns: int
    changes: tuple[EntryDifference, ...] = ()
    partitions_added: int = 0
    partitions_updated: int = 0
    definition: str | None = None

    @property
    def is_empty(self) -> bool:
        """True if a sync would leave the definition as it is."""
        return not self.created and not self.changes


def sync(
    table: TableHandle,
    catalog: Catalog,
    *,
    restores: bool,
    drops: bool = False,
    approved: SyncPreview | None = None,
) -> SyncResult:
    """Bring the entry of a table in a catalog to the newest state of the table.

    Args:
        table: The table.
        catalog: The entry of the table.
        restores: Whether a missing entry is created, and a definition that others wrote or changed is
            replaced by that of the table. If False, the definition stays, and the result has a warning.
        drops: Whether partitions without files are removed from the catalog, if they lie in the table.
        approved: What a reviewer saw of the entry. None if nobody did.

    Raises:
        CatalogError: If the catalog fails, if another table or another format has the name, or if there is
            no entry and ``restores`` is False.
        StalePlanError: If another program changed or removed the entry since it was approved.
        UnsupportedTableError: If the path of a partition does not have a value for each key.
        ConflictError: If cleans or rollbacks interfere with each listing of the table.
        StaleTimelineError: If the table got another timeline layout meanwhile.
    """
    stored, timeline = catalog.table(), table.timeline()
    columns = live_columns(table.store, timeline, table.config)
    wanted = entry_of(table, catalog, described(columns, table.spec))
    result = SyncResult(place=catalog.place, instant=timeline.last_before_pending())
    if approved is not None:
        _check_approved(catalog, stored, approved)
    if stored is None and not restores:
        raise CatalogError(
            "{place}: the table is not in the catalog, which is left so; {command} registers it",
            place=catalog.place,
            command=command("sync"),
        )
    if stored is None:
        entry = wanted if wanted.partition_keys else _followed(wanted, result.instant)
        catalog.create(entry)
        result, stored = replace(result, created=True), entry
    else:
        check_same_table(catalog, stored, wanted)
        result = replace(result, changes=differences(stored, wanted))
        if result.changes and stored.has_definition_of_others and not restores:
            result, wanted = _without_changes(result), stored
    work = _partition_work(
        table,
        timeline,
        catalog,
        stored=None if result.created else stored,
        wanted=wanted,
        changed=bool(result.changes),
        drops=drops,
    )
    # A timeline that is being deleted lacks partitions.
    table.check_layout()
    catalog.add(wanted, work.missing)
    catalog.update(wanted, work.differing)
    catalog.drop(work.gone)
    result = replace(
        result,
        partitions_added=len(work.missing),
        partitions_updated=len(work.differing),
        partitions_dropped=len(work.gone),
    )
    instant = max(result.instant or "", stored.last_sync or "") or None
    wrote = result.created or result.partitions_added or result.partitions_updated
    follows = instant != stored.last_sync and (wrote or _is_far_behind(timeline, stored.last_sync))
    if result.changes or follows:
        catalog.replace(_followed(merged(stored, wanted), instant), keeps_version=bool(result.changes))
    return result


def preview(
    catalog: Catalog, *, stored: CatalogTable | None, wanted: CatalogTable, table: TableHandle | None
) -> SyncPreview:
    """Return what a sync would write to make an entry the wanted one.

    The partitions are counted only if the entry is new, for which the table is listed, or its definition
    changes, which every registered partition must follow.

    Args:
        catalog: The entry of the table.
        stored: The entry as :meth:`Catalog.table` returned it.
        wanted: The entry that the table will have.
        table: The table, None if it does not exist yet.
    """
    changes = () if stored is None else shown_differences(stored, wanted)
    found = SyncPreview(
        place=catalog.place,
        created=stored is None,
        columns=len(wanted.columns) + len(wanted.partition_keys),
        changes=changes,
        definition=_digest(stored),
    )
    if table is None or (stored is not None and not changes):
        return found
    work = _partition_work(
        table, table.timeline(), catalog, stored=stored, wanted=wanted, changed=bool(changes), drops=False
    )
    return replace(found, partitions_added=len(work.missing), partitions_updated=len(work.differing))


def _check_approved(catalog: Catalog, stored: CatalogTable | None, approved: SyncPreview) -> None:
    """Raise StalePlanError if another program changed or removed an entry since it was approved."""
    is_of_others = stored is None or stored.has_definition_of_others
    if is_of_others and _digest(stored) != approved.definition:
        raise StalePlanError(
            "{place}: another program changed the entry in the catalog after the plan; plan again",
            place=catalog.place,
        )


def _digest(stored: CatalogTable | None) -> str | None:
    return None if stored is None else definition_digest(stored)


def _without_changes(result: SyncResult) -> SyncResult:
    """Return the result of a sync that leaves a definition that others changed."""
    warning = Message(
        "{place}: another program changed the entry in the catalog ({paths}), which is left so; {command} "
        "restores it",
        place=result.place,
        paths=", ".join(result.changes),
        command=command("sync"),
    )
    return replace(result, changes=(), warnings=(*result.warnings, warning))


def _followed(entry: CatalogTable, instant: str | None) -> CatalogTable:
    """Return the entry as one that follows the table up to an instant."""
    if instant is None:
        return entry
    return replace(entry, parameters={**entry.parameters, LAST_SYNC: instant})


def _is_far_behind(timeline: Timeline, last_sync: str | None) -> bool:
    """Return whether the commits since the last sync may soon leave the active timeline."""
    times = [write.time for write in timeline.completed_writes]
    return bool(times) and (last_sync or "") < times[len(times) // 2]


def entry_of(table: TableHandle, catalog: Catalog, columns: Sequence[Column]) -> CatalogTable:
    """Return the entry that a table with these columns should have.

    Raises:
        UnsupportedTableError: If a partition column is not among the columns.
    """
    keys = table.config.partition_by
    names = {column.name for column in columns}
    if any(name not in names for name in keys):
        raise UnsupportedTableError(
            "{table}: its partition columns are not columns of the table, so it cannot be registered",
            table=table.store.uri,
        )
    columns = [
        _key(column, has_values=table.paths_hold_values) if column.name in keys else column
        for column in columns
    ]
    return catalog_table(columns, keys, catalog.location_of(table.store))


def entry_of_new_table(spec: TableSpec, store: ObjectStore, catalog: Catalog) -> CatalogTable:
    """Return the entry that a table should have when it is created by this spec."""
    columns = [
        _key(column, has_values=True) if column.name in spec.partition_by else column
        for column in spec.columns
    ]
    return catalog_table(columns, spec.partition_by, catalog.location_of(store))


def _key(column: Column, *, has_values: bool) -> Column:
    """Return a partition column with the type that its values in paths have."""
    has_type = has_values and column.type not in _WITHOUT_VALUES
    return column if has_type else replace(column, type="string")


def check_same_table(catalog: Catalog, stored: CatalogTable, wanted: CatalogTable) -> None:
    """Raise CatalogError if an entry is that of another table, of another format or by other partitions."""
    if not same_location(stored.location, wanted.location):
        raise CatalogError(
            "{place} is the table at {found}, not that at {expected}; remove that entry from the catalog, or "
            "declare another database or catalog",
            place=catalog.place,
            found=Value.uri(stored.location),
            expected=Value.uri(wanted.location),
        )
    if (found := stored.other_format) is not None:
        raise CatalogError(
            "{place} is not the entry of a Hudi table ({found}); remove that entry from the catalog, or "
            "declare another database or catalog",
            place=catalog.place,
            found=found,
        )
    keys, expected = _key_names(stored), _key_names(wanted)
    if keys != expected:
        # Metastores refuse to change the keys, and the values of registered partitions are those of the old.
        raise CatalogError(
            "{place} has the partition keys ({found}) instead of ({expected}); remove that entry from the "
            "catalog, then {command}",
            place=catalog.place,
            found=", ".join(keys),
            expected=", ".join(expected),
            command=command("sync"),
        )


def _key_names(entry: CatalogTable) -> list[str]:
    return [key.name.lower() for key in entry.partition_keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionWork:
    """Partitions to register, to update and to drop."""

    missing: tuple[CatalogPartition, ...] = ()
    differing: tuple[CatalogPartition, ...] = ()
    gone: tuple[KeyValues, ...] = ()


def _partition_work(
    table: TableHandle,
    timeline: Timeline,
    catalog: Catalog,
    *,
    stored: CatalogTable | None,
    wanted: CatalogTable,
    changed: bool,
    drops: bool,
) -> _PartitionWork:
    """Return the partitions that are missing in a catalog, that differ, and that are to be dropped.

    Args:
        table: The table.
        timeline: Its timeline.
        catalog: The entry of the table.
        stored: The entry in the catalog, None if it is new, so that no partition is registered.
        wanted: The entry that the table should have.
        changed: Whether the definition changes, so that all partitions are compared with it.
        drops: Whether partitions without files are dropped.
    """
    if not wanted.partition_keys:
        return _PartitionWork()
    found: dict[KeyValues, CatalogPartition] = {}
    if drops or changed:
        found = {part.values: part for part in catalog.every_partition()}
    written = None if drops or stored is None else _written_since(table, timeline, stored.last_sync)
    # Listed after the catalog was read, the table has all partitions that were registered meanwhile.
    paths = _live_partitions(table) if written is None else sorted(written)
    expected = {part.values: part for part in (_partition(table, wanted, path) for path in paths)}
    if not (drops or changed or stored is None):
        found = dict(catalog.partitions(expected))
    return _PartitionWork(
        missing=tuple(part for values, part in expected.items() if values not in found),
        differing=tuple(
            new
            for values, old in found.items()
            if not _is_same(
                old,
                new := replace(old, location=expected.get(values, old).location, columns=wanted.columns),
            )
        ),
        gone=tuple(
            values
            for values, part in found.items()
            if drops and values not in expected and is_below(part.location, wanted.location)
        ),
    )


def _is_same(one: CatalogPartition, other: CatalogPartition) -> bool:
    return same_location(one.location, other.location) and same_columns(one.columns, other.columns)


def _live_partitions(table: TableHandle) -> list[str]:
    """Return the partitions with files, from a listing of the table."""

    def read(view: FileSystemView) -> tuple[IncrementalSlices, list[str]]:
        found = tuple(view.all_slices())
        partitions = sorted({part.partition for part in found})
        return IncrementalSlices(begin="", end=view.newest, slices=found, as_of=view.newest), partitions

    return read_consistently(table, read)[1]


def _written_since(table: TableHandle, timeline: Timeline, since: str | None) -> frozenset[str] | None:
    """Return the partitions with files that writes after an instant wrote to, or None if that is not known.

    If some of these writes are archived, the archive is read. It is complete if it has the instant itself.
    """
    if since is None:
        return None
    times = [write.time for write in timeline.completed_writes if write.time > since]
    commits = dict(zip(times, map_each(times, timeline.commit_metadata), strict=True))
    if since < (timeline.first_contiguous_write or since):
        archived = _archived_since(timeline, since)
        if archived is None:
            return None
        commits = {**archived, **commits}
    found: set[str] = set()
    shrunk: set[str] = set()
    for _, metadata in sorted(commits.items()):
        if metadata.operation in SCHEMA_PRESERVING_OPERATIONS:
            continue
        written = {partition for partition, stats in metadata.stats.items() if stats}
        found |= written
        shrunk = (shrunk | metadata.replaced.keys()) - written
    view = table.view(timeline)
    return frozenset(path for path in found if path not in shrunk or view.slices(path))


def _archived_since(timeline: Timeline, since: str) -> Mapping[str, CommitMetadata] | None:
    """Return the archived writes after an instant, or None if the archive does not reach back to it."""
    found: dict[str, CommitMetadata] = {}
    is_complete = timeline.is_completed(since)
    for _, instants in timeline.layout.archived(timeline.store):
        if instants is None:
            return None
        for instant in instants:
            if instant.is_completed_write and instant.time > since:
                found[instant.time] = instant.commit_metadata()
            is_complete = is_complete or instant.time == since
    return found if is_complete else None


def _partition(table: TableHandle, entry: CatalogTable, path: str) -> CatalogPartition:
    """Return the partition of a path. The values are decoded, as engines compare them with literals."""
    config = table.config
    levels = path.split("/") if len(config.partition_by) > 1 else [path]
    if len(levels) != len(config.partition_by):
        raise UnsupportedTableError(
            "{table}: the path {partition} does not have one folder for each partition column, so the "
            "partition cannot be registered",
            table=table.store.uri,
            partition=Value.partition(path),
        )
    texts = (
        level.removeprefix(f"{name}=") if config.hive_style else level
        for name, level in zip(config.partition_by, levels, strict=True)
    )
    return CatalogPartition(
        values=tuple(unquote(text) if config.url_encode else text for text in texts),
        location=f"{entry.location}/{path}",
        columns=entry.columns,
    )
