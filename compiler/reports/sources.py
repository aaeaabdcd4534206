"""The sources of a table: the state of their files, and decisions about them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from parquetry.compiler.workspace.opened import Workspace
from parquetry.errors import UsageError
from parquetry.message import Message
from parquetry.project.diagnostics.model import one_of, some
from parquetry.runtime.services.source_files import (
    Decision,
    ListedSource,
    copy_known_files,
    decide,
    forget,
    list_source,
)
from parquetry.runtime.sources.ledger import EntryKind
from parquetry.runtime.spec.table_spec import Source
from parquetry.runtime.table.handle import TableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSources:
    """The applied sources of a table, or only the one named ``source``."""

    handle: TableHandle
    workspace: Workspace
    source: str | None

    def listed(self) -> tuple[ListedSource, ...]:
        """Return the named source, or else all sources, each with the state of its files."""
        chosen = self._applied if self.source is None else (self._named_source,)
        listed = tuple(
            list_source(self.handle, source, directory=self._directory, storage=self.workspace.storage)
            for source in chosen
        )
        return self.handle.cleared(listed)

    def decide(self, kind: EntryKind, files: Collection[str]) -> Decision:
        """Record a decision about listed files."""
        return decide(
            self.handle,
            self._named_source,
            kind,
            files,
            directory=self._directory,
            storage=self.workspace.storage,
        )

    def forget(self, files: Collection[str]) -> Decision:
        """Record that files are to be ingested again.

        Raises:
            UsageError: if no source is named.

        """
        if self.source is None:
            raise UsageError("name the source, as in {table}.SOURCE", table=self.handle.name)
        # A source that is no longer declared can be forgotten too.
        return forget(self.handle, self.source, files)

    def copy_known_files(self, other: TableSources) -> Decision:
        """Record that the files which another table's sources ingested count as ingested here."""
        return copy_known_files(self.handle, self._named_source.name, other.handle, of=other.source)

    @property
    def _directory(self) -> str:
        """The folder where relative paths of sources start."""
        return str(self.workspace.project.root)

    @property
    def _applied(self) -> tuple[Source, ...]:
        """The sources of the applied spec; none if no spec is applied."""
        return () if self.handle.spec is None else self.handle.spec.sources

    @property
    def _named_source(self) -> Source:
        """The named source; UsageError if none is named or it is unknown."""
        found = {source.name: source for source in self._applied}
        if self.source is None or self.source not in found:
            raise UsageError(self._unknown_message(found))
        return found[self.source]

    def _unknown_message(self, known: Collection[str]) -> Message:
        """Return the error text for a missing or unknown name of a source."""
        table = self.handle.name
        if not known:
            return Message("the applied spec of {table} has no sources", table=table)
        if self.source is None:
            return Message(
                "name the source, as in {table}.SOURCE; the sources are {sources}",
                table=table,
                sources=some(known),
            )
        meant = one_of("source", self.source, known)
        return Message(
            "the applied spec of {table} has no source {source!r}; {hint}",
            table=table,
            source=self.source,
            hint=meant,
        )
