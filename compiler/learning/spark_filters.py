"""The filters of a scan in Spark's event logs, as conditions.

Spark prints the filters of a scan in two forms: expressions (``DataFilters``, ``PartitionFilters``), such as
``(price#12 > 5.00)``, and filters of sources (``PushedFilters``), such as ``GreaterThan(price,5.00)``. Both
have texts without quotes. So a text that has brackets is not understood, and if the log has both forms, the
texts of one must be those of the other.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import lru_cache, partial
from typing import Final, TypeAlias

from parquetry.compiler.learning.conditions import UndeclarableError, conjuncts, has_text, sql_of
from parquetry.compiler.learning.spark_terms import Terms, UnknownTermError
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.condition import (
    Comparator,
    Compared,
    Condition,
    Conjunction,
    Disjunction,
    IsNull,
    Like,
    Literal,
    Opaque,
    TimestampLiteral,
    negation,
)
from parquetry.runtime.layout.skipping.files import Types
from parquetry.runtime.layout.skipping.parser import parse_date
from parquetry.runtime.spec.types import ColumnType, Struct, parse_type


class Unread(StrEnum):
    """The reason why a filter is no condition."""

    RUNTIME = "values that another part of the query found"
    EXPRESSION = "a function or an expression of columns"
    TYPE = "a column whose type is not known"
    VALUE = "a value that the log does not show in full or that a spec cannot have"
    ZONE = "a time whose zone the log does not name"
    FORMS = "texts that differ between the two forms of the filter"
    TABLE = "a column that may be of several tables"
    KEPT = "a condition of an outer join that keeps all rows of its table"
    TRUNCATED = "a list of filters that the log cuts off"


_LONGEST_SCHEMA: Final = 200_000
"""The most characters of a schema that is read, which is enough for thousands of columns."""

Filter: TypeAlias = Condition | Unread
"""A filter that is understood, or the reason why it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSession:
    """The settings of an application that its filters depend on; None if the log does not have them."""

    zone: tzinfo | None = None
    machine_zone: tzinfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFilters:
    """The filters of one scan as the log has them; None for a form that it lacks."""

    data: str | None
    partition: str | None
    pushed: str | None


def filters_of(scan: ScanFilters, types: Types, session: LogSession) -> tuple[Filter, ...]:
    """Return the filters of a scan: those of the expressions, or if there are none, those of the source.

    Args:
        scan: The filters as the log has them.
        types: The types of the columns by lower-case name.
        session: The settings of the application.

    """
    pushed = None if scan.pushed is None else _listed(scan.pushed, _Pushed(types, session.machine_zone))
    if scan.data is None:
        return tuple(pushed or ()) + _partitions(scan, types, session)
    found = (*_listed(scan.data, _Expressions(types, session.zone)), *_partitions(scan, types, session))
    return found if pushed is None else tuple(_confirmed(found, pushed))


def _partitions(scan: ScanFilters, types: Types, session: LogSession) -> tuple[Filter, ...]:
    return () if scan.partition is None else tuple(_listed(scan.partition, _Expressions(types, session.zone)))


def _confirmed(found: Sequence[Filter], pushed: Sequence[Filter]) -> Iterator[Filter]:
    """Yield the filters of the expressions; if a text may hide filters, only others that both forms have.

    A text such as ``x), (a#1 = 3`` prints as two expressions, but as no filters of a source.
    """
    known = {sql_of(each) for each in found if not isinstance(each, Unread)}
    other = {sql_of(each): has_text(each) for each in pushed if not isinstance(each, Unread)}
    is_certain = Unread.EXPRESSION not in pushed and Unread.VALUE not in pushed
    is_certain = is_certain and all(sql in known for sql, is_text in other.items() if is_text)
    for each in found:
        is_kept = is_certain or isinstance(each, Unread) or (not has_text(each) and sql_of(each) in other)
        yield each if is_kept else Unread.FORMS


def types_of_schema(text: str) -> Types:
    """Return the types of a ``ReadSchema``, such as ``struct<id:int,at:timestamp>``, as far as known."""
    return dict(_types_of_schema(text))


@lru_cache(maxsize=32)
def _types_of_schema(text: str) -> tuple[tuple[str, str], ...]:
    if not (text.startswith("struct<") and text.endswith(">")) or len(text) > _LONGEST_SCHEMA:
        return ()
    found: list[tuple[str, str]] = []
    for field in _fields(text.removeprefix("struct<").removesuffix(">")):
        name, _, declared = field.partition(":")
        try:
            found.extend(_leaves(name.lower(), parse_type(declared)))
        except InvalidDataError:
            continue
    return tuple(found)


