"""The sentences of messages name their fields, and no field is a text that was put together of values.

That a sentence is a literal, and that no message is formatted into a text, is checked with the types
(tools/typing_rules.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from string import Formatter

import pytest

from parquetry.message import _SPEC
from tests.support.repository import ROOT

FOLDERS = ("runtime", "compiler", "project", "templates", "parquetry")
PATHS = sorted({path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")})
NOT_FIELDS = {"exit_code", "declared"}
OF_ONE_VALUE = {"partition", "record_key", "file", "uri", "quote", "command", "run", "phrase"}
"""Calls whose argument is one value or one word, which may be put together of its parts."""


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls with a literal sentence and fields."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
            and isinstance(node.func, ast.Name)
            and node.func.id.endswith(("Error", "Message", "RetryWrite", "kind"))
        ):
            yield node


def put_together(node: ast.AST) -> bool:
    """Return whether a text is formatted in the expression, outside of a value or a command."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in OF_ONE_VALUE:
            return False
    if isinstance(node, ast.JoinedStr):
        return True
    return any(map(put_together, ast.iter_child_nodes(node)))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_name_in_a_sentence_is_a_field(path):
    for call in calls(ast.parse(path.read_text(encoding="utf-8"))):
        pieces = [piece for piece in Formatter().parse(call.args[0].value) if piece[1] is not None]
        named = {name for _, name, _, _ in pieces}
        given = {keyword.arg for keyword in call.keywords}
        if not given and "{" not in call.args[0].value:
            continue
        assert named == given - NOT_FIELDS, f"{path}:{call.lineno}"
        readable = [_SPEC.fullmatch(spec) and how in (None, "r") for _, _, spec, how in pieces]
        assert all(readable), f"{path}:{call.lineno}: message_from_json does not read its formats"
        formatted = [keyword.arg for keyword in call.keywords if put_together(keyword.value)]
        assert not formatted, f"{path}:{call.lineno}: {formatted}"
