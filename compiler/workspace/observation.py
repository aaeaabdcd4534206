"""What a live table says of itself, read with four requests: no file listing, no footer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from parquetry.compiler.workspace.masking import masked_by
from parquetry.runtime.commit.damaged_files import damaged_files, refuse_damage
from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.spec.avro import columns_from_avro, table_avro_schema
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.masking import failures_masked
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.admission_to_read import check_readable
from parquetry.runtime.table.applied import (
    Foreign,
    check_owner,
    fault_of,
    foreign,
    read_applied,
    read_identity,
    seal_of,
)
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.creation import first_commit, refuse_missing_properties
from parquetry.runtime.table.open import TableHandle, check_writable
from parquetry.runtime.table.properties import PROPERTIES_PATH, read_table_properties
from parquetry.runtime.table.schema import live_columns
from parquetry.runtime.timeline.active import Timeline

_Figure = TypeVar("_Figure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A table that exists.

    ``spec`` is the applied one; for a table whose creation was interrupted before anything was
    applied, the one it was made with. ``made_with`` is that one for every table that parquetry made,
    at ``first_instant``.
    """

    handle: TableHandle
    spec: TableSpec | None
    made_with: TableSpec | None = None
    first_instant: str | None = None

    @property
    def is_applied(self) -> bool:
        """Whether a spec was recorded as applied, and not forgotten since."""
        return self.handle.applied is not None and not self.is_forgotten

    @property
    def is_forgotten(self) -> bool:
        """Whether the project declared the table once and no longer does."""
        return self.handle.applied is not None and self.handle.applied.forgotten

    def foreign_to(self, owner: TableOwner) -> Foreign | None:
        """Why the table is not the owner's; None where it is."""
        return foreign(owner, project=self.handle.project, applied=self.handle.applied)

    def check_owner(self, owner: TableOwner) -> None:
        """ForeignTableError where the table is not the owner's."""
        handle = self.handle
        check_owner(handle.store.uri, owner, project=handle.project, applied=handle.applied)

    def live_columns(self, timeline: Timeline) -> tuple[Column, ...]:
        """The columns that readers see; none for an empty table of another program.

        The commit that made a table has the columns that it was made with: while that is the only
        write, and as long as it was, it is not read.
        """
        if self.made_with is not None and self._is_as_made(timeline, self.made_with):
            return columns_from_avro(table_avro_schema(self.made_with.name, self.made_with.columns))
        return live_columns(self.handle.store, timeline, self.handle.config)

    def was_never_written(self, timeline: Timeline) -> bool:
        """Whether nothing ever happened to the table but that it was made."""
        spec = self.made_with
        return spec is not None and len(timeline.instants) == 1 and self._is_as_made(timeline, spec)

    def _is_as_made(self, timeline: Timeline, spec: TableSpec) -> bool:
        writes = timeline.completed_writes
        if self.handle.table_id is None or [write.time for write in writes] != [self.first_instant]:
            return False
        size_bytes = len(first_commit(spec, table_id=self.handle.table_id))
        return timeline.files[writes[0].file_name].size_bytes == size_bytes


def observe(store: ObjectStore) -> Observation | None:
    """The table in ``store``; None when there is none, or one that nobody can see yet.

    Writes nothing: a table whose creation was interrupted is left to `apply`. Raises
    UnsupportedTableError for what is no copy-on-write table of version 6, CorruptTableError for what lost
    or damaged a file of its own.
    """
    identity = read_identity(store)
    try:
        raw = read_table_properties(store)
    except NotFoundError:
        if identity is not None:
            refuse_missing_properties(store, identity)
        return None
    config = TableConfig.from_properties(raw, place=store.uri)
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
        fault=fault_of(identity, applied),
        seal=seal_of(store, identity, applied),
    )
    return Observation(
        handle=handle,
        spec=applied.spec if applied else made_with,
        made_with=made_with,
        first_instant=identity.first_instant if identity else None,
    )


def is_there(store: ObjectStore) -> bool:
    """Whether there is a table in ``store``, or one whose creation was interrupted."""
    return store.stat(PROPERTIES_PATH) is not None or read_identity(store) is not None


def admit(observation: Observation) -> None:
    """Return when the table may be written; else UnsupportedTableError. Reads the timeline."""
    handle = observation.handle
    check_writable(handle, handle.timeline(), handle.store.now_ms())


def check_files(observation: Observation, declared: TableSpec, *, everywhere: bool = True) -> None:
    """CorruptTableError when base files are gone, or not of the size that was written; partitions masked.

    Partitions that no write on the active timeline touched are listed only if ``everywhere``.
    """
    handle = observation.handle
    with failures_masked(masked_by(observation.spec, declared), location=handle.store.uri):
        refuse_damage(handle, damaged_files(handle, everywhere=everywhere))


class Measuring:
    """Tables by name. ``damage`` says of those that could not be read why; they are not asked again."""

    def __init__(self, tables: Mapping[str, Observation]) -> None:
        """Nothing is read yet."""
        self._whole = dict(tables)
        self.damage: dict[str, CorruptTableError] = {}

    def each(
        self, measure: Callable[[str, Observation], _Figure | None], *, in_order: Sequence[str] | None = None
    ) -> dict[str, _Figure]:
        """What ``measure`` says of every table, without None and without those that it cannot read.

        Tables are measured side by side, or one after the other if they are named ``in_order``.
        """

        def tried(name: str) -> _Figure | CorruptTableError | None:
            try:
                return measure(name, self._whole[name])
            except CorruptTableError as error:
                return error

        names = tuple(self._whole)
        if in_order is None:
            answers = map_each(names, tried)
        else:
            names = tuple(name for name in in_order if name in self._whole)
            answers = [tried(name) for name in names]
        found = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, CorruptTableError):
                self.damage[name] = answer
                del self._whole[name]
            elif answer is not None:
                found[name] = answer
        return found
