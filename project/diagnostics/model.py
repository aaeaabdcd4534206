"""Diagnostics as values: code, position, message, snippet and hint, and their lines for people and GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, Final

from parquetry.message import Message, Text, in_full
from parquetry.project.diagnostics.codes import CODES
from parquetry.project.diagnostics.source import SQL_KEY, START, SourceText, Span
from parquetry.text.printable import one_line, visible

_MOST_CANDIDATES = 200
_MOST_COLUMNS: Final = 120
_COLUMNS_BEFORE: Final = 40
_SHOWN = 10
_KEY = r"""\benc\w*key\w*["']?\s*:\s*"""
_PASTED_KEY = re.compile(rf"""({_KEY})(?!["']?(?:env:|file:|{{{{))\S.*""")
"""The rest of a line that may contain an encryption key in place of a reference such as ``env:NAME``."""
_KEY_BELOW = re.compile(rf"{_KEY}(?:[>|][-+0-9]*)?\s*$")


class Severity(IntEnum):
    """The effect of a diagnostic: an error stops every command, a warning stops none."""

    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        """``error`` or ``warning``, as it is printed."""
        return self.name.lower()


class Problem(Exception):  # noqa: N818 - becomes a diagnostic, never leaves the package
    """An error in a text whose position is not known here: code, summary and hint of a later diagnostic."""

    def __init__(self, code: str, summary: Text, hint: Text | None = None) -> None:
        super().__init__(summary)
        self.code = code
        self.summary = summary
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One diagnostic. ``file`` is relative to the project; lines and columns count from 1.

    ``snippet`` has the line before the diagnostic (if there is one) and its own line, each with its number.
    ``table`` is the table in which it was found, also if several tables share the file. It does not count for
    equality.
    """

    code: str
    severity: Severity
    summary: Text
    file: str
    span: Span
    hint: Text | None
    snippet: tuple[tuple[int, str], ...]
    table: str | None = field(default=None, compare=False)

    @property
    def line(self) -> int:
        """The first line of the diagnostic."""
        return self.span.start.line

    @property
    def column(self) -> int:
        """The first column of the diagnostic."""
        return self.span.start.column

    @property
    def message(self) -> Text:
        """Summary and hint in one line."""
        return (
            Message("{summary}; {hint}", summary=self.summary, hint=self.hint) if self.hint else self.summary
        )

    @property
    def detail(self) -> str:
        """The explanation of the code in the reference."""
        return CODES[self.code].explanation


def diagnostic(
    code: str,
    summary: Text,
    *,
    source: SourceText,
    span: Span = START,
    hint: Text | None = None,
    shows_lines: bool = True,
    table: str | None = None,
) -> Diagnostic:
    """Make a diagnostic with a snippet of ``source``; the code decides the severity.

    A snippet never shows a text that looks like an encryption key, nor SQL in a file that declares personal
    data.

    Args:
        code: a key of CODES.
        summary: what is wrong, without a full stop.
        source: the file.
        span: the position in the file; by default its beginning.
        hint: what to do.
        shows_lines: False if the lines may contain a secret; then there is no snippet.
        table: the table in which it was found.

    """
    lines = source.lines if source.text and shows_lines else []
    first = max(1, span.start.line - 1)
    snippet = tuple(
        (number, _shown_line(source, lines, number))
        for number in range(first, min(span.start.line, len(lines)) + 1)
    )
    return Diagnostic(
        code=code,
        severity=Severity.WARNING if CODES[code].warning else Severity.ERROR,
        summary=summary,
        file=source.path,
        span=span,
        hint=hint,
        snippet=snippet,
        table=table,
    )


def in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort diagnostics by file, position and code, and drop duplicates."""
    return tuple(
        sorted(
            set(diagnostics), key=lambda found: (found.file, found.span, found.code, in_full(found.summary))
        )
    )


def errors(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that stop a command."""
    return tuple(found for found in diagnostics if found.severity is Severity.ERROR)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the hint ``did you mean 'x'?`` with the known word nearest to ``word``, or None."""
    near = nearest(word, known)
    return None if near is None else f"did you mean '{near}'?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` may misspell, or None. Upper and lower case count as the same."""
    candidates = sorted(known)
    if len(candidates) > _MOST_CANDIDATES:
        alike = [name for name in candidates if name[:1] == word[:1] and abs(len(name) - len(word)) <= 1]
        candidates = alike[:_MOST_CANDIDATES]
    folded = {candidate.lower(): candidate for candidate in reversed(candidates)}
    close = get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def one_of(noun: str, word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest known name, or else a list of the first known names."""
    words = sorted(known)
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    listed = f"{plural} are {some(words)}" if words else f"no {noun} is declared"
    return did_you_mean(word, words) or listed


def some(known: Iterable[str]) -> str:
    """Return the sorted words as a list in a sentence, cut after the first 10."""
    words = sorted(known)
    return f"{', '.join(words[:_SHOWN])}{', ...' if len(words) > _SHOWN else ''}"


def render_text(diagnostics: Sequence[Diagnostic], *, files: int) -> str:
    """Render diagnostics for a terminal, with a last line of counts; return an empty text if there are none.

    ``files`` is the number of files that were read.
    """
    if not diagnostics:
        return ""
    blocks = [_text_block(found) for found in diagnostics]
    return "\n".join([*blocks, summary_line(diagnostics, files=files)]) + "\n"


def summary_line(diagnostics: Sequence[Diagnostic], *, files: int) -> str:
    """Return the counts of diagnostics and files, such as ``2 errors in 1 of 12 files``."""
    counts = []
    for severity in (Severity.ERROR, Severity.WARNING):
        count = sum(found.severity is severity for found in diagnostics)
        if count:
            counts.append(f"{count} {severity.word}{'' if count == 1 else 's'}")
    hit = len({found.file for found in diagnostics})
    total = max(files, hit)
    return f"{', '.join(counts) or 'no findings'} in {hit} of {total} file{'' if total == 1 else 's'}"


def render_json(diagnostics: Sequence[Diagnostic], *, files: int) -> dict[str, Any]:
    """Return diagnostics as plain JSON values: ``valid``, the counts and ``diagnostics[]``."""
    failed = len(errors(diagnostics))
    return {
        "valid": failed == 0,
        "files": files,
        "errors": failed,
        "warnings": len(diagnostics) - failed,
        "diagnostics": [
            {
                "severity": found.severity.word,
                "code": found.code,
                "summary": in_full(found.summary),
                "detail": found.detail,
                "hint": found.hint and in_full(found.hint),
                "file": found.file,
                "range": {
                    "start": {"line": found.span.start.line, "column": found.span.start.column},
                    "end": {"line": found.span.end.line, "column": found.span.end.column},
                },
            }
            for found in diagnostics
        ],
    }


def render_github(diagnostics: Sequence[Diagnostic], *, prefix: str = "") -> str:
    """Render diagnostics as GitHub workflow commands; ``prefix`` is the path from repository to project."""
    lines = []
    for found in diagnostics:
        start, end = found.span
        properties = {
            "file": f"{prefix.rstrip('/')}/{found.file}" if prefix else found.file,
            "line": start.line,
            "col": start.column,
            "endLine": end.line,
            "endColumn": end.column,
            "title": found.code,
        }
        lines.append(f"{workflow_command(found.severity.word, properties, in_full(found.message))}\n")
    return "".join(lines)


def _text_block(found: Diagnostic) -> str:
    mark = "warning: " if found.severity is Severity.WARNING else ""
    place = f"{one_line(found.file)}:{found.line}:{found.column}"
    head = f"{place}: {found.code} {mark}{one_line(in_full(found.message))}"
    if not found.snippet:
        return head
    width = max(4, len(str(found.snippet[-1][0])) + 1)
    lines = [head]
    for number, text in found.snippet:
        shown, cut = _visible_part(text, found.column) if number == found.line else _visible_part(text, 1)
        lines.append(f" {number:>{width}} | {_visible(shown)}".rstrip())
        if number == found.line:
            start = min(found.column - cut, len(shown) + 1)
            end = found.span.end.column - cut if found.span.end.line == found.line else len(shown) + 1
            carets = "^" * max(1, min(end, len(shown) + 1) - start)
            lines.append(f" {'':>{width}} | {' ' * (start - 1)}{carets}")
    return "\n".join(lines)


def _visible_part(text: str, column: int) -> tuple[str, int]:
    """Return the shown part of a line, and by how many columns it starts further left than in the file."""
    if len(text) <= _MOST_COLUMNS:
        return text, 0
    first = max(min(column - 1 - _COLUMNS_BEFORE, len(text) - _MOST_COLUMNS), 0)
    shown = text[first : first + _MOST_COLUMNS]
    before = "..." if first else ""
    after = "..." if first + _MOST_COLUMNS < len(text) else ""
    return f"{before}{shown}{after}", first - len(before)


def _shown_line(source: SourceText, lines: Sequence[str], number: int) -> str:
    """Return a line (counted from 1) without a possible key and without SQL that may hold personal data."""
    if not source.declares_pii:
        return _without_key(lines, number)
    if number in source.lines_within_sql:
        return "..."
    line = _without_key(lines, number)
    begin = SQL_KEY.search(line)
    return line if begin is None else f"{line[: begin.end()]} ..."


def _without_key(lines: Sequence[str], number: int) -> str:
    """Return a line (counted from 1) without a possible encryption key."""
    line = lines[number - 1]
    if number > 1 and _KEY_BELOW.search(lines[number - 2]):
        return "..."
    return _PASTED_KEY.sub(r"\1...", line)


def _visible(text: str) -> str:
    """Return a line with each tab as one space (so that carets line up) and escaped control characters."""
    return visible(text.replace("\t", " "))


def workflow_command(kind: str, properties: Mapping[str, object], message: str) -> str:
    """Return a line in the log of a GitHub workflow that becomes an annotation, escaped and without its end.

    Source: ``command.ts`` of the package ``@actions/core``.

    Args:
        kind: ``error``, ``warning`` or ``notice``.
        properties: The position and title of the annotation.
        message: The text of the annotation.
    """
    parameters = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{kind} {parameters}::{_data(message)}"


def _data(text: str) -> str:
    """Return the text with the escapes of a message."""
    text = visible(text).replace("##[", r"#\x23[")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Return the text with the escapes of a property."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
