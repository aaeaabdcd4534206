"""The creation of a table: one of several creators wins, and anyone can finish an interrupted creation.

First comes the identity, which only one creator can write and which determines everything else. Then comes an
empty first commit with the schema, so that no file is ever older than the first completed instant (Java
treats such files as committed). ``hoodie.properties`` is last: before it exists, readers see no table.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    NotFoundError,
    StalePlanError,
    UnsupportedTableError,
)
from parquetry.runtime.spec.avro import table_avro_schema
from parquetry.runtime.spec.key_generator import choose_key_generator
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.rules import Rule, broken_references, check_columns, check_new_columns
from parquetry.runtime.spec.table_spec import NEW_TABLE_VERSIONS, TABLE_VERSIONS, Locks, TableSpec
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.open import probe_put_if_absent, probe_put_if_match
from parquetry.runtime.table.applied import TableIdentity, check_faults, read_identity
from parquetry.runtime.table.config import (
    COPY_ON_WRITE,
    LOCK_METHOD_KEY,
    META_COLUMNS_KEY,
    POPULATE_META_FIELDS_KEY,
    TIMEZONE_KEY,
)
from parquetry.runtime.table.partition_metadata import partition_metadata_path
from parquetry.runtime.table.properties import (
    CHECKSUM_KEY,
    PROPERTIES_PATH,
    boolean_text,
    format_properties,
    read_table_properties,
    table_checksum,
)
from parquetry.runtime.table.version_properties import Fields, new_properties
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import SCHEMA_KEY, CommitMetadata
from parquetry.runtime.timeline.instant import (
    TIMELINE_FOLDER,
    Action,
    Timezone,
    format_instant,
    parse_instant_ms,
)
from parquetry.runtime.timeline.layout import LAYOUT_OF_VERSION, LAYOUTS, TimelineLayout
from parquetry.runtime.timeline.sidecars import IDENTITY_PATH, probe_path
from parquetry.version import VERSION

TABLE_ID_KEY: Final = "parquetry.table_id"
VERSION_KEY: Final = "parquetry.version"

_CHECKED_FOLDERS: Final = 5
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_IDENTIFYING_KEYS: Final = (
    "hoodie.table.name",
    "hoodie.table.type",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
)


def begin_creation(store: ObjectStore, spec: TableSpec, *, project: str, now_ms: int) -> TableIdentity:
    """Return the identity of the new table, which this call or a faster creator has written.

    Raises:
        UnsupportedTableError: If there is a table that parquetry did not create, or files of one.
        StalePlanError: If the table was created for another project or with another spec.
        InvalidDataError: If no table can be created from the spec.

    """
    check_spec(spec)
    identity = read_identity(store) or _new_identity_or_refuse(store)
    if identity is None:
        check_new_spec(spec)
        try:
            _refuse_leftover_files(store, levels=len(spec.partition_by))
        except UnsupportedTableError:
            identity = read_identity(store)  # the files may be those of a table that was created just now
            if identity is None:
                raise
    if identity is None:
        probe_put_if_absent(store, probe_path())
        if spec.locks is Locks.STORAGE:
            probe_put_if_match(store, probe_path())
        identity = TableIdentity(
            table_id=str(uuid.uuid4()),
            project=project,
            first_instant=format_instant(now_ms, Timezone.UTC),
            spec=spec,
        )
        outcome = store.put_if_absent(IDENTITY_PATH, identity.to_bytes(), nonce=identity.table_id)
        if outcome is PutOutcome.LOST:
            identity = read_identity(store) or identity
    check_faults(identity, None)
    if identity.project != project:
        raise StalePlanError(
            "{table}: the table belongs to project {project!r}, not {expected_project!r}; "
            "choose another location",
            table=store.uri,
            project=identity.project,
            expected_project=project,
        )
    if identity.spec is None or identity.spec.to_json() != spec.to_json():
        raise StalePlanError(
            "{table}: another process created the table with another spec; plan again", table=store.uri
        )
    return identity


def finish_creation(store: ObjectStore, identity: TableIdentity) -> None:
    """Write the parts of the table that are missing. Repeated and concurrent calls have no further effect."""
    spec, first_instant = _creation_input(store, identity)
    properties = table_properties(spec)
    if _check_complete(store, properties):
        return
    refuse_missing_properties(store, identity)
    layout = _layout_of_new_table(spec)
    requested = layout.requested(first_instant, Action.COMMIT)
    for pending in requested.pending_states:
        store.put_if_absent(pending.path, b"")
    # The completion time follows from the first instant, so that all creators write the same file.
    first_ms = parse_instant_ms(first_instant, Timezone.UTC)
    completed = layout.completion_of(requested, after=first_instant, now_ms=first_ms)
    store.put_if_absent(completed.path, first_commit(spec, table_id=identity.table_id))
    comment = f"Made by parquetry {VERSION} at {first_instant} (UTC)"
    content = format_properties(properties, comment=comment)
    if store.put_if_absent(PROPERTIES_PATH, content) is PutOutcome.LOST:
        _check_complete(store, properties)


def first_commit(spec: TableSpec, *, table_id: str) -> bytes:
    """Return the first commit of a table, with its columns and no rows."""
    extra = {
        SCHEMA_KEY: table_avro_schema(spec.name, spec.columns),
        TABLE_ID_KEY: table_id,
        VERSION_KEY: VERSION,
    }
    return _layout_of_new_table(spec).encode_commit(CommitMetadata(operation="INSERT", extra=extra))


def _layout_of_new_table(spec: TableSpec) -> TimelineLayout:
    """Return the timeline layout of a new table."""
    layout = LAYOUTS[LAYOUT_OF_VERSION[spec.table_version]]
    return layout.of_table(table_properties(spec), Timezone.UTC)


def table_properties(spec: TableSpec) -> dict[str, str]:
    """Return the ``hoodie.properties`` of a new table."""
    properties = {
        "hoodie.table.name": spec.name,
        "hoodie.table.type": COPY_ON_WRITE,
        TIMEZONE_KEY: str(Timezone.UTC),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.datasource.write.hive_style_partitioning": boolean_text(value=spec.hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": boolean_text(value=spec.url_encode),
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    if spec.record_key:
        properties["hoodie.table.recordkey.fields"] = ",".join(spec.record_key)
    if method := lock_method_text(spec.locks):
        properties[LOCK_METHOD_KEY] = method
    properties |= {key: text for key, text in meta_columns_texts(spec.files.meta_columns).items() if text}
    properties |= new_properties(spec.table_version, fields_of(spec))
    properties[CHECKSUM_KEY] = table_checksum(properties)
    return properties


def lock_method_text(locks: Locks) -> str:
    """Return the value of the property that names the lock; an empty text means that it is absent."""
    return "" if locks is Locks.FILE else str(locks)


def meta_columns_texts(columns: MetaColumns) -> dict[str, str]:
    """Return the properties that name the filled meta columns; an empty text means that one is absent."""
    return {
        POPULATE_META_FIELDS_KEY: "" if columns is MetaColumns.ALL else "false",
        META_COLUMNS_KEY: str(columns) if columns is MetaColumns.COMMIT_TIME else "",
    }


def fields_of(spec: TableSpec) -> Fields:
    """Return the parts of a new table that the table versions spell differently."""
    return Fields(
        ordering=(spec.ordering,) if spec.ordering else (),
        partition_by=spec.partition_by,
        generator=choose_key_generator(spec.record_key, spec.partition_by),
    )


def check_new_spec(spec: TableSpec) -> None:
    """Raise InvalidDataError, naming the invalid part, if no table may be created from the spec."""
    if not _NAME.fullmatch(spec.name):
        raise InvalidDataError(
            "table name {name!r}: use ASCII letters, digits, '_', '-' and '.', which every reader accepts",
            name=spec.name,
        )
    if spec.table_version not in NEW_TABLE_VERSIONS:
        raise InvalidDataError(
            "table {table}: no table is created with table version {version}; choose {versions}",
            table=spec.name,
            version=spec.table_version,
            versions=" or ".join(map(str, NEW_TABLE_VERSIONS)),
        )
    check_new_columns(spec.columns)
    check_spec(spec)
    _check_references(spec, tuple(Rule))


def check_spec(spec: TableSpec) -> None:
    """Raise InvalidDataError, naming the invalid part, if no table can be written with the spec.

    Rules that hold only for new tables, such as names that every reader accepts, are not checked.
    """
    if not spec.columns:
        raise InvalidDataError("table {table}: a table needs a column", table=spec.name)
    if spec.table_version not in TABLE_VERSIONS:
        raise InvalidDataError(
            "table {table}: there is no table version {version}; choose one of {versions}",
            table=spec.name,
            version=spec.table_version,
            versions=[*TABLE_VERSIONS],
        )
    if not spec.record_key and not spec.files.meta_columns.has_keys:
        raise InvalidDataError(
            "table {table}: it has no record_key, so the meta columns hold the only keys of its rows; "
            "declare a record_key, or meta_columns: all",
            table=spec.name,
        )
    check_columns(spec.columns)
    _check_references(spec, (Rule.MISSING, Rule.WITHIN_STRUCT))


def _check_references(spec: TableSpec, rules: Collection[Rule]) -> None:
    types = {column.name: parse_type(column.type) for column in spec.columns}
    for _, _, broken in broken_references(spec, types):
        if broken.rule in rules:
            raise InvalidDataError(
                "table {table}: {reason}; {remedy}",
                table=spec.name,
                reason=broken.problem,
                remedy=broken.remedy,
            )


def _new_identity_or_refuse(store: ObjectStore) -> TableIdentity | None:
    """Return the identity of a table that was created just now, or None if there is no table.

    Raise an error if there is a table that parquetry did not create.
    """
    try:
        name = read_table_properties(store).get("hoodie.table.name")
    except NotFoundError:
        return None
    identity = read_identity(store)
    if identity is None:
        raise UnsupportedTableError(
            "{table}: there is a Hudi table {name!r} that parquetry did not create; choose another "
            "location, or write to it from Python with parquetry.open",
            table=store.uri,
            name=name,
        )
    return identity


def _refuse_leftover_files(store: ObjectStore, *, levels: int) -> None:
    """Raise UnsupportedTableError if there are files of a table that lost its timeline.

    Readers would take these files for rows of the new table. A few folders of each level are checked, down to
    the level of the last partition field.
    """
    folders = [""]
    for level in range(levels + 1):
        for folder in folders:
            if store.stat(partition_metadata_path(folder)) is not None:
                raise UnsupportedTableError(
                    "{table}: there are files of a table, but its {folder} is missing; "
                    "restore it from a copy, empty the folder, or choose another location",
                    table=store.uri,
                    folder=TIMELINE_FOLDER,
                )
        if level < levels:
            subfolders = (path for folder in folders for path in store.list_folders(folder))
            folders = list(
                islice((path for path in subfolders if not path.startswith(".")), _CHECKED_FOLDERS)
            )


def _check_complete(store: ObjectStore, ours: Mapping[str, str]) -> bool:
    """Return whether the creation is complete. Raise an error if a Hudi writer created a table meanwhile."""
    try:
        theirs = read_table_properties(store)
    except NotFoundError:
        return False
    for key in _IDENTIFYING_KEYS:
        if theirs.get(key) != ours.get(key):
            raise UnsupportedTableError(
                "{table}: during the creation of the table, another program wrote a {file} "
                "with {property}={found}; choose another location",
                table=store.uri,
                file=PROPERTIES_PATH,
                property=key,
                found=theirs.get(key),
            )
    return True


def _creation_input(store: ObjectStore, identity: TableIdentity) -> tuple[TableSpec, str]:
    """Return the spec and the instant with which to finish the creation.

    Raise an error for an adopted table, which has neither.
    """
    check_faults(identity, None)
    if identity.spec is None or identity.first_instant is None:
        raise UnsupportedTableError(
            "{table}: {identity_file} exists, but {missing_file} is missing; restore it from a copy",
            table=store.uri,
            identity_file=IDENTITY_PATH,
            missing_file=PROPERTIES_PATH,
        )
    return identity.spec, identity.first_instant


def refuse_missing_properties(store: ObjectStore, identity: TableIdentity) -> None:
    """Raise an error if a table has lost its properties, because their content is unknown.

    A table whose creation was interrupted is accepted.

    Raises:
        CorruptTableError: If the table was written to after its creation.
        UnsupportedTableError: If the table was adopted.

    """
    spec, first_instant = _creation_input(store, identity)
    # The version, and with it the layout, may have changed since the creation.
    layouts = (layout.of_table(table_properties(spec), Timezone.UTC) for layout in LAYOUTS.values())
    timelines = (Timeline.load(store, layout) for layout in layouts)
    times = (instant.time for timeline in timelines for instant in timeline.instants)
    later = max(times, default=first_instant)
    if later > first_instant:
        raise CorruptTableError(
            "{table}: {file} is missing, but there is an instant {instant}; restore it from a copy",
            table=store.uri,
            file=PROPERTIES_PATH,
            instant=later,
        )
