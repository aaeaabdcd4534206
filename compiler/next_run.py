"""What the next run would ingest: looked for as the run does, without a JVM and without writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parquetry.compiler.masking import personal_in_either
from parquetry.compiler.observation import Observation
from parquetry.compiler.plan import DueSource
from parquetry.compiler.rereading import read_again
from parquetry.errors import ParquetryError
from parquetry.runtime.ingestion import DueBatch, look_for_due, size_of
from parquetry.runtime.personal_data import masked_message
from parquetry.runtime.spec import Source, TableSpec
from parquetry.runtime.table import TableHandle


def due_sources(
    observation: Observation, declared: TableSpec, *, directory: str, storage: Mapping[str, Any]
) -> tuple[DueSource, ...]:
    """The sources of the applied spec, in its order; none where nothing is applied.

    ``directory`` is where relative paths start and ``storage`` the options of the stores. A source
    that the run would fail on says why in ``problem``, masked by what is applied and by what is ``declared``.
    """
    handle = observation.handle
    if not observation.is_applied or handle.spec is None:
        return ()
    shown_by = personal_in_either(handle.spec, declared)
    return tuple(
        _look_at(handle, source, shown_by, directory=directory, storage=storage)
        for source in handle.spec.sources
    )


def _look_at(
    handle: TableHandle,
    source: Source,
    shown_by: TableSpec,
    *,
    directory: str,
    storage: Mapping[str, Any],
) -> DueSource:
    operation = str(source.operation)
    try:
        files, size_bytes, changed = _due_of(handle, source, directory=directory, storage=storage)
    except ParquetryError as error:
        problem = masked_message(str(error), shown_by, location=handle.store.uri)
        return DueSource(source=source.name, operation=operation, problem=problem)
    return DueSource(
        source=source.name, operation=operation, files=files, size_bytes=size_bytes, changed_files=changed
    )


@read_again
def _due_of(
    handle: TableHandle, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> tuple[int, int, int]:
    batch: DueBatch | None = look_for_due(handle, source, directory=directory, storage=storage)
    if batch is None:
        return 0, 0, 0
    size = size_of(batch)
    return size.files, size.size_bytes, batch.changed_files
