"""HTML pages: their contents as values, and the one template and style that render them.

A page is self-contained. Texts are escaped, and invisible characters are shown as escapes.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import ClassVar, Final, TypeAlias

import jinja2

from parquetry.compiler.reports.charts import Chart
from parquetry.compiler.reports.review import DiffLine
from parquetry.templates.environment import environment
from parquetry.version import VERSION

_STYLE: Final = "page/style.css.j2"
_PAGE: Final = "page/page.html.j2"


class Tone(StrEnum):
    """The tone of an element, by which it is coloured; its text has the same meaning."""

    PLAIN = "plain"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A short text in a frame."""

    kind: ClassVar[str] = "badge"
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A name, path or position in a monospaced font."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True, slots=True)
class Meter:
    """A share in percent, as a bar."""

    kind: ClassVar[str] = "meter"
    percent: int


Cell: TypeAlias = str | Badge | Verbatim | Meter | Chart
"""The content of a table's cell; the empty text is an empty cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """Rows below a header; ``numbers`` are the indexes of right-aligned columns.

    The caption is visible only if ``is_titled``; otherwise it serves screen readers. On narrow screens each
    row is a block, and each cell has its title beside it.
    """

    kind: ClassVar[str] = "table"
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    is_titled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names with their values, side by side."""

    kind: ClassVar[str] = "facts"
    entries: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Short texts, one per line."""

    kind: ClassVar[str] = "lines"
    texts: tuple[str, ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The lines of a YAML diff."""

    kind: ClassVar[str] = "diff"
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Commands for the terminal."""

    kind: ClassVar[str] = "commands"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A recipe: for each step a text and its commands, which may be empty."""

    kind: ClassVar[str] = "steps"
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Details that are collapsed on the screen and open on paper."""

    kind: ClassVar[str] = "fold"
    title: str
    blocks: tuple[Block, ...]


Block: TypeAlias = DataTable | Facts | Lines | Diff | Commands | Steps | Fold | Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page with a heading; ``note`` explains the heading in a few words."""

    title: str
    note: str = ""
    badges: tuple[Badge, ...] = ()
    tone: Tone = Tone.PLAIN
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of a page; ``verdict`` is its main result, and ``lead`` the text below it."""

    title: str
    verdict: Badge | None = None
    lead: str = ""
    facts: Facts = Facts(entries=())
    sections: tuple[Section, ...] = ()


def render_page(page: Page) -> str:
    """Return the page's HTML, with its style and without scripts; its policy lets browsers load nothing."""
    template, style, digest = _template()
    return template.render(page=page, style=style, style_digest=digest, version=VERSION)


@cache
def _template() -> tuple[jinja2.Template, str, str]:
    """Return the compiled template, the style, and the style's digest for the page's security policy."""
    templates = environment(page=True)
    style = templates.get_template(_STYLE).render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return templates.get_template(_PAGE), style, digest
