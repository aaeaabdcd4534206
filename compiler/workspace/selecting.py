"""The tables that the selectors ``state:changed`` and ``git:REF`` choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parquetry.compiler.errors import UnnamedPlaceError
from parquetry.compiler.git.revisions import files_at, load_before, load_known
from parquetry.compiler.workspace.observation import observe
from parquetry.project import ResolvedTable, SelectionError
from parquetry.project.diagnostics.model import errors
from parquetry.project.loading.load import LoadResult
from parquetry.project.model.selection import Method
from parquetry.runtime.errors import CorruptTableError, UnsupportedTableError
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.target_settings import Settings, setting_differences
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each


def changed_state(
    tables: tuple[ResolvedTable, ...],
    store: Callable[[ResolvedTable], ObjectStore],
    owner: TableOwner,
    settings: Settings,
) -> Method:
    """Return the selector ``state:changed``.

    It chooses tables that do not exist, or that record another spec or other ``settings`` than the declared
    ones. A table that cannot be read, or that belongs to another owner, counts as changed, so that the
    command reports the reason.

    Args:
        tables: The tables of the project.
        store: Opens the store of a table.
        owner: The project and target that tables must belong to.
        settings: The declared settings of the target by path.
    """

    def is_changed(table: ResolvedTable) -> bool:
        try:
            seen = observe(store(table))
        except (UnsupportedTableError, CorruptTableError, UnnamedPlaceError):
            return True
        if seen is None or not seen.is_applied or seen.handle.applied is None or seen.foreign_to(owner):
            return True
        if setting_differences(settings, seen.handle.applied.settings):
            return True
        spec = table.spec
        return seen.handle.applied.digest != digest_of(spec.to_json())

    def select(value: str) -> frozenset[str]:
        if value != "changed":
            raise SelectionError("selector 'state:{value}' is not known; write state:changed", value=value)
        answers = map_each(tables, is_changed)
        return frozenset(table.name for table, changed in zip(tables, answers, strict=True) if changed)

    return select


def unknown_state(value: str) -> frozenset[str]:
    """Raise SelectionError for ``state:`` in a command that reads no tables."""
    raise SelectionError(
        "selector 'state:{value}' needs the target's tables, which this command does not read; use git:REF",
        value=value,
    )


def changed_since(
    directory: Path, *, target: str | None, variables: Mapping[str, Any]
) -> Callable[[str], frozenset[str]]:
    """Return the selector ``git:REF``, which chooses new tables and those that resolve to another spec there.

    Comments, formatting and the order of keys make no difference. A changed policy, default or variable does
    if it reaches the table. If the revision has no project or not the target, all tables are new. Both sides
    are read without an environment and with the variables that they declare.

    Args:
        directory: The folder of the project.
        target: The name of the target, None for the default one.
        variables: The variables given by the user.

    Returns:
        A function from a revision to the names of tables. It raises RevisionError or SelectionError.
    """

    def invalid_project(found: LoadResult, reason: str) -> SelectionError:
        first = errors(found.diagnostics)[0]
        return SelectionError(
            "{subject}: {file}: {reason}", subject=reason, file=first.file, reason=first.message
        )

    def select(revision: str) -> frozenset[str]:
        now, _ = load_known(directory, target=target, variables=variables)
        if now.project is None:
            raise invalid_project(now, f"selector 'git:{revision}' needs a valid project")
        invalid = f"selector 'git:{revision}': the project was not valid there"
        files = files_at(directory, revision)
        then, _ = load_before(directory, files, target=now.project.target.name, variables=variables)
        if then is not None and then.project is None:
            raise invalid_project(then, invalid)
        before = (
            {table.name: _declaration(table) for table in then.project.tables}
            if then and then.project
            else {}
        )
        return frozenset(table.name for table in now.tables if before.get(table.name) != _declaration(table))

    return select


def _declaration(table: ResolvedTable) -> tuple[Any, ...]:
    """Return the whole declaration of a table, independent of the folder of its project."""
    return table.spec, table.location_declared
