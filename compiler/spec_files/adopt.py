"""The command `adopt`: an existing Hudi table joins the project, with a spec from its own records."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parquetry.compiler.errors import SpecError
from parquetry.compiler.plan.target_changes import check_allowed
from parquetry.compiler.spec_files.accept_drift import Acceptance, accept_drift, record_written
from parquetry.compiler.spec_files.hudi_options import settings_of
from parquetry.compiler.spec_files.yaml import (
    LAYERED,
    LOCKS,
    META_COLUMNS,
    VERSION,
    missing_settings,
    structure,
    table_text,
    with_settings,
)
from parquetry.compiler.workspace.known_locations import remember
from parquetry.compiler.workspace.observation import Observation, observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError, UsageError
from parquetry.message import Message, Text
from parquetry.project import ResolvedTable
from parquetry.project.diagnostics.model import Diagnostic, Severity
from parquetry.project.model.locations import LocationProblem, contains, normalised
from parquetry.runtime.apply.adoption import check_adoptable
from parquetry.runtime.commit.storage_lock import STORAGE_LOCK_PATH
from parquetry.runtime.errors import TableNotFoundError
from parquetry.runtime.spec.table_spec import Locks, TableSpec
from parquetry.runtime.storage.model import VersionedStore
from parquetry.runtime.table.applied import NO_PROJECT
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.instant import Action

_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class UnadoptedSetting:
    """A recorded setting that the spec does not contain: its dotted path, its value, and the reason."""

    path: str
    value: Any
    reason: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """The result of an adoption: the file that declares the table, and the number of its applied record.

    ``settings`` are the recorded settings that are now declared. ``left_out`` are those that would break a
    check. ``metadata_partitions`` are the partitions of a metadata table, which the next plan drops.
    """

    table: str
    file: str
    location: str
    applied_number: int
    columns: int
    settings: Mapping[str, Any]
    left_out: tuple[UnadoptedSetting, ...]
    metadata_partitions: tuple[str, ...] = ()


def adopt(
    workspace: Workspace, location: str, *, name: str | None, reload: Callable[[], Workspace]
) -> Adopted | Acceptance:
    """Adopt the table at ``location`` (an absolute path or a URI) into the project.

    If the project already declares and applied the table, its drift is accepted into the spec. If there is an
    error, nothing is changed.

    Args:
        workspace: the project.
        location: the table's location.
        name: the name in the project; None for the table's own name.
        reload: a function that loads the project again from its files.

    Raises:
        UnsupportedTableError: if parquetry cannot write the table; the message has the reason and a remedy.
        UsageError: if the name or the location is taken or malformed.
        SpecError: if the written spec would have errors.
        UnappliedError: if settings of the target execute and are not allowed.

    """
    check_allowed(workspace)
    try:
        place = normalised(location)
    except LocationProblem as problem:
        raise UsageError("{reason}; {hint}", reason=problem.summary, hint=problem.hint) from problem
    store = workspace.store_at(place)
    observation = observe(store)
    if observation is None:
        raise TableNotFoundError(
            "{table}: no Hudi table found; give the folder that contains .hoodie", table=store.uri
        )
    known = next((table for table in workspace.project.tables if table.location == place), None)
    handle = observation.handle
    if known is not None and observation.is_applied and handle.project == workspace.project.name:
        observation.check_owner(workspace.owner_of(observation))
        return accept_drift(workspace, known, handle, reload=reload)
    if known is not None:
        if handle.project not in (None, NO_PROJECT):
            observation.check_owner(workspace.owner)
        raise UsageError(
            "{file} declares a table at {location} already; remove it, adopt again, and put back from it "
            "what you want",
            file=known.file,
            location=place,
        )
    return _adopt(workspace, observation, place, name or handle.config.name, reload)


def _adopt(
    workspace: Workspace, observation: Observation, place: str, name: str, reload: Callable[[], Workspace]
) -> Adopted:
    """Write the spec of a table that another program created, and record it as applied."""
    handle = observation.handle
    check_adoptable(handle, owner=workspace.owner_of(observation))
    _check_name(workspace, name, named=handle.config.name)
    file = workspace.project.root / "tables" / f"{name}.yml"
    if os.path.lexists(file):
        raise UsageError("tables/{name}.yml exists; give the table another name with --name", name=name)
    timeline = handle.timeline()
    wanted = replace(
        handle.effective_spec(timeline), name=name, table_version=handle.config.version, locks=_locks(handle)
    )
    wanted = _with_required_keys(wanted)
    document = structure(wanted, location=declared_location(workspace, place, name))
    recorded = {} if handle.spec else settings_of(_recorded_options(handle))
    try:
        recorded, left_out = _passing_settings(reload, file, document, recorded)
        document = with_settings(document, recorded)
        sections = LAYERED if handle.spec else ("partitioning", META_COLUMNS, VERSION, LOCKS)
        table, settings = _write_until_resolved(reload, file, document, wanted, sections)
        number = record_written(workspace, handle.store, table.spec)
    except ParquetryError:
        ConfinedFolder(workspace.project.root).delete(file)
        raise
    remember(workspace.project.root, workspace.project.target.name, {name: table.location_declared})
    return Adopted(
        table=name,
        file=f"tables/{name}.yml",
        location=place,
        applied_number=number,
        columns=len(table.spec.columns),
        settings=recorded | settings,
        left_out=left_out,
        metadata_partitions=handle.config.metadata_partitions,
    )


def _passing_settings(
    reload: Callable[[], Workspace], file: Path, document: Mapping[str, Any], recorded: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[UnadoptedSetting, ...]]:
    """Return the recorded settings that together pass the project's checks, and those that do not.

    While there are errors, the function drops the setting whose removal leaves the fewest errors. It raises
    SpecError if the table has errors without any of the settings.
    """

    def errors_with(settings: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
        """Return the errors that the table has with these settings."""
        try:
            _resolved(reload, file, with_settings(document, settings))
        except SpecError as error:
            return tuple(d for d in error.diagnostics if d.severity is Severity.ERROR)
        return ()

    kept, left_out = dict(recorded), list[UnadoptedSetting]()
    errors = errors_with(kept) if recorded else ()
    if errors and errors_with({}):
        _resolved(reload, file, document)
    while errors:
        errors_without = {path: errors_with(_without(kept, path)) for path in kept}
        worst = min(errors_without, key=lambda path: (len(errors_without[path]), path))
        remaining = {(error.code, error.summary) for error in errors_without[worst]}
        removed_error = next((e for e in errors if (e.code, e.summary) not in remaining), errors[0])
        left_out.append(
            UnadoptedSetting(
                path=worst,
                value=kept[worst],
                reason=Message("{code} {reason}", code=removed_error.code, reason=removed_error.summary),
            )
        )
        kept, errors = _without(kept, worst), errors_without[worst]
    return kept, tuple(left_out)


def _without(settings: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the settings without the one at a path."""
    return {key: value for key, value in settings.items() if key != path}


