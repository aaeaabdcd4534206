"""The search for the line that Spark refused in a text file, as Spark reports neither line nor column."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

SEARCHED_BYTES: Final = 64 * 1024**2
"""The size of the part of a file that is searched for a line."""

CELL_CHARACTERS: Final = 1000
"""The number of characters of a cell that are reported and searched for."""

_CODECS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_CHARACTERS: Final = {"\\t": "\t", "\\0": "\0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtCell:
    """A cell to search for, by its column and its text, which may be truncated.

    The column of a nested field is its dotted path. Without a column, the cell may be in any column.
    """

    column: str | None
    text: str

    def is_like(self, text: str) -> bool:
        """Return whether the cell may have this text."""
        return text == self.text or (len(self.text) >= CELL_CHARACTERS and text.startswith(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLine:
    """The number of the ``line`` that was found, counted from 1, or None if it is not certain."""

    line: int | None = None
    is_truncated: bool = False
    """True if the file continues after the searched part."""


class _Number(str):
    """A number of a JSON file, as written there."""

    __slots__ = ()


class _TruncatedError(Exception):
    """The file is longer than the searched part."""


def unpacked(file: Any, name: str) -> Any:
    """Return the open ``file``, decompressed according to the extension of its name."""
    codec = _CODECS.get(name.rpartition(".")[2].lower())
    return pa.CompressedInputStream(file, codec) if codec else file


def find_cell(file: Any, cell: SoughtCell, *, kind: str, options: Mapping[str, str]) -> FoundLine:
    """Find the first line of a ``csv`` or ``json`` file where the cell has its text.

    ``options`` are the source's options, by lower-case names. The longest line bounds the memory; at most
    :data:`SEARCHED_BYTES` characters are read.
    """
    if kind == "csv":
        return _search(file, options, lambda lines: _line_of_cell(lines, cell, options))
    if _is_set(options, "multiline"):
        return _search(file, options, lambda lines: _only_line(lines, cell))
    return _search(file, options, lambda lines: _line_of_field(lines, cell))


def find_malformed(file: Any, *, kind: str, options: Mapping[str, str]) -> FoundLine:
    """Find the first line that is not a record: invalid JSON, or a CSV row with another number of cells.

    The header, or the first row, sets the number of cells.
    """
    if kind == "csv":
        return _search(file, options, lambda lines: _line_of_other_width(lines, options))
    if _is_set(options, "multiline"):
        return FoundLine()
    return _search(file, options, lambda lines: _line_of_no_json(lines, options))


def find_line(file: Any, begin: str, *, options: Mapping[str, str]) -> FoundLine:
    """Find the first line of a file that begins with this text."""

    def search(lines: Iterator[str]) -> int | None:
        return next((number for number, line in enumerate(lines, start=1) if line.startswith(begin)), None)

    return _search(file, options, search)


def _search(
    file: Any, options: Mapping[str, str], search: Callable[[Iterator[str]], int | None]
) -> FoundLine:
    """Search the lines of a file with ``search``, and return the line found.

    No line is returned if Python cannot read the file as Spark does, such as with an encoding of Java only.
    """
    if "linesep" in options:
        return FoundLine()
    try:
        text = io.TextIOWrapper(file, encoding=options.get("encoding", "utf-8"), errors="replace", newline="")
        return FoundLine(line=search(_lines(text)))
    except _TruncatedError:
        return FoundLine(is_truncated=True)
    except (LookupError, csv.Error, TypeError, RecursionError):  # an encoding of Java only, odd separators
        return FoundLine()


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines of the searched part; raise _TruncatedError if the file continues."""
    left = SEARCHED_BYTES
    while line := text.readline(left):
        yield line.removeprefix("\ufeff") if left == SEARCHED_BYTES else line
        left -= len(line)
        if left <= 0:
            raise _TruncatedError


def _is_set(options: Mapping[str, str], name: str, default: str = "false") -> bool:
    return options.get(name, default).lower() == "true"


def _line_of_cell(lines: Iterator[str], cell: SoughtCell, options: Mapping[str, str]) -> int | None:
    names: list[str] | None = None
    for line, row in _rows(lines, options):
        if names is None:
            names = _names(row, options)
            if _is_set(options, "header", "true"):
                continue
        for index, (name, text) in enumerate(zip(names, row, strict=False)):
            if (cell.column is None or name.lower() == cell.column.lower()) and cell.is_like(text):
                return line + sum(_ends(before) for before in row[:index])
    return None


