"""The execution of a plan for one table: create it, change its version or schema, record its spec.

The order of the steps makes every interruption harmless. The version is changed first, then the schema is
committed, and the record is put last; each record number can be used only once. So after an interruption, or
if another process wins, the applied record is the old or the new one, and the table has at most the declared
version and additional nullable columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from parquetry.runtime.apply.properties import (
    check_meta_columns,
    properties_with_lock,
    put_lock,
    put_meta_columns,
    restore_properties,
)
from parquetry.runtime.apply.requirements import check_requirements, unexpected_table_error
from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.commit.outcome import CommitResult, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.table_lock import lock_with_properties, locked_session
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import ConflictError, NotFoundError, StalePlanError
from parquetry.runtime.parquet.key_management import secret_of
from parquetry.runtime.publish.publishing import publish_after
from parquetry.runtime.spec.job import Requirements, TableOwner
from parquetry.runtime.spec.paths import types_by_path, without
from parquetry.runtime.spec.rules import check_new_columns
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.target_settings import Settings
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import check_faults, read_applied, read_identity, write_applied
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.handle import TableHandle, create_table, open_table
from parquetry.runtime.table.metadata_table import drop_metadata_table
from parquetry.runtime.table.properties import read_table_properties
from parquetry.runtime.table.schema import live_columns, reconcile
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

ALTER_SCHEMA = "ALTER_SCHEMA"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The change of the table in one store.

    ``alters_schema`` requests a commit of the new columns. ``forgets`` ends the project's record of the
    table, with ``spec`` as its last one. ``restores`` requests that the properties get their applied values
    again, ``drops_metadata_table`` that the metadata table of another program is dropped,
    ``changes_version`` that the table gets the version of the spec. Without ``records``, nothing is
    recorded. The first of ``signing_keys`` signs the record. ``dirty`` states whether the project had changes
    that ``git_commit`` lacks; None means unknown.
    """

    spec: TableSpec
    requirements: Requirements
    alters_schema: bool
    project: str
    target: str | None = None
    settings: Settings | None = None
    plan_id: str | None = None
    git_commit: str | None = None
    dirty: bool | None = None
    applied_by: str | None = None
    forgets: bool = False
    restores: bool = False
    drops_metadata_table: bool = False
    changes_version: bool = False
    records: bool = True
    signing_keys: tuple[str, ...] = ()

    @property
    def owner(self) -> TableOwner:
        """The required owner of the table.

        Its target may be any, because the target may have been renamed.
        """
        return TableOwner(project=self.project, target=None, keys=self.signing_keys, signs=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of a change: the number of the applied record, and the commit that evolved the schema."""

    created: bool
    applied_number: int
    instant: str | None = None


def apply_change(store: ObjectStore, change: TableChange, *, timing: Timing = DEFAULT_TIMING) -> ChangeResult:
    """Execute the change; a repeated call after an interruption finishes it.

    Raises:
        StalePlanError: If the requirements do not hold; nothing was changed.
        ConflictError: If other writers reverted the schema too often before the spec could be recorded.
    """
    if change.signing_keys:
        secret_of(change.signing_keys[0])
    if not change.requirements.exists:
        return _create(store, change)
    _check(store, change)
    applied = read_applied(store)
    check_faults(None, applied)
    if not change.forgets:
        check_meta_columns(open_table(store), change.spec.files.meta_columns)
    if change.restores and applied is not None:
        kept = replace(applied.spec.files, meta_columns=change.spec.files.meta_columns)
        restore_properties(store, replace(applied.spec, files=kept), owner=change.owner, timing=timing)
    if change.drops_metadata_table:
        _drop_metadata_table(store, change, timing)
    if change.changes_version:
        change_version(store, change.spec.table_version, owner=change.owner, timing=timing)
    instant: str | None = None
    for _ in range(timing.retries + 1):
        instant = (_alter_schema(store, change, timing) if change.alters_schema else None) or instant
        if not change.records:
            _publish(store, change)
            return ChangeResult(
                created=False, applied_number=applied.ref.number if applied else 0, instant=instant
            )
        number = _record_locked(store, change, timing)
        if number is not None:
            _publish(store, change)
            return ChangeResult(created=False, applied_number=number, instant=instant)
    raise ConflictError(
        "{table}: other writers reverted the schema {attempts} times before the spec could be recorded; "
        "apply again when fewer writers are active",
        table=store.uri,
        attempts=timing.retries + 1,
    )


def _publish(store: ObjectStore, change: TableChange) -> None:
    """Publish the table with its new spec or columns, if a spec that stays in force says so."""
    if change.spec.publish is not None and not change.forgets:
        publish_after(open_table(store, owner=change.owner), "apply")


def _check(store: ObjectStore, change: TableChange) -> None:
    requirements = change.requirements
    if change.changes_version and _version(store) == change.spec.table_version:
        # This call or an interrupted one has changed the version.
        requirements = replace(requirements, table_version=change.spec.table_version)
    check_requirements(store, requirements, owner=change.owner, plan_id=change.plan_id)


def _version(store: ObjectStore) -> int | None:
    """Return the version in the properties of the table, or None if it has none."""
    try:
        return TableConfig.from_properties(read_table_properties(store), location=store.uri).version
    except NotFoundError:
        return None


def _create(store: ObjectStore, change: TableChange) -> ChangeResult:
    """Create the table and record its spec."""
    if _exists(store):
        _check_resumable_creation(store, change)
    else:
        _check(store, change)
    try:
        create_table(store, change.spec, project=change.project)
    except StalePlanError:
        identity = read_identity(store)
        if identity is not None and identity.project == change.project:
            # Another process began to create the table with another spec and was stopped. Opening the table
            # finishes that, so that the next plan sees it.
            open_table(store)
        raise
    number = _record(store, change)
    _publish(store, change)
    return ChangeResult(created=True, applied_number=number)


def _check_resumable_creation(store: ObjectStore, change: TableChange) -> None:
    """Raise an error unless the table is an unfinished creation by the same project with the same spec.

    The creation was interrupted before its spec was recorded, and may continue.
    """
    identity, applied = read_identity(store), read_applied(store)
    check_faults(identity, applied)
    is_own = identity is not None and identity.spec == change.spec and identity.project == change.project
    if not is_own or applied is not None:
        raise unexpected_table_error(store, plan_id=change.plan_id)


def _drop_metadata_table(store: ObjectStore, change: TableChange, timing: Timing) -> None:
    """Drop the metadata table under the table's lock, after checking the requirements again."""
    table = open_table(store, owner=change.owner)
    with locked_session(
        table, table.timeline(), purpose="metadata table", timing=timing, allows_metadata_table=True
    ):
        _check(store, change)
        drop_metadata_table(store)


def _record_locked(store: ObjectStore, change: TableChange, timing: Timing) -> int | None:
    """Record the spec under the table's lock, after checking the requirements again; return its number.

    None means that nothing was recorded, because a write under the old spec has brought back its own schema.
    Once the record exists, no write under the old spec is published.
    """
    table = open_table(store)
    with (
        locked_session(
            table, table.timeline(), purpose="apply", timing=timing, allows_metadata_table=True
        ) as (session, _),
        lock_with_properties(table, session, properties_with_lock(table, change.spec)),
    ):
        _check(store, change)
        if change.alters_schema and not _has_schema(table, table.timeline(), change.spec):
            return None
        put_lock(table, change.spec)
        put_meta_columns(table, change.spec.files.meta_columns)
        return _record(store, change)


def _record(store: ObjectStore, change: TableChange) -> int:
    before = change.requirements.applied_number
    ref = write_applied(
        store,
        change.spec,
        number=(before or 0) + 1,
        git_commit=change.git_commit,
        dirty=change.dirty,
        applied_by=change.applied_by,
        plan_id=change.plan_id,
        forgotten=change.forgets,
        target=change.target,
        signing_key=change.signing_keys[0] if change.signing_keys else None,
        settings=change.settings,
    )
    return ref.number


def _alter_schema(store: ObjectStore, change: TableChange, timing: Timing) -> str | None:
    """Commit the schema with the columns and without files, and return the instant of the commit.

    The result is None if the newest commit has the columns already.
    """
    extra = {"parquetry.plan_id": change.plan_id} if change.plan_id else {}

    def body(transaction: Transaction) -> WriteOutcome | None:
        _check(store, change)
        handle, timeline = transaction.table, transaction.timeline
        if _has_schema(handle, timeline, change.spec):
            return None
        schema = _target_schema(handle, timeline, change.spec)
        return WriteOutcome(operation=ALTER_SCHEMA, schema_json=schema, extra=extra)

    result: CommitResult = run_write(
        open_table(store, owner=change.owner),
        action=Action.COMMIT,
        operation=ALTER_SCHEMA,
        body=body,
        timing=timing,
    )
    return result.instant


def columns_after(handle: TableHandle, timeline: Timeline, spec: TableSpec) -> tuple[Column, ...]:
    """Return the columns after the change: the declared ones, and those that another program has added.

    The latter stay because no plan asked to drop them. The same applies to fields within columns.

    Raises:
        InvalidDataError: If an added column is not allowed in a table.

    """
    before = types_by_path(handle.spec.columns) if handle.spec else {}
    gone = before.keys() - types_by_path(spec.columns).keys()
    live = live_columns(handle.store, timeline, handle.config)
    known = {column.name for column in live}
    check_new_columns(column for column in spec.columns if column.name not in known)
    return tuple(reconcile(spec.columns, without(live, gone)))


def _target_schema(handle: TableHandle, timeline: Timeline, spec: TableSpec) -> str:
    """Return the schema after the change."""
    return handle.schema_json(timeline, columns_after(handle, timeline, spec))


def _has_schema(handle: TableHandle, timeline: Timeline, spec: TableSpec) -> bool:
    """Return whether the newest commit has the schema that the spec requires."""
    writes = timeline.completed_writes
    newest = timeline.commit_metadata(writes[-1].time).schema if writes else None
    return newest == _target_schema(handle, timeline, spec)


def _exists(store: ObjectStore) -> bool:
    """Return whether the table exists."""
    try:
        read_table_properties(store)
    except NotFoundError:
        return False
    return True
