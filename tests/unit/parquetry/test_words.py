"""Names use the words of the field: none has a word that docs/words.md replaces."""

from __future__ import annotations

import ast
import re

from tests.support.repository import ROOT
from tests.unit.parquetry.test_house import FOLDERS

PAGE = (ROOT / "docs" / "words.md").read_text(encoding="utf-8")


def replaced():
    """The words in the first column of the page's table."""
    rows = re.findall(r"^\| ([a-z, ]+) \| .+ \|$", PAGE, flags=re.MULTILINE)
    return {word for row in rows for word in row.split(", ")} - {"replaced"}


def allowed():
    """The names below the table, in which a word is the field's own."""
    return set(re.findall(r"`(\w+)`", PAGE.rpartition("|\n")[2]))


def words_of(name):
    """The words of an identifier, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def bound_names(tree):
    """Every name that the module gives something: classes, functions, fields, parameters and variables."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.ExceptHandler(name=str(name))
            ):
                yield name


def replaced_in(names):
    return {name for name in {*names} - allowed() if words_of(name) & replaced()}


def test_no_name_has_a_replaced_word():
    paths = sorted({path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")})
    found = {}
    for path in paths:
        names = {path.stem, *bound_names(ast.parse(path.read_text(encoding="utf-8")))}
        if wrong := replaced_in(names):
            found[path.relative_to(ROOT).as_posix()] = sorted(wrong)
    assert len(paths) > 400
    assert found == {}


def test_no_json_key_is_a_replaced_word():
    found = {}
    for path in sorted((ROOT / "parquetry" / "cli" / "schemas").glob("*.json")):
        keys = set(re.findall(r'"(\w+)": \{', path.read_text(encoding="utf-8")))
        if wrong := replaced_in(keys):
            found[path.name] = sorted(wrong)
    assert found == {}


def test_a_replaced_word_is_found_wherever_it_is():
    tree = ast.parse(
        "FORESEEN = 1\n"
        "class Hindsight:\n    outlook: int\n    def undo_after(self, fate=0): self.told = fate\n    def look_up(self): ...\n"
        "class _Trial:\n    pace: str\n"
        "def _sweep():\n    for waiting in (): ...\n"
        "def predicted(): return [cuts for cuts in ()]\n"
    )
    assert replaced_in(bound_names(tree)) == {
        "FORESEEN", "Hindsight", "outlook", "undo_after", "fate", "told", "_Trial", "pace", "_sweep", "waiting", "cuts",
    }  # fmt: skip
    assert words_of("is_byteCeiling_XML") == {"is", "byte", "ceiling", "xml"}
