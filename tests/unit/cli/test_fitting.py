"""Text fits the terminal, 80 columns in a pipe; what is to be copied stays whole."""

from __future__ import annotations

import re

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.cli.terminal.format import columns
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.wrap import wrap_lines

WIDTH = 80
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def pipe(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", None)


def words(text):
    return STYLE.sub("", text).split()


WORDS = st.lists(st.text("ab/=", min_size=1, max_size=30), min_size=1, max_size=40)


@given(WORDS, st.integers(0, 30), st.booleans())
def test_lines_are_broken_between_words_and_no_wider_than_the_width_allows(parts, indent, styled):
    line = " " * indent + " ".join(click.style(part, bold=True) if styled else part for part in parts)
    said = wrap_lines(line)
    assert words(said) == words(line)
    for number, part in enumerate(said.split("\n")):
        shown = STYLE.sub("", part)
        assert len(shown) <= WIDTH, number
        assert shown.startswith(" " * (indent + 2 * (number > 0)))


NEXT = "Next: parquetry apply plans/" + "long/" * 20 + "plan.json --target prod"


@pytest.mark.parametrize(
    "line", ["x" * 200, "   $ " + "word " * 40, NEXT, f"1 table applied. {NEXT}", "", "short  with   gaps"]
)
def test_what_cannot_or_must_not_be_broken_stays(line):
    assert wrap_lines(line) == line


def test_a_long_word_has_a_line_of_its_own():
    path = "a/" * 60
    assert wrap_lines(f"adopted orders at {path} with 3 columns").splitlines() == [
        "adopted orders at",
        f"  {path}",
        "  with 3 columns",
    ]


@given(st.integers(0, 30), st.sampled_from(["492 KB", "1.2 GB", "77 B", "about 4 min"]))
def test_a_figure_stays_with_its_unit(blanks, figure):
    said = wrap_lines(f"{'x' * (60 + blanks)} {figure} to rewrite, {'y' * 30}")
    assert any(figure.removeprefix("about ") in line for line in said.split("\n"))
    assert "\N{NO-BREAK SPACE}" not in said


def test_a_long_line_is_broken_in_linear_time():
    assert len(wrap_lines("word " * 200_000).splitlines()) > 10_000


def test_the_last_column_goes_on_below_itself():
    table = columns(("name", "why"), [("a", "word " * 30), ("b", "short")], paint=Paint(enabled=False))
    head, *rows, last = table.splitlines()
    assert (head, last) == ("name  why", "b     short")
    assert [row[:6] for row in rows] == ["a     ", "      "]
    assert max(map(len, rows)) <= WIDTH
    assert words(table)[3:-2] == ["word"] * 30
