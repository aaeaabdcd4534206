"""Write `docs/decisions/README.md`: a list of all decisions with their status, read from their files."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
PAGE = FOLDER / "README.md"

_HEADING = re.compile(r"# (?P<number>\d+)\. (?P<title>.+)")
_STATUS = re.compile(r"\*\*Status\.\*\* (?P<status>.+)")

_HEAD = """\
# Decisions

A decision says what was weighed, what was chosen and what follows from it. It is accepted unless its second paragraph
says `**Status.** Amended by ...` or `**Status.** Superseded by ...`, with a link. To take a decision back, write a new
one and give the old one that line.

A new decision is `NNNN-title.md` with the next free number, about 30 lines: context, decision, consequences.
`python -m tools.decision_index` writes this page; a test compares it.

| Number | Decision | Status |
|---|---|---|
"""


def page() -> str:
    """Return the text of the page."""
    return _HEAD + "".join(row(path) for path in sorted(FOLDER.glob("[0-9]*.md")))


def row(path: Path) -> str:
    """Return the table row of a decision; raise ValueError if its file does not have the right form."""
    lines = path.read_text(encoding="utf-8").splitlines()
    heading = _HEADING.fullmatch(lines[0])
    if heading is None or int(heading["number"]) != int(path.name[:4]):
        raise ValueError(f"{path.name}: the first line is not '# {int(path.name[:4])}. Title'")
    status = _STATUS.fullmatch(" ".join(takewhile(bool, lines[2:])))
    return f"| {heading['number']} | [{heading['title']}]({path.name}) | {status['status'] if status else 'Accepted'} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
