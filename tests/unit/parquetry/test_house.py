"""Each room has a sentence that describes it, and no module repeats the name of its room."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from tests.support.repository import ROOT

FOLDERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"].values()


def rooms():
    """The modules of every folder of the product, without its ``__init__``."""
    paths = sorted({path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")})
    found: dict[Path, list[str]] = {path.parent: [] for path in paths}
    for path in paths:
        if path.name != "__init__.py":
            found[path.parent].append(path.stem)
    return {folder.relative_to(ROOT).as_posix(): modules for folder, modules in found.items()}


def repeats(module, folder):
    """Whether a module has the name of its folder, or begins with it."""
    last = folder.rpartition("/")[2]
    return any(module == word or module.startswith(f"{word}_") for word in (last, last.removesuffix("s")))


def test_no_module_repeats_the_name_of_its_room():
    found = [
        f"{folder}/{name}.py" for folder, names in rooms().items() for name in names if repeats(name, folder)
    ]
    assert found == []


def test_every_room_has_its_sentence():
    without = []
    for folder in rooms():
        init = ROOT / folder / "__init__.py"
        sentence = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) if init.is_file() else None
        if not (sentence or "").partition("\n")[0].endswith("."):
            without.append(folder)
    assert without == []


def test_a_name_that_repeats_is_found():
    assert repeats("base_file_keys", "runtime/base_file")
    assert repeats("view_of_plans", "parquetry/cli/views")
    assert repeats("sizing", "runtime/sizing")
    assert not repeats("planner", "compiler/plan")
    assert not repeats("clustering_by_hand", "runtime")
