"""Public names use the words of the field: none has a word that docs/words.md replaces."""

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


def public_names(tree):
    """Every class, function, method and field that does not begin with an underscore, nor its class."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                if not name.startswith("_"):
                    yield name
                    yield from public_names(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def replaced_in(names):
    public = {name for name in names if not name.startswith("_")} - allowed()
    return {name for name in public if words_of(name) & replaced()}


def test_no_public_name_has_a_replaced_word():
    paths = sorted({path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")})
    found = {}
    for path in paths:
        names = {path.stem, *public_names(ast.parse(path.read_text(encoding="utf-8")))}
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
        "class Hindsight:\n    outlook: int\n    def undo_after(self): ...\n    def look_up(self): ...\n"
        "class _Trial:\n    fate: str\n"
        "def _sweep(): ...\n"
        "def predicted(): ...\n"
    )
    assert replaced_in(public_names(tree)) == {"FORESEEN", "Hindsight", "outlook", "undo_after"}
    assert words_of("is_byteCeiling_XML") == {"is", "byte", "ceiling", "xml"}
