"""The configuration in hoodie.properties, with the keys of Hudi 0.x and of Hudi 1.x.

Source: HoodieTableConfig of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.key_generator import KeyGenerator, infer_key_generator
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import Locks
from parquetry.runtime.table.properties import PROPERTIES_PATH
from parquetry.runtime.timeline.instant import Timezone
from parquetry.runtime.timeline.layout import LAYOUTS, TimelineLayout

LOCK_METHOD_KEY: Final = "parquetry.lock.method"
LOCK_PATH_KEY: Final = "parquetry.lock.path"
COPY_ON_WRITE: Final = "COPY_ON_WRITE"
POPULATE_META_FIELDS_KEY: Final = "hoodie.populate.meta.fields"
META_COLUMNS_KEY: Final = "parquetry.meta.columns"
TIMEZONE_KEY: Final = "hoodie.table.timeline.timezone"
METADATA_TABLE_KEYS: Final = (
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
)
"""The properties that declare a metadata table: its partitions in use, and those that are being built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """The parsed properties of a table. ``raw`` has all of them.

    ``key_generator`` is None for a class that is not part of Hudi. ``metadata_partitions`` are those of a
    metadata table that is in use or under construction. ``layout`` is the number of the timeline layout.
    """

    name: str
    table_type: str
    version: int
    layout: int
    record_key: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    partition_by: tuple[str, ...]
    key_generator: KeyGenerator | None
    hive_style: bool
    url_encode: bool
    timezone: Timezone
    meta_columns: MetaColumns
    metadata_partitions: tuple[str, ...]
    drop_partition_columns: bool
    base_file_format: str
    bootstrap_base_path: str | None
    create_schema: str | None
    raw: Mapping[str, str]

    @property
    def locks(self) -> Locks:
        """The lock that keeps writers of the table apart. An unknown one counts as the lock file here."""
        is_storage = self.raw.get(LOCK_METHOD_KEY) == Locks.STORAGE
        return Locks.STORAGE if is_storage else Locks.FILE

    @property
    def ordering(self) -> str | None:
        """The ordering field, or None if there is none or more than one (Hudi 1.1)."""
        return self.ordering_fields[0] if len(self.ordering_fields) == 1 else None

    @property
    def timeline_layout(self) -> TimelineLayout:
        """The layout of the timeline, which must be one that is supported."""
        return LAYOUTS[self.layout].of_table(self.raw, self.timezone)

    @property
    def key_generator_class(self) -> str | None:
        """The class or type of the key generator as the properties spell it, for messages."""
        return self.raw.get("hoodie.table.keygenerator.class") or self.raw.get(
            "hoodie.table.keygenerator.type"
        )

    @classmethod
    def from_properties(cls, raw: Mapping[str, str], *, location: str) -> TableConfig:
        """Return the configuration in these properties.

        Raises:
            CorruptTableError: If a property is missing or invalid. The message starts with ``location``.

        """
        record_key = _fields(raw, "hoodie.table.recordkey.fields")
        partition_by = tuple(
            field.partition(":")[0] for field in _fields(raw, "hoodie.table.partition.fields")
        )
        return cls(
            name=_required(raw, "hoodie.table.name", location),
            table_type=raw.get("hoodie.table.type", COPY_ON_WRITE),
            version=_number(raw, "hoodie.table.version", 0, location),
            layout=_number(raw, "hoodie.timeline.layout.version", 1, location),
            record_key=record_key,
            ordering_fields=_fields(raw, "hoodie.table.ordering.fields")
            or _fields(raw, "hoodie.table.precombine.field"),
            partition_by=partition_by,
            key_generator=infer_key_generator(raw, record_key, partition_by),
            hive_style=_flag(raw, "hoodie.datasource.write.hive_style_partitioning"),
            url_encode=_flag(raw, "hoodie.datasource.write.partitionpath.urlencode"),
            timezone=_timezone(raw, location),
            meta_columns=_meta_columns(raw, location),
            metadata_partitions=tuple(name for key in METADATA_TABLE_KEYS for name in _fields(raw, key)),
            drop_partition_columns=_flag(raw, "hoodie.datasource.write.drop.partition.columns"),
            base_file_format=raw.get("hoodie.table.base.file.format", "PARQUET").upper(),
            bootstrap_base_path=raw.get("hoodie.bootstrap.base.path") or None,
            create_schema=raw.get("hoodie.table.create.schema") or None,
            raw=dict(raw),
        )


def _fields(raw: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in raw.get(key, "").split(",") if field.strip())


def _flag(raw: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    value = raw.get(key, "").strip().lower()
    return value == "true" if value else default


def _required(raw: Mapping[str, str], key: str, location: str) -> str:
    value = raw.get(key)
    if not value:
        raise CorruptTableError(
            "{table}/{file}: {property} is missing; restore the file from a copy",
            table=location,
            file=PROPERTIES_PATH,
            property=key,
        )
    return value


def _number(raw: Mapping[str, str], key: str, default: int, location: str) -> int:
    value = raw.get(key, str(default)).strip()
    if not (value.isascii() and value.isdigit()):
        raise CorruptTableError(
            "{table}/{file}: {property}={found} is not a number; restore the file from a copy",
            table=location,
            file=PROPERTIES_PATH,
            property=key,
            found=value,
        )
    return int(value)


def _meta_columns(raw: Mapping[str, str], location: str) -> MetaColumns:
    """Return the meta columns that new files fill. Hudi knows all and none; the rest is our own property."""
    if _flag(raw, POPULATE_META_FIELDS_KEY, default=True):
        return MetaColumns.ALL
    value = raw.get(META_COLUMNS_KEY, "").strip() or MetaColumns.NONE
    if value not in {MetaColumns.COMMIT_TIME, MetaColumns.NONE}:
        raise CorruptTableError(
            "{table}/{file}: {property}={found} is neither commit_time nor none; restore it from a copy",
            table=location,
            file=PROPERTIES_PATH,
            property=META_COLUMNS_KEY,
            found=value,
        )
    return MetaColumns(value)


def _timezone(raw: Mapping[str, str], location: str) -> Timezone:
    value = raw.get(TIMEZONE_KEY, Timezone.LOCAL).strip().upper()
    if value not in list(Timezone):
        raise CorruptTableError(
            "{table}/{file}: {property}={found} is neither UTC nor LOCAL; restore the file from a copy",
            table=location,
            file=PROPERTIES_PATH,
            property=TIMEZONE_KEY,
            found=value,
        )
    return Timezone(value)
