"""What a table is meant to be, as the runtime knows it: the content of an applied record.

The compiler resolves YAML into a :class:`TableSpec`; ``apply`` stores it in the table; every
write reads it back. No layer of the project (targets, policies, variables) survives here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from parquetry.runtime.allowed import Allowed
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.spec.codec import UNLESS_NONE, Brief, from_json_value, to_json_value
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.types import parse_type


class KeyScope(StrEnum):
    """Where a record key is unique."""

    PARTITION = "partition"
    TABLE = "table"


class Operation(StrEnum):
    """The write operations, in the words of the specs."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE = "delete"
    DELETE_PARTITION = "delete_partition"


class Ties(StrEnum):
    """What becomes of rows of one write that differ, have one key and one ordering value, and no order.

    Rows of files and of this process arrive in an order; those of a query have none.
    """

    REFUSE = "refuse"
    ANY = "any"
    """One of them counts: a delete before others, then the greatest hash of the values."""


MODIFIED = "modified"


class BloomFilter(StrEnum):
    """Which Bloom filter a base file carries for Hudi's BLOOM index."""

    ALWAYS_TRUE = "always_true"
    EXACT = "exact"


EXACT_FILTER_BYTES: Final = 431_380
"""What an exact filter of up to 60,000 keys takes in a file; one of more takes twice that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A declared column; ``type`` is a Spark SQL type such as ``struct<a:int,b:array<string>>``."""

    name: str
    type: str
    nullable: bool = True
    description: str | None = None
    generated: str | None = None
    pii: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPolicy:
    """How base files are encoded. Sizes in bytes; None leaves the writer's default.

    ``encryption_key`` refers to the master key they are encrypted by, None leaves them in the clear. Files
    that one of the ``former_encryption_keys`` encrypted are read.
    """

    compression: str = "zstd"
    row_group_size_bytes: int | None = None
    page_size_bytes: int | None = None
    bloom_filter: BloomFilter = BloomFilter.ALWAYS_TRUE
    encryption_key: str | None = field(default=None, metadata=UNLESS_NONE)
    former_encryption_keys: tuple[str, ...] = field(default=(), metadata=UNLESS_NONE)

    @property
    def keys(self) -> tuple[str, ...]:
        """References to all keys that files may be encrypted by."""
        return tuple(filter(None, (self.encryption_key, *self.former_encryption_keys)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """Which versions are kept: a version stays while any of the rules asks for it."""

    keep_commits: int | None = 10
    keep_versions: int | None = None
    max_age_seconds: int | None = None
    archive_keep_commits: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where rows come from and what is done with them.

    ``if_missing`` is ``warn`` or ``error`` for a path whose folder, or file, is not there; None warns where
    it has wildcards, whose files may all be still to come. ``bad_files`` is ``stop`` or ``set_aside``: a file
    that cannot be ingested stops the others, or is left out and reported. ``ingest_again`` is the reason why
    files that other sources of the table have ingested are ingested from this one too. ``removed_rows`` is
    ``error`` or ``keep``: what happens if a Hudi table has lost rows that were read. ``file_order`` is
    ``modified`` or ``name``: the rows of files arrive in that order. ``ties`` is for rows that have none.
    ``encryption_keys`` refer to the keys that files of a Hudi table may be encrypted by.
    """

    name: str
    format: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    select: str | None = None
    operation: Operation = Operation.UPSERT
    read: str = "new"
    drop_duplicates: bool = False
    delete_when: str | None = None
    drop: tuple[str, ...] = ()
    match: tuple[str, ...] = ()
    if_missing: str | None = None
    bad_files: str = "stop"
    ingest_again: str | None = field(default=None, metadata=UNLESS_NONE)
    removed_rows: str = "error"
    file_order: str = MODIFIED
    ties: Ties = Ties.REFUSE
    encryption_keys: tuple[str, ...] = field(default=(), metadata=UNLESS_NONE)

    @property
    def allowed(self) -> Allowed:
        """Return what may be used to read the table that is the source."""
        return Allowed(keys=frozenset(self.encryption_keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter that readers use, how much it weighs beside the others, and how often it runs, if known."""

    name: str
    where: str
    weight: float = 1.0
    runs_per_day: float | None = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTest:
    """One declared test; ``arguments`` is what stands under its ``kind``, sizes in bytes, times in seconds.

    A limit is a number, which ``severity`` is for, or numbers by severity. ``where`` chooses partitions.
    ``max_failures`` is the limit of tests of rows; None is 0.
    """

    kind: str
    arguments: Any
    severity: str
    name: str | None = field(default=None, metadata=UNLESS_NONE)
    where: str | None = field(default=None, metadata=UNLESS_NONE)
    max_failures: Any = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """What is declared of a table beside how its rows are written; no ``clustering`` follows the sizing."""

    description: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    clustering: ClusteringSpec | None = field(default=None, metadata=UNLESS_NONE)
    queries: tuple[Query, ...] = ()
    tests: tuple[TableTest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableSpec(Brief):
    """A resolved table. ``record_key`` may be dotted (nested) and may be empty (append only)."""

    name: str
    columns: tuple[Column, ...]
    record_key: tuple[str, ...] = ()
    key_scope: KeyScope = KeyScope.PARTITION
    ordering: str | None = None
    partition_by: tuple[str, ...] = ()
    hive_style: bool = True
    url_encode: bool = True
    sizing: SizingPolicy = field(default_factory=SizingPolicy)
    files: FilesPolicy = field(default_factory=FilesPolicy)
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    sources: tuple[Source, ...] = ()
    extra: Extra = field(default_factory=Extra)

    @property
    def clustering(self) -> ClusteringSpec:
        """How files are clustered: as declared, else the defaults."""
        return self.extra.clustering or ClusteringSpec.following(self.sizing)

    @property
    def allowed(self) -> Allowed:
        """Return the keys and strategies that may be used for a table that this spec is declared for."""
        policy = self.clustering
        strategies = frozenset((policy.plan.strategy, policy.execution.strategy))
        return Allowed(keys=frozenset(self.files.keys), strategies=strategies)

    def with_columns(self, columns: tuple[Column, ...]) -> TableSpec:
        """The same spec with other columns."""
        return replace(self, columns=columns)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, field names as keys."""
        value: dict[str, Any] = to_json_value(self)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, place: str = "spec") -> TableSpec:
        """The spec that :meth:`to_json` wrote; unknown keys are an error that names ``place``."""
        return from_json_value(cls, value, place=place)

    def check_types(self) -> None:
        """InvalidDataError where the type of a column is none."""
        for column in self.columns:
            parse_type(column.type)
