"""The adoption of an existing table: its new owner, and the spec by which it is written from now on.

Nothing that other programs read changes: two small files are added beside the timeline.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parquetry.message import command
from parquetry.runtime.apply.properties import change_lock
from parquetry.runtime.errors import InvalidDataError, StalePlanError, UnsupportedTableError
from parquetry.runtime.parquet.key_management import secret_of
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import Settings, executes
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.table.admission import check_partition_paths, check_writable
from parquetry.runtime.table.applied import (
    NO_PROJECT,
    AppliedRef,
    TableIdentity,
    check_owner,
    read_identity,
    write_applied,
)
from parquetry.runtime.table.creation import check_spec
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.table.signing import SignatureState
from parquetry.runtime.timeline.sidecars import IDENTITY_PATH


def check_adoptable(handle: TableHandle, *, owner: TableOwner) -> None:
    """Check that the table can be written to and that no other project owns it.

    A table that its project has forgotten belongs to no project any more. A metadata table is no obstacle,
    because the next plan drops it. The partition paths of a few files are compared with the paths to which
    their rows would be written.

    Raises:
        UnsupportedTableError: If the table cannot be adopted. The message contains the remedy.
        ForeignTableError: If the project has applied the table for another target.
    """
    if handle.project == owner.project:
        check_owner(handle.store.uri, owner, project=handle.project, applied=handle.applied)
    elif handle.project not in (None, NO_PROJECT) and not _is_forgotten(handle):
        raise UnsupportedTableError(
            "{table} belongs to project {project!r}; delete its spec in that project, run {plan} and "
            "{apply} there, and then adopt it here",
            table=handle.store.uri,
            project=handle.project,
            plan=command("plan"),
            apply=command("apply"),
        )
    timeline = handle.timeline()
    check_writable(handle, timeline, handle.store.now_ms(), drops_metadata_table=True)
    if handle.spec is None:
        check_partition_paths(handle, timeline)


def adopt_table(
    store: ObjectStore,
    spec: TableSpec,
    *,
    project: str,
    target: str | None = None,
    git_commit: str | None = None,
    dirty: bool | None = None,
    applied_by: str | None = None,
    signing_keys: tuple[str, ...] = (),
    settings: Settings | None = None,
) -> AppliedRef:
    """Record the project as the table's owner, and the spec as applied to the table, for a target.

    A repeated call changes nothing.

    Args:
        store: The store of the table.
        spec: The spec of the table.
        project: The name of the project that becomes the owner.
        target: The target of the project for which the spec is recorded.
        git_commit: The git commit of the project.
        dirty: Whether the project had changes that ``git_commit`` lacks, or None if that is unknown.
        applied_by: The user or job that adopts the table.
        signing_keys: The first key signs the record.
        settings: The settings of the target, to be recorded. If the table already has a record, settings that
            execute code keep the recorded values.

    Raises:
        UnsupportedTableError: As in :func:`check_adoptable`.
        InvalidDataError: If the spec contradicts the table.
        StalePlanError: If another process applied to or adopted the table at the same moment.
    """
    handle = open_table(store)
    check_adoptable(handle, owner=TableOwner(project=project, target=None))
    check_spec(spec)
    _check_identity(handle, spec)
    digest = digest_of(spec.to_json())
    key = signing_keys[0] if signing_keys else None
    if key is not None:
        secret_of(key)
    former_project = handle.project
    _put_identity(store, project)
    applied = handle.applied
    # The signature covers the owner of the table, so a new owner requires a new signature.
    signed = key is None or (
        former_project == project and _signature_state(handle, signing_keys) is SignatureState.CURRENT
    )
    unchanged = (digest, target, False)
    if applied and signed and (applied.digest, applied.target, applied.forgotten) == unchanged:
        return applied
    change_lock(store, spec)
    number = (applied.number if applied else 0) + 1
    return write_applied(
        store,
        spec,
        number=number,
        git_commit=git_commit,
        dirty=dirty,
        applied_by=applied_by,
        target=target,
        signing_key=key,
        settings=_adopted_settings(settings, applied),
    )


def _is_forgotten(handle: TableHandle) -> bool:
    return handle.applied is not None and handle.applied.forgotten


def _adopted_settings(declared: Settings | None, applied: AppliedRef | None) -> Settings | None:
    """Return the settings to record: the declared ones, but those that execute code stay as recorded."""
    if declared is None or applied is None:
        return declared
    harmless = {path: value for path, value in declared.items() if not executes(path, value)}
    before = (applied.settings or {}).items()
    return harmless | {path: value for path, value in before if executes(path, value)}


def _signature_state(handle: TableHandle, keys: tuple[str, ...]) -> SignatureState | None:
    """Return the state of the record's signature, or None if there is no record."""
    return None if handle.record_signature is None else handle.record_signature.state(keys)


def _put_identity(store: ObjectStore, project: str) -> None:
    """Put the identity of the table; if two projects adopt at once, one of them wins."""
    known = read_identity(store)
    if known is not None and known.project == project:
        return
    if known is not None:
        store.put(IDENTITY_PATH, replace(known, project=project).to_bytes())
        return
    identity = TableIdentity(table_id=str(uuid.uuid4()), project=project)
    outcome = store.put_if_absent(IDENTITY_PATH, identity.to_bytes(), nonce=identity.table_id)
    winner = read_identity(store) if outcome is PutOutcome.LOST else identity
    if winner is None or winner.project != project:
        raise StalePlanError(
            "project {project!r} has adopted {table} at the same moment; adopt it from that project",
            project=winner.project if winner else "?",
            table=store.uri,
        )


def _check_identity(handle: TableHandle, spec: TableSpec) -> None:
    """Raise InvalidDataError if the spec's keys or partitioning differ from those of the table."""
    config = handle.config
    stored: Mapping[str, Any] = {
        "record_key": config.record_key,
        "ordering": config.ordering,
        "partition_by": config.partition_by,
        "table_version": config.version,
        **({"hive_style": config.hive_style, "url_encode": config.url_encode} if config.partition_by else {}),
    }
    if spec.files.meta_columns is not config.meta_columns:
        raise InvalidDataError(
            "{table}: the rows have meta_columns: {found}, but the spec declares {declared_value}; declare "
            "the value of the table",
            table=handle.store.uri,
            found=str(config.meta_columns),
            declared_value=str(spec.files.meta_columns),
        )
    for name, value in stored.items():
        if getattr(spec, name) != value:
            raise InvalidDataError(
                "{table}: the table's {field} is {found}, but the spec declares {declared_value}; declare "
                "the value of the table",
                table=handle.store.uri,
                field=name,
                found=repr(value),
                declared_value=repr(getattr(spec, name)),
            )
