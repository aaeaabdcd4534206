"""Tables of the project for which there is no spec any more."""

from __future__ import annotations

from collections.abc import Iterator

from parquetry.compiler.known_locations import known_locations
from parquetry.compiler.observation import observe
from parquetry.compiler.planner import Undeclared
from parquetry.compiler.workspace import Workspace
from parquetry.runtime.applied import read_identity
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.parallel import map_each
from parquetry.runtime.source_files import join_base


def find_undeclared(workspace: Workspace) -> tuple[Undeclared, ...]:
    """Applied tables of this project that it does not declare, in the order of their names.

    Looked for in the folders directly below the warehouse, and where tables were when they were
    applied from this directory. Tables that moved, whose names are declared, are not among them,
    nor are those that cannot be read.
    """
    root = str(workspace.project.root)
    known = {join_base(root, table.location_declared) for table in workspace.project.tables}
    places = {join_base(root, place): place for place in _places(workspace)}
    candidates = [place for absolute, place in sorted(places.items()) if absolute not in known]
    names = {table.name for table in workspace.project.tables}
    found = [table for table in map_each(candidates, lambda place: _look(workspace, place)) if table]
    return tuple(sorted((t for t in found if t.spec.name not in names), key=lambda t: t.spec.name))


def _places(workspace: Workspace) -> Iterator[str]:
    target = workspace.project.target
    root = str(workspace.project.root)
    warehouse = target.warehouse.rstrip("/")
    for folder in workspace.store_at(warehouse).list_folders(""):
        yield f"{warehouse}/{folder.rstrip('/').rpartition('/')[2]}".removeprefix(f"{root}/")
    yield from known_locations(workspace.project.root, target.name).values()


def _look(workspace: Workspace, place: str) -> Undeclared | None:
    store = workspace.store_at(place)
    identity = read_identity(store)
    if identity is None or identity.project != workspace.project.name:
        return None
    try:
        observation = observe(store)
    except UnsupportedTableError:
        return None
    if observation is None or observation.spec is None or not observation.is_applied:
        return None
    return Undeclared(spec=observation.spec, location=place, observation=observation)
