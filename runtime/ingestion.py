"""What a source has that its table has not taken in yet: found without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parquetry.runtime import sources
from parquetry.runtime.effective import effective_instants
from parquetry.runtime.source_files import FoundFile, join_base, list_files
from parquetry.runtime.sources import Consumption
from parquetry.runtime.spec import Source
from parquetry.runtime.storage import open_store
from parquetry.runtime.table import TableHandle, open_table

FULL = "full"
TABLE_FORMAT = "hudi"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBatch:
    """What one write is to take from a source.

    ``files`` for file formats. For a Hudi table ``table`` is the table, read after ``since``
    (None: from its beginning) up to ``until``. ``consumption`` goes into the ledger; None for
    sources that are read in full every time.
    """

    files: tuple[FoundFile, ...] = ()
    changed_files: int = 0
    table: TableHandle | None = None
    since: str | None = None
    until: str | None = None
    consumption: Consumption | None = None


def find_due(
    handle: TableHandle, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> DueBatch | None:
    """What is due; None when there is nothing new.

    Raises InvalidDataError when the path does not exist, and when a file changed after an insert
    had taken it.
    """
    if source.format == TABLE_FORMAT:
        return _due_of_table(handle, source, directory=directory, storage=storage)
    found = list_files(source.path, base=directory, options=storage)
    if source.read == FULL:
        return DueBatch(files=found) if found else None
    effective = effective_instants(handle.store, handle.config, handle.timeline())
    taken = sources.consumed(handle.store, source.name, effective)
    due = sources.due_files((f.file for f in found), taken, source.operation, source=source.name)
    if due.is_empty:
        return None
    sources.fold(handle.store, source.name, effective)
    by_path = {f.file.path: f for f in found}
    return DueBatch(
        files=tuple(by_path[file.path] for file in due.files),
        changed_files=due.changed,
        consumption=Consumption(source=source.name, files=due.files),
    )


def _due_of_table(
    handle: TableHandle, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> DueBatch | None:
    other = open_table(open_store(join_base(directory, source.path), storage))
    until = other.timeline().last_settled()
    if until is None:
        return None
    if source.read == FULL:
        return DueBatch(table=other, until=until)
    effective = effective_instants(handle.store, handle.config, handle.timeline())
    entries = sources.history(handle.store, source.name, effective)
    since = sources.newest_until(entries)
    if since is not None and since >= until:
        return None
    consumption = Consumption(source=source.name, since=since, until=until)
    return DueBatch(table=other, since=since, until=until, consumption=consumption)
