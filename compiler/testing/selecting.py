"""Selection of tests: selectors of tables, and ``test:NAME``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from parquetry.compiler.testing.execution import TableUnderTest, tests_of
from parquetry.compiler.workspace.opened import Workspace, selected
from parquetry.project import SelectionError
from parquetry.project.diagnostics.model import one_of

_METHOD: Final = "test:"

_Pair = tuple[str, str]


def selected_tests(
    workspace: Workspace, *, select: Sequence[str], exclude: Sequence[str]
) -> tuple[TableUnderTest, ...]:
    """Return the workspace's tables with their selected tests, without tables that have none.

    ``test:NAME``, which may be a glob, is a term like others: joined by a comma, it selects the tests that
    match all terms.

    Raises:
        SelectionError: if a term matches no test.

    """
    tables = [tests_of(workspace, table) for table in workspace.tables]
    everything = frozenset((table.name, test.name) for table in tables for test in table.tests)
    wanted = _union(workspace, everything, select) if select else everything
    wanted -= _union(workspace, everything, exclude)
    chosen = (
        replace(table, tests=tuple(test for test in table.tests if (table.name, test.name) in wanted))
        for table in tables
    )
    return tuple(table for table in chosen if table.tests)


def _union(workspace: Workspace, everything: frozenset[_Pair], selectors: Sequence[str]) -> frozenset[_Pair]:
    found: frozenset[_Pair] = frozenset()
    for selector in selectors:
        terms = [term.strip() for term in selector.split(",")]
        names = [term.removeprefix(_METHOD) for term in terms if term.startswith(_METHOD)]
        others = ",".join(term for term in terms if not term.startswith(_METHOD))
        matched = everything
        if others or not names:
            tables = {table.name for table in selected(workspace, select=(others,)).tables}
            matched = frozenset(pair for pair in matched if pair[0] in tables)
        for name in names:
            if not name:
                raise SelectionError(f"selector {selector!r} has nothing after 'test:'; write test:NAME")
            by_name = frozenset(pair for pair in everything if fnmatchcase(pair[1], name))
            if not by_name:
                hint = one_of("test", name, {test for _, test in everything})
                raise SelectionError(f"selector {selector!r} matches no test; {hint}")
            matched &= by_name
        found |= matched
    return found
