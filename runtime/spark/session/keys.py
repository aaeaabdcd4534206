"""Record keys and partition paths as Spark SQL expressions, byte for byte as Hudi writes them.

Source: Hudi's ``KeyGenUtils`` and ``PartitionPathEncodeUtils``.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T  # noqa: N812  (the customary name)

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.key_generator import EMPTY_KEY_PART, NULL_KEY_PART
from parquetry.runtime.table.partition_path import ESCAPED, NULL_PARTITION, KeyRules


def fixed_width(number: str) -> str:
    """Return SQL for a text that sorts as the number does; the number must not be negative."""
    return f"lpad(hex({number}), 16, '0')"


ROW_POSITION_SQL: Final = fixed_width("monotonically_increasing_id()")
"""SQL for a text that sorts rows by their partition of the frame and their position in it."""


def quoted(path: str) -> str:
    """Return a dotted column path as a Spark SQL reference."""
    return ".".join(map(quoted_name, path.split(".")))


def quoted_name(name: str) -> str:
    """Return the name of one column or field, which may contain dots, as a Spark SQL reference."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a Spark SQL string literal that is valid under any setting of ``escapedStringLiterals``."""
    if all(c not in text for c in "'\\") and text.isprintable():
        return f"'{text}'"
    return f"decode(unhex('{text.encode().hex()}'), 'UTF-8')"


def type_at(schema: T.StructType, path: str) -> T.DataType:
    """Return the type of a dotted column path; raise InvalidDataError if the schema lacks it."""
    found: T.DataType = schema
    for part in path.split("."):
        if not isinstance(found, T.StructType) or part not in found.names:
            raise InvalidDataError(
                "column {column!r} is not in the table: it has {columns}; correct record_key, partition_by "
                "or ordering",
                column=path,
                columns=schema.names,
            )
        found = found[part].dataType
    return found


def value_text_sql(path: str, data_type: T.DataType, *, use: str) -> str:
    """Return SQL for the text of a value inside a key or a partition path; null stays null.

    Timestamps are their microseconds, dates ``yyyy-MM-dd``, decimals ``BigDecimal.toString``. Build it under
    :func:`parquetry.runtime.spark.session.settings.expression_settings`.

    Raises:
        InvalidDataError: If the type cannot be part of a key or path. It names the option ``use``.

    """
    column = quoted(path)
    match data_type:
        case T.StringType():
            return column
        case T.TimestampType():
            return f"CAST(unix_micros({column}) AS STRING)"
        case T.DecimalType():
            # The result of a cast depends on spark.sql.ansi.enabled.
            return f"CASE WHEN {column} IS NOT NULL THEN format_string('%s', {column}) END"
        case (
            T.BooleanType()
            | T.ByteType()
            | T.ShortType()
            | T.IntegerType()
            | T.LongType()
            | T.FloatType()
            | T.DoubleType()
            | T.DateType()
        ):
            return f"CAST({column} AS STRING)"
        case _:
            raise InvalidDataError(
                "column {column!r} of type {found_type} cannot be part of {use}; use a string, number, "
                "date, boolean or timestamp column",
                column=path,
                found_type=data_type.simpleString(),
                use=use,
            )


def record_key_sql(rules: KeyRules, schema: T.StructType) -> str | None:
    """Return SQL for ``_hoodie_record_key``, or None if Hudi generates the keys.

    The SQL gives null for a row whose key fields are all null or empty.
    """
    if not rules.record_key:
        return None
    texts = {f: value_text_sql(f, type_at(schema, f), use="record_key") for f in rules.record_key}
    if not rules.named_key:
        return f"nullif({next(iter(texts.values()))}, '')"
    parts = [
        f"CASE WHEN {text} IS NULL THEN {literal(f'{name}:{NULL_KEY_PART}')} "
        f"WHEN {text} = '' THEN {literal(f'{name}:{EMPTY_KEY_PART}')} "
        f"ELSE concat({literal(name + ':')}, {text}) END"
        for name, text in texts.items()
    ]
    empty = " AND ".join(f"coalesce({text}, '') = ''" for text in texts.values())
    return f"CASE WHEN {empty} THEN NULL ELSE concat_ws(',', {', '.join(parts)}) END"


def partition_path_sql(rules: KeyRules, schema: T.StructType) -> str:
    """Return SQL for a row's partition path relative to the table; ``''`` for a table without partitions."""
    if not rules.partition_by:
        return "''"
    return f"concat_ws('/', {', '.join(_level_sql(rules, schema, f) for f in rules.partition_by)})"


def _level_sql(rules: KeyRules, schema: T.StructType, field: str) -> str:
    data_type = type_at(schema, field)
    text = value_text_sql(field, data_type, use="partition_by")
    if rules.url_encode and isinstance(data_type, T.StringType):
        text = f"CASE WHEN {text} RLIKE {literal(_class_pattern())} THEN {_escape_sql(text)} ELSE {text} END"
    text = f"coalesce(nullif({text}, ''), {literal(NULL_PARTITION)})"
    return f"concat({literal(field + '=')}, {text})" if rules.hive_style else text


def _class_pattern() -> str:
    return "[" + "".join(f"\\x{ord(c):02x}" for c in ESCAPED) + "]"


def _escape_sql(text: str) -> str:
    for char in sorted(ESCAPED, key=lambda c: c != "%"):
        text = f"replace({text}, {literal(char)}, '%{ord(char):02X}')"
    return text
