"""Random conditions: their SQL, and what Spark SQL makes of them for a row, written out in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = Mapping[str, Any]
TYPES = {
    "i": "bigint",
    "n": "int",
    "x": "double",
    "dec": "decimal(10,2)",
    "s": "string",
    "d": "date",
    "ts": "timestamp",
    "b": "boolean",
}

EPOCH = datetime(1970, 1, 1)
TEXTS = st.text(alphabet="ab%_ zé￿𐀀", max_size=4)
DAYS = st.dates(date(1969, 12, 1), date(1970, 2, 1))
MOMENTS = st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2))
CENTS = st.integers(-300, 300).map(lambda cents: Decimal(cents).scaleb(-2))
VALUES = {
    "i": st.integers(-5, 5) | st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1]),
    "n": st.integers(-5, 5),
    "x": st.sampled_from([-1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1e300, math.inf, -math.inf, math.nan]),
    "dec": CENTS,
    "s": TEXTS,
    "d": DAYS,
    "ts": MOMENTS,
    "b": st.booleans(),
}
ROW_SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "n": pa.int32(),
        "x": pa.float64(),
        "dec": pa.decimal128(10, 2),
        "s": pa.string(),
        "d": pa.date32(),
        "ts": pa.timestamp("us", tz="UTC"),
        "b": pa.bool_(),
    }
)
ROWS = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})


@dataclass(frozen=True)
class Sql:
    """``holds`` is True, False, or None for unknown; comparisons within are three-valued."""

    text: str
    holds: Callable[[Row], bool | None]


def _rank(value: Any) -> Any:
    """Spark's order: NaN is the largest number and equals itself."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def compared(operator: str, left: Any, right: Any) -> bool | None:
    """``left operator right`` of values that are not NULL literals; None with a null."""
    if operator == "<=>":
        return left is not None and _rank(left) == _rank(right)
    if left is None:
        return None
    one, other = _rank(left), _rank(right)
    return {
        "=": one == other,
        "==": one == other,
        "<>": one != other,
        "!=": one != other,
        "<": one < other,
        "<=": one <= other,
        ">": one > other,
        ">=": one >= other,
    }[operator]


def _both(results: list[bool | None]) -> bool | None:
    return False if False in results else (None if None in results else True)


def _either(results: list[bool | None]) -> bool | None:
    return True if True in results else (None if None in results else False)


def _inverse(result: bool | None) -> bool | None:
    return None if result is None else not result


def _as_double(value: Any) -> Any:
    return None if value is None else float(value)


@st.composite
def _literals(draw, column):
    """A literal's text, its value, and how the column's value is brought to its type."""
    value = draw(VALUES[column])
    match column:
        case "i" | "n":
            shape = draw(st.sampled_from(["plain", "long", "decimal", "double"]))
            small = max(-(10**6), min(10**6, value))
            if shape == "decimal":
                return f"{small}.5", Decimal(f"{small}.5"), None
            if shape == "double":
                double = float(draw(st.sampled_from([small, 2**53, 2.5])))
                return f"{double!r}D", double, _as_double
            if value == -(2**63):
                value += 1
            return f"{value}{'L' if shape == 'long' else ''}", value, None
        case "x":
            if math.isfinite(value):
                return draw(st.sampled_from([f"{value!r}D", f"{value:.1e}"])), float(f"{value:.1e}"), None
            if draw(st.booleans()):
                return "1", 1.0, None
            return f"'{value}'", value, None
        case "dec":
            if draw(st.booleans()):
                return f"{float(value)!r}D", float(value), _as_double
            return str(value), value, None
        case "s":
            return f"'{value}'", value, None
        case "d":
            return draw(st.sampled_from([f"'{value}'", f"DATE '{value}'"])), value, None
        case "ts":
            text = value.isoformat(sep=" ", timespec="microseconds")
            return draw(st.sampled_from([f"'{text}'", f"TIMESTAMP '{text}'", f"'{text}Z'"])), value, None
    return str(value).upper(), value, None


