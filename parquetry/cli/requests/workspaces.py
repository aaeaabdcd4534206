"""From a request to the project, the tables and the stores it is about."""

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
    from parquetry.compiler.workspace.opened import Workspace
    from parquetry.project.model.prices import Prices
    from parquetry.runtime.spec.job import TableOwner
    from parquetry.runtime.spec.table_spec import TableSpec
    from parquetry.runtime.storage.open import ObjectStore
    from parquetry.runtime.table.open import TableHandle


def workspace_of(request: ProjectRequest) -> Workspace:
    """The project at its target; SpecError when it is invalid, UsageError where nothing is to be trusted."""
    from parquetry.compiler.workspace.opened import open_workspace

    _refuse_untrusted()
    return open_workspace(
        request.directory,
        target=request.target,
        variables=request.variables,
        environment=os.environ,
        select=request.select,
        exclude=request.exclude,
    )


def whole_workspace(request: ProjectRequest) -> Workspace:
    """The same with all tables, for a command with selectors of its own."""
    return reloader(request)()


def _refuse_untrusted() -> None:
    """UsageError where the environment says that the project is a stranger's: `plan` alone is for that."""
    said = os.environ.get(UNTRUSTED, "")
    if said and SWITCH.convert(said, None, None):
        raise UsageError(
            f"{UNTRUSTED} says that nobody trusts the project, and this command reads the environment and "
            "opens what the project names; plan it with "
            + command("plan")
            + ", or look at its files: `validate`, `diff`, `explain` and `ls` open nothing"
        )


def untrusted_workspace(request: ProjectRequest, *, base: str | None) -> Workspace:
    """The project as a branch that nobody trusts declares it: looked at as far as its base names things."""
    from parquetry.compiler.workspace.opened import open_workspace
    from parquetry.compiler.workspace.untrusted import base_at

    found = base_at(
        request.directory,
        base,
        target=request.target,
        variables=request.variables,
        environment=os.environ,
    )
    return open_workspace(
        request.directory,
        target=request.target,
        variables=request.variables,
        environment=os.environ,
        select=request.select,
        exclude=request.exclude,
        base=found,
    )


def reloader(request: ProjectRequest) -> Callable[[], Workspace]:
    """What gives the request's whole project as its files are then; SpecError when they are invalid."""
    from parquetry.compiler.workspace.opened import open_workspace

    _refuse_untrusted()
    return lambda: open_workspace(
        request.directory, target=request.target, variables=request.variables, environment=os.environ
    )


_WITH_PASSWORD: Final = re.compile(r"[A-Za-z][\w+.-]*://[^/@:]*:(?!\d+(?:/|$))[^@]*@")


def is_location(table: str) -> bool:
    """Whether an argument is a path or URI of a table rather than a name in the project."""
    return "/" in table or table in (".", "..")


def absolute_place(location: str) -> str:
    """Return a path from the current folder as an absolute one, a URI as it is."""
    return location if ":" in location else os.path.abspath(location)  # noqa: PTH100  # keeps URIs out


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """The store of a table that a command names, and what the project declares of it.

    ``declared``, ``owner`` and ``prices`` are None where a path or URI was given: no project is known then.
    """

    store: ObjectStore
    declared: TableSpec | None
    owner: TableOwner | None = None
    prices: Prices | None = None

    def open(self) -> TableHandle:
        """The table; whoever changes it by this handle finds out when it is another project's by then."""
        from parquetry.runtime.table.open import open_table

        return open_table(self.store, owner=self.owner)


def table_named(
    request: ProjectRequest, table: str, *, must_exist: bool = True, applied: bool = False
) -> NamedTable:
    """A table by its name in the project, or any table by its path or URI.

    It is changed by what is ``applied`` to it, or only where that is what is declared.

    UnappliedError for a table of the project that is not there yet, unless it need not be;
    UsageError for a URI with a password;
    ForeignTableError for one that is another project's, or applied for another target.
    """
    if is_location(table):
        from parquetry.runtime.storage.open import open_store

        if _WITH_PASSWORD.match(table):
            # What is typed there would be printed, and kept in reports.
            raise UsageError(
                "the location of the table holds a password: leave it out, and set the environment"
            )
        return NamedTable(store=open_store(absolute_place(table)), declared=None)
    from parquetry.compiler.workspace.observation import is_there
    from parquetry.runtime.table.applied import check_owned

    workspace = workspace_of(request)
    declared = workspace.table(table)
    store = workspace.store(declared)
    owner = workspace.owner if applied else workspace.writer(declared)
    if is_there(store):
        check_owned(store, workspace.owner)
    elif must_exist:
        raise workspace.unapplied(declared)
    prices = workspace.project.target.prices
    return NamedTable(store=store, declared=declared.spec, owner=owner, prices=prices)


def table_in_force(request: ProjectRequest, table: str, *, applied: bool) -> NamedTable:
    """As :func:`table_named`, for whoever changes the table.

    UnappliedError where settings of the target execute and are not allowed, or not applied to the table.
    """
    from parquetry.compiler.plan.settings_in_force import check_allowed, check_in_force
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
    """The plan of the request's project and tables, as of now.

    ``due`` adds the debt of every table, ``excluded`` which files clustering would leave. ``untrusted``
    is for a branch that nobody trusts, to be merged into ``base``.
    """
    from parquetry.compiler.plan.planning import plan_workspace

    workspace = untrusted_workspace(request, base=base) if untrusted else workspace_of(request)
    return plan_workspace(workspace, now_ms=now_ms(), due=due, excluded=excluded)


def now_ms() -> int:
    """Milliseconds since 1970 (UTC) by this machine's clock."""
    return time.time_ns() // 1_000_000