def _ends(cell: str) -> int:
    """Return the number of line ends within a cell."""
    return len(cell.splitlines()) - 1 + cell.endswith(("\n", "\r")) if cell else 0


def duplicate_header_name(line: str, options: Mapping[str, str]) -> str | None:
    """Return a name that the header of a CSV file contains twice, ignoring case, or None."""
    seen = set[str]()
    with suppress(csv.Error, TypeError):  # unusual separators
        for _, row in _rows(iter([line]), options) if _is_set(options, "header", "true") else ():
            for name in row:
                if name and name.lower() in seen:
                    return name
                seen.add(name.lower())
    return None


def _line_of_other_width(lines: Iterator[str], options: Mapping[str, str]) -> int | None:
    width: int | None = None
    for line, row in _rows(lines, options):
        width = len(row) if width is None else width
        if len(row) != width:
            return line
    return None


def _names(row: list[str], options: Mapping[str, str]) -> list[str]:
    if _is_set(options, "header", "true"):
        return [name or f"_c{index}" for index, name in enumerate(row)]
    return [f"_c{index}" for index in range(len(row))]


def _rows(lines: Iterator[str], options: Mapping[str, str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the records with their first lines; like Spark, skip blank lines and comments."""
    separator, quote = options.get("sep", ","), options.get("quote", '"')
    escape = options.get("escape", '"')
    dialect: dict[str, Any] = {
        "delimiter": _CHARACTERS.get(separator, separator),
        "quotechar": quote or None,
        "escapechar": None if escape == quote else escape or None,
    }
    if dialect["quotechar"] is None:
        dialect["quoting"] = csv.QUOTE_NONE
    comment = options.get("comment")
    if _is_set(options, "multiline"):
        reader = csv.reader(lines, **dialect)
        begin = 1
        for row in reader:
            if row and not (comment and row[0].startswith(comment)):
                yield begin, row
            begin = reader.line_num + 1
        return
    for number, line in enumerate(lines, start=1):
        if line.strip() and not (comment and line.startswith(comment)):
            yield number, next(csv.reader([line.rstrip("\r\n")], **dialect))


def _line_of_field(lines: Iterable[str], cell: SoughtCell) -> int | None:
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(
                line, strict=False, parse_int=_Number, parse_float=_Number, parse_constant=_Number
            )
        except ValueError:  # Spark accepts more JSON dialects than Python
            continue
        records = record if isinstance(record, list) else [record]
        path = None if cell.column is None else cell.column.lower().split(".")
        if any(
            _has_value(each, cell) if path is None else _has_value_at(each, path, cell) for each in records
        ):
            return number
    return None


def _has_value(found: Any, cell: SoughtCell) -> bool:
    match found:
        case list():
            return any(_has_value(each, cell) for each in found)
        case dict():
            return any(_has_value(each, cell) for each in found.values())
        case _:
            return cell.is_like(_text_of(found))


def _has_value_at(found: Any, path: list[str], cell: SoughtCell) -> bool:
    """Return whether the cell's text is the value at ``path`` in a JSON value.

    The path leads through the elements of lists and the values of maps.
    """
    if not path:
        if isinstance(found, dict | list):
            return cell.text[:1] == ("{" if isinstance(found, dict) else "[")
        return cell.is_like(_text_of(found))
    name, *rest = path
    match found:
        case list():
            return name == "element" and any(_has_value_at(each, rest, cell) for each in found)
        case dict():
            of_map = name == "value" and any(_has_value_at(each, rest, cell) for each in found.values())
            return of_map or any(
                key.lower() == name and _has_value_at(each, rest, cell) for key, each in found.items()
            )
        case _:
            return False


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _only_line(lines: Iterable[str], cell: SoughtCell) -> int | None:
    """Return the line of a field whose value begins with the text, or None if there are none or several."""
    if cell.column is None:
        return None
    name = cell.column.rpartition(".")[2]
    pattern = re.compile(rf'"{re.escape(name)}"\s*:\s*"?{re.escape(cell.text)}', re.IGNORECASE)
    found = [number for number, line in enumerate(lines, start=1) for _ in pattern.finditer(line)]
    return found[0] if len(found) == 1 else None


def _line_of_no_json(lines: Iterable[str], options: Mapping[str, str]) -> int | None:
    strict = not any(name.startswith("allow") for name in options)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            json.loads(line, strict=False)
        except ValueError:
            # Spark accepts more JSON dialects than Python, such as single quotes.
            if strict and "'" not in line:
                return number
    return None
