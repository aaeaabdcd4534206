"""What Spark says of a file it cannot read, in one sentence that names the file and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from parquetry.errors import ParquetryError, failures_declared, message_of
from parquetry.message import Message, Value
from parquetry.runtime.errors import InvalidDataError, NotFoundError, RefusedCell
from parquetry.runtime.quoting import of_library
from parquetry.runtime.sources.lines import (
    SEARCHED_BYTES,
    FoundLine,
    SoughtCell,
    find_cell,
    find_malformed,
    unpacked,
)
from parquetry.runtime.sources.listing import FoundFile, has_gone, open_file
from parquetry.runtime.spark.prepare.rows import DELETE_WHEN
from parquetry.runtime.spec.masking import pii_columns
from parquetry.runtime.spec.reader_packages import avro_package
from parquetry.runtime.spec.table_spec import Column, Source
from parquetry.secret_names import MASK

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
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
_NO_COLUMNS = "UNABLE_TO_INFER_SCHEMA"
_TWICE = "COLUMN_ALREADY_EXISTS"
_NOT_MERGED = "CANNOT_MERGE_SCHEMAS"
_NO_SPARK_TYPE = "Parquet type"
_OF_ORC = "org.apache.orc."
_GONE = re.compile(r"PATH_NOT_FOUND\] Path does not exist: (?P<file>.+?)\.?(?: SQLSTATE|$)", re.MULTILINE)
_MISSING_FORMAT = re.compile(r"Failed to find data source: (?P<format>\w+)|DATA_SOURCE_NOT_FOUND")


# How many places of a text are named.
_MOST_PLACES = 2
# What Python's library does not unpack.
_PACKED = frozenset({"deflate", "snappy", "lz4", "xz"})
Explain: TypeAlias = Callable[[str, "str | RefusedCell"], str | None]
"""What is wrong with a file, by its name and what Spark said of it, or the cell that was refused.

None where Spark's own words are to be told.
"""


class UnreadableFileError(Exception):
    """A file of a source is not what its format says; :func:`source_failures` adds the place."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(
            Message(Value.uri(file), " cannot be read: ", reason, "; correct or remove the file")
        )
        self.file = file


def nanoseconds_error(file: FoundFile, column: str, count: int) -> UnreadableFileError:
    """Return the error about the times of a column that a table cannot keep whole."""
    return UnreadableFileError(
        file.file.path,
        f"column {column!r}: {count} of its times {'has' if count == 1 else 'have'} nanoseconds, and a table "
        "keeps microseconds; round the column in the file",
    )


def unreadable_file(file: str, error: Exception) -> UnreadableFileError:
    """The file by name, for an error for which :func:`is_nameless` holds."""
    text = str(error)
    return UnreadableFileError(file, "it is empty" if _NO_COLUMNS in text else of_library(_reasons(text)))


def unreadable_files(files: Sequence[str], error: Exception) -> InvalidDataError:
    """For an error about one file, or about several that each for itself can be read."""
    reason = of_library(_CONDITION.sub("", str(error).splitlines()[0]))
    if len(files) == 1:
        return InvalidDataError(
            Message(
                Value.uri(files[0]),
                " cannot be read: ",
                reason,
                "; correct the file, or the source's options",
            )
        )
    return InvalidDataError(
        Message("the files cannot be read together: ", reason, "; correct them, or the source's options")
    )


def gone_file(what: Exception | str) -> NotFoundError:
    """For a file that was there when the source was listed: by name, or by an error of :func:`is_gone`."""
    found = _GONE.search(str(what))
    if found:
        what = found["file"]
    file = Value.uri(what) if isinstance(what, str) else message_of(what)
    return has_gone(file)


def is_gone(error: Exception) -> bool:
    """Whether Spark did not find a file that it was given."""
    return _GONE.search(str(error)) is not None


def is_of_different_types(error: Exception) -> bool:
    """Whether Spark failed because files have different types in one column."""
    return _NOT_MERGED in str(error)


