"""What the next run would ingest: looked for as the run does, without a JVM and without writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from parquetry.compiler.evidence.model import DueSource
from parquetry.compiler.workspace.masking import personal_in_either
from parquetry.compiler.workspace.observation import Observation
from parquetry.errors import ParquetryError
from parquetry.runtime.sources.due import DueBatch, DueSize, preview_due, preview_first, size_of
from parquetry.runtime.spec.masking import masked_message
from parquetry.runtime.spec.table_spec import Source, TableSpec
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.rereading import read_again


def due_sources(
    observation: Observation,
    declared: TableSpec,
    *,
    directory: str,
    storage: Mapping[str, Any],
    check: Callable[[Source], None] | None = None,
) -> tuple[DueSource, ...]:
    """The sources of the applied spec, in its order; none where nothing is applied.

    ``directory`` is where relative paths start and ``storage`` the options of the stores. A source
    that the run would fail on says why in ``problem``, masked by what is applied and by what is ``declared``.
    ``check`` raises UnnamedPlaceError for a source that is not to be looked at, which ``problem`` says too.
    """
    handle = observation.handle
    if not observation.is_applied or handle.spec is None:
        return ()
    shown_by = personal_in_either(handle.spec, declared)
    return tuple(
        _look_at(handle, source, shown_by, directory=directory, storage=storage, check=check)
        for source in handle.spec.sources
    )


def new_sources(
    observation: Observation | None,
    declared: TableSpec,
    *,
    directory: str,
    storage: Mapping[str, Any],
    check: Callable[[Source], None] | None = None,
) -> tuple[DueSource, ...]:
    """Return what the first run ingests from the sources that are new or changed.

    Files that were ingested before are counted by who did. A table that is not there yet has no ledger.
    """
    handle = None if observation is None else observation.handle
    applied = () if handle is None or handle.spec is None else handle.spec.sources
    shown_by = (
        declared if handle is None or handle.spec is None else personal_in_either(handle.spec, declared)
    )
    return tuple(
        _look_at(handle, source, shown_by, directory=directory, storage=storage, check=check)
        for source in declared.sources
        if source not in applied
    )


def _look_at(
    handle: TableHandle | None,
    source: Source,
    shown_by: TableSpec,
    *,
    directory: str,
    storage: Mapping[str, Any],
    check: Callable[[Source], None] | None,
) -> DueSource:
    operation = str(source.operation)
    try:
        if check is not None:
            check(source)
        batch, size = _due_of(handle, source, directory=directory, storage=storage)
    except ParquetryError as error:
        problem = masked_message(error.message, shown_by, location=_location(handle))
        return DueSource(source=source.name, operation=operation, problem=problem)
    if batch is not None and batch.missing is not None:
        warning = masked_message(batch.missing, shown_by, location=_location(handle))
        return DueSource(source=source.name, operation=operation, warning=warning)
    return DueSource(
        source=source.name,
        operation=operation,
        files=size.files,
        size_bytes=size.size_bytes,
        changed_files=0 if batch is None else batch.changed_files,
        known=() if batch is None else batch.known,
    )


def _location(handle: TableHandle | None) -> str:
    return "" if handle is None else handle.store.uri


@read_again
def _due_of(
    handle: TableHandle | None, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> tuple[DueBatch | None, DueSize]:
    batch: DueBatch | None = (
        preview_first(source, directory=directory, storage=storage)
        if handle is None
        else preview_due(handle, source, directory=directory, storage=storage)
    )
    return batch, DueSize(files=0, size_bytes=0) if batch is None else size_of(batch)
