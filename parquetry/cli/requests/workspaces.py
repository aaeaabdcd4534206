"""Lookup of the project, the tables and the stores that a request names."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from parquetry.cli.budget import UNTRUSTED
from parquetry.cli.requests.options import SWITCH, ProjectRequest
from parquetry.errors import UsageError
from parquetry.message import command

if TYPE_CHECKING:
    from parquetry.compiler.plan.model import PlanDocument
    from parquetry.compiler.security.untrusted import Base
    from parquetry.compiler.workspace.opened import Workspace
    from parquetry.project.model.prices import Prices
    from parquetry.runtime.spec.job import TableOwner
    from parquetry.runtime.spec.table_spec import TableSpec
    from parquetry.runtime.storage.model import ObjectStore
    from parquetry.runtime.table.handle import TableHandle


def workspace_of(request: ProjectRequest) -> Workspace:
    """Return the project of the request at its target, with the selected tables.

    Raises:
        SpecError: The project is invalid.
        UsageError: The environment marks the project as untrusted.

    """
    _refuse_untrusted()
    return _opened(request)


def whole_workspace(request: ProjectRequest) -> Workspace:
    """Return the project with all tables, for a command that evaluates the selectors itself."""
    return reloader(request)()


def _refuse_untrusted() -> None:
    """Raise UsageError if the environment marks the project as untrusted, as only `plan` may open it."""
    value = os.environ.get(UNTRUSTED, "")
    if value and SWITCH.convert(value, None, None):
        raise UsageError(
            "{variable} marks the project as untrusted, and this command reads the environment and opens "
            "what the project names; use {command}, or `validate`, `diff`, `explain` and `ls`, which open "
            "nothing",
            variable=UNTRUSTED,
            command=command("plan"),
        )


def untrusted_workspace(request: ProjectRequest, *, base: str | None) -> Workspace:
    """Return the project of an untrusted branch, which may open only what its base declares.

    ``base`` is the git revision that the branch is to be merged into, or None for the default branch of
    origin.
    """
    from parquetry.compiler.security.untrusted import base_at

    found = base_at(
        request.directory,
        base,
        target=request.target,
        variables=request.variables,
        environment=os.environ,
    )
    return _opened(request, base=found)


def _opened(request: ProjectRequest, *, base: Base | None = None) -> Workspace:
    from parquetry.compiler.workspace.opened import open_workspace

    return open_workspace(
        request.directory,
        target=request.target,
        variables=request.variables,
        environment=os.environ,
        select=request.select,
        exclude=request.exclude,
        base=base,
    )


def reloader(request: ProjectRequest) -> Callable[[], Workspace]:
    """Return a function that loads the request's whole project from its files, each time it is called.

    Raises:
        UsageError: The environment marks the project as untrusted.

    """
    from parquetry.compiler.workspace.opened import open_workspace

    _refuse_untrusted()
    return lambda: open_workspace(
        request.directory, target=request.target, variables=request.variables, environment=os.environ
    )


_WITH_PASSWORD: Final = re.compile(r"[A-Za-z][\w+.-]*://[^/@:]*:(?!\d+(?:/|$))[^@]*@")


def is_location(table: str) -> bool:
    """Return whether an argument is the path or URI of a table instead of a name in the project."""
    return "/" in table or table in (".", "..")


def absolute_location(location: str) -> str:
    """Return a relative path as an absolute one, and a URI unchanged."""
    return location if ":" in location else os.path.abspath(location)  # noqa: PTH100  # keeps URIs out


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """The store of a table that a command names, and the project's declaration of it.

    If a path or URI was given, no project is known, and ``declared``, ``owner`` and ``prices`` are None.
    """

    store: ObjectStore
    declared: TableSpec | None
    owner: TableOwner | None = None
    prices: Prices | None = None

    def open(self) -> TableHandle:
        """Open the table; changes by the handle fail if the table belongs to another project by then."""
        from parquetry.runtime.table.handle import open_table

        return open_table(self.store, owner=self.owner, declared=self.declared)


def table_named(
    request: ProjectRequest, table: str, *, must_exist: bool = True, applied: bool = False
) -> NamedTable:
    """Return a table by its name in the project, or any table by its path or URI.

    Args:
        request: The project.
        table: The name, path or URI.
        must_exist: Raise an error if the project's table does not exist.
        applied: Let changes use the applied spec, even if the declared one differs.

    Raises:
        UnappliedError: The project's table does not exist, and ``must_exist`` is True.
        UsageError: A URI contains a password.
        ForeignTableError: The table belongs to another project, or was applied for another target.

    """
    if is_location(table):
        from parquetry.runtime.storage.open import open_store

        if _WITH_PASSWORD.match(table):
            # The password would be printed, and stored in reports.
            raise UsageError(
                "the location of the table contains a password: remove it, and set it in the environment"
            )
        return NamedTable(store=open_store(absolute_location(table)), declared=None)
    from parquetry.compiler.workspace.observation import table_exists
    from parquetry.runtime.table.applied import check_owned

    workspace = workspace_of(request)
    declared = workspace.table(table)
    store = workspace.store(declared)
    owner = workspace.owner if applied else workspace.writing_owner(declared)
    if table_exists(store):
        check_owned(store, workspace.owner)
    elif must_exist:
        raise workspace.unapplied_error(declared)
    prices = workspace.project.target.prices
    return NamedTable(store=store, declared=declared.spec, owner=owner, prices=prices)


def table_in_force(request: ProjectRequest, table: str, *, applied: bool) -> NamedTable:
    """Return the table as :func:`table_named` does, for a command that changes it.

    Raises:
        UnappliedError: Settings of the target that can execute code are not allowed, or not applied to the
            table.

    """
    from parquetry.compiler.plan.target_changes import check_allowed, check_in_force
    from parquetry.runtime.table.applied import read_applied

    if is_location(table):
        return table_named(request, table, applied=applied)
    workspace = workspace_of(request)
    check_allowed(workspace)
    named = table_named(request, table, applied=applied)
    record = read_applied(named.store)
    check_in_force(workspace, workspace.table(table), None if record is None else record.ref)
    return named


def plan_for(
    request: ProjectRequest, *, due: bool, excluded: bool, untrusted: bool, base: str | None
) -> PlanDocument:
    """Return the plan of the request's project and tables, as of now.

    Args:
        request: The project and its selectors.
        due: Add the debt of every table.
        excluded: Add which files clustering would leave.
        untrusted: Plan an untrusted branch.
        base: The revision that an untrusted branch is to be merged into; None for the default branch of
            origin.

    """
    from parquetry.compiler.plan.planner import plan_workspace

    workspace = untrusted_workspace(request, base=base) if untrusted else workspace_of(request)
    return plan_workspace(workspace, now_ms=now_ms(), due=due, excluded=excluded)


def now_ms() -> int:
    """Return the milliseconds since 1970 (UTC) by this machine's clock."""
    return time.time_ns() // 1_000_000
