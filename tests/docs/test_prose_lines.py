"""Prose in Markdown is wrapped at 120 columns, and the tool that wraps it changes nothing but line breaks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.wrap_markdown import WIDTH, unbroken, wrapped

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("benchmarks/*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
    ROOT / "tests" / "README.md",
    ROOT / "tests" / "support" / "README.md",
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_of_prose_is_too_long(page):
    assert unbroken(page.read_text(encoding="utf-8")) == [], "run: python -m tools.wrap_markdown FILE"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_wrapping_keeps_every_word_and_is_done_once(page):
    text = page.read_text(encoding="utf-8")
    once = wrapped(text)
    assert once.split() == text.split()
    assert wrapped(once) == once
    assert unbroken(once) == []


LONG = "word " * 40


@pytest.mark.parametrize(
    "kept",
    [
        f"```\n{LONG}\n```",
        f"  ```yaml\n  {LONG}\n  ```",
        f"| {LONG}| {LONG}|",
        f"# {LONG}",
        f"<!-- {LONG}-->",
        f"`{'x' * 130}`",
    ],
)
def test_blocks_tables_and_headings_stay(kept):
    assert wrapped(kept) == kept
    assert unbroken(kept) == []


def test_items_keep_their_indentation_and_their_number():
    text = f"Before:\n- {LONG}end\n  - inner\n1. {LONG}\n\nAfter."
    found = wrapped(text).split("\n")
    assert all(len(line) <= WIDTH for line in found)
    assert [line[:2] for line in found] == ["Be", "- ", "  ", "  ", "1.", "  ", "", "Af"]


def test_code_is_not_broken_and_no_line_begins_a_list():
    text = "a " * 55 + "`parquetry plan --out plan.json` - and " + "b " * 50 + "2026. It"
    found = wrapped(text).split("\n")
    assert any("`parquetry plan --out plan.json`" in line for line in found)
    assert not any(re.match(r"[-+*] |\d+\. ", line) for line in found)
