"""The sources of a table and decisions about their files, in text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.services.source_files import Decision, ListedFile, ListedSource
from parquetry.runtime.sources.ledger import EntryKind
from parquetry.runtime.spec.codec import to_json_value

_STATES = {
    "new": "waiting",
    "known": "ingested",
    "changed": "changed since it was ingested",
    "copy": "a copy of another new file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesView:
    """A paragraph for each source; with ``verbose`` a line for each file."""

    verbose: bool

    def text(self, outcome: Sequence[ListedSource], paint: Paint) -> str:
        """Return counts by state, then the files."""
        if not outcome:
            return "The applied spec has no sources."
        return "\n\n".join(self._source(source, paint) for source in outcome)

    def json(self, outcome: Sequence[ListedSource]) -> Any:
        """Return every field, with every file."""
        return {"sources": [to_json_value(source) for source in outcome]}

    def _source(self, source: ListedSource, paint: Paint) -> str:
        last = "" if source.last_commit is None else f", last by {source.last_commit}"
        lines = [
            f"{paint.bold(source.source)}  {source.format} {source.path}",
            f"  {count(source.ingested_files, 'file')} ingested{last}",
        ]
        if source.problem is not None:
            return "\n".join([*lines, f"  {paint.warn('not listed')}: {source.problem}"])
        for state, words in _STATES.items():
            files = [file for file in source.files if file.state == state]
            if files:
                size = sum(file.size_bytes for file in files)
                lines.append(f"  {count(len(files), 'file')} there, {human_size(size)}: {words}")
                lines += [f"    {_file(file)}" for file in files if self.verbose or state != "known"]
        return "\n".join(lines)


def _file(file: ListedFile) -> str:
    by = "" if file.instant is None else f", {file.source} in {file.instant}"
    return f"{file.path}  {human_size(file.size_bytes)}{by}"


class DecisionView:
    """The decision that was recorded."""

    def text(self, outcome: Decision, paint: Paint) -> str:
        """Return the number of files, what the next run does with them, and how to take it back."""
        does = "ingests" if outcome.kind is EntryKind.ACCEPTED else "does not ingest"
        return (
            f"{paint.good('recorded')} the next run of {outcome.table} {does} "
            f"{count(len(outcome.files), 'file')} of {outcome.source}; commit {outcome.instant}"
        )

    def json(self, outcome: Decision) -> Any:
        """Return every field."""
        return to_json_value(outcome)
