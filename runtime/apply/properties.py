"""The properties that the applied spec requires in ``hoodie.properties``, differences, and their repair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from parquetry.runtime.commit.table_lock import lock_with_properties, locked_session
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.key_generator import choose_key_generator
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import read_identity
from parquetry.runtime.table.config import (
    LOCK_METHOD_KEY,
    META_COLUMNS_KEY,
    POPULATE_META_FIELDS_KEY,
    TIMEZONE_KEY,
    TableConfig,
)
from parquetry.runtime.table.creation import fields_of, lock_method_text, meta_columns_texts, table_properties
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.table.properties import (
    CHECKSUM_KEY,
    PROPERTIES_PATH,
    boolean_text,
    read_table_properties,
    update_table_properties,
)
from parquetry.runtime.table.version_properties import (
    GENERATOR_CLASS_KEY,
    GENERATOR_TYPE_KEY,
    ORDERING_KEY,
    PARTITIONS_KEY,
    PRECOMBINE_KEY,
    generator_property,
    new_properties,
    ordering_key,
    required_properties,
)
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_KEYS = "hoodie.table.recordkey.fields"
_HIVE = "hoodie.datasource.write.hive_style_partitioning"
_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"

META_COLUMNS_KEYS: Final = (POPULATE_META_FIELDS_KEY, META_COLUMNS_KEY)

_OTHER_SPELLING = {PRECOMBINE_KEY: ORDERING_KEY, ORDERING_KEY: PRECOMBINE_KEY}
"""The names of properties in other table versions, which could take precedence over the restored ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDrift:
    """A property that differs from the applied value; None means that it is absent."""

    key: str
    applied: str | None
    live: str | None


def property_drift(handle: TableHandle, spec: TableSpec) -> tuple[PropertyDrift, ...]:
    """Return the properties of an applied table that another program has changed, sorted by key.

    The meanings are compared, so that the names of Hudi 0.x and 1.x are equal. For a table that parquetry
    created, all properties are known; for an adopted table, those that its spec repeats. A table whose
    version differs from the spec is compared with the properties of its own version.
    """
    identity = read_identity(handle.store)
    raw = read_table_properties(handle.store)
    return differing_properties(
        raw, spec, made_with=None if identity is None else identity.spec, uri=handle.store.uri
    )


def differing_properties(
    raw: Mapping[str, str], spec: TableSpec, *, made_with: TableSpec | None, uri: str
) -> tuple[PropertyDrift, ...]:
    """Return the given properties that differ from the spec, sorted by key.

    ``made_with`` is the spec with which parquetry created the table, or None for an adopted table. ``uri``
    is the table's URI, for messages.
    """
    live = TableConfig.from_properties(raw, location=uri)
    expected = _expected(spec, made_with, version=live.version)
    meta_columns = spec.files.meta_columns
    expected_config = TableConfig.from_properties({**raw, **expected}, location=uri)
    has_same_meaning: Mapping[str, bool] = {
        _KEYS: live.record_key == spec.record_key,
        **dict.fromkeys(_OTHER_SPELLING, live.ordering_fields == ((spec.ordering,) if spec.ordering else ())),
        PARTITIONS_KEY: live.partition_by == spec.partition_by,
        LOCK_METHOD_KEY: live.locks is spec.locks,
        POPULATE_META_FIELDS_KEY: live.meta_columns.has_keys == meta_columns.has_keys,
        META_COLUMNS_KEY: live.meta_columns is meta_columns
        or live.meta_columns.has_keys != meta_columns.has_keys,
        _HIVE: live.hive_style == spec.hive_style,
        _ENCODE: live.url_encode == spec.url_encode,
        GENERATOR_CLASS_KEY: live.key_generator == expected_config.key_generator,
        GENERATOR_TYPE_KEY: live.key_generator == expected_config.key_generator,
    }
    return tuple(
        PropertyDrift(key=key, applied=value or None, live=raw.get(key))
        for key, value in sorted(expected.items())
        if not has_same_meaning.get(key, (raw.get(key) or "").lower() == value.lower())
    )


def restore_properties(
    store: ObjectStore, spec: TableSpec, *, owner: TableOwner | None = None, timing: Timing = DEFAULT_TIMING
) -> None:
    """Restore the applied values of the properties under the table's lock; readers see all or none."""
    handle = open_table(store, owner=owner)
    if not property_drift(handle, spec):
        return
    with _both_locks(handle, spec, timing):
        drifts = [drift for drift in property_drift(handle, spec) if drift.key not in META_COLUMNS_KEYS]
        put_meta_columns(handle, spec.files.meta_columns)
        absent = [drift.key for drift in drifts if drift.applied is None]
        update_table_properties(
            store,
            {drift.key: drift.applied for drift in drifts if drift.applied is not None},
            remove=[*absent, *(_OTHER_SPELLING[d.key] for d in drifts if d.key in _OTHER_SPELLING)],
            comment="put back by parquetry apply",
        )


