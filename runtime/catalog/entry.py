"""The entry of a table in a catalog of Hive's model, as Hudi's own sync registers it. Pure functions.

Source: SparkDataSourceTableUtils and HiveSchemaUtil of Hudi 1.2.0, by their output for equal schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct, parse_type

LAST_SYNC: Final = "last_commit_time_sync"
"""The table parameter that holds the instant up to which the catalog follows the table."""
DEFINITION: Final = "parquetry.definition"
"""The table parameter with the digest of the definition that parquetry wrote last."""
INPUT_FORMAT: Final = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

_SPARK_VERSION: Final = "3.5.0"
"""The version of Spark whose form of a schema the parameters have."""
_SPARK_PREFIXES: Final = ("spark.sql.sources.", "spark.sql.create.version")
"""The prefixes of Spark's parameters that describe a table. Others are statistics of ANALYZE TABLE."""
_PROVIDER: Final = "spark.sql.sources.provider"
_INPUT_FORMATS: Final = "org.apache.hudi."
_PART_LENGTH: Final = 4000
_ORDERS: Final = ("columns", "partition_keys")
_SCHEMA_PATH: Final = "parameters.spark.sql.sources.schema"
_MOST_COMMENT_BYTES: Final = 255
"""The longest comment that Glue takes. Databases of Hive Metastores take 256 characters or more."""
# Avro has no type of 8 or 16 bits, so both are int in the schema of a table.
_SPARK_NAMES: Final = {"tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "long"}
_HIVE_NAMES: Final = {"tinyint": "int", "smallint": "int", "timestamp_ntz": "timestamp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogColumn:
    """A column as a catalog stores it, with a type in Hive's grammar."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """The entry of a table. ``columns`` are without those of ``partition_keys``."""

    location: str
    columns: tuple[CatalogColumn, ...]
    partition_keys: tuple[CatalogColumn, ...]
    parameters: Mapping[str, str]
    serde_parameters: Mapping[str, str]
    input_format: str = INPUT_FORMAT
    output_format: str = OUTPUT_FORMAT
    serde: str = SERDE

    @property
    def last_sync(self) -> str | None:
        """The instant up to which the entry follows the table, or None if no sync has finished."""
        return self.parameters.get(LAST_SYNC)

    @property
    def was_changed_by_others(self) -> bool:
        """True if the definition is not the one that parquetry wrote last."""
        return self.parameters.get(DEFINITION, definition_digest(self)) != definition_digest(self)

    @property
    def has_definition_of_others(self) -> bool:
        """True if the definition is not one that parquetry wrote, or was changed since."""
        return DEFINITION not in self.parameters or self.was_changed_by_others

    @property
    def other_format(self) -> str | None:
        """The sign that the entry is not that of a Hudi table, such as ``table_type=ICEBERG``, or None."""
        kind, provider = self.parameters.get("table_type", ""), self.parameters.get(_PROVIDER, "hudi")
        if kind.upper() in ("ICEBERG", "DELTA"):
            return f"table_type={kind}"
        if provider.lower() != "hudi":
            return f"{_PROVIDER}={provider}"
        return None if self.input_format.startswith(_INPUT_FORMATS) else f"input format '{self.input_format}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPartition:
    """A registered partition: the values of its keys, its folder, and the columns that it is read with.

    ``parameters`` are those that other programs keep in it, such as statistics.
    """

    values: tuple[str, ...]
    location: str
    columns: tuple[CatalogColumn, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)


def catalog_table(columns: Sequence[Column], partition_by: Sequence[str], location: str) -> CatalogTable:
    """Return the entry of a table that no sync has followed yet.

    Args:
        columns: The columns of the table without meta columns.
        partition_by: The partition columns, in the order of the partition path.
        location: The URI of the table.

    Returns:
        The entry, with the meta columns first and the partition columns as keys.
    """
    every = (*(Column(name=name, type="string") for name in META_COLUMNS), *columns)
    # Spark takes the last columns of the schema as the partition columns.
    by_name = {column.name: column for column in every}
    data = [column for column in every if column.name not in partition_by]
    keys = [by_name[name] for name in partition_by]
    entry = CatalogTable(
        location=location,
        columns=tuple(map(_catalog_column, data)),
        partition_keys=tuple(map(_catalog_column, keys)),
        parameters={"EXTERNAL": "TRUE", **spark_parameters([*data, *keys], partition_by)},
        serde_parameters={"hoodie.query.as.ro.table": "false", "path": location, "serialization.format": "1"},
    )
    return with_definition(entry)


def with_definition(entry: CatalogTable) -> CatalogTable:
    """Return the entry as one whose definition parquetry wrote last."""
    return replace(entry, parameters={**entry.parameters, DEFINITION: definition_digest(entry)})


def definition_digest(entry: CatalogTable) -> str:
    """Return the digest of an entry without the parameters that other programs keep in it."""
    return digest_of(dict(_definition(entry)))


def differences(stored: CatalogTable, wanted: CatalogTable) -> tuple[str, ...]:
    """Return the paths at which the definition of a stored entry differs from the wanted one, sorted.

    Examples are ``columns.price``, ``partition_keys.day`` and ``parameters.spark.sql.sources.provider``.
    """
    before, after = dict(_definition(stored)), dict(_definition(wanted))
    return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryDifference:
    """A part of an entry that differs. A value is None if the entry lacks the part, or if it is too long."""

    path: str
    stored: str | None = None
    wanted: str | None = None


def shown_differences(stored: CatalogTable, wanted: CatalogTable) -> tuple[EntryDifference, ...]:
    """Return the differences of two definitions for a reader, sorted by path.

    Columns have their type and comment as value. Their order is a difference only if nothing else of a column
    is, and the parts of Spark's schema are one path without values.
    """
    before, after = dict(_definition(stored)), dict(_definition(wanted))
    paths = differences(stored, wanted)
    groups = {path.partition(".")[0] for path in paths if "." in path}
    shown = [path for path in paths if path not in _ORDERS or path not in groups]
    found = {
        _SCHEMA_PATH if path.startswith(_SCHEMA_PATH) else path: EntryDifference(
            path=path, stored=_value_text(before.get(path)), wanted=_value_text(after.get(path))
        )
        for path in shown
    }
    if _SCHEMA_PATH in found:
        found[_SCHEMA_PATH] = EntryDifference(path=_SCHEMA_PATH)
    return tuple(found[path] for path in sorted(found))


def _value_text(value: Any) -> str | None:
    """Return a part of a definition as text; for a column, its type and its comment."""
    return value if value is None or isinstance(value, str) else ", ".join(filter(None, value))


def merged(stored: CatalogTable, wanted: CatalogTable) -> CatalogTable:
    """Return the wanted entry with the parameters that other programs keep in the stored one."""
    others = {
        name: value for name, value in stored.parameters.items() if not name.startswith(_SPARK_PREFIXES)
    }
    of_serde = {name: value for name, value in stored.serde_parameters.items() if not _is_path(name)}
    return replace(
        wanted,
        parameters={**others, **wanted.parameters},
        serde_parameters={**of_serde, **wanted.serde_parameters},
    )


def folder_uri(location: str) -> str:
    """Return the URI of a folder that is given as a URI or as an absolute local path."""
    path = location.removeprefix("file://")
    return f"file:{path}" if path.startswith("/") else location


def same_location(one: str, other: str) -> bool:
    """Return whether two URIs name one folder; catalogs and engines spell them in several ways."""
    return _plain_location(one) == _plain_location(other)


def is_below(location: str, folder: str) -> bool:
    """Return whether a URI names a place below a folder, however catalogs spell the two."""
    return _plain_location(location).startswith(f"{_plain_location(folder)}/")


def same_columns(some: Sequence[CatalogColumn], others: Sequence[CatalogColumn]) -> bool:
    """Return whether two lists of columns are equal as catalogs compare them."""
    return list(_plain_columns(some)) == list(_plain_columns(others))


def _definition(entry: CatalogTable) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an entry that parquetry decides, by path, without spellings that catalogs change."""
    yield "location", _plain_location(entry.location)
    yield "input_format", entry.input_format
    yield "output_format", entry.output_format
    yield "serde", entry.serde
    for part, columns in (("columns", entry.columns), ("partition_keys", entry.partition_keys)):
        yield part, [name for name, _, _ in _plain_columns(columns)]
        yield from ((f"{part}.{name}", [kind, text]) for name, kind, text in _plain_columns(columns))
    for name, value in entry.parameters.items():
        if name.startswith(_SPARK_PREFIXES) or name == "EXTERNAL":
            yield f"parameters.{name}", value
    for name in ("hoodie.query.as.ro.table", "serialization.format"):
        yield f"serde_parameters.{name}", entry.serde_parameters.get(name)
    # Spark opens the table at this path, in any case of its name. Only a path elsewhere is a part, so that
    # the digests that entries have stay true.
    for name, value in entry.serde_parameters.items():
        if _is_path(name) and not same_location(value, entry.location):
            yield f"serde_parameters.{name}", _plain_location(value)


def _is_path(name: str) -> bool:
    return name.lower() == "path"


def _plain_columns(columns: Sequence[CatalogColumn]) -> Iterator[tuple[str, str, str]]:
    return ((column.name.lower(), column.type.lower(), column.comment or "") for column in columns)


def _plain_location(location: str) -> str:
    scheme, colon, path = location.partition(":")
    if not colon or scheme == "file":
        return f"file:/{(path if colon else location).strip('/')}"
    return f"{scheme.replace('s3a', 's3').replace('s3n', 's3')}:{path.rstrip('/')}"


def spark_parameters(columns: Sequence[Column], partition_by: Sequence[str]) -> dict[str, str]:
    """Return the table parameters from which Spark knows the provider and the schema of a table."""
    fields = [
        _spark_field(column.name, parse_type(column.type), nullable=column.nullable, comment=_comment(column))
        for column in columns
    ]
    text = json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False, separators=(",", ":"))
    parts = [text[start : start + _PART_LENGTH] for start in range(0, len(text), _PART_LENGTH)]
    parameters = {
        _PROVIDER: "hudi",
        "spark.sql.create.version": _SPARK_VERSION,
        "spark.sql.sources.schema.numParts": str(len(parts)),
    }
    parameters |= {f"spark.sql.sources.schema.part.{number}": part for number, part in enumerate(parts)}
    if partition_by:
        parameters["spark.sql.sources.schema.numPartCols"] = str(len(partition_by))
        parameters |= {
            f"spark.sql.sources.schema.partCol.{number}": name for number, name in enumerate(partition_by)
        }
    return parameters


def hive_type(column_type: ColumnType) -> str:
    """Return a type in Hive's grammar, in lower case and without spaces, as catalogs store it."""
    match column_type:
        case Primitive(name=name):
            return _HIVE_NAMES.get(name, name)
        case Decimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case Array(element=element):
            return f"array<{hive_type(element)}>"
        case Map(value=value):
            return f"map<string,{hive_type(value)}>"
        case Struct(fields=fields):
            return f"struct<{','.join(f'{field.name}:{hive_type(field.type)}' for field in fields)}>"


def _catalog_column(column: Column) -> CatalogColumn:
    return CatalogColumn(name=column.name, type=hive_type(parse_type(column.type)), comment=_comment(column))


def _comment(column: Column) -> str | None:
    """Return the description of a column, cut to the length that catalogs take."""
    text = column.description
    return text and text.encode()[:_MOST_COMMENT_BYTES].decode(errors="ignore")


def _spark_field(
    name: str, column_type: ColumnType, *, nullable: bool, comment: str | None = None
) -> dict[str, Any]:
    metadata = {"comment": comment} if comment else {}
    return {"name": name, "type": _spark_type(column_type), "nullable": nullable, "metadata": metadata}


def _spark_type(column_type: ColumnType) -> str | dict[str, Any]:
    match column_type:
        case Primitive(name=name):
            return _SPARK_NAMES.get(name, name)
        case Decimal(precision=precision, scale=scale):
            return f"decimal({precision},{scale})"
        case Array(element=element, element_nullable=nullable):
            return {"type": "array", "elementType": _spark_type(element), "containsNull": nullable}
        case Map(value=value, value_nullable=nullable):
            return {
                "type": "map",
                "keyType": "string",
                "valueType": _spark_type(value),
                "valueContainsNull": nullable,
            }
        case Struct(fields=fields):
            return {
                "type": "struct",
                "fields": [_spark_field(field.name, field.type, nullable=field.nullable) for field in fields],
            }
