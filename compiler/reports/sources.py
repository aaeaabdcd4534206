"""The sources of a table: what it knows of their files, and decisions about them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from parquetry.compiler.workspace.opened import Workspace
from parquetry.errors import UsageError
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
from parquetry.runtime.table.open import TableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSources:
    """The applied sources of a table, or the ``source`` of that name."""

    handle: TableHandle
    workspace: Workspace
    source: str | None

    def listed(self) -> tuple[ListedSource, ...]:
        """Return what the table knows of each source."""
        chosen = self._applied if self.source is None else (self._one,)
        return tuple(
            list_source(self.handle, source, directory=self._directory, storage=self.workspace.storage)
            for source in chosen
        )

    def decide(self, kind: EntryKind, files: Collection[str]) -> Decision:
        """Record a decision about files that are listed."""
        return decide(
            self.handle,
            self._one,
            kind,
            files,
            directory=self._directory,
            storage=self.workspace.storage,
        )

    def forget(self, files: Collection[str]) -> Decision:
        """Record that files are to be ingested again."""
        if self.source is None:
            raise UsageError(f"name the source, as in {self.handle.name}.SOURCE")
        # Also one that is not declared any more.
        return forget(self.handle, self.source, files)

    def copy_known_files(self, other: TableSources) -> Decision:
        """Record that the files of another table's sources count as ingested."""
        return copy_known_files(self.handle, self._one.name, other.handle, of=other.source)

    @property
    def _directory(self) -> str:
        return str(self.workspace.project.root)

    @property
    def _applied(self) -> tuple[Source, ...]:
        return () if self.handle.spec is None else self.handle.spec.sources

    @property
    def _one(self) -> Source:
        """The source that is named; UsageError where there is none."""
        found = {source.name: source for source in self._applied}
        if self.source is None or self.source not in found:
            raise UsageError(self._unknown(found))
        return found[self.source]

    def _unknown(self, known: Collection[str]) -> str:
        """Return what to name, as the name that was typed is none of an applied source, or there is none."""
        table = self.handle.name
        if not known:
            return f"the applied spec of {table} has no sources"
        if self.source is None:
            return f"name the source, as in {table}.SOURCE; the sources are {some(known)}"
        meant = one_of("source", self.source, known)
        return f"the applied spec of {table} has no source {self.source!r}; {meant}"
