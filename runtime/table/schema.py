"""The columns of a table: those that its commits record, reconciled with the declared ones.

Source: TableSchemaResolver of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from parquetry.message import Value
from parquetry.runtime.arrow.schema import columns_from_arrow
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.encryption import open_footer
from parquetry.runtime.spec.avro import columns_from_avro, table_avro_schema, with_nullable_elements
from parquetry.runtime.spec.evolution import in_order_of, is_widening
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import SCHEMA_PRESERVING_OPERATIONS

_FOOTER_KEY = b"parquet.avro.schema"


def recorded_schema(timeline: Timeline, config: TableConfig) -> str | None:
    """Return the table's Avro schema of the newest commit that has one, or else that of its creation."""
    for instant in reversed(timeline.completed_writes):
        metadata = timeline.commit_metadata(instant.time)
        if metadata.schema and metadata.operation not in SCHEMA_PRESERVING_OPERATIONS:
            return metadata.schema
    return config.create_schema


def live_columns(store: ObjectStore, timeline: Timeline, config: TableConfig) -> tuple[Column, ...]:
    """Return the columns that readers see: those of the recorded schema, or else of the newest data file.

    An empty table without a recorded schema has none.

    Raises:
        CorruptTableError: If the recorded schema is invalid.

    """
    schema = recorded_schema(timeline, config)
    if schema:
        try:
            return columns_from_avro(schema, place=f"{store.uri}: schema of the newest commit")
        except CorruptTableError as error:
            raise CorruptTableError(
                "{reason}; roll that commit back with the program that wrote it, or with `service rollback`",
                reason=error.message,
            ) from error
    newest = max(
        FileSystemView(store, timeline, config).all_slices(),
        key=lambda part: (part.instant, part.path),
        default=None,
    )
    return () if newest is None else _columns_of_file(store, newest)


def described(columns: Iterable[Column], spec: TableSpec | None) -> tuple[Column, ...]:
    """Return the columns with the descriptions of the spec, or with none."""
    texts = {} if spec is None else {column.name: column.description for column in spec.columns}
    return tuple(replace(column, description=texts.get(column.name)) for column in columns)


def reconcile(declared: Iterable[Column], live: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns of the next commit: the declared ones, followed by the undeclared live ones.

    A declared column is as wide as the live one. A column that another writer added or widened is kept,
    because a commit without it would hide it.
    """
    declared, live = tuple(declared), tuple(live)
    by_name = {column.name: column for column in live}
    names = {column.name for column in declared}
    kept = (_widened(column, by_name.get(column.name)) for column in declared)
    return (*kept, *(column for column in live if column.name not in names))


def schema_json(
    name: str, columns: Iterable[Column], recorded: str | None, *, keys: Collection[str] = ()
) -> str:
    """Return the Avro JSON for a commit: the recorded schema, if its columns are the same, or a new one.

    Tables of other programs may name their nested records differently, and Hudi compares those names. Hudi
    also makes key columns nullable in its schemas, although their values are never null, so the nullability
    of the columns ``keys`` is not compared. If elements of arrays and values of maps may be null in the
    columns, they become nullable in the recorded schema.

    Args:
        name: The name of the table.
        columns: The columns of the commit.
        recorded: The recorded schema, or None.
        keys: The names of the record key's columns.

    """
    own = table_avro_schema(name, columns)
    if recorded and _ignoring_key_nullability(recorded, keys) == _ignoring_key_nullability(own, keys):
        return with_nullable_elements(recorded)
    return own


def _ignoring_key_nullability(schema: str, keys: Collection[str]) -> list[Column]:
    """Return the columns of an Avro schema, in which the columns ``keys`` count as nullable."""
    columns = columns_from_avro(schema)
    return [replace(column, nullable=column.nullable or column.name in keys) for column in columns]


def _widened(declared: Column, live: Column | None) -> Column:
    """Return the declared column in the wider of its type and the live column's type."""
    if live is None or _avro_columns(declared) == _avro_columns(live):
        return declared
    declared_type, live_type = parse_type(declared.type), parse_type(live.type)
    if is_widening(declared_type, live_type):
        wide = in_order_of(declared_type, live_type)
        return replace(declared, type=str(wide), nullable=declared.nullable or live.nullable)
    return declared


def _avro_columns(column: Column) -> tuple[Column, ...]:
    """Return the column in the type in which Avro stores it, in a tuple. Byte and short become int."""
    bare = Column(name=column.name, type=column.type, nullable=True)
    return columns_from_avro(table_avro_schema("t", [bare]))


def _columns_of_file(store: ObjectStore, part: FileSlice) -> tuple[Column, ...]:
    place = Value.uri(f"{store.uri}/{part.path}")
    with store.open_input(part.path) as source:
        schema = open_footer(source, store.allowed, place=place)[0].schema.to_arrow_schema()
    avro = (schema.metadata or {}).get(_FOOTER_KEY)
    if avro:
        return columns_from_avro(avro.decode(), place=place)
    return columns_from_arrow(schema)