def _write_until_resolved(
    reload: Callable[[], Workspace],
    file: Path,
    document: dict[str, Any],
    wanted: TableSpec,
    sections: Collection[str],
) -> tuple[ResolvedTable, dict[str, Any]]:
    """Write the file until the project resolves it to ``wanted``; return the table and the added settings.

    Settings depend on each other, so missing settings are added in several rounds.
    """
    settings: dict[str, Any] = {}
    for _ in range(_ROUNDS):
        table = _resolved(reload, file, document)
        missing = missing_settings(wanted, table.spec, sections=sections)
        if not missing:
            break
        settings |= missing
        document = with_settings(document, missing)
    return _resolved(reload, file, document), settings


def _resolved(reload: Callable[[], Workspace], file: Path, document: Mapping[str, Any]) -> ResolvedTable:
    """Write the file, and return the table from the reloaded project; raise SpecError for errors in it."""
    ConfinedFolder(file.parent.parent).write(file, table_text(document))
    return reload().table(document["name"])


def _check_name(workspace: Workspace, name: str, *, named: str) -> None:
    """Raise UsageError if a table cannot have the name, or if another table of the project has it.

    ``named`` is the name that the table has at its location.
    """
    if not (name.isascii() and name.isidentifier()):
        given = "the table's own name" if name == named else "the name"
        raise UsageError(
            "{given} {name!r} may only have letters, digits and '_', and no digit at its start; choose "
            "a name with --name NAME",
            given=given,
            name=name,
        )
    taken = next((table for table in workspace.project.tables if table.name == name), None)
    if taken is not None:
        raise UsageError(
            "{file} already declares a table {name!r}; choose a name with --name", file=taken.file, name=name
        )


def declared_location(workspace: Workspace, place: str, name: str) -> str | dict[str, str] | None:
    """Return the location for the spec, or None if it follows from the table's name.

    A location outside of the warehouse is declared for this target only, as the spec means another table at
    others.
    """
    target = workspace.project.target
    warehouse = target.warehouse.rstrip("/")
    if not contains(warehouse, place) or place == warehouse:
        return {target.name: place}
    below = place.removeprefix(f"{warehouse}/")
    return None if below == name else below


def _with_required_keys(spec: TableSpec) -> TableSpec:
    """Return the spec with key columns that are not nullable.

    Hudi's schemas say that they may be null, but its writers refuse that.
    """
    keys = {field.partition(".")[0] for field in spec.record_key}
    columns = (replace(c, nullable=False) if c.name in keys else c for c in spec.columns)
    return spec.with_columns(tuple(columns))


def _recorded_options(handle: TableHandle) -> dict[str, str]:
    """Return the ``hoodie.*`` options in the properties, the newest clustering plan and the newest commit."""
    timeline = handle.timeline()
    found = dict(handle.config.raw)
    for instant in reversed(timeline.completed_writes):
        plan = (
            timeline.requested_replace(instant.time).plan if instant.action is Action.REPLACECOMMIT else None
        )
        if plan is not None:
            found |= plan.strategy_params
            break
    if timeline.completed_writes:
        found |= timeline.commit_metadata(timeline.completed_writes[-1].time).extra
    return {key: value for key, value in found.items() if key.startswith("hoodie.")}


def _locks(handle: TableHandle) -> Locks:
    """Return the lock of the table: the storage-based one if its properties or a lock object show it."""
    is_shared = isinstance(handle.store, VersionedStore) and handle.store.stat(STORAGE_LOCK_PATH) is not None
    return Locks.STORAGE if is_shared else handle.config.locks
