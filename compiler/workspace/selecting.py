"""What the selectors ``state:changed`` and ``git:REF`` stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from parquetry.compiler.errors import UnnamedPlaceError
from parquetry.compiler.workspace.observation import observe
from parquetry.compiler.workspace.revisions import files_at, load_before, load_known
from parquetry.message import joined
from parquetry.project import ResolvedTable, SelectionError
from parquetry.project.diagnostics.model import errors
from parquetry.project.loading.load import LoadResult
from parquetry.project.model.selection import Method
from parquetry.runtime.errors import CorruptTableError, UnsupportedTableError
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.target_settings import Settings, setting_differences
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each


def changed_state(
    tables: tuple[ResolvedTable, ...],
    store: Callable[[ResolvedTable], ObjectStore],
    owner: TableOwner,
    settings: Settings,
) -> Method:
    """``state:changed``: tables that are not there, or that record another spec or other ``settings``.

    A table that cannot be read, or is not the ``owner``'s, counts as changed, so that the command says why.
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

    def named(value: str) -> frozenset[str]:
        if value != "changed":
            raise SelectionError(f"selector 'state:{value}' is not known; write state:changed")
        answers = map_each(tables, is_changed)
        return frozenset(table.name for table, changed in zip(tables, answers, strict=True) if changed)

    return named


def unknown_state(value: str) -> frozenset[str]:
    """Refuses ``state:`` where no table is looked at."""
    message = f"selector 'state:{value}' needs the target's tables, which this command does not look at"
    raise SelectionError(f"{message}; use git:REF")


def changed_since(
    directory: Path, *, target: str | None, variables: Mapping[str, Any]
) -> Callable[[str], frozenset[str]]:
    """``git:REF``: tables that resolve to something else than they did at a revision, or are new.

    Comments, formatting and the order of keys are no difference; a policy, a default or a variable
    that reaches the table is; where there was no project, or it did not have the target, all are new.
    Both sides are read without an environment, and take those of the variables that they declare.
    """

    def refused(found: LoadResult, complaint: str) -> SelectionError:
        first = errors(found.diagnostics)[0]
        return SelectionError(joined("", (f"{complaint}: {first.file}: ", first.message)))

    def named(revision: str) -> frozenset[str]:
        now, _ = load_known(directory, target=target, variables=variables)
        if now.project is None:
            raise refused(now, f"selector 'git:{revision}' needs a valid project")
        invalid = f"selector 'git:{revision}': the project was not valid there"
        files = files_at(directory, revision)
        then, _ = load_before(directory, files, target=now.project.target.name, variables=variables)
        if then is not None and then.project is None:
            raise refused(then, invalid)
        before = {table.name: _said(table) for table in then.project.tables} if then and then.project else {}
        return frozenset(table.name for table in now.tables if before.get(table.name) != _said(table))

    return named


def _said(table: ResolvedTable) -> tuple[Any, ...]:
    """All that a table is declared to be, wherever its project lies."""
    return table.spec, table.location_declared
