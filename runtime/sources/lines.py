"""Where in a text file of a source the value is that Spark refused: Spark names neither line nor column."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Decimal as DecimalType
from parquetry.runtime.spec.types import Primitive, parse_type

SEARCHED_BYTES: Final = 64 * 1024**2
"""How much of a file is looked through for a line."""

# Spark quotes values of files, which hold what others wrote: bounded, so that a long one takes no time.
_VALUE = re.compile(
    r"For input string: \"(?P<number>.{0,1000}?)\"(?=\s|$| under)"
    r"|Text '(?P<time>.{0,1000}?)' could not be parsed|Fail to parse '(?P<old>.{0,1000}?)' in the new parser"
)
_FIELD = re.compile(
    r"Cannot parse the field name [`'\"]?(?P<field>.{1,1000}?)[`'\"]? and the value "
    r"[`'\"]?(?P<value>.{0,1000}?)[`'\"]? "
    r"of the JSON token type (?P<shape>\w+)"
)
_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WHOLE = re.compile(r"[+-]?\d+")
_STANDING_FOR: Final = ("nullvalue", "emptyvalue", "nanvalue", "positiveinf", "negativeinf")
_CHARACTERS: Final = {"\\t": "\t", "\\0": "\0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFault:
    """What is wrong at ``line``, counted from 1; the line is None where it is not certain.

    ``column`` and ``value`` are None where the whole record is wrong, or where they are not known.
    """

    line: int | None = None
    column: str | None = None
    value: str | None = None
    is_truncated: bool = False
    """Whether the file goes on behind what was looked through."""


class _Number(str):
    """A number of a JSON file as it is written there."""

    __slots__ = ()


class _TruncatedError(Exception):
    """The file is longer than what is looked through."""


def find_fault(
    file: Any, said: str, *, kind: str, options: Mapping[str, str], columns: Sequence[Column]
) -> LineFault:
    """The first record of a plain ``csv`` or ``json`` file that is wrong in the way that Spark ``said``.

    ``columns`` are those whose types the file's values have to have, ``options`` the source's. Memory is
    bounded by the longest line; at most :data:`SEARCHED_BYTES` characters are read.
    """
    known = LineFault()
    if (field := _FIELD.search(said)) is not None:
        known = LineFault(column=field["field"], value=field["value"])
    elif (value := _VALUE.search(said)) is not None:
        known = LineFault(value=next(text for text in value.groups() if text is not None))
    settings = {name.lower(): text for name, text in options.items()}
    if "linesep" in settings:
        return known
    encoding = settings.get("encoding", settings.get("charset", "utf-8"))
    try:
        text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")
        lines = _lines(text)
        if kind == "json":
            found = _json_fault(lines, field, settings)
        else:
            found = _csv_fault(lines, known.value, settings, {c.name.lower(): c for c in columns})
    except _TruncatedError:
        return LineFault(column=known.column, value=known.value, is_truncated=True)
    except (LookupError, csv.Error, TypeError, RecursionError):  # an encoding of Java's alone, odd separators
        return known
    return found or known


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    left = SEARCHED_BYTES
    while line := text.readline(left):
        yield line.removeprefix("\ufeff") if left == SEARCHED_BYTES else line
        left -= len(line)
        if left <= 0:
            raise _TruncatedError


def _json_fault(
    lines: Iterable[str], field: re.Match[str] | None, settings: Mapping[str, str]
) -> LineFault | None:
    if settings.get("multiline", "").lower() == "true":
        return None
    strict = not any(name.startswith("allow") for name in settings)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, strict=False, parse_int=_Number, parse_float=_Number)
        except ValueError:
            # Spark takes more for JSON than Python does, single quotes to begin with.
            if field is None and strict and "'" not in line:
                return LineFault(line=number)
            continue
        if field is not None and _holds(record, field):
            return LineFault(line=number, column=field["field"], value=field["value"])
    return None


def _holds(record: Any, field: re.Match[str]) -> bool:
    """Whether the record has that value, as the same kind of JSON, in that field of its own."""
    if not isinstance(record, dict) or not isinstance(value := record.get(field["field"]), str):
        return False
    is_text = field["shape"] == "VALUE_STRING"
    return value == field["value"] and is_text is not isinstance(value, _Number)


def _csv_fault(
    lines: Iterator[str], value: str | None, settings: Mapping[str, str], columns: Mapping[str, Column]
) -> LineFault | None:
    names: list[str] | None = None
    ignored = {settings[key] for key in _STANDING_FOR if key in settings}
    for line, row in _rows(lines, settings):
        if names is None:
            if settings.get("header", "true").lower() == "true":
                names = [name.strip() for name in row]
                continue
            names = [f"_c{index}" for index in range(len(row))]
        if value is None and len(row) != len(names):
            return LineFault(line=line)
        found = [
            index
            for index, (name, cell) in enumerate(zip(names, row, strict=False))
            if cell not in ignored
            and (value is None or cell == value)
            and _is_suspect(cell, columns.get(name.lower()), value)
        ]
        if found:
            certain = [i for i in found if _fits(row[i], columns[names[i].lower()], value) is False]
            one = certain[:1] or (found if _others(names, columns, found) else [])
            if not one:
                return None
            above = sum(len(cell.splitlines()) - 1 for cell in row[: one[0]] if cell)
            above += sum(cell.endswith(("\n", "\r")) for cell in row[: one[0]])
            return LineFault(line=line + above, column=names[one[0]], value=row[one[0]])
    return None


def _others(names: Sequence[str], columns: Mapping[str, Column], found: Sequence[int]) -> bool:
    """Whether no other column could be meant by a value of which only Spark knows that it does not fit."""
    unknown = [name for name in names if _is_of_time(columns.get(name.lower()))]
    return len(found) == len(unknown) == 1


def _is_of_time(column: Column | None) -> bool:
    return column is not None and column.type.lower() in ("date", "timestamp", "timestamp_ntz")


def _is_suspect(cell: str, column: Column | None, value: str | None) -> bool:
    if column is None:
        return False
    fits = _fits(cell, column, value)
    return fits is False or (fits is None and value is not None and _is_of_time(column))


def _rows(lines: Iterator[str], settings: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """The records with the line that each begins at; as Spark, without blank lines and comments."""
    separator = settings.get("sep", settings.get("delimiter", ","))
    escape = settings.get("escape", "\\")
    form: dict[str, Any] = {
        "delimiter": _CHARACTERS.get(separator, separator),
        "quotechar": settings.get("quote", '"') or None,
        "escapechar": None if escape == settings.get("quote", '"') else escape or None,
    }
    if form["quotechar"] is None:
        form["quoting"] = csv.QUOTE_NONE
    comment = settings.get("comment")
    if settings.get("multiline", "").lower() == "true":
        reader = csv.reader(lines, **form)
        begin = 1
        for row in reader:
            if row and not (comment and row[0].startswith(comment)):
                yield begin, row
            begin = reader.line_num + 1
        return
    for number, line in enumerate(lines, start=1):
        if line.strip() and not (comment and line.startswith(comment)):
            yield number, next(csv.reader([line.rstrip("\r\n")], **form))


def _fits(cell: str, column: Column, value: str | None) -> bool | None:
    """Whether Spark takes the text for a value of the column's type; None where only Spark knows.

    Blanks around it are what is wrong only where Spark named the ``value`` with them.
    """
    kind, text = parse_type(column.type), cell.strip() if value is None else cell
    name = kind.name if isinstance(kind, Primitive) else ""
    if not text or name == "string":  # nothing is null
        return True
    if isinstance(kind, DecimalType):
        return _is_decimal(text)
    if name in _BITS:
        top = 1 << (_BITS[name] - 1)
        return _WHOLE.fullmatch(text) is not None and -top <= int(text) < top
    if name in ("float", "double"):
        return _is_real(text)
    return text.lower() in ("true", "false") if name == "boolean" else None


def _is_decimal(text: str) -> bool | None:
    try:
        Decimal(text.replace(",", ""))
    except InvalidOperation:
        return False
    return None  # it may have too many digits


def _is_real(text: str) -> bool | None:
    try:
        float(text)
    except ValueError:
        # Java's own: 1.5d, 0x1p3.
        return None if re.search(r"[dDfFxX]$|^[+-]?0[xX]", text) else False
    return True
