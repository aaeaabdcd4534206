"""Incoming rows with the table's columns, types and keys, as one Spark projection.

The result has the table's columns in order, then control columns. A fault of the schema is an error here,
before a row is computed. Faults of rows are counted when the rows are materialised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)
from pyspark.sql import types as T  # noqa: N812

from parquetry.errors import failures_at
from parquetry.runtime.base_file.model import DELETE, HASH
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.prepare.generated import with_generated
from parquetry.runtime.spark.session.conversion import check_type, convert, type_of
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.keys import literal, partition_path_sql, quoted, record_key_sql
from parquetry.runtime.spark.session.settings import expression_settings, session_settings
from parquetry.runtime.spark.session.sql_guard import check_expression
from parquetry.runtime.spec.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from parquetry.runtime.spec.rules import CONTROL_COLUMNS, DELETE_FLAG, deletes_by_flag
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Map, Primitive, Struct, parse_type
from parquetry.runtime.stage.part import ARRIVAL, GENERATED_FAULT, PARTITION
from parquetry.runtime.stage.partition_paths import PartitionPaths
from parquetry.runtime.table.partition_path import KeyRules, path_of_texts

DELETE_WHEN: Final = "delete_when"
"""The name of the option for a condition of deletes, in errors and in a source of a spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRows:
    """Rows that can be materialised.

    ``frame`` has ``columns`` (table columns, a subset for deletes by key), then control columns. If ``paths``
    is set, tasks compute the partition path, and it is null in ``frame``; otherwise SQL computes it.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    paths: PartitionPaths | None = None


def prepare_rows(
    frame: DataFrame,
    columns: Sequence[Column],
    rules: KeyRules,
    *,
    delete_when: str | None = None,
    drop: Sequence[str] = (),
    arrival: str | None = None,
    hash_rows: bool = True,
) -> PreparedRows:
    """Convert ``frame`` to rows of a table with these ``columns``.

    A missing nullable column is null. The order of columns does not matter, and types may be narrower than
    the table's. Generated columns are computed, and compared if given. Rows whose value their type cannot
    contain count as faults.

    Args:
        frame: The incoming rows.
        columns: The columns of the table.
        rules: The spelling of keys and partition paths.
        delete_when: A condition on the incoming columns that marks deletes. A true ``_hoodie_is_deleted``
            marks them as well, unless the table has a column of that name with another type.
        drop: The names of columns that only the condition needs.
        arrival: SQL for a text that sorts the rows by their order of arrival; None if they have none.
        hash_rows: Whether to add the row hash and the arrival, which only writes that choose between rows
            need.

    Raises:
        InvalidDataError: If a column does not fit. It names the column with the found and the expected type.

    """
    incoming = frame.drop(*META_COLUMNS)
    check_control_names(incoming.schema.names, place="the columns of the rows")
    _check_names(incoming.drop(*drop).schema, columns, delete_when)
    spark = frame.sparkSession
    with session_settings(spark, expression_settings(spark)):
        marked = _with_delete_flag(incoming, delete_when, by_flag=deletes_by_flag(columns))
        control = [DELETE]
        if arrival is not None and hash_rows:
            marked = marked.withColumn(ARRIVAL, F.expr(arrival))
            control.append(ARRIVAL)
        marked = marked.drop(*drop)
        found = {field.name.lower(): field for field in marked.schema.fields}
        conformed = marked.selectExpr(*(_conform(found.get(c.name.lower()), c) for c in columns), *control)
        given = [c.name for c in columns if c.name.lower() in found]
        keys = {path.partition(".")[0] for path in (*rules.record_key, *rules.partition_by)}
        filled = with_generated(conformed, columns, given=given, keys=keys)
        return _with_control(filled, columns, rules, hash_rows=hash_rows)


def prepare_keys(
    frame: DataFrame,
    columns: Sequence[Column],
    rules: KeyRules,
    *,
    ordering: str | None,
    delete_when: str | None,
) -> tuple[PreparedRows, bool]:
    """Return the keys of rows to delete, and whether their partitions are known.

    A delete with a known partition searches only there, if keys are unique per partition.

    Args:
        frame: The incoming rows, with the columns of the record key (or ``_hoodie_record_key``), and
            optionally those of the partition (or ``_hoodie_partition_path``).
        columns: The columns of the table.
        rules: The spelling of keys and partition paths.
        ordering: The ordering column, which is kept if the rows have it: a delete with a smaller value than
            the stored row's does not delete.
        delete_when: A condition that selects the rows; None selects all.

    Raises:
        InvalidDataError: If the rows lack a column of the record key, or a column does not fit.

    """
    spark = frame.sparkSession
    with session_settings(spark, expression_settings(spark)):
        rows = _matching(frame, delete_when)
        by_name = {c.name: c for c in columns}
        roots = {
            p.split(".")[0]
            for p in (*rules.record_key, *rules.partition_by, *((ordering,) if ordering else ()))
        }
        given = [by_name[name] for name in by_name if name in roots and _find(rows.schema, name)]
        typed = rows.selectExpr(
            *(_conform(_find(rows.schema, c.name), c) for c in given),
            *(_meta_column_sql(rows.schema, name) for name in META_COLUMNS[2:4] if _find(rows.schema, name)),
        )
        names = {c.name for c in given}
        key = _given_key_sql(rules.record_key, names, typed)
        if key is None:
            key = record_key_sql(rules, typed.schema)
        if key is None:
            raise InvalidDataError(
                "the table has generated keys: delete by match columns, or pass _hoodie_record_key"
            )
        located = not rules.partition_by or _covers(rules.partition_by, names)
        path = partition_path_sql(rules, typed.schema) if located else None
        if path is None and _find(typed.schema, PARTITION_PATH):
            nowhere = path_of_texts(rules, [(None, True) for _ in rules.partition_by])
            path = f"coalesce({quoted(PARTITION_PATH)}, {literal(nowhere)})"
        kept = [c.name for c in given if ordering and c.name == ordering.split(".")[0]]
        selected = typed.select(
            *(quoted(name) for name in kept),
            F.expr(key).alias(RECORD_KEY),
            F.expr(path if path is not None else "''").alias(PARTITION),
            F.expr("true").alias(DELETE),
        ).withColumn(HASH, F.xxhash64(RECORD_KEY, PARTITION))
    return PreparedRows(frame=selected, columns=tuple(kept)), path is not None


def prepare_matches(
    frame: DataFrame, columns: Sequence[Column], match: Sequence[str], *, delete_when: str | None
) -> PreparedRows:
    """Return the values of the ``match`` columns, which select the rows to delete.

    Raises:
        InvalidDataError: If the table or the rows lack such a column, or it contains maps.

    """
    by_name = {c.name: c for c in columns}
    for name in match:
        if name not in by_name or _find(frame.schema, name) is None:
            where = "table" if name not in by_name else "rows"
            raise InvalidDataError(
                "match column {column!r} is not in the {place}; match by columns that both have",
                column=name,
                place=where,
            )
        if has_map(parse_type(by_name[name].type)):
            raise InvalidDataError(
                "match column {column!r} holds maps, which cannot be compared; leave it out", column=name
            )
    with session_settings(frame.sparkSession, expression_settings(frame.sparkSession)):
        rows = _matching(frame, delete_when)
        typed = rows.selectExpr(*(_conform(_find(rows.schema, name), by_name[name]) for name in match))
    selected = typed.select(
        *map(quoted, match),
        F.lit("").alias(PARTITION),
        F.xxhash64(*map(quoted, match)).alias(HASH),
        F.expr("true").alias(DELETE),
    )
    return PreparedRows(frame=selected, columns=tuple(match))


def distinct_rows(frame: DataFrame) -> DataFrame:
    """Return each distinct row once. Maps are equal if they have the same entries."""
    kinds = {f.name: type_of(f.dataType, f.name) for f in frame.schema.fields}
    maps = {name: kind for name, kind in kinds.items() if kind is not None and has_map(kind)}
    if not maps:
        return frame.dropDuplicates()
    compared = {f"__compared_{i}": hashable_value(quoted(n), k, 0) for i, (n, k) in enumerate(maps.items())}
    rows = frame.select("*", *(F.expr(sql).alias(name) for name, sql in compared.items()))
    return rows.dropDuplicates([*(n for n in kinds if n not in maps), *compared]).drop(*compared)


def check_control_names(names: Iterable[str], *, place: str) -> None:
    """Raise InvalidDataError if a column has a name that writes reserve for a control column."""
    taken = [name for name in names if name.lower() in CONTROL_COLUMNS]
    if taken:
        raise InvalidDataError(
            "{place} have one called {column!r}, a name that writing uses itself; rename it",
            place=place,
            column=taken[0],
        )


def _given_key_sql(fields: Sequence[str], names: set[str], frame: DataFrame) -> str | None:
    """Return SQL for the meta column if the rows lack columns of the key, or None if they have them."""
    if fields and _covers(fields, names):
        return None
    if _find(frame.schema, RECORD_KEY):
        return quoted(RECORD_KEY)
    missing = [f for f in fields if f.split(".")[0] not in names]
    if fields:
        raise InvalidDataError(
            "the rows to delete have no column {column!r}, which is part of the record key; pass it, "
            "or delete by match columns",
            column=missing[0],
        )
    return None


def _meta_column_sql(schema: T.StructType, name: str) -> str:
    """Return SQL for one of Hudi's columns; raise InvalidDataError unless it contains text."""
    field = _find(schema, name)
    assert field is not None
    if not isinstance(field.dataType, T.StringType | T.NullType):
        raise InvalidDataError(
            "column {column!r} is {found_type} in the rows, and text in the table; cast it to string, "
            "or pass the columns that it is made of",
            column=name,
            found_type=field.dataType.simpleString(),
        )
    return f"CAST({quoted(field.name)} AS STRING) AS {name}"


