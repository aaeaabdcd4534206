"""SQL that converts the text of a cell to a value of its column's type, or raises if it is not such a value.

A conversion must lose nothing: no digit, no time of day, no fraction of a second. Spark's own readers and
casts accept more, such as ``19,90`` for 1990 and ``2024-05`` for a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from parquetry.runtime.sources.lines import CELL_CHARACTERS
from parquetry.runtime.spark.session.keys import literal, quoted_name
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct
from parquetry.runtime.task_failures import refusal_sql

_BARE: Final = "\u0001"
"""A separator that occurs in no cell, so that ``from_csv`` reads each text as one cell."""
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBER: Final = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_DATE: Final = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_TIME_OF_DAY: Final = r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6}0*)?)?"
_LOCAL: Final = rf"\A[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:{_TIME_OF_DAY})?\z"
_ZONED: Final = (
    rf"\A[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{_TIME_OF_DAY} ?(?:Z|UTC|GMT|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)\z"
)
_BASE64: Final = r"\A[A-Za-z0-9+/]*={0,2}\z"
_ZONE_LETTERS: Final = frozenset("VzOXxZ")
_EXACT_DIGITS: Final = {"float": (6, 9), "double": (15, 17)}
"""The number of digits that each value of the type keeps, and the number that identifies each value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFormat:
    """The spelling of values in the cells of a source: its options, and the number signs of its ``locale``.

    ``file`` is SQL for the name of a row's file. ``empty`` is the text that a read gives for a cell of two
    quotes with nothing between them, which is null except in text columns; None if the format has no such
    cells.
    """

    is_json: bool
    file: str
    zone: str
    options: Mapping[str, str]
    decimal_sign: str = "."
    grouping_signs: str = ""
    empty: str | None = None

    @classmethod
    def of(cls, spark: SparkSession, options: Mapping[str, str], *, is_json: bool, file: str) -> CellFormat:
        """Return the forms that ``options`` declare, by lower case names.

        Args:
            spark: The session; its time zone is the default.
            options: The source's options, by lower case names.
            is_json: Whether the source's format is JSON.
            file: SQL for the name of a row's file.

        """
        zone = options.get("timezone") or spark.conf.get("spark.sql.session.timeZone") or "UTC"
        if "locale" not in options:
            return cls(is_json=is_json, file=file, zone=zone, options=options)
        java = spark._jvm.java  # noqa: SLF001 - CLDR is known to the JVM
        locale = java.util.Locale.forLanguageTag(options["locale"])
        symbols = java.text.DecimalFormatSymbols.getInstance(locale)
        group = str(symbols.getGroupingSeparator())
        return cls(
            is_json=is_json,
            file=file,
            zone=zone,
            options=options,
            decimal_sign=str(symbols.getDecimalSeparator()),
            # CLDR names a thin space, and files contain other spaces as well.
            grouping_signs=" \u00a0\u202f" if group.isspace() else group,
        )


def conformed(
    column: str, found: ColumnType, wanted: ColumnType, place: str, forms: CellFormat, *, depth: int = 0
) -> str:
    """Return SQL that converts a column of cell texts to the ``wanted`` type.

    The SQL raises for a text that is not a value of its type. Fields of structs are matched by name in any
    case, and get the names of the wanted type. A field that the wanted type lacks stays, and the write
    refuses it. Analyse the SQL under :func:`parquetry.runtime.spark.session.settings.expression_settings`.

    Args:
        column: SQL for the column.
        found: The type of the column as read, whose leaves are strings.
        wanted: The type of the table's column.
        place: The name of the column in errors.
        forms: The spelling of values in the source.
        depth: The number of lambdas around the SQL.

    """
    item = f"x{depth}"
    match found, wanted:
        case Struct(), Struct():
            known = {field.name.lower(): field for field in wanted.fields}
            parts: list[str] = []
            for field in found.fields:
                value, name = f"{column}.{quoted_name(field.name)}", field.name
                if (other := known.get(name.lower())) is not None:
                    at, name = f"{place}.{name}", other.name
                    value = conformed(value, field.type, other.type, at, forms, depth=depth)
                parts.append(f"{literal(name)}, {value}")
            return f"CASE WHEN {column} IS NOT NULL THEN named_struct({', '.join(parts)}) END"
        case Array(element=one), Array(element=other):
            value = conformed(item, one, other, f"{place}.element", forms, depth=depth + 1)
            return column if value == item else f"transform({column}, {item} -> {value})"
        case Map(value=one), Map(value=other):
            value = conformed(item, one, other, f"{place}.value", forms, depth=depth + 1)
            return column if value == item else f"transform_values({column}, (k{depth}, {item}) -> {value})"
        case Primitive(name="string"), Primitive() | Decimal():
            return _converted(column, wanted, place, forms)
    return column


