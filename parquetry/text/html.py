"""Tables in HTML, as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from parquetry.text.printable import one_line


def html_table(caption: str, rows: Iterable[Sequence[str]], *, header: Sequence[str] = ()) -> str:
    """Return a table whose texts are escaped. Without a header, the first cell of each row is its heading."""
    head = "".join(f'<th scope="col">{_escaped(cell)}</th>' for cell in header)
    lines = [f"<thead><tr>{head}</tr></thead>"] if header else []
    lines += [f"<tr>{_row(row, has_heading=not header)}</tr>" for row in rows]
    return f"<table><caption>{_escaped(caption)}</caption>{''.join(lines)}</table>"


def _row(cells: Sequence[str], *, has_heading: bool) -> str:
    heading = f'<th scope="row">{_escaped(cells[0])}</th>' if has_heading else ""
    return heading + "".join(f"<td>{_escaped(cell)}</td>" for cell in cells[1 if has_heading else 0 :])


def _escaped(text: str) -> str:
    return escape(one_line(text))
