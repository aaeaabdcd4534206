"""The differences between the timeline layouts lie in one place: no other code asks for a version."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from parquetry import runtime

ROOT = Path(runtime.__file__).parents[1]
HOMES = {
    "runtime/timeline/layout.py",
    "runtime/timeline/instant.py",
    "runtime/table/version_properties.py",
    "runtime/table/admission_to_read.py",
}
NAMES = {"version", "layout", "table_version", "NUMBER"}


def modules() -> list[str]:
    files = [path for room in ("runtime", "compiler") for path in (ROOT / room).rglob("*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in files)


def decisions(source: str) -> list[int]:
    """The lines that compare a version or a layout with a number."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(_name_of(side) in NAMES for side in (node.left, *node.comparators))
        and any(_is_number(side) for side in (node.left, *node.comparators))
    ]


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_number(node: ast.expr) -> bool:
    members = node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else [node]
    return any(
        isinstance(m, ast.Constant) and isinstance(m.value, int | str) and str(m.value).isdigit()
        for m in members
    )


@pytest.mark.parametrize("module", [name for name in modules() if name not in HOMES])
def test_no_other_module_compares_a_version_with_a_number(module):
    assert decisions((ROOT / module).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    ["config.version == 9", "if layout in (1, 2): pass", "6 < spec.table_version", "layout.NUMBER != 1"],
)
def test_such_a_comparison_is_found(source):
    assert decisions(source) == [1]
