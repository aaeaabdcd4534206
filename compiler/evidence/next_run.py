"""The source files that the next run would ingest, and the files that its services would delete.

Both are found as in a run, but without a JVM or any write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from parquetry.compiler.evidence.model import DueSource
from parquetry.compiler.workspace.observation import Observation
from parquetry.errors import ParquetryError
from parquetry.runtime.services.deletions import Deletions, due_deletions
from parquetry.runtime.sources.due import DueBatch, DueSize, preview_due, preview_new_table, size_of
from parquetry.runtime.spec.table_spec import Source, TableSpec
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.rereading import retry_stale
from parquetry.runtime.write.partition_retention import PartitionExpiry, expired_partitions


def due_sources(
    observation: Observation,
    *,
    directory: str,
    storage: Mapping[str, Any],
    check: Callable[[Source], None] | None = None,
) -> tuple[DueSource, ...]:
    """Return the due files of each source of the applied spec, in its order; nothing if no spec is applied.

    If the run would fail on a source, ``problem`` contains the reason.

    Args:
        observation: The table.
        directory: The folder at which relative paths of sources start.
        storage: The options of the stores.
        check: Raises UnnamedPlaceError for a source that must not be read, which becomes its ``problem``.
    """
    handle = observation.handle
    if not observation.is_applied or handle.spec is None:
        return ()
    return tuple(
        _due_source(handle, source, directory=directory, storage=storage, check=check)
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
    """Return the files that the first run ingests from each new or changed source.

    Files that were ingested before are counted in ``known``, by source. A table that does not exist has no
    source ledger.

    Args:
        observation: The table, None if it does not exist.
        declared: The declared spec.
        directory: The folder at which relative paths of sources start.
        storage: The options of the stores.
        check: Raises UnnamedPlaceError for a source that must not be read, which becomes its ``problem``.
    """
    handle = None if observation is None else observation.handle
    applied = () if handle is None or handle.spec is None else handle.spec.sources
    return tuple(
        _due_source(handle, source, directory=directory, storage=storage, check=check)
        for source in declared.sources
        if source not in applied
    )


def next_deletions(observation: Observation) -> Deletions:
    """Return the files that the due services of a run would delete now.

    If the services would fail, ``problem`` contains the reason.
    """
    try:
        return retry_stale(due_deletions)(observation.handle)
    except ParquetryError as error:
        return Deletions(problem=error.message)


def next_partition_expiry(observation: Observation) -> PartitionExpiry | None:
    """Return the partitions that a run would delete now, or None if the table keeps all of them."""
    found = retry_stale(expired_partitions)(observation.handle)
    return None if found == PartitionExpiry() else found


def new_partition_expiry(observation: Observation, declared: TableSpec) -> PartitionExpiry | None:
    """Return the partitions that a run would delete if the declared rule for them were applied.

    Return None if the rule is applied, or if it keeps all of them.
    """
    applied = observation.handle.spec if observation.is_applied else None
    if applied is not None and applied.retention.partitions == declared.retention.partitions:
        return None
    found = retry_stale(expired_partitions)(observation.handle, policy=declared.retention)
    return None if found == PartitionExpiry() else found


def _due_source(
    handle: TableHandle | None,
    source: Source,
    *,
    directory: str,
    storage: Mapping[str, Any],
    check: Callable[[Source], None] | None,
) -> DueSource:
    """Return the due files of a source; if they cannot be determined, the reason is in ``problem``."""
    operation = str(source.operation)
    try:
        if check is not None:
            check(source)
        batch, size = _due_of(handle, source, directory=directory, storage=storage)
    except ParquetryError as error:
        return DueSource(source=source.name, operation=operation, problem=error.message)
    if batch is not None and batch.missing_warning is not None:
        return DueSource(source=source.name, operation=operation, warning=batch.missing_warning)
    return DueSource(
        source=source.name,
        operation=operation,
        files=size.files,
        size_bytes=size.size_bytes,
        changed_files=0 if batch is None else batch.changed_files,
        known=() if batch is None else batch.known,
    )


@retry_stale
def _due_of(
    handle: TableHandle | None, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> tuple[DueBatch | None, DueSize]:
    """Return the batch that the next run would ingest from a source, and its size; no batch if none is due.

    Without a table, the files are those of its first run.
    """
    batch: DueBatch | None = (
        preview_new_table(source, directory=directory, storage=storage)
        if handle is None
        else preview_due(handle, source, directory=directory, storage=storage)
    )
    return batch, DueSize(files=0, size_bytes=0) if batch is None else size_of(batch)