def _fields(text: str) -> Iterator[str]:
    """Yield the fields of a struct, which commas outside of brackets divide."""
    depth = begin = 0
    for at, character in enumerate(text):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    if begin < len(text):
        yield text[begin:]


def _leaves(name: str, kind: ColumnType) -> Iterator[tuple[str, str]]:
    if isinstance(kind, Struct):
        for field in kind.fields:
            yield from _leaves(f"{name}.{field.name.lower()}", field.type)
    else:
        yield name, str(kind)


_OPENING: Final = "([{"
_CLOSING: Final = ")]}"
_DEEPEST: Final = 150
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_NUMBER: Final = re.compile(r"-?\d{1,39}(?:\.\d{1,39})?(?:E[+-]?\d{1,3})?", re.ASCII)
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?)?(Z?)", re.ASCII)
_COMPARATORS: Final = {comparator.value: comparator for comparator in Comparator}
_MIRRORED: Final = {
    Comparator.LESS: Comparator.GREATER,
    Comparator.LESS_OR_EQUAL: Comparator.GREATER_OR_EQUAL,
    Comparator.GREATER: Comparator.LESS,
    Comparator.GREATER_OR_EQUAL: Comparator.LESS_OR_EQUAL,
}
_AT_RUNTIME: Final = (
    "dynamicpruning",
    "scalar-subquery#",
    "subquery#",
    "might_contain(",
    "bloom_filter_might",
)
_NAME: Final = r"[A-Za-z_][\w-]*"
_ATTRIBUTE: Final = re.compile(rf"({_NAME})#[0-9]+L?((?:\.{_NAME})*)")
_OPERATOR: Final = re.compile(r" (<=>|<=|>=|=|<|>) ")
_VALUE_FIRST: Final = re.compile(r"([^\s()#]+) (<=>|<=|>=|=|<|>) ")
_LIKE: Final = re.compile(r"(StartsWith|EndsWith|Contains)\(")
_BESIDE_COLUMN: Final = re.compile(r"#\d", re.ASCII)


class _Refused(Exception):  # noqa: N818 - it never leaves this module
    """A filter that is not understood, with the reason."""

    def __init__(self, reason: Unread) -> None:
        super().__init__(reason)
        self.reason = reason


def _listed(text: str, form: _Form) -> list[Filter]:
    """Return the filters of a list such as ``[a, b]``; conditions joined by AND are several.

    The last filter of a list that the log cuts off is not understood.
    """
    if not text.startswith("["):
        return [Unread.TRUNCATED]
    is_whole = text.endswith("]")
    inner = text[1:-1] if is_whole else text[1:]
    found: list[Filter] = []
    at = 0
    while at < len(inner):
        form.depth = 0
        try:
            end, condition = form.filter(inner, at)
            parts = _parts(inner, end, condition)
            if end == len(inner) and not is_whole:
                parts = [Unread.TRUNCATED]
            found.extend(parts)
        except (_Refused, UndeclarableError) as refused:
            end = _end_of_item(inner, at)
            is_runtime = any(word in inner[at:end] for word in _AT_RUNTIME)
            if is_runtime:
                found.append(Unread.RUNTIME)
            if end == len(inner) and not is_whole:
                # More filters may follow.
                found.append(Unread.TRUNCATED)
            elif not is_runtime:
                found.append(refused.reason if isinstance(refused, _Refused) else Unread.VALUE)
        at = end + 2
    return found


def _parts(text: str, end: int, condition: Condition) -> list[Filter]:
    """Return the parts of a condition that ends at a position, where the filter must end, too."""
    if not _is_end(text, end):
        raise _Refused(Unread.EXPRESSION)
    parts: list[Filter] = []
    for part in conjuncts(condition):
        sql_of(part)  # raises UndeclarableError
        parts.append(part)
    return parts


def _is_end(text: str, at: int) -> bool:
    return at == len(text) or text.startswith(", ", at)


def _end_of_item(text: str, at: int) -> int:
    """Return the end of an item: the next comma and blank outside of brackets."""
    depth = 0
    for end in range(at, len(text)):
        if text[end] in _OPENING:
            depth += 1
        elif text[end] in _CLOSING:
            depth -= 1
        elif depth <= 0 and text.startswith(", ", end):
            return end
    return len(text)