def _converted(text: str, kind: Primitive | Decimal, place: str, forms: CellFormat) -> str:
    """Return SQL that converts a cell's text to the type, or raises if the text has no such value."""
    value = _value(text, kind, forms)
    if value == text:
        return text
    shown = f"substr({text}, 1, {CELL_CHARACTERS})"
    refusal = refusal_sql("RefusedCell", [forms.file, literal(place), literal(str(kind)), shown])
    raised = f"CAST(raise_error({refusal}) AS {kind})"
    is_given = f"{text} IS NOT NULL" if forms.empty is None else f"{text} <> {literal(forms.empty)}"
    return f"CASE WHEN {is_given} THEN coalesce({value}, {raised}) END"


def _value(text: str, kind: Primitive | Decimal, forms: CellFormat) -> str:
    """Return SQL for the value of a cell's text, which is NULL if the text is not a value of the type."""
    if isinstance(kind, Decimal):
        return _decimal(_plain_number(text, forms), kind)
    if kind.name in _INTEGERS:
        number = _plain_number(text, forms)
        return _if_matches(number, r"\A[+-]?[0-9]+\z", f"CAST({number} AS {kind})")
    match kind.name:
        case "string":
            value = text
        case "boolean":
            value = f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"
        case "float" | "double":
            value = _floating(text, kind.name, forms)
        case "date" if "dateformat" in forms.options:
            value = _by_format(text, "date", forms, zone="UTC")
        case "date":
            value = _if_matches(text, _DATE, f"CAST({text} AS DATE)")
        case "timestamp":
            value = _timestamp(text, forms)
        case "timestamp_ntz":
            value = _if_matches(text, _LOCAL, f"CAST({text} AS TIMESTAMP_NTZ)")
        case "binary" if forms.is_json:
            encoded = f"{_matches(text, _BASE64)} AND length({text}) % 4 = 0"
            value = f"CASE WHEN {encoded} THEN unbase64({text}) END"
        case "binary":
            value = f"CAST({text} AS BINARY)"
        case _:
            raise AssertionError(f"{kind} is no type of cells")
    return value


def _plain_number(text: str, forms: CellFormat) -> str:
    """Return SQL for the number's text with the signs of SQL, or NULL if the locale has no such number."""
    if forms.is_json or (forms.decimal_sign == "." and not forms.grouping_signs):
        return text
    group, mark = f"[{_character_class(forms.grouping_signs)}]", f"[{_character_class(forms.decimal_sign)}]"
    form = rf"\A[+-]?(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]+)(?:{mark}[0-9]*)?(?:[eE][+-]?[0-9]+)?\z"
    plain = f"translate({text}, {literal(forms.decimal_sign + forms.grouping_signs)}, '.')"
    return f"CASE WHEN {_matches(text, form)} THEN {plain} END"


def _character_class(characters: str) -> str:
    """Return the characters as escapes for a character class of a regular expression."""
    return "".join(f"\\x{{{ord(character):x}}}" for character in characters)


