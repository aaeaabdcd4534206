"""The resolved spec of a table, as the runtime uses it: the content of an applied record.

The compiler resolves YAML into a :class:`TableSpec`, ``apply`` stores it in the table, and every write reads
it. It contains no layers of the project (targets, policies, variables).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from parquetry.runtime.allowed import Allowed
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.spec.codec import OMIT_EMPTY, Brief, digest_of, from_json_value, omit, to_json_value
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.types import parse_type


class KeyScope(StrEnum):
    """The scope in which a record key is unique."""

    PARTITION = "partition"
    TABLE = "table"


class Operation(StrEnum):
    """The write operations, named as in specs."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    INSERT_OVERWRITE = "insert_overwrite"
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE = "delete"
    DELETE_PARTITION = "delete_partition"


class Ties(StrEnum):
    """The treatment of rows of one write that have equal keys and ordering values, and no order.

    The rows differ in other columns. Rows from files and from this process have an order of arrival; those of
    a query have none.
    """

    REFUSE = "refuse"
    ANY = "any"
    """One of the rows is kept: a delete before others, then the row with the greatest hash of its values."""


MODIFIED = "modified"


class Locks(StrEnum):
    """The lock that keeps writers of a table apart: Hudi's lock file, or its storage-based lock."""

    FILE = "file"
    STORAGE = "storage"


class BloomFilter(StrEnum):
    """The type of Bloom filter in base files, for Hudi's BLOOM index."""

    ALWAYS_TRUE = "always_true"
    EXACT = "exact"


class TextEncodings(StrEnum):
    """The encodings of texts without a dictionary in base files."""

    PLAIN = "plain"
    DELTA = "delta"


DEFAULT_TABLE_VERSION: Final = 6
TABLE_VERSIONS: Final = (6, 8, 9)
"""The versions of Hudi's table format that a table can have."""
NEW_TABLE_VERSIONS: Final = (6, 9)
"""The versions that a table can be created with or upgraded to."""

EXACT_FILTER_BYTES: Final = 431_380
"""The size in a file of an exact filter for up to 60,000 keys. A filter for more keys takes twice that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A declared column. ``type`` is a Spark SQL type such as ``struct<a:int,b:array<string>>``."""

    name: str
    type: str
    nullable: bool = True
    description: str | None = None
    generated: str | None = None
    pii: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPolicy:
    """The encoding of base files. Sizes are in bytes; None means the writer's default.

    ``encryption_key`` is the reference of the master key with which files are encrypted, or None for
    unencrypted files. Files that were encrypted with one of the ``former_encryption_keys`` can still be read.
    """

    compression: str = "zstd"
    row_group_size_bytes: int | None = None
    page_size_bytes: int | None = None
    bloom_filter: BloomFilter = BloomFilter.ALWAYS_TRUE
    text_encodings: TextEncodings = field(default=TextEncodings.PLAIN, metadata=omit(TextEncodings.PLAIN))
    encryption_key: str | None = field(default=None, metadata=OMIT_EMPTY)
    former_encryption_keys: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)
    meta_columns: MetaColumns = field(default=MetaColumns.ALL, metadata=omit(MetaColumns.ALL))

    @property
    def keys(self) -> tuple[str, ...]:
        """References to all keys with which files may be encrypted."""
        return tuple(filter(None, (self.encryption_key, *self.former_encryption_keys)))


