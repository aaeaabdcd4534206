"""Write `docs/decisions/README.md`: a list of all decisions with their status, read from their files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

from tools.wrap_markdown import wrapped

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
PAGE = FOLDER / "README.md"

_HEADING = re.compile(r"# (?P<number>\d+)\. (?P<title>.+)")
_STATUS = re.compile(r"\*\*Status\.\*\* (?P<status>.+)")
_MERGED = re.compile(r"^\*\*Merged\.\*\* (?P<numbers>[\d, ]+)\.$", re.MULTILINE)

MOVED: Mapping[int, str] = {
    75: "../../tests/README.md#what-keeps-the-suites-short",
    90: "../../runtime/arrow/fingerprint.py",
    92: "../../runtime/clustering/rewrite/runs.py",
    93: "../../tests/README.md#what-keeps-the-suites-short",
}
"""Decisions that only explained an implementation, and the page or module that has their reasons now."""

UNUSED = frozenset(
    {
        37,
        39,
        40,
        45,
        48,
        51,
        95,
        109,
        123,
        128,
        129,
        131,
        132,
        133,
        136,
        144,
        150,
        157,
        169,
    }
)
"""Numbers that no decision of this repository ever had."""

_HEAD = """\
# Decisions

A decision says what was weighed, what was chosen and what follows from it. It is accepted unless its second paragraph
says `**Status.** Amended by ...` or `**Status.** Superseded by ...`, with a link. To take a decision back, write a new
one and give the old one that line.

A decision binds: a format, a protocol, who is trusted, an interface or a dependency. The reasons for an implementation
are in the docstring or comment of its module. A new decision is `NNNN-title.md` with the next free number, 30 to 60
lines: context, decision, what was not chosen, consequences. `python -m tools.decision_index` writes this page; a test
compares it.

| Number | Decision | Status |
|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    return wrapped(f"{_HEAD}{''.join(row(path) for path in _paths())}\n{_missing()}\n")


def merged() -> dict[int, list[Path]]:
    """Return the numbers of former decisions, each with the decisions that contain them now."""
    found: dict[int, list[Path]] = {}
    for path in _paths():
        for line in _MERGED.finditer(path.read_text(encoding="utf-8")):
            for number in re.findall(r"\d+", line["numbers"]):
                found.setdefault(int(number), []).append(path)
    return found


def row(path: Path) -> str:
    """Return the table row of a decision; raise ValueError if its file does not have the right form."""
    lines = path.read_text(encoding="utf-8").splitlines()
    heading = _HEADING.fullmatch(lines[0])
    if heading is None or int(heading["number"]) != int(path.name[:4]):
        raise ValueError(f"{path.name}: the first line is not '# {int(path.name[:4])}. Title'")
    status = _STATUS.fullmatch(" ".join(takewhile(bool, lines[2:])))
    return f"| {heading['number']} | [{heading['title']}]({path.name}) | {status['status'] if status else 'Accepted'} |\n"


def _paths() -> list[Path]:
    return sorted(FOLDER.glob("[0-9]*.md"))


def _missing() -> str:
    homes: dict[str, list[str]] = {}
    for number, paths in sorted(merged().items()):
        homes.setdefault(" and ".join(path.name[:4] for path in paths), []).append(f"{number:04}")
    for number, link in sorted(MOVED.items()):
        homes.setdefault(f"[{link.removeprefix('../../')}]({link})", []).append(f"{number:04}")
    named = "; ".join(f"{_listed(numbers)}: see {home}" for home, numbers in homes.items())
    return (
        f"**Missing numbers.** {named}. Never used: {_listed([f'{number:04}' for number in sorted(UNUSED)])}."
    )


def _listed(numbers: Sequence[str]) -> str:
    *others, last = numbers
    return f"{', '.join(others)} and {last}" if others else last


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
