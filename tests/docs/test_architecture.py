"""The page on the architecture names what is there: every room, every module, the layers as they are checked."""

from __future__ import annotations

import re
import tomllib

from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS = PYPROJECT["tool"]["setuptools"]["package-dir"]
ROOM = re.compile(r"^\*\*`([\w/]+)/`\*\*", re.MULTILINE)
PATH = re.compile(r"`((?:parquetry|compiler|project|runtime|templates|docs|tests|tools)/[\w./*]*)`")
DRAWING = re.compile(r"^## The map$.*?^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def folder_of(package):
    """The folder in the repository of a package, such as ``runtime/commit``."""
    known = max((name for name in FOLDERS if f"{package}.".startswith(f"{name}.")), key=len)
    return FOLDERS[known] + package.removeprefix(known).replace(".", "/")


def drawn():
    """The layers below each folder of the drawing, from top to bottom, as sets of names."""
    layers = {}
    for line in DRAWING.search(PAGE)[1].splitlines():
        if not line.startswith(" "):
            below = layers.setdefault(line.split()[0], [])
        else:
            below.append(set(re.split(r" \| ", re.split(r"\s{3,}", line.strip())[0])))
    return layers


def checked():
    """The layers of the import contracts, by folder."""
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    return {
        folder_of(container): [set(re.split(r" \| ", layer)) for layer in contract["layers"]]
        for contract in contracts
        for container in contract.get("containers", ())
    }


def test_every_package_has_its_paragraph():
    packages = {folder_of(package) for package in PYPROJECT["tool"]["setuptools"]["packages"]}
    rooms = ROOM.findall(PAGE)
    assert len(rooms) == len(set(rooms))
    assert set(rooms) == packages


def test_everything_that_is_named_is_there():
    named = set(PATH.findall(PAGE))
    assert len(named) > 100
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_drawing_is_that_of_the_import_contracts():
    assert drawn() == checked()


def test_the_wishes_name_a_module_each():
    table = PAGE.partition("## I want to change")[2].partition("## ")[0]
    wishes = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(wishes) >= 10
    assert [line for line in wishes if not PATH.search(line.split(" | ")[1])] == []
