"""Drift: changes that other programs made to a table after its spec was applied, and what restores them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from parquetry.compiler.plan.catalog_entries import ReadEntry, read_entry
from parquetry.compiler.plan.model import Change, ChangeClass
from parquetry.compiler.plan.table_versions import VERSION_PATH, WRITERS, effect_on_readers
from parquetry.compiler.workspace.observation import Observation, observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.errors import ParquetryError
from parquetry.message import Message, Text, command
from parquetry.project import ResolvedTable
from parquetry.runtime.apply.properties import META_COLUMNS_KEYS, differing_properties
from parquetry.runtime.commit.damaged_files import damaged_files, remedy
from parquetry.runtime.errors import (
    CatalogError,
    CorruptTableError,
    ForeignTableError,
    KeyUnavailableError,
    UnsupportedTableError,
)
from parquetry.runtime.spec.avro import columns_from_avro, table_avro_schema
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.evolution import is_widening
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.masking import cleared, masked_path
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.types import Array, ColumnType, Map, Struct, parse_type
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.admission import writing_problems
from parquetry.runtime.table.config import METADATA_TABLE_KEYS, TableConfig
from parquetry.runtime.table.creation import VERSION_KEY
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.properties import PROPERTIES_PATH
from parquetry.runtime.table.signing import check_signed
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import SCHEMA_PRESERVING_OPERATIONS, CommitMetadata
from parquetry.runtime.timeline.instant import Action, format_instant
from parquetry.runtime.timeline.rereading import retry_stale

CODES = {
    "DR100": "the table cannot be read or written as it is now",
    "DR101": "a property of the table was changed",
    "DR102": "the applied record, or the table's identity, was changed",
    "DR103": "the table version was changed",
    "DR104": "a metadata table was created, and nothing is written until it is dropped",
    "DR201": "a column was added",
    "DR202": "the type of a column was changed",
    "DR203": "a column was dropped",
    "DR204": "a column may be null although the spec forbids it",
    "DR301": "files were clustered by another program",
    "DR401": "a file is missing, or its size differs from its commit",
    "DR500": "the entry in the catalog cannot be read, or is that of another table",
    "DR501": "the table is missing in its catalog",
    "DR502": "the entry in the catalog was changed",
}
METADATA_TABLE: Final = "DR104"
RESTORE: Final = "a restore"
"""The writer of a drift that a restore caused: a restore also removes commits with a newer schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between the applied record and the live table.

    ``path`` is ``table_version``, ``properties.KEY``, ``columns.NAME``, ``columns.NAME.type``,
    ``columns.NAME.nullable``, ``files``, ``files.PATH``, ``applied``, ``table``, ``catalog`` or
    ``catalog.PATH`` of the entry there, such as ``catalog.columns.NAME``. ``instant`` is the commit
    that caused the difference or, for a property or the table version, the time in the table's time zone at
    which the properties or the timeline were written. ``writer`` names the program.

    Each drift has one of three ways out: `apply` restores it without losing rows (``restorable``), `adopt`
    writes it into the spec (``acceptable``), or the user follows ``remedy``.
    """

    code: str
    path: str
    applied: Any
    live: Any
    instant: str | None = None
    writer: str | None = None
    restorable: bool = False
    acceptable: bool = False
    remedy: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDrift:
    """The drift of one table. ``is_applied`` is False if the table has no applied spec that could drift.

    ``refusal`` is set if the table was not compared because it belongs to another project or target.
    """

    table: str
    location: str
    is_applied: bool
    drifts: tuple[Drift, ...] = ()
    refusal: Text | None = None


def drift_of_workspace(workspace: Workspace) -> tuple[TableDrift, ...]:
    """Return the drift of every selected table. Tables are read in parallel, and nothing is written."""
    outages: dict[str | None, CatalogError] = {}
    return tuple(map_each(workspace.tables, lambda table: _drift_at(workspace, table, outages)))


def _drift_at(
    workspace: Workspace, table: ResolvedTable, outages: dict[str | None, CatalogError]
) -> TableDrift:
    """Return the drift of a table of the workspace."""
    return table_drift(
        workspace.store(table),
        table=table.name,
        location=table.location_declared,
        owner=workspace.owner,
        declared=table.spec,
        entry=partial(read_entry, workspace, table, outages=outages),
    )


@retry_stale
def table_drift(
    store: ObjectStore,
    *,
    table: str,
    location: str,
    owner: TableOwner | None = None,
    declared: TableSpec | None = None,
    entry: Callable[[Observation], ReadEntry | ParquetryError | None] = lambda _: None,
) -> TableDrift:
    """Return the drift of the table in a store. If the table cannot be read, this is its only drift (DR100).

    If ``owner`` is given, a table of another owner gets a refusal instead of drifts. ``declared`` is the
    declared spec, if there is one; it masks personal values. ``entry`` reads the entry of a table in its
    catalog.
    """
    observation = None

    try:
        observation = observe(store, declared=declared)
        if observation is not None and owner is not None:
            observation.check_owner(owner)
        drifts = (
            ()
            if observation is None
            else (
                *_signature(observation, owner),
                *observed_drift(observation),
                *(entry_drifts(entry(observation)) if observation.is_applied else ()),
                *_damage(observation),
            )
        )
    except (UnsupportedTableError, CorruptTableError) as refusal:
        drifts = (unusable_drift(refusal),)
        found = TableDrift(table=table, location=location, is_applied=True, drifts=drifts)
    except ForeignTableError as refusal:
        found = TableDrift(table=table, location=location, is_applied=False, refusal=refusal.message)
    else:
        is_applied = observation is not None and observation.is_applied and observation.spec is not None
        found = TableDrift(table=table, location=location, is_applied=is_applied, drifts=drifts)
    shown_by = declared if observation is None else observation.handle.shown_by
    return cleared(found, shown_by, location=store.uri)


@retry_stale
def observed_drift(observation: Observation) -> tuple[Drift, ...]:
    """Return the drift of an observed table, or nothing if no spec is applied.

    This takes two requests: a listing of the timeline and a read of the newest commit with a schema. If the
    table was not written since its creation, the listing is enough.
    """
    spec = observation.spec
    if not observation.is_applied or spec is None:
        return ()
    handle = observation.handle
    timeline = handle.timeline()
    return (
        *_record(handle),
        *_version(handle, timeline, spec),
        *_properties(observation, spec),
        *_columns(observation, timeline, spec),
        *_layout(timeline, spec),
    )


def _damage(observation: Observation) -> Iterator[Drift]:
    """Yield a drift for each base file that is missing or whose size differs from its commit.

    This reads all commits and lists all partitions.
    """
    handle = observation.handle
    if not observation.is_applied:
        return
    for file in damaged_files(handle):
        yield Drift(
            code="DR401",
            path=f"files.{masked_path(file.path, file.partition, handle.shown_by)}",
            applied=None if file.written_bytes is None else f"{file.written_bytes:,} bytes",
            live=None if file.size_bytes is None else f"{file.size_bytes:,} bytes",
            instant=file.instant,
            remedy=remedy(handle),
        )


def entry_drifts(entry: ReadEntry | ParquetryError | None) -> Iterator[Drift]:
    """Yield the drift of the entry of an applied table in its catalog; none if it is not registered there."""
    if isinstance(entry, ParquetryError):
        yield Drift(code="DR500", path="catalog", applied=None, live=None, remedy=entry.message)
        return
    if entry is None:
        return
    if entry.is_missing:
        yield Drift(code="DR501", path="catalog", applied=entry.catalog.place, live=None, restorable=True)
    for difference in entry.changed_by_others:
        yield Drift(
            code="DR502",
            path=f"catalog.{difference.path}",
            applied=difference.wanted,
            live=difference.stored,
            writer="another program",
            restorable=True,
        )


def unusable_drift(refusal: UnsupportedTableError | CorruptTableError) -> Drift:
    """Return the drift DR100 of a table that cannot be read."""
    return Drift(code="DR100", path="table", applied=None, live=None, remedy=refusal.message)


def _record(handle: TableHandle) -> Iterator[Drift]:
    """Yield a drift if the applied record is damaged."""
    if handle.fault is not None:
        yield Drift(code="DR102", path="applied", applied=None, live=None, remedy=handle.fault.message)


def _signature(observation: Observation, owner: TableOwner | None) -> Iterator[Drift]:
    """Yield a drift if no declared key signed the record. Without the keys, yield nothing."""
    handle = observation.handle
    try:
        check_signed(handle.store.uri, handle.record_signature, () if owner is None else owner.keys)
    except CorruptTableError as wrong:
        yield Drift(code="DR102", path="applied", applied=None, live=None, remedy=wrong.message)
    except KeyUnavailableError:
        return


def _version(handle: TableHandle, timeline: Timeline, spec: TableSpec) -> Iterator[Drift]:
    """Yield a drift if another program upgraded or downgraded the table.

    The change of a version writes all files of the timeline anew, so the oldest one has its time.
    """
    live = handle.config.version
    if live == spec.table_version:
        return
    written_ms = min((file.modified_ms for file in timeline.files.values()), default=None)
    effect = effect_on_readers(spec.table_version, live)
    yield Drift(
        code="DR103",
        path=VERSION_PATH,
        applied=spec.table_version,
        live=live,
        instant=None if written_ms is None else format_instant(written_ms, handle.config.timezone),
        writer=WRITERS.get(live),
        restorable=True,
        acceptable=True,
        remedy=Message(
            "it {effect}; {apply_command} changes the version back; to keep it, declare {key}: {version}, "
            "then apply",
            effect=effect or "changes nothing for readers",
            apply_command=command("apply"),
            key=VERSION_PATH,
            version=live,
        ),
    )


def _properties(observation: Observation, spec: TableSpec) -> Iterator[Drift]:
    """Yield a drift for each property that differs from the applied spec or prevents writes.

    `apply` drops a metadata table.
    """
    handle = observation.handle
    raw, place = handle.config.raw, handle.store.uri
    problems = tuple(writing_problems(handle.config))
    changed = differing_properties(raw, spec, made_with=observation.made_with, uri=place)
    when = _written_at(handle) if problems or changed or handle.config.metadata_partitions else None
    for problem in problems:
        yield Drift(code="DR100", path="table", applied=None, live=None, instant=when, remedy=problem)
    for key in _metadata_table_keys(handle.config):
        yield Drift(
            code=METADATA_TABLE,
            path=f"properties.{key}",
            applied=None,
            live=raw[key],
            instant=when,
            writer=f"the last writer of {PROPERTIES_PATH}",
            restorable=True,
            remedy=Message(
                "{command} drops it; set hoodie.metadata.enable=false in every Hudi writer",
                command=command("apply"),
            ),
        )
    found = handle.config.meta_columns
    for drift in changed:
        is_lost = drift.key in META_COLUMNS_KEYS and not found.may_become(spec.files.meta_columns)
        yield Drift(
            code="DR101",
            path=f"properties.{drift.key}",
            applied=drift.applied,
            live=drift.live,
            instant=when,
            writer=f"the last writer of {PROPERTIES_PATH}",
            restorable=not is_lost,
            remedy=f"declare files: {{meta_columns: {found}}}, as rows may lack more" if is_lost else None,
        )


def _metadata_table_keys(config: TableConfig) -> tuple[str, ...]:
    """Return the properties that declare a metadata table."""
    return tuple(key for key in METADATA_TABLE_KEYS if config.raw.get(key, "").strip(" ,"))


def _written_at(handle: TableHandle) -> str | None:
    """Return when hoodie.properties was last written, or None if that is unknown."""
    info = handle.store.stat(PROPERTIES_PATH)
    return None if info is None else format_instant(info.modified_ms, handle.config.timezone)


def _columns(observation: Observation, timeline: Timeline, spec: TableSpec) -> Iterator[Drift]:
    """Yield the drift of each column, with the commit that caused it."""
    live = {c.name: c for c in observation.live_columns(timeline)}
    applied = {c.name: c for c in spec.columns}
    if not live:
        return
    keys = {field.partition(".")[0] for field in spec.record_key}
    for name, column in applied.items():
        drift = _column(column, live.get(name), is_key=name in keys)
        if drift is not None:
            yield _with_writer(drift, name, live.get(name), timeline)
    for name, column in live.items():
        if name not in applied:
            added = Drift(
                code="DR201", path=f"columns.{name}", applied=None, live=column.type, acceptable=True
            )
            yield _with_writer(added, name, column, timeline)


def _column(applied: Column, live: Column | None, *, is_key: bool) -> Drift | None:
    """Return how a live column differs from the applied one, or None if it does not."""
    path = f"columns.{applied.name}"
    if live is None:
        return Drift(code="DR203", path=path, applied=applied.type, live=None, restorable=True)
    # A type that the commit writes like the spec needs no conversion to its stored form.
    stored = applied if applied.type == live.type else _stored(applied)
    if stored.type != live.type:
        applied_type, live_type = parse_type(stored.type), parse_type(live.type)
        return Drift(
            code="DR202",
            path=f"{path}.type",
            applied=applied.type,
            live=live.type,
            restorable=is_widening(live_type, applied_type),
            acceptable=is_widening(applied_type, live_type),
            remedy=_remedy(applied_type, live_type),
        )
    if not applied.nullable and live.nullable and not is_key:
        return Drift(code="DR204", path=f"{path}.nullable", applied=False, live=True, acceptable=True)
    return None


def _remedy(applied: ColumnType, live: ColumnType) -> str | None:
    """Return what to do about a changed type, or None if it is a widened or narrowed one."""
    if is_widening(applied, live) or is_widening(live, applied):
        return None
    return "its files contain other values now: restore a savepoint, or rewrite the table"


def _stored(column: Column) -> Column:
    """Return the column as the schema of a commit stores it: small integers become int."""
    (stored,) = columns_from_avro(table_avro_schema("t", [replace(column, nullable=True)]))
    return stored


def _with_writer(drift: Drift, name: str, live: Column | None, timeline: Timeline) -> Drift:
    """Return the drift with the commit that gave the column its live form, and with its writer.

    If a restore followed that commit, the restore counts as the writer.
    """

    def has_live_form(columns: Sequence[Column]) -> bool:
        return next((column for column in columns if column.name == name), None) == live

    instant, metadata = _first_commit_where(timeline, has_live_form)
    if instant is None or metadata is None:
        return drift
    restores = (i for i in reversed(timeline.instants) if i.action is Action.RESTORE and i.is_completed)
    restore = next(restores, None)
    if restore is not None and restore.time > instant:
        return replace(drift, instant=restore.time, writer=RESTORE)
    return replace(drift, instant=instant, writer=writer_of(metadata))


def _first_commit_where(
    timeline: Timeline, holds: Callable[[Sequence[Column]], bool]
) -> tuple[str | None, CommitMetadata | None]:
    """Return the first commit since which each schema ``holds``, with its metadata.

    Both are None if the newest schema does not hold.
    """
    found: tuple[str | None, CommitMetadata | None] = (None, None)
    for instant in reversed(timeline.completed_writes):
        metadata = timeline.commit_metadata(instant.time)
        if not metadata.schema or metadata.operation in SCHEMA_PRESERVING_OPERATIONS:
            continue
        if not holds(columns_from_avro(metadata.schema)):
            break
        found = instant.time, metadata
    return found


def writer_of(metadata: CommitMetadata) -> str:
    """Return the program that made a commit and its operation, such as "parquetry 1.0, upsert"."""
    version = metadata.extra.get(VERSION_KEY)
    program = f"parquetry {version}" if version else "another program"
    return f"{program}, {metadata.operation.lower()}"


def _layout(timeline: Timeline, spec: TableSpec) -> Iterator[Drift]:
    """Yield a drift if another program clustered the table after the newest clustering by parquetry.

    If clustering is off, yield nothing.
    """
    if spec.clustering.trigger is Trigger.OFF:
        return
    for instant in reversed(timeline.completed_writes):
        if instant.action is not Action.REPLACECOMMIT:
            continue
        if not timeline.requested_replace(instant.time).is_clustering:
            continue
        metadata = timeline.commit_metadata(instant.time)
        if VERSION_KEY in metadata.extra:
            return
        yield Drift(
            code="DR301",
            path="files",
            applied=list(spec.clustering.execution.columns),
            live=f"{sum(len(ids) for ids in metadata.replaced.values())} files replaced",
            instant=instant.time,
            writer=writer_of(metadata),
            remedy=Message(
                "turn off that service; {command} clusters the files again", command=command("run")
            ),
        )


def with_live_values(
    changes: tuple[Change, ...], *, columns: Sequence[Column], config: TableConfig
) -> tuple[Change, ...]:
    """Return the changes with the values in the newest schema and hoodie.properties, None if absent."""
    return tuple(replace(change, live=_live_value(change, columns, config)) for change in changes)


def restored_properties(observation: Observation) -> tuple[Change, ...]:
    """Return changes that restore the properties that no longer match the applied spec."""
    if observation.spec is None or not observation.is_applied:
        return ()
    handle = observation.handle
    found = differing_properties(
        handle.config.raw, observation.spec, made_with=observation.made_with, uri=handle.store.uri
    )
    return tuple(
        Change(
            path=f"properties.{drift.key}",
            old=drift.live,
            new=drift.applied,
            code="SC102",
            change_class=ChangeClass.METADATA,
        )
        for drift in found
    )


def dropped_metadata_table(observation: Observation) -> tuple[Change, ...]:
    """Return changes that drop the metadata table of the table, if its properties declare one."""
    config = observation.handle.config
    return tuple(
        Change(
            path=f"properties.{key}",
            old=config.raw[key],
            new=None,
            code="SC104",
            change_class=ChangeClass.POLICY,
            reason="readers of a metadata table would miss the rows that parquetry writes. No row is lost, "
            "because Hudi builds it from the table's files. Set hoodie.metadata.enable=false in every Hudi "
            "writer, or the next one builds it again",
        )
        for key in _metadata_table_keys(config)
    )


def changed_target(observation: Observation, target: str) -> tuple[Change, ...]:
    """Return a change that records the new name of the target if the applied record has another one."""
    applied = observation.handle.applied
    if applied is None or applied.forgotten or applied.target in (None, target):
        return ()
    change_class = ChangeClass.METADATA
    return (Change(path="target", old=applied.target, new=target, code="SC101", change_class=change_class),)


def restored_columns(
    drifts: Iterable[Drift], *, applied: TableSpec, declared: TableSpec
) -> tuple[Change, ...]:
    """Return changes that restore columns which another program or a restore dropped or narrowed.

    Only columns whose declared type is the applied one are restored. For others the declared change counts.
    """
    wanted = {column.name: column.type for column in declared.columns}
    before = {column.name: column.type for column in applied.columns}
    found = []
    for drift in drifts:
        section, _, rest = drift.path.partition(".")
        name = rest.removesuffix(".type")
        if section == "columns" and drift.restorable and wanted.get(name) == before[name]:
            cause = "dropped" if drift.live is None else "narrowed"
            found.append(
                Change(
                    path=drift.path,
                    old=drift.live,
                    new=drift.applied,
                    code="SC305",
                    change_class=ChangeClass.EVOLVE,
                    reason=f"{_author(drift)} {cause} it; it is restored",
                )
            )
    return tuple(found)


def _author(drift: Drift) -> str:
    """Return in words who dropped or narrowed a column."""
    writer = drift.writer or ""
    if writer == RESTORE:
        return RESTORE
    # Writes of parquetry drop no columns, so if its commit is the newest, a rollback removed a later schema.
    return "a rollback" if writer.startswith("parquetry ") else "another program"


def _live_value(change: Change, columns: Sequence[Column], config: TableConfig) -> Any:
    """Return the value that the table has at the path of a change, or None."""
    path = change.path
    if path == "columns":
        return [column.name for column in columns]
    if path.startswith("columns."):
        found = _column_value(path.removeprefix("columns."), columns)
        if isinstance(found, Struct) and isinstance(change.old, list):
            return [field.name for field in found.fields]
        return found if found is None or isinstance(found, bool) else str(found)
    if path.startswith("properties."):
        return config.raw.get(path.removeprefix("properties."))
    live_values = {
        "record_key": list(config.record_key),
        "partition_by": list(config.partition_by),
        "ordering": config.ordering,
        VERSION_PATH: config.version,
        "partitioning.hive_style": config.hive_style,
        "partitioning.url_encode": config.url_encode,
    }
    return live_values.get(path)


def _column_value(path: str, columns: Sequence[Column]) -> ColumnType | bool | None:
    """Return the type at the path of a column or its fields, or whether it is nullable, or None."""
    name, _, rest = path.partition(".")
    column = next((column for column in columns if column.name == name), None)
    if column is None or rest in ("description", "generated", "pii"):
        return None
    if rest == "nullable":
        return column.nullable
    return _type_at(parse_type(column.type), rest.removesuffix("type").rstrip("."))


def _type_at(kind: ColumnType, path: str) -> ColumnType | None:
    """Return the type at a dotted path within a type, or None if the path leads to no type."""
    if not path:
        return kind
    step, _, rest = path.partition(".")
    match kind:
        case Struct():
            field = next((field for field in kind.fields if field.name == step), None)
            return None if field is None else _type_at(field.type, rest)
        case Array() if step == "element":
            return _type_at(kind.element, rest)
        case Map() if step == "value":
            return _type_at(kind.value, rest)
    return None