def _covers(paths: Sequence[str], names: set[str]) -> bool:
    """Return whether the names contain the first part of every path."""
    return all(path.split(".")[0] in names for path in paths)


def _check_names(schema: T.StructType, columns: Sequence[Column], delete_when: str | None) -> None:
    """Raise InvalidDataError if the rows lack a required column, or have an unknown or duplicate one."""
    known = {c.name.lower() for c in columns} | {m.lower() for m in META_COLUMNS} | {DELETE_FLAG}
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise _duplicate_column_error(name)
        seen.add(name.lower())
        if name.lower() not in known:
            hint = " (a column that only delete_when needs: list it under drop)" if delete_when else ""
            raise InvalidDataError(
                "column {column!r} is not in the table; add it to the table's columns and apply, or drop "
                "it from the rows{hint}",
                column=name,
                hint=hint,
            )
    for column in columns:
        if column.name.lower() not in seen and not column.nullable and not column.generated:
            raise InvalidDataError(
                "column {column!r} is missing from the rows and may not be null; select it, or declare "
                "it nullable",
                column=column.name,
            )


def _find(schema: T.StructType, name: str) -> T.StructField | None:
    found = [f for f in schema.fields if f.name.lower() == name.lower()]
    if len(found) > 1:
        raise _duplicate_column_error(found[1].name)
    return found[0] if found else None


