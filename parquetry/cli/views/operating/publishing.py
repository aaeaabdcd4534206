"""Tables in the metadata of other formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.spec.codec import to_json_value

if TYPE_CHECKING:
    from parquetry.runtime.publish.publishing import PublishedTable


class PublishingView:
    """The tables, with the state that each format shows; ``failed`` is True if others failed."""

    def __init__(self, *, failed: bool = False) -> None:
        self._failed = failed

    def text(self, outcome: Sequence[PublishedTable], paint: Paint) -> str:
        """Return one line for each table and format."""
        lines = [
            f"{paint.bold(table.table)}  {one.format}: as of {one.instant}, {count(one.files_added, 'file')} "
            f"added, {one.files_removed:,} removed"
            for table in outcome
            for one in table.formats
        ]
        return "\n".join(lines) or ("" if self._failed else "no table declares publish")

    def json(self, outcome: Sequence[PublishedTable]) -> Any:
        """Return the tables with their formats."""
        return {"tables": to_json_value(tuple(outcome))}
