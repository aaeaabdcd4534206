"""The port of a published format: metadata of another table format over the files of a Hudi table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from parquetry.runtime.layout.skipping.statistics import FileStatistics, StatisticValue
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.layout import DAY_MS

METADATA_FOLDER: Final = "metadata"
"""The folder of a table in which its Iceberg metadata lies."""

INSTANT_KEY: Final = "parquetry.instant"
"""The name under which the metadata of a format records the newest write of the state that it shows."""
WRITES_KEY: Final = "parquetry.writes"
"""The name under which it records all completed writes of the timeline of that state, joined by commas.

A write that completes late has an older instant than the newest one, so the newest alone shows too little.
"""
SETTLED_KEY: Final = "parquetry.settled"
"""The name under which it records ``Snapshot.settled``."""

LEFTOVER_MS: Final = DAY_MS
"""The age at which files of the metadata that nothing names count as those of a killed or beaten process.

A process that publishes gives up after half of it: :func:`is_too_slow`.
"""

PartitionValues: TypeAlias = tuple[StatisticValue | None, ...]
"""A value for each partition column, in their order. Dates are days, timestamps microseconds since 1970."""


def is_too_slow(store: ObjectStore, began_ms: int) -> bool:
    """Return whether a publication that began then must give up: its files may soon count as leftovers."""
    return store.now_ms() - began_ms > LEFTOVER_MS // 2


def state_properties(state: Snapshot | Published) -> dict[str, str]:
    """Return the properties by which the metadata of a format records a state."""
    return {
        INSTANT_KEY: state.instant,
        WRITES_KEY: ",".join(sorted(state.writes)),
        SETTLED_KEY: state.settled,
    }


def recorded_state(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of :class:`Published` that :func:`state_properties` recorded."""
    return {
        "instant": properties[INSTANT_KEY],
        "writes": frozenset(filter(None, properties[WRITES_KEY].split(","))),
        "settled": properties.get(SETTLED_KEY, ""),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFile:
    """A base file of the current state.

    ``path`` is relative to the table, with the names of folders as they are stored. ``modified_ms`` is the
    time of the instant that wrote the file. ``statistics`` come from its sidecar or its footer. They have no
    bounds for an encrypted file.
    """

    path: str
    size_bytes: int
    modified_ms: int
    partition: PartitionValues
    statistics: FileStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a table as of its newest completed write ``instant``, at ``completed_ms``.

    ``writes`` are the completed writes of the active timeline. ``settled`` is the oldest pending write, or
    ``instant`` if that is older: no write that completes later is older. ``columns`` are those of the table
    without meta columns. ``partition_by`` is empty if the partition paths do not hold values that can be
    parsed; the files are then published without partitions. ``same_rows`` is True if no row changed since the
    state that is published, as by a clustering. ``savepoints`` are the writes with a savepoint.
    """

    instant: str
    completed_ms: int
    operation: str
    writes: frozenset[str]
    settled: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    savepoints: tuple[str, ...] = ()
    same_rows: bool = False
    table_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The state that the newest metadata of a format shows.

    ``settled`` is empty if metadata of an older parquetry does not have it. ``incomplete`` are the paths of
    files whose statistics a killed process did not write, so that readers do not skip them. The next
    ``publish`` gets them again among the added files.
    """

    instant: str
    writes: frozenset[str]
    settled: str = ""
    incomplete: frozenset[str] = frozenset()


class AddedFiles(Sized, Iterable[PublishedFile], Protocol):
    """Files whose statistics are read as they are iterated, so that few are in memory at once."""


class PublishedFormat(Protocol):
    """The metadata of another format for one table.

    ``name`` is the key below ``publish:``.

    Raises:
        ForeignTableError: From ``published``, if somebody else has written to the metadata.
        UnsupportedTableError: If the format cannot show a file or a column.
        ParquetryError: Any other, if the storage or the catalog cannot be reached.
    """

    @property
    def name(self) -> str:
        """The key of the format below ``publish:``."""
        ...

    def published(self) -> Published | None:
        """Return the state of the newest metadata, or None if there is none yet."""
        ...

    def paths(self, state: Published, folders: Mapping[str, PartitionValues] | None = None) -> frozenset[str]:
        """Return the paths of the files that a state from ``published`` names.

        Args:
            state: The state.
            folders: The folders in which the files lie, or None for all. Their values are those of the
                partition columns, or empty if they are not known.
        """
        ...

    def publish(
        self,
        snapshot: Snapshot,
        added: AddedFiles,
        removed: Sequence[str],
        *,
        before: Published | None,
    ) -> bool:
        """Write one commit, atomically, whose state differs from ``before`` by these files.

        The schema follows ``snapshot.columns``.

        Returns:
            False if the newest metadata is not ``before`` any more: another process has published.
        """
        ...

    def repair(self, before: Published) -> None:
        """Finish the commit of the newest state ``before``, if its process was killed before the end."""
        ...

    def expire(self, earliest: str, savepoints: Sequence[str]) -> None:
        """Forget published states before the instant ``earliest``, in metadata only.

        Files of the metadata that a killed or beaten process left are deleted, when they are old.

        A format with tags keeps those of the instants ``savepoints`` and forgets the tags of others.
        Files of the table are never deleted. The newest state is always kept.
        """
        ...