def _duplicate_column_error(name: str) -> InvalidDataError:
    """Return the error for a column that the rows contain twice."""
    return InvalidDataError("the rows have two columns {column!r}; rename or drop one of them", column=name)


def _with_delete_flag(frame: DataFrame, delete_when: str | None, *, by_flag: bool) -> DataFrame:
    if delete_when:
        with failures_at(DELETE_WHEN):
            check_expression(frame.sparkSession, delete_when, place=DELETE_WHEN)
    conditions = [f"({delete_when})"] if delete_when else []
    if by_flag and (given := _find(frame.schema, DELETE_FLAG)):
        if not isinstance(given.dataType, T.BooleanType | T.NullType):
            raise InvalidDataError(
                "column {column!r} is {found_type} in the rows, but it marks deletes and must be "
                "boolean; make it a condition in the query, or drop it",
                column=given.name,
                found_type=given.dataType.simpleString(),
            )
        conditions.append(quoted(DELETE_FLAG))
    flag = (
        f"coalesce({' OR '.join(f'coalesce({c}, false)' for c in conditions)}, false)"
        if conditions
        else "false"
    )
    with failures_at(DELETE_WHEN), failures_translated(DELETE_WHEN):
        return frame.withColumn(DELETE, F.expr(flag))


def _matching(frame: DataFrame, delete_when: str | None) -> DataFrame:
    if not delete_when:
        return frame
    with failures_at(DELETE_WHEN), failures_translated(DELETE_WHEN):
        check_expression(frame.sparkSession, delete_when, place=DELETE_WHEN)
        return frame.where(delete_when)