OPERATORS = ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"]
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@st.composite
def _comparisons(draw):
    column = draw(st.sampled_from(sorted(TYPES)))
    operator = draw(st.sampled_from(OPERATORS))
    text, literal, cast = draw(_literals(column))

    def holds(row):
        return compared(operator, cast(row[column]) if cast else row[column], literal)

    if draw(st.booleans()):
        return Sql(f"{text} {_FLIPPED.get(operator, operator)} {column}", holds)
    return Sql(f"{column} {operator} {text}", holds)


@st.composite
def _others(draw):
    column = draw(st.sampled_from(sorted(TYPES)))
    match draw(st.sampled_from(["in", "between", "null", "like", "opaque", "column"])):
        case "in":
            items = draw(st.lists(_literals(column), min_size=1, max_size=3))
            # Spark brings a list to one type: doubles change the others, texts make times texts.
            items = [
                item for item in items if item[2] is None and (column == "s" or not item[0].startswith("'"))
            ] or [("1", 1, None)]
            if items == [("1", 1, None)]:
                return Sql("i IN (1)", lambda row: compared("=", row["i"], 1))
            text = ", ".join(item[0] for item in items)
            return Sql(
                f"{column} IN ({text})",
                lambda row: _either([compared("=", row[column], item[1]) for item in items]),
            )
        case "between":
            (low_text, low, low_cast), (high_text, high, high_cast) = draw(
                st.tuples(_literals(column), _literals(column))
            )

            def within(row):
                value = row[column]
                return _both(
                    [
                        compared(">=", low_cast(value) if low_cast else value, low),
                        compared("<=", high_cast(value) if high_cast else value, high),
                    ]
                )

            return Sql(f"{column} BETWEEN {low_text} AND {high_text}", within)
        case "null":
            if draw(st.booleans()):
                return Sql(f"{column} IS NULL", lambda row: row[column] is None)
            return Sql(f"{column} IS NOT NULL", lambda row: row[column] is not None)
        case "like":
            prefix = draw(st.text(alphabet="abzé￿𐀀", max_size=3))
            return Sql(
                f"s LIKE '{prefix}%'",
                lambda row: None if row["s"] is None else row["s"].startswith(prefix),
            )
        case "opaque":
            return Sql(
                "length(s) BETWEEN 1 AND 2",
                lambda row: None if row["s"] is None else 1 <= len(row["s"]) <= 2,
            )
    return Sql("b", lambda row: row["b"])


def _joined(parts: st.SearchStrategy[Sql]) -> st.SearchStrategy[Sql]:
    lists = st.lists(parts, min_size=2, max_size=3)
    return (
        lists.map(
            lambda ps: Sql(" AND ".join(f"({p.text})" for p in ps), lambda r: _both([p.holds(r) for p in ps]))
        )
        | lists.map(
            lambda ps: Sql(
                " or ".join(f"({p.text})" for p in ps), lambda r: _either([p.holds(r) for p in ps])
            )
        )
        | parts.map(lambda p: Sql(f"NOT ({p.text})", lambda r: _inverse(p.holds(r))))
    )


_SIMPLE = _comparisons() | _others()
TERMS = (
    _SIMPLE
    | _SIMPLE.map(lambda p: Sql(f"NOT {p.text}", lambda r: _inverse(p.holds(r))))
    | _SIMPLE.map(lambda p: Sql(f"! {p.text}", lambda r: _inverse(p.holds(r))))
)
CONDITIONS = st.recursive(TERMS, _joined, max_leaves=6)


def stored(column: str, value: Any) -> Any:
    """The value as statistics have it."""
    match column:
        case "d":
            return (value - EPOCH.date()).days
        case "ts":
            return (value - EPOCH) // timedelta(microseconds=1)
    return value
