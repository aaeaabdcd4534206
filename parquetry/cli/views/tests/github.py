"""The results of tests as annotations of a GitHub workflow, each at the line of its test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from parquetry.cli.views.diagnostics import annotation
from parquetry.cli.views.tests.text import counted, finding
from parquetry.compiler.testing.model import Status, TableTests

_KINDS: Final = {
    Status.WARNED: "warning",
    Status.FAILED: "error",
    Status.UNMEASURED: "error",
    Status.NOT_EXECUTED: "notice",
}


def render_github(tests: TableTests, *, prefix: str) -> str:
    """Return workflow commands: a line for each test that did not pass, and one with the counts.

    ``prefix`` is the project's path in the repository.
    """
    return "".join(f"{line}\n" for line in _lines(tests, prefix))


def _lines(tests: TableTests, prefix: str) -> Iterator[str]:
    for outcome in tests.outcomes:
        kind = _KINDS.get(outcome.status)
        if kind is not None:
            title = f"{outcome.table} {outcome.test}"
            yield annotation(kind, outcome.origin, title, finding(outcome), prefix=prefix)
    yield annotation("notice", None, "parquetry test", counted(tests))