class _Form:
    """A form in which Spark prints filters, for columns of known types."""

    def __init__(self, types: Types, zone: tzinfo | None) -> None:
        self.types = types
        self.zone = zone
        self.depth = 0

    def filter(self, text: str, at: int) -> tuple[int, Condition]:
        """Return the end of the filter that begins at a position, and the filter.

        Raises:
            _Refused: If it is not understood.

        """
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _Refused(Unread.EXPRESSION)
        found = self._filter(text, at)
        self.depth -= 1
        return found

    def _filter(self, text: str, at: int) -> tuple[int, Condition]:
        raise NotImplementedError

    def compared(self, column: str, operator: Comparator, written: str, *, listed: bool = False) -> Compared:
        """Return the comparison of a column with a value as it is printed."""
        return Compared(column=column, operator=operator, literal=self.value(column, written), listed=listed)

    def value(self, column: str, written: str) -> Literal:
        """Return a printed value of a column as a literal; raise _Refused if that is not certain."""
        kind = self.types.get(column.lower())
        if kind is None:
            raise _Refused(Unread.TYPE)
        literal = value_of(kind, written, self.zone)
        if literal is None:
            raise _Refused(Unread.VALUE)
        return literal

    def like(self, column: str, kind: str, part: str) -> Like:
        """Return the condition that a text begins with, ends with or contains a part."""
        if self.types.get(column.lower()) != "string":
            raise _Refused(Unread.TYPE)
        if not part or re.search(r"[%_()\\]", part):
            raise _Refused(Unread.VALUE)
        match kind:
            case "StartsWith":
                return Like(column=column, pattern=f"{part}%", prefix=part)
            case "EndsWith":
                return Like(column=column, pattern=f"%{part}", prefix="")
        return Like(column=column, pattern=f"%{part}%", prefix="")

    def one_of(self, column: str, written: Sequence[str]) -> Condition:
        """Return the condition that a column has one of the printed values."""
        parts = tuple(self.compared(column, Comparator.EQUAL, each, listed=True) for each in written)
        if len({type(part.literal) for part in parts}) > 1:
            raise _Refused(Unread.VALUE)
        return Disjunction(parts)


def _negated(condition: Condition) -> Condition:
    found = negation(condition)
    if isinstance(found, Opaque) or (
        isinstance(found, Conjunction | Disjunction) and Opaque() in found.parts
    ):
        raise _Refused(Unread.EXPRESSION)
    return found


