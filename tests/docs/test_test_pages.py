"""The pages about the tests name every folder of tests and every helper."""

from __future__ import annotations

import re

from tests.support.repository import ROOT

TESTS = ROOT / "tests"
SUPPORT = TESTS / "support"


def test_every_helper_has_one_line():
    listed = re.findall(r"^- `([\w/]+\.py)`: \S", (SUPPORT / "README.md").read_text("utf-8"), re.MULTILINE)
    helpers = {path.relative_to(SUPPORT).as_posix() for path in SUPPORT.rglob("*.py")}
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for name in helpers if not name.endswith("__init__.py")}


def test_every_folder_of_tests_has_its_row():
    rows = re.findall(r"^\| [^|]+ \| `tests/(\w+)/`", (TESTS / "README.md").read_text("utf-8"), re.MULTILINE)
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")}
    assert set(rows) == folders


def test_unit_tests_lie_in_rooms_that_there_are():
    unit = TESTS / "unit"
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    of_product = {folder for folder in folders if folder.parts[0] not in {"support", "benchmarks"}}
    # What the command line's folder is to `parquetry` it is to its tests, too.
    there = {
        ROOT / "parquetry" / folder if folder.parts[0] == "cli" else ROOT / folder for folder in of_product
    }
    assert [folder for folder in sorted(there) if not (folder / "__init__.py").is_file()] == []
