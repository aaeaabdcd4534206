"""The declared tables, as text, JSON or names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parquetry.cli.terminal.format import columns, count
from parquetry.cli.terminal.output import Paint

if TYPE_CHECKING:
    from parquetry.project import ResolvedProject, ResolvedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A project and its selected tables."""

    project: ResolvedProject
    tables: tuple[ResolvedTable, ...]


class ListingView:
    """One line per table."""

    def text(self, outcome: Listing, paint: Paint) -> str:
        """Return the name, tags, file and location of each table."""
        rows = [
            (table.name, ", ".join(table.tags), table.file, table.location_declared)
            for table in outcome.tables
        ]
        head = f"project {outcome.project.name}, target {outcome.project.target.name}"
        total = count(len(rows), "table")
        if not rows:
            return f"{head}: {total}"
        return f"{head}: {total}\n\n{columns(('table', 'tags', 'file', 'location'), rows, paint=paint)}"

    def json(self, outcome: Listing) -> Any:
        """Return the tables as plain values, also with owner, policy, columns and sources."""
        return {
            "project": outcome.project.name,
            "target": outcome.project.target.name,
            "tables": [
                {
                    "name": table.name,
                    "file": table.file,
                    "description": table.spec.extra.description,
                    "owner": table.spec.extra.owner,
                    "tags": list(table.tags),
                    "policy": table.policy,
                    "location": table.location_declared,
                    "columns": [column.name for column in table.spec.columns],
                    "sources": [source.name for source in table.spec.sources],
                }
                for table in outcome.tables
            ],
        }


class NamesView(ListingView):
    """The names alone."""

    def text(self, outcome: Listing, paint: Paint) -> str:  # noqa: ARG002  # for scripts
        """Return one name per line."""
        return "\n".join(table.name for table in outcome.tables)
