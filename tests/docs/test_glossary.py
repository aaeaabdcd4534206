"""The glossary has each term once, in one sentence, in the order of the alphabet."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
SECTIONS = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]


def entries(section):
    """Terms and what is said of them."""
    items = re.split(r"^- ", section, flags=re.MULTILINE)[1:]
    return [
        re.fullmatch(r"\*\*(.+?):?\*\*(?: \(`.*?`\):)? (.+)", " ".join(i.split())).groups() for i in items
    ]


def test_each_term_is_there_once_and_in_order():
    for section in SECTIONS:
        terms = [term.lower() for term, _ in entries(section)]
        assert terms == sorted(terms)
    terms = [term.lower() for section in SECTIONS for term, _ in entries(section)]
    assert len(terms) == len(set(terms)) > 80


def test_each_term_has_one_sentence():
    several = [
        term
        for section in SECTIONS
        for term, text in entries(section)
        if not text.endswith(".") or re.search(r"[.!?] [A-Z]", text)
    ]
    assert several == []