DAY_TYPES: Final = ("date", "timestamp", "int", "bigint", "string")
"""The types of partition columns whose values may be days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRetention:
    """The rule for deleting partitions by the day in a partition column.

    A partition is kept until its day is more than ``keep_days`` before the newest day of the table. At most
    the share ``at_most`` of the partitions, but always one, may be deleted at once.
    """

    column: str
    keep_days: int
    at_most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The rules for keeping file slices, and ``partitions``, the rule for keeping partitions.

    A slice is kept as long as any of the rules requires it. Without ``partitions``, all partitions are kept.
    Orphans stay in the quarantine for ``quarantine_seconds``; without it, a clean deletes them.
    """

    keep_commits: int | None = 10
    keep_versions: int | None = None
    max_age_seconds: int | None = None
    archive_keep_commits: int = 30
    partitions: PartitionRetention | None = field(default=None, metadata=OMIT_EMPTY)
    quarantine_seconds: int | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The files or table from which rows come, and the processing of these rows.

    ``if_missing`` is ``warn`` or ``error`` for a path whose folder or file does not exist; None means a
    warning if the path has wildcards, whose files may come later. ``bad_files`` is ``stop`` or ``set_aside``:
    a file that cannot be ingested stops the others, or is left out and reported. ``ingest_again`` is the
    reason why files that other sources of the table have ingested are ingested from this one too.
    ``removed_rows`` is ``error`` or ``keep``, for a Hudi table that has lost rows that were read.
    ``file_order`` is ``modified`` or ``name``, the order in which the rows of files arrive. ``ties`` applies
    to rows without an order. ``encryption_keys`` are references to the keys with which files of a Hudi table
    may be encrypted.
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
    ingest_again: str | None = field(default=None, metadata=OMIT_EMPTY)
    removed_rows: str = "error"
    file_order: str = MODIFIED
    ties: Ties = Ties.REFUSE
    encryption_keys: tuple[str, ...] = field(default=(), metadata=OMIT_EMPTY)

    @property
    def allowed(self) -> Allowed:
        """The keys that may be used to read a source that is a Hudi table."""
        return Allowed(keys=frozenset(self.encryption_keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A filter that readers use, with its weight relative to the others and its frequency, if known."""

    name: str
    where: str
    weight: float = 1.0
    runs_per_day: float | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTest:
    """One declared test. ``arguments`` is the value under its ``kind`` in YAML.

    Sizes are in bytes, times in seconds. A limit is a number, to which ``severity`` applies, or numbers by
    severity. ``where`` selects partitions. ``max_failures`` is the limit of row tests; None means 0.
    """

    kind: str
    arguments: Any
    severity: str
    name: str | None = field(default=None, metadata=OMIT_EMPTY)
    where: str | None = field(default=None, metadata=OMIT_EMPTY)
    max_failures: Any = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFormat:
    """The publication as a Delta table: a log in ``_delta_log``, in the folder of the table."""


class CatalogType(StrEnum):
    """The service that a catalog is."""

    SQL = "sql"
    REST = "rest"
    GLUE = "glue"
    HIVE = "hive"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCatalog:
    """A catalog of the target. Options of the form ``env:NAME`` are read from the environment when used."""

    name: str
    type: CatalogType
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of the catalog, by which it is allowed."""
        return digest_of(to_json_value(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFormat:
    """The publication as an Iceberg table: ``name`` in ``catalog``, or metadata files beside the table."""

    catalog: TargetCatalog | None = field(default=None, metadata=OMIT_EMPTY)
    name: str | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """The other table formats whose metadata shows the files of the table. None: not in that format."""

    delta: DeltaFormat | None = field(default=None, metadata=OMIT_EMPTY)
    iceberg: IcebergFormat | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def catalog(self) -> TargetCatalog | None:
        """The catalog to which the table is published, or None."""
        return None if self.iceberg is None else self.iceberg.catalog

    @property
    def references(self) -> tuple[str, ...]:
        """The values of catalogs' options, some of which refer to variables of the environment."""
        return () if self.catalog is None else tuple(self.catalog.options.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """The declarations of a table that do not affect the writing of its rows.

    ``catalog`` is the name of the target's catalog in which the table is registered, in ``database``. If
    ``clustering`` is None, the clustering policy is derived from the sizing.
    """

    description: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    catalog: str | None = field(default=None, metadata=OMIT_EMPTY)
    database: str | None = field(default=None, metadata=OMIT_EMPTY)
    clustering: ClusteringSpec | None = field(default=None, metadata=OMIT_EMPTY)
    queries: tuple[Query, ...] = ()
    tests: tuple[TableTest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableSpec(Brief):
    """A resolved table.

    The fields of ``record_key`` may be dotted (nested). Without any, the table is append-only.
    ``table_version`` is one of :data:`TABLE_VERSIONS`.
    """

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
    table_version: int = field(default=DEFAULT_TABLE_VERSION, metadata=omit(DEFAULT_TABLE_VERSION))
    locks: Locks = field(default=Locks.FILE, metadata=omit(Locks.FILE))
    publish: Publish | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def clustering(self) -> ClusteringSpec:
        """The declared clustering policy, or the defaults."""
        return self.extra.clustering or ClusteringSpec.defaults_for(self.sizing)

    @property
    def allowed(self) -> Allowed:
        """The keys, strategies and catalogs that a table with this declared spec may use."""
        policy = self.clustering
        catalog = None if self.publish is None else self.publish.catalog
        return Allowed(
            keys=frozenset(self.files.keys),
            strategies=frozenset((policy.plan.strategy, policy.execution.strategy)),
            catalogs=frozenset() if catalog is None else frozenset([catalog.digest]),
        )

    def with_columns(self, columns: tuple[Column, ...]) -> TableSpec:
        """Return the spec with other columns."""
        return replace(self, columns=columns)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, with the names of fields as keys."""
        value: dict[str, Any] = to_json_value(self)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, place: str = "spec") -> TableSpec:
        """Return the spec from the values of :meth:`to_json`.

        Raises:
            InvalidDataError: If a key is unknown or a value is invalid. The message starts with ``place``.

        """
        return from_json_value(cls, value, place=place)

    def check_types(self) -> None:
        """Raise InvalidDataError if the type of a column is not a valid type."""
        for column in self.columns:
            parse_type(column.type)
