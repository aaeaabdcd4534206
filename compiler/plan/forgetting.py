"""Tables of the project that no spec declares any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from parquetry.compiler.workspace.known_locations import known_locations
from parquetry.compiler.workspace.observation import Observation, observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.project.model.locations import contains
from parquetry.runtime.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from parquetry.runtime.spec.source_paths import join_base
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.applied import read_identity
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER

_DEPTH: Final = 4
_LISTINGS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    """A table of the project that no spec declares any more, and its location."""

    spec: TableSpec
    location: str
    observation: Observation


def find_undeclared(workspace: Workspace) -> tuple[Undeclared, ...]:
    """Return the applied tables of this project that no spec declares, sorted by name.

    The search covers the warehouse and the locations of tables that were applied from this directory. It
    skips folders of tables and warehouses of other targets. It lists other folders down to the fourth level,
    level by level, and at most 200 of them. If the warehouse of another target is unknown and may be inside
    this one, the search stops after the first level. Tables that cannot be read, or that are applied for
    another target, are not returned.
    """
    if not workspace.may_open(workspace.project.target.warehouse):
        return ()
    root = str(workspace.project.root)
    known = {join_base(root, table.location_declared) for table in workspace.project.tables}
    found = _search(workspace, known)
    former = {join_base(root, location): location for location in _known_locations(workspace)}
    seen = known | {join_base(root, table.location) for table in found}
    other_locations = [
        location
        for absolute, location in sorted(former.items())
        if absolute not in seen and workspace.may_open(location)
    ]
    found += [
        table
        for table in map_each(other_locations, lambda location: _undeclared_at(workspace, location))
        if table
    ]
    return tuple(sorted(found, key=lambda t: (t.spec.name, t.location)))


def _known_locations(workspace: Workspace) -> Iterable[str]:
    """Return the last known locations of tables that were applied from this directory."""
    return known_locations(workspace.project.root, workspace.project.target.name).values()


def _search(workspace: Workspace, known: Collection[str]) -> list[Undeclared]:
    """Return the project's tables below the warehouse except those at ``known`` locations, level by level."""
    root = str(workspace.project.root)
    warehouse = workspace.project.target.warehouse.rstrip("/")
    store = workspace.store_at(warehouse)
    others = workspace.project.other_warehouses
    foreign_warehouses = [other for other in others if other is not None and not contains(other, warehouse)]

    def location_of(folder: str) -> str:
        return f"{warehouse}/{folder}".removeprefix(f"{root}/")

    def may_contain_tables(folder: str) -> bool:
        location = join_base(root, location_of(folder))
        return location not in known and not any(
            contains(foreign_warehouse, location) for foreign_warehouse in foreign_warehouses
        )

    found: list[Undeclared] = []
    level, left = _sub_folders(store, "") or [], _LISTINGS
    for _ in range(1 if None in others else _DEPTH):
        folders = [folder for folder in level if may_contain_tables(folder)][:left]
        left -= len(folders)
        below = map_each(folders, lambda folder: _sub_folders(store, folder))
        tables = [folder for folder, inner in zip(folders, below, strict=True) if inner is None]
        observed = map_each(tables, lambda folder: _undeclared_at(workspace, location_of(folder)))
        found += [table for table in observed if table is not None]
        level = [path for inner in below for path in inner or ()]
    return found


def _sub_folders(store: ObjectStore, folder: str) -> list[str] | None:
    """Return the folders in a folder as paths from the warehouse, or None if the folder is a table."""
    paths = {path.rstrip("/").rpartition("/")[2]: path.rstrip("/") for path in store.list_folders(folder)}
    if TIMELINE_FOLDER in paths:
        return None
    return [path for name, path in paths.items() if not name.startswith((".", "_"))]


def _undeclared_at(workspace: Workspace, location: str) -> Undeclared | None:
    """Return the table at a location if it is applied and belongs to this project, or None."""
    store = workspace.store_at(location)
    try:
        identity = read_identity(store)
        if identity is None or identity.project != workspace.project.name:
            return None
        observation = observe(store)
        if observation is not None and observation.foreign_to(workspace.owner_of(observation)):
            return None
    except (CorruptTableError, InvalidDataError, UnsupportedTableError):
        return None
    if observation is None or observation.spec is None or not observation.is_applied:
        return None
    return Undeclared(spec=observation.spec, location=location, observation=observation)
