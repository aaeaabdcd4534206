"""The first rows of a table, in text and JSON."""

from __future__ import annotations

from typing import Any, Final

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.reports.first_rows import FirstRows
from parquetry.text.printable import json_text, one_line

_LONGEST: Final = 40


class HeadView:
    """Rows as a table of texts; long values are cut in text and whole in JSON."""

    def text(self, outcome: FirstRows, paint: Paint) -> str:
        """Return a line for each row below the names of the columns."""
        head = f"{paint.bold(outcome.table)}, {count(len(outcome.rows), 'row')}"
        cells = [[name, *(_cell(row[name]) for row in outcome.rows)] for name in outcome.columns]
        columns = [
            [
                _aligned(cell, max(map(len, column)), outcome.rows[0][name] if outcome.rows else "")
                for cell in column
            ]
            for name, column in zip(outcome.columns, cells, strict=True)
        ]
        titles, *rows = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
        return "\n".join([head, "", paint.dim(titles), *rows])

    def json(self, outcome: FirstRows) -> Any:
        """Return the document that the schema of ``head`` describes."""
        return {
            "table": outcome.table,
            "columns": list(outcome.columns),
            "rows": [dict(row) for row in outcome.rows],
        }


def _aligned(cell: str, width: int, first: Any) -> str:
    """Return the cell of a column whose first value is ``first``; numbers are aligned right."""
    is_number = isinstance(first, int | float) and not isinstance(first, bool)
    return cell.rjust(width) if is_number else cell.ljust(width)


def _cell(value: Any) -> str:
    text = "null" if value is None else value if isinstance(value, str) else json_text(value)
    text = one_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
