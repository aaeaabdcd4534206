"""Pages for a browser: what stands on one, as values, and the one template and style that draw them all.

A page needs nothing beside it. Texts are escaped, and shown with escapes for what nobody can see.
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
    """How a reader is to take something; the words beside it say the same."""

    PLAIN = "plain"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """A word or two in a frame."""

    kind: ClassVar[str] = "badge"
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A name, a path or a place."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True, slots=True)
class Meter:
    """A share in percent, as a bar."""

    kind: ClassVar[str] = "meter"
    percent: int


Cell: TypeAlias = str | Badge | Verbatim | Meter | Chart
"""What a cell of a table holds; the empty text is an empty cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """Rows below a header; ``numbers`` are the indexes of columns aligned right.

    The caption is for those who do not see the heading above, unless ``is_titled``. On narrow screens each
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
    """Names with what each is, one beside the other."""

    kind: ClassVar[str] = "facts"
    entries: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Short texts, one below the other."""

    kind: ClassVar[str] = "lines"
    texts: tuple[str, ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Lines of YAML, before and after."""

    kind: ClassVar[str] = "diff"
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What can be typed."""

    kind: ClassVar[str] = "commands"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A recipe: what to do, and the commands for it, which may be empty."""

    kind: ClassVar[str] = "steps"
    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Details that are closed until somebody opens them; on paper they are open."""

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
    """All of a page; ``verdict`` is what a reader has to know first, and ``lead`` what comes next."""

    title: str
    verdict: Badge | None = None
    lead: str = ""
    facts: Facts = Facts(entries=())
    sections: tuple[Section, ...] = ()


def render_page(page: Page) -> str:
    """The page's HTML, with its style inside and no script; it allows a browser to load nothing else."""
    template, style, digest = _template()
    return template.render(page=page, style=style, style_digest=digest, version=VERSION)


@cache
def _template() -> tuple[jinja2.Template, str, str]:
    """The compiled template, the style, and the digest by which the page allows that style alone."""
    templates = environment(page=True)
    style = templates.get_template(_STYLE).render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return templates.get_template(_PAGE), style, digest
