"""Tests in a file of their own, for any table, with `queries` and `tests` as in a table's spec."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from parquetry.project.diagnostics.model import Diagnostic, diagnostic, in_order
from parquetry.project.diagnostics.source import Span
from parquetry.project.loading.check_sources import check_sql_of_tests
from parquetry.project.loading.check_tests import check_tests_in_file
from parquetry.project.loading.resolve import ResolutionContext, resolve
from parquetry.project.model import settings
from parquetry.project.model.table_tests import table_test
from parquetry.project.validation.definitions import Kind
from parquetry.project.validation.spec_file import SpecFile, spec_file
from parquetry.project.yaml.document import Document, Node, parse
from parquetry.runtime.spec.table_spec import Query, TableTest

_KEYS: Final = ("queries", "tests")
_REQUIRED_KEYS: Final = {
    "apiVersion": "parquetry/v1",
    "kind": "table",
    "name": "any",
    "columns": [{"name": "any", "type": "string"}],
}
"""The keys that the schema of a table requires besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsFile:
    """The content of a file of tests. ``origins`` has the position of each test.

    If there are diagnostics, nothing else may be used.
    """

    queries: tuple[Query, ...] = ()
    tests: tuple[TableTest, ...] = ()
    origins: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def load_tests_file(path: str, content: bytes) -> TestsFile:
    """Return the tests in a file's content, or its diagnostics. Templates are not evaluated."""
    document = parse(path, content)
    root = document.root
    if root is None or not isinstance(root.value, dict):
        summary = "a mapping with queries and tests is expected"
        wrong = diagnostic("PQ103", summary, source=document.source, hint="write tests: and a list")
        return TestsFile(diagnostics=document.diagnostics or (wrong,))
    unknown = [
        diagnostic(
            "PQ102",
            f"unknown key '{key}'",
            source=document.source,
            span=root.keys[key],
            hint=f"known keys are {', '.join(_KEYS)}",
        )
        for key in root.value
        if key not in _KEYS
    ]
    file = spec_file(_as_table(document, root), Kind.TABLE, lambda _: None)
    assert file is not None, "the root is a mapping"
    if unknown or file.diagnostics:
        return TestsFile(diagnostics=in_order([*unknown, *file.diagnostics]))
    found = _declared(file)
    if not found.tests:
        wrong = diagnostic(
            "PQ103",
            "the file has no test",
            source=document.source,
            span=root.span,
            hint="write one under tests",
        )
        return TestsFile(diagnostics=(wrong,))
    return replace(found, diagnostics=_checked(file))


def _checked(file: SpecFile) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of the checks that need no columns, policies or other files."""
    around = ResolutionContext(
        root=Path("/"), project=None, policies={}, target="", warehouse="warehouse", read=lambda _: b""
    )
    resolution = resolve(file, around)
    assert resolution is not None, "the table has a name"
    check_sql_of_tests(resolution)
    check_tests_in_file(resolution)
    return in_order(replace(entry, table=None) for entry in resolution.found)


def _as_table(document: Document, root: Node) -> Document:
    """Return the document as that of a table, so that the schema of tables can check it."""
    around: dict[str | int, Node] = {key: _node(value, root.span) for key, value in _REQUIRED_KEYS.items()}
    own: dict[str | int, Node] = {key: root.children[key] for key in _KEYS if key in root.value}
    children: dict[str | int, Node] = {**around, **own}
    value = {key: node.value for key, node in children.items()}
    keys = {key: root.keys.get(key, root.span) for key in (*_REQUIRED_KEYS, *_KEYS)}
    return Document(
        source=document.source, root=Node(value, root.span, keys, children), diagnostics=document.diagnostics
    )


def _node(value: Any, span: Span) -> Node:
    """Return a node of values that were not written, with one position for all of them."""
    match value:
        case dict():
            inner: dict[str | int, Node] = {key: _node(part, span) for key, part in value.items()}
            return Node(value, span, dict.fromkeys(value, span), inner)
        case list():
            return Node(value, span, {}, {index: _node(part, span) for index, part in enumerate(value)})
    return Node(value, span, {}, {})


def _declared(file: SpecFile) -> TestsFile:
    """Return the queries and tests of a valid file."""
    found = [
        (test, file.node.at(("tests", index)).span.start)
        for index, entry in enumerate(file.value.get("tests", ()))
        if (test := table_test(entry)) is not None
    ]
    return TestsFile(
        queries=tuple(settings.query(entry) for entry in file.value.get("queries", ())),
        tests=tuple(test for test, _ in found),
        origins=tuple(f"{file.source.path}:{line}:{column}" for _, (line, column) in found),
    )
