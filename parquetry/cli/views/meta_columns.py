"""The share of meta columns in a table, in words."""

from __future__ import annotations

from parquetry.cli.terminal.format import human_size
from parquetry.compiler.evidence.model import MetaColumnFigures
from parquetry.compiler.reports.costs import amount_text


def share_text(found: MetaColumnFigures, size_bytes: int, currency: str | None) -> str:
    """Return the bytes of meta columns, their share of all ``size_bytes``, and their price if it is known."""
    share = found.size_bytes / size_bytes if size_bytes else 0
    words = f"{human_size(found.size_bytes)} ({share:.0%})"
    if found.monthly is None or currency is None:
        return words
    return f"{words}, {amount_text(found.monthly, currency)} a month"