@contextmanager
def _both_locks(handle: TableHandle, spec: TableSpec, timing: Timing) -> Iterator[None]:
    """Hold the lock that the table has and the one that the spec declares."""
    with (
        locked_session(
            handle, handle.timeline(), purpose="properties", timing=timing, allows_metadata_table=True
        ) as (session, _),
        lock_with_properties(handle, session, properties_with_lock(handle, spec)),
    ):
        yield


def properties_with_lock(handle: TableHandle, spec: TableSpec) -> Mapping[str, str]:
    """Return the properties of the table with the lock of a spec."""
    return {**handle.config.raw, LOCK_METHOD_KEY: lock_method_text(spec.locks)}


def put_lock(handle: TableHandle, spec: TableSpec) -> None:
    """Put the lock of a spec into the properties, unless they name it; the caller holds both locks."""
    if handle.config.locks is spec.locks:
        return
    method = lock_method_text(spec.locks)
    update_table_properties(
        handle.store,
        {LOCK_METHOD_KEY: method},
        remove=() if method else (LOCK_METHOD_KEY,),
        comment="lock changed by parquetry apply",
    )


def put_meta_columns(handle: TableHandle, columns: MetaColumns) -> None:
    """Put into the properties which meta columns new files fill, unless they name these; hold the lock.

    Raises:
        UnsupportedTableError: If rows may lack some of these columns.
    """
    check_meta_columns(handle, columns)
    if handle.config.meta_columns is columns:
        return
    texts = meta_columns_texts(columns)
    update_table_properties(
        handle.store,
        {key: text for key, text in texts.items() if text},
        remove=[key for key, text in texts.items() if not text],
        comment="meta columns changed by parquetry apply",
    )


def check_meta_columns(handle: TableHandle, columns: MetaColumns) -> None:
    """Raise UnsupportedTableError if rows of the table may lack some of these meta columns."""
    found = handle.config.meta_columns
    if not found.may_become(columns):
        raise UnsupportedTableError(
            "{table}: rows were written with meta_columns: {found} and lack what meta_columns: {wanted} "
            "promises; declare {found}, or fill a new table from this one",
            table=handle.store.uri,
            found=str(found),
            wanted=str(columns),
        )


def change_lock(store: ObjectStore, spec: TableSpec, *, timing: Timing = DEFAULT_TIMING) -> None:
    """Give the table the lock of a spec, unless it has it, while both locks are held."""
    handle = open_table(store)
    if handle.config.locks is spec.locks:
        return
    with _both_locks(handle, spec, timing):
        put_lock(handle, spec)


def _expected(spec: TableSpec, made_with: TableSpec | None, *, version: int) -> dict[str, str]:
    """Return the expected properties by key; an empty text means that the property must be absent.

    Args:
        spec: The applied spec.
        made_with: The spec with which parquetry created the table, or None for an adopted table.
        version: The version of the live table.
    """
    fields = fields_of(spec)
    required = required_properties(version, fields)
    expected = {
        _KEYS: ",".join(spec.record_key),
        ordering_key(version): spec.ordering or "",
        PARTITIONS_KEY: required.get(PARTITIONS_KEY, ""),
        LOCK_METHOD_KEY: lock_method_text(spec.locks),
        **meta_columns_texts(spec.files.meta_columns),
    }
    if spec.partition_by:
        expected |= {_HIVE: boolean_text(value=spec.hive_style), _ENCODE: boolean_text(value=spec.url_encode)}
    if made_with is not None:
        known = table_properties(replace(made_with, table_version=version))
        # A table that got its version by a change may have other values of these.
        for key in (CHECKSUM_KEY, *(new_properties(version, fields).keys() - required.keys())):
            known.pop(key, None)
        generator = choose_key_generator(spec.record_key, spec.partition_by)
        expected = known | required | expected | generator_property(version, generator)
    return expected


def property_warnings(store: ObjectStore) -> tuple[str, ...]:
    """Return a warning with its remedy if the properties lack the time zone; this takes two requests.

    A table that parquetry created has its instants in UTC, and its properties record that. Hudi 0.15 drops
    this property in ``CREATE TABLE ... LOCATION`` and uses local time from then on.
    """
    identity = read_identity(store)
    if identity is None or identity.first_instant is None or TIMEZONE_KEY in read_table_properties(store):
        return ()
    warning = (
        f"{store.uri}/{PROPERTIES_PATH} has lost {TIMEZONE_KEY}=UTC (CREATE TABLE of Hudi 0.15 drops it): "
        "a Hudi job west of Greenwich would lose rows; add that line, or write with parquetry, which "
        "restores it, before Hudi writes again"
    )
    return (warning,)
