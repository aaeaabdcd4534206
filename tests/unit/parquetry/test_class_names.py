"""A class has a name of its own: whoever reads it in a message, a signature or a search finds one thing."""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())


def names_of(tree):
    """Public classes, and type aliases and the like: what a module assigns to a name in CapWords."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not name.isupper():
                    yield name


def modules_by_name(sources):
    found = defaultdict(set)
    for module, text in sources.items():
        for name in names_of(ast.parse(text)):
            if name[0].isupper():
                found[name].add(module)
    return found


def product():
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-dir"
    ].values()
    paths = {path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def test_no_class_name_means_two_things():
    found = modules_by_name(product())
    assert len(found) > 500
    twice = {name: sorted(modules) for name, modules in found.items() if len(modules) > 1}
    assert twice == {}


def test_a_second_definition_is_found_whatever_its_kind():
    sources = {
        "a.py": "class Group: ...\nLIMIT = 1\nclass _Part: ...\nRows = list[int]",
        "b.py": "from typing import TypeAlias\nGroup: TypeAlias = tuple[str, str]\nLIMIT = 2\nclass _Part: ...",
        "c.py": "def f():\n    class Rows: ...",
    }
    found = modules_by_name(sources)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {
        "Group": {"a.py", "b.py"},
        "Rows": {"a.py", "c.py"},
    }
