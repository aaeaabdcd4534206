"""The recorded state of a live table, read with four requests: no file listing and no footer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from parquetry.runtime.commit.damaged_files import damaged_files, raise_if_damaged
from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.spec.avro import columns_from_avro, table_avro_schema
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.masking import masked_by
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.admission_to_read import check_readable
from parquetry.runtime.table.applied import (
    OwnershipConflict,
    check_owner,
    fault_of,
    ownership_conflict,
    read_applied,
    read_identity,
    record_signature_of,
)
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.creation import first_commit, refuse_missing_properties
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.properties import PROPERTIES_PATH, read_table_properties
from parquetry.runtime.table.schema import live_columns
from parquetry.runtime.timeline.active import Timeline

_Figure = TypeVar("_Figure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A table that exists.

    ``spec`` is the applied spec. If the creation of the table was interrupted before anything was applied, it
    is the spec of the creation. ``made_with`` is the spec of the creation for every table that parquetry
    created, and ``first_instant`` is the instant of that creation.
    """

    handle: TableHandle
    spec: TableSpec | None
    made_with: TableSpec | None = None
    first_instant: str | None = None

    @property
    def is_applied(self) -> bool:
        """True if a spec is recorded as applied and not forgotten."""
        return self.handle.applied is not None and not self.is_forgotten

    @property
    def is_forgotten(self) -> bool:
        """True if the project declared the table before and no longer does."""
        return self.handle.applied is not None and self.handle.applied.forgotten

    def foreign_to(self, owner: TableOwner) -> OwnershipConflict | None:
        """Return why the table does not belong to the owner, or None if it does."""
        return ownership_conflict(owner, project=self.handle.project, applied=self.handle.applied)

    def check_owner(self, owner: TableOwner) -> None:
        """Raise ForeignTableError if the table does not belong to the owner."""
        handle = self.handle
        check_owner(handle.store.uri, owner, project=handle.project, applied=handle.applied)

    def live_columns(self, timeline: Timeline) -> tuple[Column, ...]:
        """Return the columns that readers see; none for an empty table of another program.

        The commit that created a table contains the columns of its creation. If it is the only write and has
        its original size, the commit is not read.
        """
        if self.made_with is not None and self._is_as_made(timeline, self.made_with):
            return columns_from_avro(table_avro_schema(self.made_with.name, self.made_with.columns))
        return live_columns(self.handle.store, timeline, self.handle.config)

    def was_never_written(self, timeline: Timeline) -> bool:
        """Return whether the timeline contains nothing but the creation of the table."""
        spec = self.made_with
        return spec is not None and len(timeline.instants) == 1 and self._is_as_made(timeline, spec)

    def _is_as_made(self, timeline: Timeline, spec: TableSpec) -> bool:
        writes = timeline.completed_writes
        if self.handle.table_id is None or [write.time for write in writes] != [self.first_instant]:
            return False
        size_bytes = len(first_commit(spec, table_id=self.handle.table_id))
        return timeline.files[writes[0].file_name].size_bytes == size_bytes


def observe(store: ObjectStore, *, declared: TableSpec | None = None) -> Observation | None:
    """Return the table in ``store``, or None if there is none or no reader can see it yet.

    ``declared`` is the declared spec of the table, if the caller knows it, which also masks its values.
    Nothing is written: the next `apply` finishes an interrupted creation.

    Raises:
        UnsupportedTableError: If the table is not a copy-on-write table of version 6, 8 or 9.
        CorruptTableError: If a file of the table's own records is missing or damaged.
    """
    identity = read_identity(store)
    try:
        raw = read_table_properties(store)
    except NotFoundError:
        if identity is not None:
            refuse_missing_properties(store, identity)
        return None
    config = TableConfig.from_properties(raw, location=store.uri)
    check_readable(store, config)
    applied = read_applied(store)
    made_with = identity.spec if identity else None
    handle = TableHandle(
        store=store,
        config=config,
        spec=applied.spec if applied else None,
        applied=applied.ref if applied else None,
        table_id=identity.table_id if identity else None,
        project=identity.project if identity else None,
        declared=declared if applied else masked_by(made_with, declared),
        fault=fault_of(identity, applied),
        record_signature=record_signature_of(store, identity, applied),
    )
    return Observation(
        handle=handle,
        spec=applied.spec if applied else made_with,
        made_with=made_with,
        first_instant=identity.first_instant if identity else None,
    )


def table_exists(store: ObjectStore) -> bool:
    """Return whether ``store`` contains a table or an interrupted creation."""
    return store.stat(PROPERTIES_PATH) is not None or read_identity(store) is not None


def admit(observation: Observation, *, drops_metadata_table: bool = False) -> None:
    """Raise UnsupportedTableError if the table must not be written. This reads the timeline.

    A metadata table is no reason if it is dropped first.
    """
    handle = observation.handle
    check_writable(
        handle, handle.timeline(), handle.store.now_ms(), drops_metadata_table=drops_metadata_table
    )


def check_files(observation: Observation, *, every_partition: bool = True) -> None:
    """Raise CorruptTableError if base files are missing or have another size than was written.

    Partitions that no write on the active timeline touched are listed only if ``every_partition`` is True.
    """
    handle = observation.handle
    with handle.failures_masked():
        raise_if_damaged(handle, damaged_files(handle, every_partition=every_partition))


class Measuring:
    """Observed tables by name. ``damage`` holds the errors of tables that could not be read.

    A table with an error is not measured again.
    """

    def __init__(self, tables: Mapping[str, Observation]) -> None:
        """Start without reading a table."""
        self._readable = dict(tables)
        self.damage: dict[str, CorruptTableError] = {}

    def each(
        self, measure: Callable[[str, Observation], _Figure | None], *, in_order: Sequence[str] | None = None
    ) -> dict[str, _Figure]:
        """Return the result of ``measure`` for each table.

        Tables without a result or with an error are left out. Tables are measured in parallel or, if they are
        named ``in_order``, one after the other.
        """

        def tried(name: str) -> _Figure | CorruptTableError | None:
            try:
                return measure(name, self._readable[name])
            except CorruptTableError as error:
                return error

        names = tuple(self._readable)
        if in_order is None:
            answers = map_each(names, tried)
        else:
            names = tuple(name for name in in_order if name in self._readable)
            answers = [tried(name) for name in names]
        found = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, CorruptTableError):
                self.damage[name] = answer
                del self._readable[name]
            elif answer is not None:
                found[name] = answer
        return found
