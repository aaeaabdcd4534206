"""The docstring of a function begins with an imperative verb; ruff's D401 finds nouns and other forms of verbs."""

from __future__ import annotations

import ast

import pytest

from tests.support.repository import ROOT
from tests.unit.parquetry.test_house import FOLDERS

NO_VERBS = frozenset(
    [
        "A",
        "About",
        "After",
        "All",
        "An",
        "And",
        "Any",
        "As",
        "At",
        "Before",
        "Below",
        "Beside",
        "Both",
        "But",
        "By",
        "Each",
        "Every",
        "False",
        "For",
        "From",
        "How",
        "If",
        "In",
        "Into",
        "It",
        "Its",
        "Like",
        "No",
        "None",
        "Not",
        "Nothing",
        "Of",
        "On",
        "One",
        "Or",
        "Same",
        "Some",
        "Such",
        "That",
        "The",
        "Their",
        "These",
        "They",
        "This",
        "Those",
        "To",
        "True",
        "Two",
        "Under",
        "Up",
        "What",
        "When",
        "Where",
        "Whether",
        "Which",
        "Who",
        "Whose",
        "Why",
        "With",
        "Without",
    ]
)
"""Words that begin a phrase or a clause. D401 knows verbs alone and finds few of these."""


def offences(tree):
    """The first lines of functions and methods that begin with no verb; a property is a noun."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_property(node):
            text = ast.get_docstring(node) or "Return"
            first = text.split()[0].rstrip(".,:;")
            if first in NO_VERBS or not first[0].isupper():
                yield f"{node.lineno}: {text.splitlines()[0]}"


def is_property(node):
    names = {getattr(decorator, "id", getattr(decorator, "attr", "")) for decorator in node.decorator_list}
    return bool(names & {"property", "cached_property"})


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_of_functions_begin_with_a_verb(folder):
    found = {
        path.relative_to(ROOT).as_posix(): wrong
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (wrong := [*offences(ast.parse(path.read_text(encoding="utf-8")))])
    }
    assert found == {}


def test_a_phrase_is_found_and_a_property_may_be_one():
    tree = ast.parse(
        'def a():\n    """What it is."""\n'
        'class C:\n    @property\n    def b(self):\n        """The size."""\n'
        '    def c(self):\n        """Return the size."""\n'
        '    def d(self):\n        """``path`` of it."""\n'
    )
    assert [*offences(tree)] == ["1: What it is.", "9: ``path`` of it."]