class _Expressions(_Form):
    """Expressions of Catalyst: ``isnotnull(a#1)``, ``(a#1 > 5)``, ``a#1 IN (1,2)``, ``NOT (a#1 = 5)``."""

    def _filter(self, text: str, at: int) -> tuple[int, Condition]:
        depth = self.depth
        try:
            return self._of_columns(text, at)
        except _Refused as refused:
            if refused.reason is not Unread.EXPRESSION:
                raise
            self.depth = depth
            try:
                return Terms(self.types, partial(value_of, zone=None)).comparison(text, at)
            except (UnknownTermError, UndeclarableError):
                raise refused from None

    def _of_columns(self, text: str, at: int) -> tuple[int, Condition]:
        if text.startswith("NOT ", at):
            end, condition = self.filter(text, at + 4)
            return end, _negated(condition)
        for name, negated in (("isnotnull(", True), ("isnull(", False)):
            if text.startswith(name, at):
                end, column = self._column(text, at + len(name))
                return _closed(text, end), IsNull(column=column, negated=negated)
        if text.startswith("(", at):
            return self._in_brackets(text, at + 1)
        if (function := _LIKE.match(text, at)) is not None:
            end, column = self._column(text, function.end())
            closing = text.find(")", end)
            if not text.startswith(", ", end) or closing < 0:
                raise _Refused(Unread.EXPRESSION)
            return closing + 1, self.like(column, function[1], text[end + 2 : closing])
        return self._about_column(text, at)

    def _about_column(self, text: str, at: int) -> tuple[int, Condition]:
        end, column = self._column(text, at)
        if text.startswith(" INSET ", end):
            return self._inset(text, end + 7, column)
        if text.startswith(" IN (", end):
            closing = text.find(")", end)
            if closing < 0:
                raise _Refused(Unread.TRUNCATED)
            return closing + 1, self.one_of(column, text[end + 5 : closing].split(","))
        if self.types.get(column.lower()) == "boolean" and (_is_end(text, end) or text[end] in ") "):
            return end, Compared(column=column, operator=Comparator.EQUAL, literal=True)
        raise _Refused(Unread.EXPRESSION)

    def _inset(self, text: str, at: int, column: str) -> tuple[int, Condition]:
        """Return the condition of ``a#1 INSET 1, 2``, whose values end where another filter begins."""
        if text.startswith("(", at):
            closing = text.find(")", at)
            return closing + 1, self.one_of(column, text[at + 1 : max(closing, at + 1)].split(","))
        values = []
        while True:
            end = min((found for found in (text.find(c, at) for c in ",)") if found >= 0), default=len(text))
            written = text[at:end]
            if "(" in written or _BESIDE_COLUMN.search(written):
                break
            values.append(written)
            if not text.startswith(", ", end):
                return end, self.one_of(column, values)
            at = end + 2
        return at - 2, self.one_of(column, values)

    def _in_brackets(self, text: str, at: int) -> tuple[int, Condition]:
        try:
            end, column = self._column(text, at)
        except _Refused:
            return self._of_two(text, at)
        operator = _OPERATOR.match(text, end)
        if operator is None:
            return self._of_two(text, at)
        closing = text.find(")", operator.end())
        written = text[operator.end() : closing]
        if closing < 0 or "(" in written or _BESIDE_COLUMN.search(written):
            raise _Refused(Unread.EXPRESSION)
        return closing + 1, self.compared(column, _COMPARATORS[operator[1]], written)

    def _of_two(self, text: str, at: int) -> tuple[int, Condition]:
        """Return ``left AND right``, ``left OR right`` or ``5 < a#1`` up to the closing bracket."""
        mirrored = _VALUE_FIRST.match(text, at)
        if mirrored is not None:
            end, column = self._column(text, mirrored.end())
            operator = _COMPARATORS[mirrored[2]]
            if self.types.get(column.lower()) == "string":
                raise _Refused(Unread.VALUE)
            return _closed(text, end), self.compared(column, _MIRRORED.get(operator, operator), mirrored[1])
        end, left = self.filter(text, at)
        for word, join in ((" AND ", Conjunction), (" OR ", Disjunction)):
            if text.startswith(word, end):
                end, right = self.filter(text, end + len(word))
                return _closed(text, end), join((*_same(left, join), *_same(right, join)))
        raise _Refused(Unread.EXPRESSION)

    def _column(self, text: str, at: int) -> tuple[int, str]:
        """Return the end and the name of the column ``a#1`` at a position, with the fields after it."""
        found = _ATTRIBUTE.match(text, at)
        if found is None:
            raise _Refused(Unread.EXPRESSION)
        return found.end(), found[1] + found[2]


def _same(condition: Condition, join: Callable[..., Condition]) -> tuple[Condition, ...]:
    """Return the parts of a condition if the same word joins them, else the condition alone."""
    if isinstance(condition, Conjunction | Disjunction) and type(condition) is join:
        listed = any(isinstance(part, Compared) and part.listed for part in condition.parts)
        return (condition,) if listed else condition.parts
    return (condition,)


