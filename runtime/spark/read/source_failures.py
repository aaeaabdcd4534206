"""Spark's errors about files that it cannot read, as one sentence with the file and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from parquetry.errors import MessageError, ParquetryError, failures_at, message_of
from parquetry.message import Message, Text, Value, joined, message
from parquetry.runtime.errors import InvalidDataError, NotFoundError, RefusedCell
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.sources.lines import (
    SEARCHED_BYTES,
    FoundLine,
    SoughtCell,
    find_cell,
    find_malformed,
    unpacked,
)
from parquetry.runtime.sources.listing import FoundFile, deleted_file_error, open_file
from parquetry.runtime.spark.prepare.rows import DELETE_WHEN
from parquetry.runtime.spec.masking import pii_columns
from parquetry.runtime.spec.reader_options import avro_package
from parquetry.runtime.spec.table_spec import Column, Source
from parquetry.text.secret_names import MASK

_FILE = re.compile(
    r"(?:reading file|footer for file|read file)[:\s]+(?P<file>[a-z0-9]+:/.{1,4096}?)"
    r"(?:\.(?=\s{1,9}[A-Z])|(?=\s{1,9}SQLSTATE)|\.?[^\S\n]{0,9}$)",
    re.MULTILINE,
)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )(?P<message>.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_MALFORMED = "MALFORMED_RECORD_IN_PARSING"
_WITH_ROW = "Malformed records are detected"
_MALFORMED_CSV = "MALFORMED_CSV_RECORD"
_STRAY_QUOTE = "TextParsingException"
_FIELD = re.compile(
    r"Cannot parse the field name [`'\"]?(?P<field>.{1,1000}?)[`'\"]? and the value "
    r"[`'\"]?(?P<value>.{0,1000}?)[`'\"]? of the JSON token type"
)
_GZIP = b"\x1f\x8b"
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_NO_COLUMNS = "UNABLE_TO_INFER_SCHEMA"
_DUPLICATE_COLUMN = "COLUMN_ALREADY_EXISTS"
_NOT_MERGED = "CANNOT_MERGE_SCHEMAS"
_NO_SPARK_TYPE = "Parquet type"
_OF_ORC = "org.apache.orc."
_GONE = re.compile(r"PATH_NOT_FOUND\] Path does not exist: (?P<file>.+?)\.?(?: SQLSTATE|$)", re.MULTILINE)
_MISSING_FORMAT = re.compile(r"Failed to find data source: (?P<format>\w+)|DATA_SOURCE_NOT_FOUND")


# The number of occurrences of a text that an error names.
_MOST_PLACES = 2
# The compressions that Python's standard library cannot read.
_PACKED = frozenset({"deflate", "snappy", "lz4", "xz"})
Explain: TypeAlias = Callable[[str, "str | RefusedCell"], "Text | None"]
"""Explains the fault of a file from its name and Spark's error text, or from the refused cell.

