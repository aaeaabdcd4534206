"""The index of decisions is current, and every status leads to a decision."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.repository import ROOT
from tools.decision_index import FOLDER, MOVED, PAGE, UNUSED, merged, page, row

NUMBERS = [int(path.name[:4]) for path in sorted(FOLDER.glob("[0-9]*.md"))]
REFERENCE = re.compile(r"\bdecisions?\s+(\d{1,4})\b", re.IGNORECASE)
LINK = re.compile(r"\[(?:decision\s+)?(\d+)\]\((?:[\w./-]*/)?(\d{4})-[\w-]+\.md")


def test_the_index_is_current():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.decision_index"


def test_a_status_names_the_decision_that_changed_this_one():
    for path in FOLDER.glob("[0-9]*.md"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("**Status.**"):
                assert re.match(
                    r"\*\*Status\.\*\* (Amended|Superseded) by \[\d+\]\(\d{4}-[^)]+\.md\)", line
                ), path.name


def test_a_decision_without_its_number_is_refused(tmp_path):
    decision = tmp_path / "0099-title.md"
    decision.write_text("# 98. Title\n\n**Context.** None.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"0099-title\.md: the first line is not '# 99\. Title'"):
        row(decision)


def test_the_status_is_in_the_index(tmp_path):
    decision = tmp_path / "0099-title.md"
    decision.write_text("# 99. Title\n\n**Status.** Superseded by [100](0100-x.md)\n", encoding="utf-8")
    assert row(decision) == "| 99 | [Title](0099-title.md) | Superseded by [100](0100-x.md) |\n"
    decision.write_text("# 99. Title\n\n**Context.** None.\n", encoding="utf-8")
    assert row(decision) == "| 99 | [Title](0099-title.md) | Accepted |\n"


def test_every_number_is_a_decision_or_the_index_says_where_it_went():
    numbers = [*NUMBERS, *merged(), *MOVED, *UNUSED]
    assert sorted(numbers) == list(range(1, max(numbers) + 1))


def test_every_reference_names_a_decision_that_is_there():
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "*.py", "*.md", "*.toml", "*.yml", "Makefile"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    wrong = []
    for name in listed:
        if not (ROOT / name).is_file() or name == "tests/docs/test_decisions.py":
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        wrong += [(name, found[0]) for found in REFERENCE.finditer(text) if int(found[1]) not in NUMBERS]
        wrong += [(name, shown) for shown, file in LINK.findall(text) if int(shown) != int(file)]
    assert wrong == []