def _conform(field: T.StructField | None, column: Column) -> str:
    """Return SQL, as text, that converts the found column to the table's column, or is NULL without one.

    The text is faster than an expression object: one call of the JVM selects many texts.
    """
    wanted = parse_type(column.type)
    found = field and type_of(field.dataType, column.name)
    check_type(found, wanted, column.name)
    value = convert(quoted(field.name), found, wanted) if field else f"CAST(NULL AS {wanted})"
    return f"{value} AS {quoted(column.name)}"


def _with_control(
    frame: DataFrame,
    columns: Sequence[Column],
    rules: KeyRules,
    *,
    hash_rows: bool,
) -> PreparedRows:
    names = tuple(c.name for c in columns)
    table = T.StructType(frame.schema.fields[: len(names)])
    key = record_key_sql(rules, table)
    paths = PartitionPaths.of(rules, columns)
    path = "CAST(NULL AS STRING)" if paths else partition_path_sql(rules, table)
    added = [f"{path} AS {PARTITION}", DELETE]
    if hash_rows:
        added.append(f"xxhash64({', '.join(hashable(columns))}) AS {HASH}")
    if key and not is_plain_key(rules, columns):
        added.append(f"{key} AS {RECORD_KEY}")
    added += [name for name in (GENERATED_FAULT, ARRIVAL) if name in frame.columns]
    return PreparedRows(frame=frame.selectExpr(*map(quoted, names), *added), columns=names, paths=paths)


def is_plain_key(rules: KeyRules, columns: Sequence[Column]) -> bool:
    """Return whether the record key equals the text of one string column, and so needs no further column."""
    if rules.named_key or len(rules.record_key) != 1:
        return False
    return any(
        c.name == rules.record_key[0] and parse_type(c.type) == Primitive(name="string") for c in columns
    )


def hashable(columns: Sequence[Column]) -> Iterator[str]:
    """Yield SQL for each column in a form that Spark can hash; see :func:`hashable_value`."""
    for column in columns:
        yield hashable_value(quoted(column.name), parse_type(column.type), 0)


def hashable_value(value: str, kind: ColumnType, depth: int) -> str:
    """Return SQL for the value with sorted lists of entries in place of maps, which Spark refuses to hash.

    ``depth`` is the number of lambdas around the SQL.
    """
    if not has_map(kind):
        return value
    item = f"h{depth}"
    match kind:
        case Map(value=inner):
            entry = hashable_value(f"{item}.value", inner, depth + 1)
            entries = f"transform(map_entries({value}), {item} -> struct({item}.key, {entry}))"
            return f"array_sort({entries})"
        case Array(element=inner):
            return f"transform({value}, {item} -> {hashable_value(item, inner, depth + 1)})"
        case Struct(fields=fields):
            parts = (hashable_value(f"{value}.{quoted(f.name)}", f.type, depth) for f in fields)
            return f"struct({', '.join((f'{value} IS NULL', *parts))})"
        case _:
            return value


def has_map(kind: ColumnType) -> bool:
    """Return whether the type contains a map."""
    match kind:
        case Map():
            return True
        case Array(element=inner):
            return has_map(inner)
        case Struct(fields=fields):
            return any(has_map(f.type) for f in fields)
        case _:
            return False
