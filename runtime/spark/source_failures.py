"""What Spark says of a file it cannot read, in one sentence that names the file and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from parquetry.runtime.errors import InvalidDataError, NotFoundError

_FILE = re.compile(
    r"(?:reading file|footer for file|read file)[:\s]+(?P<file>[a-z0-9]+:/.+?)"
    r"(?:\.(?=\s+[A-Z])|(?=\s+SQLSTATE)|\.?\s*$)",
    re.MULTILINE,
)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )(?P<message>.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_MALFORMED = "MALFORMED_RECORD_IN_PARSING"
_NO_COLUMNS = "UNABLE_TO_INFER_SCHEMA"
_TWICE = "COLUMN_ALREADY_EXISTS"
_NOT_MERGED = "CANNOT_MERGE_SCHEMAS"
_NO_SPARK_TYPE = "Parquet type"
_OF_ORC = "org.apache.orc."
_GONE = re.compile(r"PATH_NOT_FOUND\] Path does not exist: (?P<file>.+?)\.?(?: SQLSTATE|$)", re.MULTILINE)
_MISSING_FORMAT = re.compile(r"Failed to find data source: (?P<format>\w+)|DATA_SOURCE_NOT_FOUND")


class UnreadableFileError(Exception):
    """A file of a source is not what its format says; :func:`source_failures` adds the place."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} cannot be read: {reason}; correct or remove the file")


def unreadable_file(file: str, error: Exception) -> UnreadableFileError:
    """The file by name, for an error for which :func:`is_nameless` holds."""
    text = str(error)
    return UnreadableFileError(file, "it is empty" if _NO_COLUMNS in text else _reasons(text))


def unreadable_files(files: Sequence[str], error: Exception) -> InvalidDataError:
    """For an error about one file, or about several that each for itself can be read."""
    reason = _CONDITION.sub("", str(error).splitlines()[0])
    if len(files) == 1:
        return InvalidDataError(
            f"{files[0]} cannot be read: {reason}; correct the file, or the source's options"
        )
    return InvalidDataError(
        f"the files cannot be read together: {reason}; correct them, or the source's options"
    )


def gone_file(what: Exception | str) -> NotFoundError:
    """For a file that was there when the source was listed: by name, or by an error of :func:`is_gone`."""
    found = _GONE.search(str(what))
    return NotFoundError(
        f"{found['file'] if found else what} has gone since the source was listed; run again"
    )


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
def source_failures(place: str) -> Iterator[None]:
    """Failures to read a source's files become InvalidDataErrors that begin with ``place``.

    So do InvalidDataErrors, which know of rows and not whence they came, and NotFoundErrors. Anything
    else passes as it is.
    """
    try:
        yield
    except UnreadableFileError as error:
        raise InvalidDataError(f"{place}: {error}") from error
    except (InvalidDataError, NotFoundError) as error:
        if str(error).startswith(place):
            raise
        raise type(error)(f"{place}: {error}") from error
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        if found := _FILE.search(text):
            raise InvalidDataError(
                f"{place}: {found['file']} cannot be read: {_reasons(text)}; correct or remove the file"
            ) from error
        if is_of_missing_format(error):
            raise InvalidDataError(
                f"{place}: this Spark cannot read the format; run the job with the package it names "
                "(spark.packages), in a session of its own"
            ) from error
        raise


def _reasons(text: str) -> str:
    """The innermost causes, the last of which is usually the value."""
    causes = [_CONDITION.sub("", match["message"]).strip() for match in _CAUSE.finditer(text)]
    sentences = [re.split(r"(?<=[.\]])\s{1,2}(?=[A-Z])", cause)[0].rstrip(".") for cause in causes]
    told = list(dict.fromkeys(sentences))[-2:]
    return "; ".join(told) or _CONDITION.sub("", text.splitlines()[0])