class _Pushed(_Form):
    """Filters of sources: ``IsNotNull(a)``, ``EqualTo(a,5)``, ``In(a, [1,2])``, ``Or(EqualTo(a,5),...)``."""

    _COMPARISONS: Final = {
        "EqualTo": Comparator.EQUAL,
        "EqualNullSafe": Comparator.NULL_SAFE_EQUAL,
        "GreaterThan": Comparator.GREATER,
        "GreaterThanOrEqual": Comparator.GREATER_OR_EQUAL,
        "LessThan": Comparator.LESS,
        "LessThanOrEqual": Comparator.LESS_OR_EQUAL,
    }
    _CALL: Final = re.compile(r"\*?(\w+)\(", re.ASCII)
    _PATH: Final = re.compile(rf"{_NAME}(?:\.{_NAME})*")

    def _filter(self, text: str, at: int) -> tuple[int, Condition]:
        call = self._CALL.match(text, at)
        if call is None:
            raise _Refused(Unread.EXPRESSION)
        name, end = call[1], call.end()
        match name:
            case "And" | "Or":
                join = Conjunction if name == "And" else Disjunction
                end, left = self.filter(text, end)
                end, right = self.filter(text, _after(text, end, ","))
                return _closed(text, end), join((*_same(left, join), *_same(right, join)))
            case "Not":
                end, condition = self.filter(text, end)
                return _closed(text, end), _negated(condition)
        path = self._PATH.match(text, end)
        if path is None:
            raise _Refused(Unread.EXPRESSION)
        column, end = path[0], path.end()
        if name in ("IsNull", "IsNotNull"):
            return _closed(text, end), IsNull(column=column, negated=name == "IsNotNull")
        end = _after(text, end, ",")
        if name == "In":
            end = _after(text, end, " [")
            closing = text.find("])", end)
            if closing < 0:
                raise _Refused(Unread.TRUNCATED)
            return closing + 2, self.one_of(column, text[end:closing].split(","))
        closing = text.find(")", end)
        if closing < 0:
            raise _Refused(Unread.TRUNCATED)
        written = text[end:closing]
        if "(" in written:
            raise _Refused(Unread.VALUE)
        if name in self._COMPARISONS:
            return closing + 1, self.compared(column, self._COMPARISONS[name], written)
        return closing + 1, self.like(column, name.removeprefix("String"), written)


def _closed(text: str, at: int) -> int:
    return _after(text, at, ")")


def _after(text: str, at: int, sign: str) -> int:
    """Return the position after a sign; raise _Refused if it is not there."""
    if not text.startswith(sign, at):
        raise _Refused(Unread.EXPRESSION)
    return at + len(sign)


def value_of(kind: str, written: str, zone: tzinfo | None) -> Literal | None:  # noqa: PLR0911 - a type, an answer
    """Return a printed value of a type, or None if it is not one."""
    if kind in _INTEGERS:
        return int(written) if _WHOLE.fullmatch(written) else None
    if kind.startswith("decimal"):
        return _decimal(written)
    if kind in ("float", "double"):
        return _float(written, is_single=kind == "float")
    match kind:
        case "boolean":
            return {"true": True, "false": False}.get(written)
        case "date":
            return _day(written)
        case "timestamp" | "timestamp_ntz":
            return _timestamp(written, zone, without_zone=kind == "timestamp_ntz")
        case "string":
            # A text with a blank at its end may be one of several that commas divide.
            is_certain = written not in ("", "null") and written == written.strip() and "(" not in written
            return written if is_certain and ")" not in written else None
    return None


def _decimal(written: str) -> Decimal | None:
    try:
        return Decimal(written) if _NUMBER.fullmatch(written) else None
    except InvalidOperation:
        return None


def _float(written: str, *, is_single: bool) -> float | None:
    if _NUMBER.fullmatch(written) is None:
        return None
    value = float(written)
    try:
        return struct.unpack("f", struct.pack("f", value))[0] if is_single else value
    except OverflowError:
        return None


def _day(written: str) -> date | None:
    """Return a date, which expressions of Spark 3.0 and before have as days since 1970."""
    if _WHOLE.fullmatch(written):
        try:
            return date(1970, 1, 1) + timedelta(days=int(written))
        except OverflowError:
            return None
    return parse_date(written)


def _timestamp(written: str, zone: tzinfo | None, *, without_zone: bool) -> TimestampLiteral | None:
    """Return a time; expressions of Spark 3.0 and before have the microseconds since 1970.

    Raises:
        _Refused: If the time is local and its zone is not known.

    """
    try:
        if _WHOLE.fullmatch(written):
            value = _EPOCH + timedelta(microseconds=int(written))
            return TimestampLiteral(
                value=value.replace(tzinfo=None) if without_zone else value, without_zone=without_zone
            )
        found = _MOMENT.fullmatch(written)
        if found is None or (found[4] or "")[6:].strip("0"):
            return None
        day, minute, second, fraction, utc = found.groups()
        text = f"{day} {minute or '00:00'}{second or ':00'}.{(fraction or '')[:6]:0<6}"
        value = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    if without_zone:
        return None if utc else TimestampLiteral(value=value, without_zone=True)
    if utc:
        return TimestampLiteral(value=value.replace(tzinfo=UTC), without_zone=False)
    if zone is None:
        raise _Refused(Unread.ZONE)
    instants = {value.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    # A local time in the hour that the clock repeats or leaves out has two instants.
    return TimestampLiteral(value=instants.pop(), without_zone=False) if len(instants) == 1 else None
