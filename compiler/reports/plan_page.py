"""A plan as one HTML page that needs nothing beside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from parquetry.compiler.plan.model import PlanDocument
from parquetry.compiler.reports.review import DiffLine
from parquetry.templates.environment import environment

_BAR_HEIGHT = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bucket of a histogram: two bars, their heights in pixels, and what they count."""

    label: str
    before: int
    after: int
    before_height: int
    after_height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What the page says of one table; the first row of ``queries`` is the table's head."""

    name: str
    kind: str
    css: str
    notes: tuple[str, ...]
    origins: tuple[tuple[str, str], ...]
    diff: tuple[DiffLine, ...]
    bars: tuple[Bar, ...] = ()
    recipe: tuple[tuple[str, str], ...] = ()
    queries: tuple[tuple[str, ...], ...] = ()
    query_note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPage:
    """Everything the template may say."""

    title: str
    summary: str
    facts: tuple[tuple[str, str], ...]
    cards: tuple[Card, ...]
    warnings: tuple[str, ...]
    due: tuple[tuple[str, str], ...]
    drift: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]


def render_page(page: PlanPage) -> str:
    """The page's HTML, with its style inside and no script."""
    return environment(page=True).get_template("plan.html.j2").render(page=page)


def plan_page(
    plan: PlanDocument,
    cards: tuple[Card, ...],
    *,
    blocked: str,
    summary: str,
    due: tuple[tuple[str, str], ...],
    drift: tuple[tuple[str, str], ...],
    commands: tuple[str, ...],
) -> PlanPage:
    """The page of a plan, of which each table, what is due and what drifted have been put into words.

    ``blocked`` says so where the plan may not be applied.
    """
    intent, evidence = plan.intent, plan.evidence
    created = datetime.fromtimestamp(evidence.created_ms / 1000, UTC)
    facts = [
        ("project", intent.project),
        ("target", intent.target),
        ("made", f"{created:%Y-%m-%d %H:%M:%S} UTC"),
        ("plan", plan.plan_id),
        ("parquetry", intent.parquetry),
    ]
    if intent.git_commit:
        facts.insert(3, ("commit", intent.git_commit))
    return PlanPage(
        title=f"parquetry plan{', ' if blocked else ''}{blocked}: {intent.project} at {intent.target}",
        summary=summary,
        facts=tuple(facts),
        cards=cards,
        warnings=tuple(
            f"{w.origin}: {w.code} {w.message}" if w.origin else f"{w.code} {w.message}"
            for w in evidence.warnings
        ),
        due=due,
        drift=drift,
        commands=commands,
    )


def bars(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[Bar, ...]:
    """The two histograms side by side; none for a table without files."""
    top = max((*before, *after), default=0)
    if not top:
        return ()
    tenths = len(before) - 1
    return tuple(
        Bar(
            label="above" if index == tenths else f"{(index + 1) * 100 // tenths} %",
            before=old,
            after=new,
            before_height=round(old * _BAR_HEIGHT / top),
            after_height=round(new * _BAR_HEIGHT / top),
        )
        for index, (old, new) in enumerate(zip(before, after, strict=True))
    )
