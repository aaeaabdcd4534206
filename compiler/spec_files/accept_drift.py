"""Acceptance of drift: another program's changes of an applied table are written into its spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from parquetry.compiler.errors import UnacceptableDriftError
from parquetry.compiler.plan.drift import METADATA_TABLE, Drift, table_drift
from parquetry.compiler.security.allowed_settings import recorded_settings
from parquetry.compiler.spec_files.edit import with_column, with_nullable, with_type, with_version
from parquetry.compiler.spec_files.yaml import VERSION
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError, UsageError
from parquetry.message import Message, command
from parquetry.project import ResolvedTable
from parquetry.runtime.apply.adoption import adopt_table
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.acting_user import acting_user
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.schema import live_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The drift that was written into ``file`` and recorded as applied; empty without drift."""

    table: str
    file: str
    location: str
    applied_number: int
    accepted: tuple[Drift, ...]


def accept_drift(
    workspace: Workspace, table: ResolvedTable, handle: TableHandle, *, reload: Callable[[], Workspace]
) -> Acceptance:
    """Write the drift of an applied table into its spec, and record the spec as applied.

    A metadata table beside other drift stays: no spec declares one, and the next plan drops it.

    Raises:
        UsageError: if the spec has changes that are not applied.
        UnacceptableDriftError: if no spec can express the drift; nothing is changed.

    """
    applied, spec = handle.applied, handle.spec
    assert applied is not None, "the caller has seen an applied record"
    assert spec is not None, "an applied record has a spec"
    found = table_drift(handle.store, table=table.name, location=table.location_declared).drifts
    if table.spec != spec:
        raise UsageError(
            "{file} has changes that are not applied: apply them or take them back, then adopt",
            file=table.file,
        )
    others = tuple(drift for drift in found if drift.code != METADATA_TABLE)
    found = others or found
    refused = next((drift for drift in found if not drift.acceptable), None)
    if refused is not None:
        remedy = refused.remedy or Message("{command} restores it", command=command("apply"))
        raise UnacceptableDriftError(
            "{table}: {setting} cannot be accepted; {remedy}",
            table=table.name,
            setting=refused.path,
            remedy=remedy,
        )
    number = applied.number
    if found:
        number = _record(workspace, table, handle, found, reload)
    return Acceptance(
        table=table.name,
        file=table.file,
        location=table.location,
        applied_number=number,
        accepted=found,
    )


def _record(
    workspace: Workspace,
    table: ResolvedTable,
    handle: TableHandle,
    found: tuple[Drift, ...],
    reload: Callable[[], Workspace],
) -> int:
    """Write the drift into the table's file, record the spec as applied, and return the record's number.

    If that fails, the file gets its former content back.
    """
    root = workspace.project.root
    # Write to the file that was read: a link may point to another file of the project.
    file = (root / table.file).resolve()
    before = file.read_text(encoding="utf-8")
    live = {c.name: c for c in live_columns(handle.store, handle.timeline(), handle.config)}
    try:
        ConfinedFolder(root).write(file, _edited(table.file, before, found, live))
        return record_written(workspace, handle.store, reload().table(table.name).spec)
    except ParquetryError:
        ConfinedFolder(root).write(file, before)
        raise


def record_written(workspace: Workspace, store: ObjectStore, spec: TableSpec) -> int:
    """Record a spec whose file was just written as applied, and return the number of the record."""
    return adopt_table(
        store,
        spec,
        project=workspace.project.name,
        target=workspace.project.target.name,
        git_commit=workspace.tree.commit,
        # No commit has the file.
        dirty=None if workspace.tree.commit is None else True,
        applied_by=acting_user(workspace.tree.user),
        signing_keys=workspace.signing_keys,
        settings=recorded_settings(workspace.project.target.declared),
    ).number


def _edited(name: str, text: str, found: tuple[Drift, ...], live: dict[str, Column]) -> str:
    """Return a table's file with its version and columns changed to the live ones, as far as they drifted."""
    for drift in found:
        if drift.path == VERSION:
            text = with_version(text, drift.live, file=name)
            continue
        _, column, *attribute = drift.path.split(".")
        if not attribute:
            text = with_column(text, live[column], file=name)
        elif attribute == ["type"]:
            text = with_type(text, live[column], file=name)
        else:
            text = with_nullable(text, column, file=name)
    return text