def is_of_missing_format(error: Exception) -> bool:
    """Whether Spark has no reader for a format; :func:`source_failures` knows the remedy."""
    return _MISSING_FORMAT.search(str(error)) is not None


def is_nameless(error: Exception) -> bool:
    """Whether Spark failed while it looked for columns, where it names no file."""
    text = str(error)
    return (
        any(sign in text for sign in (_MALFORMED, _NO_COLUMNS, _TWICE, _NO_SPARK_TYPE, _OF_ORC))
        and _FILE.search(text) is None
    )


@contextmanager
def source_failures(place: str, *, settings: str = "", explain: Explain | None = None) -> Iterator[None]:
    """Failures to read a source's files become InvalidDataErrors that begin with ``place``.

    A failure of ``delete_when`` names it below ``settings``, the source's path in the spec. ``explain`` is
    asked first what is wrong with a file.

    So do InvalidDataErrors, which know of rows and not whence they came, and NotFoundErrors. Anything
    else passes as it is.
    """
    try:
        yield
    except RefusedCell as error:
        file, column, kind, text, *_ = map(str, error.args)
        reason = explain and explain(file, error)
        reason = reason or Message(*_of_cell(column, kind, text, is_shown=False))
        of_rows = ("the rows of its select: ", reason, "; correct the query, or the files")
        words = UnreadableFileError(file, reason).args if file else of_rows
        raise InvalidDataError(Message(place, ": ", *words)) from error
    except UnreadableFileError as error:
        reason = explain(error.file, str(error.__cause__)) if explain and error.__cause__ else None
        told = error if reason is None else UnreadableFileError(error.file, reason)
        raise InvalidDataError(Message(place, ": ", *told.args)) from error
    except (InvalidDataError, NotFoundError) as error:
        if error.message.startswith(place):
            raise
        setting = settings if error.declared == DELETE_WHEN else ""
        with failures_declared(error.declared and f"{setting}{error.declared}"):
            raise type(error)(Message(place, ": ", setting, error.message)) from error
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if found := _FILE.search(text):
            reason = (explain(found["file"], text) if explain else None) or of_library(_reasons(text))
            told = UnreadableFileError(found["file"], reason)
            raise InvalidDataError(Message(place, ": ", *told.args)) from error
        if is_of_missing_format(error):
            raise InvalidDataError(
                f"{place}: this Spark has no reader of Avro; list {avro_package()} under "
                "spark.packages of the target, or start your own session with it"
            ) from error
        raise


def _reasons(text: str) -> str:
    """The innermost causes, the last of which is usually the value."""
    causes = [_CONDITION.sub("", match["message"]).strip() for match in _CAUSE.finditer(text)]
    sentences = [re.split(r"(?<=[.\]])\s{1,2}(?=[A-Z])", cause)[0].rstrip(".") for cause in causes]
    told = [sentence for sentence in dict.fromkeys(sentences) if not sentence.startswith(_WITH_ROW)][-2:]
    if not told and sentences:
        return "a record is malformed"
    return "; ".join(told) or _CONDITION.sub("", text.splitlines()[0])


