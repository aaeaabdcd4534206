"""The choices of ``scope: auto`` for partitions, their reasons, and the costs and benefits of both scopes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from parquetry.cli.terminal.format import columns, count, human_size, wrapped
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.layout.clustering.model import ChosenBy, ScopeChoice, ScopeFigures
from parquetry.runtime.spec.clustering import ClusteringScope
from parquetry.runtime.spec.codec import to_json_value

_HEADER: Final = ("scope", "groups", "rewrites", "shuffles", "into", "rows read", "bytes")
_SHOWN: Final = 3
_HANG: Final = 2
_RULES: Final = {
    (ChosenBy.NO_QUERIES, ClusteringScope.GROUP): "no declared query would read less in one order",
    (ChosenBy.STATISTICS, ClusteringScope.GROUP): (
        "according to statistics, no query opens overlapping files of several groups"
    ),
    (ChosenBy.STATISTICS, ClusteringScope.PARTITION): (
        "according to statistics, a query opens overlapping files of several groups; no sample could be drawn"
    ),
    (
        ChosenBy.SAMPLE,
        ClusteringScope.GROUP,
    ): "according to a sample, one order would save less than a tenth of what the queries read",
    (
        ChosenBy.SAMPLE,
        ClusteringScope.PARTITION,
    ): "according to a sample, one order saves at least a tenth of what the queries read",
}


def scope_lines(
    choices: Sequence[ScopeChoice],
    paint: Paint,
    *,
    verbose: bool,
    indent: int = 2,
) -> list[str]:
    """Return a line for each reason of a choice, and a table for each partition whose scopes were compared.

    Args:
        choices: The choices by partition.
        paint: The colours.
        verbose: Show all compared partitions instead of the three largest.
        indent: The number of blanks before each line.

    """
    margin = " " * indent
    rules = _rules(choices)
    lines = [
        wrapped(_rule(by, scope, number), indent=indent, hang=_HANG) for (by, scope), number in rules.items()
    ]
    compared = _compared(choices)
    shown = compared if verbose else compared[:_SHOWN]
    for choice in shown:
        lines.append(f"{margin}{choice.partition or 'the table'}")
        lines += [f"{margin}  {line}" for line in _table(choice, paint)]
    if len(shown) < len(compared):
        lines.append(f"{margin}and {count(len(compared) - len(shown), 'partition')} more; -v shows them")
    return lines


def scope_sentences(choices: Sequence[ScopeChoice]) -> list[str]:
    """Return a sentence for each reason of a choice, and for up to three compared partitions."""
    sentences = [_rule(by, scope, number) for (by, scope), number in _rules(choices).items()]
    compared = _compared(choices)
    for choice in compared[:_SHOWN]:
        partition = choice.partition or "the table"
        scopes = ((ClusteringScope.GROUP, choice.group), (ClusteringScope.PARTITION, choice.whole))
        figures = "; ".join(
            f"scope {scope}{' (taken)' if scope is choice.scope else ''}: {_sentence(one)}"
            for scope, one in scopes
            if one is not None
        )
        sentences.append(f"{partition}: {figures}")
    if (left := len(compared) - _SHOWN) > 0:
        sentences.append(f"and {count(left, 'partition')} more")
    return sentences


def scopes_json(choices: Iterable[ScopeChoice]) -> list[dict[str, Any]]:
    """Return each choice with the figures of both scopes; ``whole`` is null if they were not compared."""
    return [to_json_value(choice) for choice in choices]


def _rules(choices: Iterable[ScopeChoice]) -> Counter[tuple[ChosenBy, ClusteringScope]]:
    return Counter((choice.chosen_by, choice.scope) for choice in choices)


def _rule(by: ChosenBy, scope: ClusteringScope, partitions: int) -> str:
    return f"scope auto: {_taken(scope, partitions)}: {_RULES[by, scope]}"


def _compared(choices: Iterable[ScopeChoice]) -> list[ScopeChoice]:
    """Return the choices for which both scopes were compared, the largest first."""
    compared = [choice for choice in choices if choice.whole is not None]
    return sorted(compared, key=lambda choice: -choice.group.rewritten_bytes)


def _taken(scope: ClusteringScope, partitions: int) -> str:
    where = count(partitions, "partition")
    return f"one order over {where}" if scope is ClusteringScope.PARTITION else f"{where} in groups"


def _table(choice: ScopeChoice, paint: Paint) -> list[str]:
    rows = [
        _row(f"{'*' if scope is choice.scope else ' '} {scope}", figures)
        for scope, figures in (
            (ClusteringScope.GROUP, choice.group),
            (ClusteringScope.PARTITION, choice.whole),
        )
        if figures is not None
    ]
    return columns(_HEADER, rows, paint=paint, right=frozenset({1, 2, 3, 4, 5, 6})).splitlines()


def _sentence(figures: ScopeFigures) -> str:
    _, groups, rewrites, shuffles, into, rows, read = _row("", figures)
    return (
        f"{groups} groups, rewrites {rewrites}, shuffles {shuffles}, into {into} files, "
        f"{rows} rows read, {read}"
    )


def _row(name: str, figures: ScopeFigures) -> tuple[str, ...]:
    rows = "?" if figures.expected_rows is None else f"{figures.expected_rows:,}"
    read = "?" if figures.expected_bytes is None else human_size(figures.expected_bytes)
    return (
        name,
        f"{figures.groups:,}",
        human_size(figures.rewritten_bytes),
        human_size(figures.shuffled_bytes),
        f"{figures.files_after:,}",
        rows,
        read,
    )