It returns None if Spark's own text is to be shown.
"""


class UnreadableFileError(MessageError):
    """The error for a source file not in its declared format; :func:`source_failures` adds the source."""

    def __init__(self, file: str, reason: Text) -> None:
        super().__init__(
            "{file} cannot be read: {reason}; correct or remove the file", file=Value.uri(file), reason=reason
        )
        self.file = file


def nanoseconds_error(file: FoundFile, column: str, count: int) -> UnreadableFileError:
    """Return the error for a column whose times have nanoseconds, which a table cannot store."""
    return UnreadableFileError(
        file.file.path,
        f"column {column!r}: {count} of its times {'has' if count == 1 else 'have'} nanoseconds, and a table "
        "keeps microseconds; round the column in the file",
    )


def unreadable_file(file: str, error: Exception) -> UnreadableFileError:
    """Return the error for a file, given a failure of Spark that does not name the file.

    :func:`is_nameless` recognises such failures.
    """
    text = str(error)
    return UnreadableFileError(
        file, "it is empty" if _NO_COLUMNS in text else quoted_library_text(_reasons(text))
    )


def unreadable_files(files: Sequence[str], error: Exception) -> InvalidDataError:
    """Return the error for one file, or for files that can be read one by one but not together."""
    reason = quoted_library_text(_CONDITION.sub("", str(error).splitlines()[0]))
    if len(files) == 1:
        return InvalidDataError(
            "{file} cannot be read: {reason}; correct the file, or the source's options",
            file=Value.uri(files[0]),
            reason=reason,
        )
    return InvalidDataError(
        "the files cannot be read together: {reason}; correct them, or the source's options", reason=reason
    )


def gone_file(what: Exception | str) -> NotFoundError:
    """Return the error for a file that was removed after the source was listed.

    Args:
        what: The name of the file, or an error for which :func:`is_gone` is true.

    """
    found = _GONE.search(str(what))
    if found:
        what = found["file"]
    file = Value.uri(what) if isinstance(what, str) else message_of(what)
    return deleted_file_error(file)


def is_gone(error: Exception) -> bool:
    """Return whether Spark did not find one of the given files."""
    return _GONE.search(str(error)) is not None


def is_of_different_types(error: Exception) -> bool:
    """Return whether Spark failed because a column has different types in different files."""
    return _NOT_MERGED in str(error)


def is_of_missing_format(error: Exception) -> bool:
    """Return whether Spark lacks a reader for the format; :func:`source_failures` adds the remedy."""
    return _MISSING_FORMAT.search(str(error)) is not None


def is_nameless(error: Exception) -> bool:
    """Return whether Spark failed while it inferred the columns. Its error names no file then."""
    text = str(error)
    return (
        any(sign in text for sign in (_MALFORMED, _NO_COLUMNS, _DUPLICATE_COLUMN, _NO_SPARK_TYPE, _OF_ORC))
        and _FILE.search(text) is None
    )


@contextmanager
def source_failures(place: str, *, settings: str = "", explain: Explain | None = None) -> Iterator[None]:
    """Turn failures to read a source's files into InvalidDataErrors that begin with ``place``.

    InvalidDataErrors and NotFoundErrors that do not begin with ``place`` get it as well, and keep their
    class. Other errors pass unchanged.

    Args:
        place: The source, as errors name it.
        settings: The path of the source in the spec; a failure of ``delete_when`` names the option below it.
        explain: Called first to explain the fault of a file; None to show Spark's own text.

    """
    try:
        yield
    except RefusedCell as error:
        file, column, kind, text, *_ = map(str, error.args)
        reason = explain and explain(file, error)
        reason = reason or _of_cell(column, kind, text, is_shown=False)
        if file:
            unreadable = UnreadableFileError(file, reason).message
            raise InvalidDataError("{place}: {reason}", place=place, reason=unreadable) from error
        raise InvalidDataError(
            "{place}: the rows of its select: {reason}; correct the query, or the files",
            place=place,
            reason=reason,
        ) from error
    except UnreadableFileError as error:
        reason = explain(error.file, str(error.__cause__)) if explain and error.__cause__ else None
        unreadable = (error if reason is None else UnreadableFileError(error.file, reason)).message
        raise InvalidDataError("{place}: {reason}", place=place, reason=unreadable) from error
    except (InvalidDataError, NotFoundError) as error:
        if error.in_full().startswith(place):
            raise
        setting = settings if error.declared == DELETE_WHEN else ""
        with failures_at(error.declared and f"{setting}{error.declared}"):
            raise type(error)(
                Message("{place}: {setting}{reason}", place=place, setting=setting, reason=error.message)
            ) from error
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if found := _FILE.search(text):
            reason = (explain(found["file"], text) if explain else None) or quoted_library_text(
                _reasons(text)
            )
            unreadable = UnreadableFileError(found["file"], reason).message
            raise InvalidDataError("{place}: {reason}", place=place, reason=unreadable) from error
        if is_of_missing_format(error):
            raise InvalidDataError(
                "{place}: this Spark has no Avro reader; list {package} under spark.packages of "
                "the target, or start your own session with it",
                place=place,
                package=avro_package(),
            ) from error
        raise


def _reasons(text: str) -> str:
    """Return the last two causes of the error text; the last one usually contains the value."""
    causes = [_CONDITION.sub("", match["message"]).strip() for match in _CAUSE.finditer(text)]
    sentences = [re.split(r"(?<=[.\]])\s{1,2}(?=[A-Z])", cause)[0].rstrip(".") for cause in causes]
    reasons = [sentence for sentence in dict.fromkeys(sentences) if not sentence.startswith(_WITH_ROW)][-2:]
    if not reasons and sentences:
        return "a record is malformed"
    return "; ".join(reasons) or _CONDITION.sub("", text.splitlines()[0])


def explained(
    source: Source,
    files: Sequence[FoundFile],
    columns: Sequence[Column],
    storage: Mapping[str, Any],
) -> Explain:
    """Return a function that explains malformed records and refused cells, with their line or Parquet row.

    If one of the table's ``columns`` contains personal data, no explanation shows a cell.

    Args:
        source: The declaration of the source.
        files: The files of the batch.
        columns: The columns of the table.
        storage: The options of the source's file system.

    """
    by_name = {bare_name(name): file for file in files for name in (file.file.path, file.uri, file.spark_uri)}
    options = {name.lower(): value for name, value in source.options.items()}
    is_shown = not pii_columns(columns, columns)
    if source.format not in ("csv", "json"):
        return lambda _, error: (
            _of_value(error, is_shown=is_shown) if isinstance(error, RefusedCell) else None
        )

    def searched(name: str, search: Callable[[Any], FoundLine]) -> FoundLine:
        file = by_name.get(bare_name(name))
        if file is None or file.uri.rpartition(".")[2].lower() in _PACKED:
            return FoundLine()
        with suppress(ParquetryError, OSError), open_file(file, storage) as handle:
            return search(unpacked(handle, file.uri))
        return FoundLine()

    def whereabouts(text: str) -> list[Message]:
        """Return the files and lines of the first two occurrences of the text."""
        cell, left, found = SoughtCell(column=None, text=text), SEARCHED_BYTES, list[Message]()
        for file in files if text else ():
            left -= file.file.size_bytes
            if left < 0:
                break
            place = searched(file.uri, lambda of: find_cell(of, cell, kind=source.format, options=options))
            if place.line is not None:
                found.append(Message("{file}, line {line}", file=Value.uri(file.file.path), line=place.line))
            if len(found) == _MOST_PLACES:
                break
        return found

    def explain(name: str, error: str | RefusedCell) -> Message | None:
        if isinstance(error, RefusedCell):
            _, column, kind, text, *_ = map(str, error.args)
            if not name:
                reason, places = _of_cell(column, kind, text, is_shown=is_shown), whereabouts(text)
                if not places:
                    return reason
                return Message(
                    "{reason}; this text is in {places}", reason=reason, places=joined(", and in ", places)
                )
            cell = SoughtCell(column=column, text=text)
            place = searched(name, lambda file: find_cell(file, cell, kind=source.format, options=options))
            return _with_line(place, _of_cell(column, kind, text, is_shown=is_shown))
        if found := _FIELD.search(error):
            cell = SoughtCell(column=found["field"], text=found["value"])
            place = searched(name, lambda file: find_cell(file, cell, kind=source.format, options=options))
            types = {column.name.lower(): column.type for column in columns}
            kind = types.get(found["field"].lower(), "of its type")
            return _with_line(place, _of_cell(found["field"], kind, found["value"], is_shown=is_shown))
        if not any(sign in error for sign in (_MALFORMED, _WITH_ROW, _MALFORMED_CSV, _STRAY_QUOTE)):
            return None
        place = searched(name, lambda file: find_malformed(file, kind=source.format, options=options))
        return _with_line(place, _of_record(error, is_shown=is_shown))

    return explain


def _of_value(error: RefusedCell, *, is_shown: bool) -> Message:
    """Return the message about a value that a conversion refused."""
    _, column, kind, text, *row = map(str, error.args)
    cell = _of_cell(column, kind, text, is_shown=is_shown)
    return Message("row {row}, {reason}", row=row, reason=cell) if row else cell


def _of_record(error: str, *, is_shown: bool) -> Text:
    """Return the message about a malformed record."""
    if _STRAY_QUOTE in error:
        return (
            "a quote within quotes is not doubled, or text follows the closing quote; correct it, "
            "or declare quote and escape in the source's options"
        )
    if _MALFORMED_CSV in error:
        return "the row has more or fewer cells than there are columns"
    return quoted_library_text(_reasons(error)) if is_shown else "a record is malformed"


def _of_cell(column: str, kind: str, text: str, *, is_shown: bool) -> Message:
    """Return the message about a cell: its column, and its text that is not of the type."""
    return Message(
        'column {column!r}: "{cell}" is not {column_type}',
        column=column,
        cell=text if is_shown else MASK,
        column_type=kind,
    )


def _with_line(place: FoundLine, text: Text) -> Message:
    """Return the text with the number of the line, or with a note that the search ended before the line."""
    if place.line is not None:
        return Message("line {line}, {reason}", line=place.line, reason=text)
    if place.is_truncated:
        return Message(
            "{reason} (the line was not searched for beyond {limit_mib} MiB)",
            reason=text,
            limit_mib=SEARCHED_BYTES // 1024**2,
        )
    return message(text)


def check_begin(file: str, begin: bytes, options: Mapping[str, str]) -> None:
    """Raise UnreadableFileError if the first bytes of the file are not text in the declared encoding."""
    if begin.startswith(_GZIP):
        raise UnreadableFileError(
            file, "its content is gzip, but Spark decides by the name; rename it to .gz"
        )
    if begin.startswith(_UTF_16_BOMS) and not options.get("encoding", "").lower().startswith("utf"):
        raise UnreadableFileError(
            file, "it is UTF-16 or UTF-32; write it in UTF-8, or declare encoding and multiLine: true"
        )


def bare_name(name: str) -> str:
    """Return a file's name without its scheme and its escapes."""
    return unquote(re.sub(r"^\w+:/+", "/", name.replace("\\", "")))
