"""The outcome that a write hands over for publication, and the result that its caller gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parquetry.message import Text
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.table_spec import KeyScope
from parquetry.runtime.timeline.commit import WriteStat


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The smallest and the largest record key of some rows, compared as UTF-8 bytes."""

    smallest: str
    largest: str

    def overlaps(self, other: KeyRange) -> bool:
        """Return whether one key may lie in both ranges."""
        return (
            self.smallest.encode() <= other.largest.encode()
            and other.smallest.encode() <= self.largest.encode()
        )

    def hull(self, other: KeyRange) -> KeyRange:
        """Return the smallest range that contains both."""
        return KeyRange(
            smallest=min(self.smallest, other.smallest, key=str.encode),
            largest=max(self.largest, other.largest, key=str.encode),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The data on which a write relied beyond the files that its statistics name.

    ``looks_up_keys``: the write (an upsert) inserted the keys that it did not find, so no other write may
    insert them at the same time. ``key_scope`` states whether keys are unique per partition or per table, and
    ``inserted_keys`` gives their range by partition. ``overwritten`` are the partitions whose whole content
    was replaced. ``overwrites_table`` means all partitions, including those that appear meanwhile.
    ``consumed`` is the source data that was ingested; publishing puts its ledger entries.
    """

    looks_up_keys: bool = False
    key_scope: KeyScope = KeyScope.PARTITION
    inserted_keys: Mapping[str, KeyRange] = field(default_factory=dict)
    overwritten: frozenset[str] = frozenset()
    overwrites_table: bool = False
    consumed: tuple[Consumption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """The finished files of a write, and the changes that its commit makes.

    ``operation`` is Hudi's name. ``stats`` has one entry per file written, by partition. ``replaced`` are the
    replaced file groups, by partition. ``schema_json`` is the Avro schema without meta columns. ``sidecars``
    are pairs of path and bytes that are put before the commit and whose names contain its instant. Empty
    ``stats`` and ``replaced`` make a commit that changes no row.
    """

    operation: str
    schema_json: str
    stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    footprint: Footprint = field(default_factory=Footprint)
    sidecars: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CommitResult(Brief):
    """The result of a write.

    ``instant`` is None if nothing was committed: there was nothing to write, or, with ``superseded``, another
    write had consumed the same source files in the meantime (list the new files again). ``unmatched_deletes``
    counts deletes by key that found no row. ``late_rows`` counts rows and deletes that lost against a stored
    row with a larger ordering value. ``retries`` counts the attempts that were rolled back before.
    ``files_clustered`` counts the files that inline clustering rewrote. ``warnings`` are about deletes
    without a row, and failures of the due services afterwards; the commit is valid nevertheless.
    """

    instant: str | None
    action: str
    operation: str
    inserted_rows: int = 0
    updated_rows: int = 0
    deleted_rows: int = 0
    unmatched_deletes: int = 0
    late_rows: int = 0
    files_added: int = 0
    files_rewritten: int = 0
    groups_replaced: int = 0
    bytes_written: int = 0
    retries: int = 0
    retry_reasons: tuple[Text, ...] = ()
    superseded: bool = False
    files_clustered: int = 0
    files_cleaned: int = 0
    instants_archived: int = 0
    warnings: tuple[Text, ...] = ()

    @property
    def rows(self) -> int:
        """Rows inserted, updated or deleted."""
        return self.inserted_rows + self.updated_rows + self.deleted_rows

    @property
    def files(self) -> int:
        """Files written."""
        return self.files_added + self.files_rewritten