def _decimal(text: str, kind: Decimal) -> str:
    """Return SQL that converts a number's text to a decimal, or gives NULL if that would round it."""
    value = f"CAST({text} AS {kind})"
    plain = rf"\A[+-]?(?=\.?[0-9])[0-9]*(?:\.[0-9]{{0,{kind.scale}}}0*)?\z"
    # A number that was rounded has other digits.
    exact = f"{_matches(text, _NUMBER)} AND {_digits(text)} = {_digits(f'CAST({value} AS STRING)')}"
    return f"CASE WHEN {_matches(text, plain)} THEN {value} WHEN {exact} THEN {value} END"


def _floating(cell: str, name: str, forms: CellFormat) -> str:
    """Return SQL that converts a cell's text to a float or double, or gives NULL for other texts."""
    text, kind = _plain_number(cell, forms), name.upper()
    value = f"CAST({text} AS {kind})"
    least, most = _EXACT_DIGITS[name]
    digits = _digits(text)
    holds = (
        f"(length({text}) <= {least} OR length({digits}) <= {least}"
        f" OR {digits} = {_digits(f'CAST({value} AS STRING)')}"
        # A fraction of so many digits identifies the nearest number, but a whole number has to be exact.
        rf" OR (length({digits}) <= {most} AND {_matches(text, '[.eE]')}))"
    )
    is_finite = f"abs({value}) < CAST('Infinity' AS {kind}) AND ({value} <> 0 OR {digits} = '')"
    infinite = {
        "Infinity": ("Infinity", "+Infinity", "Inf", "+Inf", "INF", "+INF", forms.options.get("positiveinf")),
        "-Infinity": ("-Infinity", "-Inf", "-INF", forms.options.get("negativeinf")),
        "NaN": ("NaN", forms.options.get("nanvalue")),
    }
    named = " ".join(
        f"WHEN {cell} IN ({', '.join(literal(word) for word in words if word is not None)})"
        f" THEN CAST('{meant}' AS {kind})"
        for meant, words in infinite.items()
    )
    return f"CASE WHEN {_matches(text, _NUMBER)} AND {is_finite} AND {holds} THEN {value} {named} END"


def _digits(text: str) -> str:
    """Return SQL for the digits of a number without leading and trailing zeros."""
    return f"trim('0' FROM regexp_replace({text}, {literal('[eE].*|[^0-9]')}, ''))"


def _timestamp(text: str, forms: CellFormat) -> str:
    declared = forms.options.get("timestampformat")
    if declared is not None:
        if _ZONE_LETTERS & set(declared):
            return _by_format(text, "timestamp", forms, zone=forms.zone)
        return _in_zone(_by_format(text, "timestamp", forms, zone="UTC"), forms.zone)
    value = f"CAST({text} AS TIMESTAMP)"
    local = f"CASE WHEN {_matches(text, _LOCAL)} THEN {_in_zone(value, forms.zone)}"
    return f"{local} WHEN {_matches(text, _ZONED)} THEN {value} END"


def _in_zone(local: str, zone: str) -> str:
    """Return SQL for the point in time at which a clock of the zone shows ``local``.

    The SQL gives NULL if the clock skips that time, at the start of daylight saving time.
    """
    if zone.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return local
    point = f"to_utc_timestamp({local}, {literal(zone)})"
    return f"CASE WHEN from_utc_timestamp({point}, {literal(zone)}) = {local} THEN {point} END"


def _by_format(text: str, kind: str, forms: CellFormat, *, zone: str) -> str:
    key = {"date": "dateFormat", "timestamp": "timestampFormat"}[kind]
    options = {key: forms.options[key.lower()], "timeZone": zone, "sep": _BARE, "quote": "", "comment": ""}
    if "locale" in forms.options:
        options["locale"] = forms.options["locale"]
    pairs = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in options.items())
    return f"from_csv({text}, 'cell {kind}', map({pairs})).cell"


def _if_matches(text: str, form: str, value: str) -> str:
    return f"CASE WHEN {_matches(text, form)} THEN {value} END"


def _matches(text: str, form: str) -> str:
    return f"{text} RLIKE {literal(form)}"