def explained(
    source: Source,
    files: Sequence[FoundFile],
    columns: Sequence[Column],
    storage: Mapping[str, Any],
) -> Explain:
    """What tells the place of malformed records and refused cells: their line, or of Parquet their row.

    Where one of the table's ``columns`` holds personal data, no cell is told.
    """
    by_name = {bare_name(name): file for file in files for name in (file.file.path, file.uri, file.spark_uri)}
    options = {name.lower(): value for name, value in source.options.items()}
    is_shown = not pii_columns(columns, columns)
    if source.format not in ("csv", "json"):
        return lambda _, said: _of_value(said, is_shown=is_shown) if isinstance(said, RefusedCell) else None

    def searched(name: str, search: Callable[[Any], FoundLine]) -> FoundLine:
        file = by_name.get(bare_name(name))
        if file is None or file.uri.rpartition(".")[2].lower() in _PACKED:
            return FoundLine()
        with suppress(ParquetryError, OSError), open_file(file, storage) as handle:
            return search(unpacked(handle, file.uri))
        return FoundLine()

    def whereabouts(text: str) -> list[str | Value]:
        """Return where the text of a row of a query is in the files: its first two places."""
        cell, left, found = SoughtCell(column=None, text=text), SEARCHED_BYTES, list[str | Value]()
        for file in files if text else ():
            left -= file.file.size_bytes
            if left < 0:
                break
            place = searched(file.uri, lambda of: find_cell(of, cell, kind=source.format, options=options))
            if place.line is not None:
                joint = ", and in " if found else "; this text is in "
                found += [joint, Value.uri(file.file.path), f", line {place.line}"]
            if len(found) == 3 * _MOST_PLACES:
                break
        return found

    def explain(name: str, said: str | RefusedCell) -> str | None:
        if isinstance(said, RefusedCell):
            _, column, kind, text, *_ = map(str, said.args)
            if not name:
                return Message(*_of_cell(column, kind, text, is_shown=is_shown), *whereabouts(text))
            cell = SoughtCell(column=column, text=text)
            place = searched(name, lambda file: find_cell(file, cell, kind=source.format, options=options))
            return _placed(place, *_of_cell(column, kind, text, is_shown=is_shown))
        if found := _FIELD.search(said):
            cell = SoughtCell(column=found["field"], text=found["value"])
            place = searched(name, lambda file: find_cell(file, cell, kind=source.format, options=options))
            types = {column.name.lower(): column.type for column in columns}
            kind = types.get(found["field"].lower(), "of its type")
            return _placed(place, *_of_cell(found["field"], kind, found["value"], is_shown=is_shown))
        if not any(sign in said for sign in (_MALFORMED, _WITH_ROW, _MALFORMED_CSV, _STRAY_QUOTE)):
            return None
        place = searched(name, lambda file: find_malformed(file, kind=source.format, options=options))
        return _placed(place, *_of_record(said, is_shown=is_shown))

    return explain


def _of_value(said: RefusedCell, *, is_shown: bool) -> str:
    _, column, kind, text, *row = map(str, said.args)
    return Message(*(f"row {number}, " for number in row), *_of_cell(column, kind, text, is_shown=is_shown))


def _of_record(said: str, *, is_shown: bool) -> tuple[str, ...]:
    if _STRAY_QUOTE in said:
        return (
            "a quote within quotes is not doubled, or there is more behind the closing one; correct it, ",
            "or declare quote and escape in the source's options",
        )
    if _MALFORMED_CSV in said:
        return ("the row has more or fewer cells than there are columns",)
    return (of_library(_reasons(said)) if is_shown else "a record is malformed",)


def _of_cell(column: str, kind: str, text: str, *, is_shown: bool) -> tuple[str, str]:
    quote = '"'
    return (f"column {column!r}: ", f"{quote}{text if is_shown else MASK}{quote} is not {kind}")


def _placed(place: FoundLine, *text: str) -> str:
    if place.line is not None:
        return Message(f"line {place.line}, ", *text)
    if place.is_truncated:
        return Message(*text, f" (line not looked for beyond {SEARCHED_BYTES // 1024**2} MiB)")
    return Message(*text)


def check_begin(file: str, begin: bytes, options: Mapping[str, str]) -> None:
    """UnreadableFileError for a file whose first bytes are not of text in the declared encoding."""
    if begin.startswith(_GZIP):
        raise UnreadableFileError(file, "it is gzip, by its content, and Spark goes by the name; call it .gz")
    if begin.startswith(_BYTE_ORDER_MARKS) and not options.get("encoding", "").lower().startswith("utf"):
        raise UnreadableFileError(
            file, "it is UTF-16 or UTF-32; write it in UTF-8, or declare encoding and multiLine: true"
        )


def bare_name(name: str) -> str:
    """A file's name without scheme, however it is escaped."""
    return unquote(re.sub(r"^\w+:/+", "/", name.replace("\\", "")))
