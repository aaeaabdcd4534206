"""Masking of the values of columns with personal data (``pii: true``).

Partition paths, errors and results lose these values before they leave a job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from logging import WARNING, Logger
from posixpath import normpath
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from parquetry.errors import ParquetryError, message_of
from parquetry.message import Message, Value, ValueKind, with_parts
from parquetry.runtime.quoting import CONDITION
from parquetry.runtime.spec.meta_columns import PARTITION_PATH, RECORD_KEY
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.text.secret_names import MASK

_Outcome = TypeVar("_Outcome")

_SCHEME: Final = re.compile(r"^\w+:(?://(?:localhost(?=/))?)?")
_TIMELINE_FOLDER: Final = ".hoodie"
_TABLE_FILE_NAME: Final = re.compile(
    r".*\.parquet(?:\.\w+)*\Z|\.hoodie_partition_metadata|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?\Z"
)
"""The names of base files, of partition metadata files and of file groups."""

_WITH_PARTITIONS: Final = re.compile(r"\.hoodie/(\.temp/[^/]+|\.parquetry/quarantine)/")
"""The folders below ``.hoodie/`` that contain folders of partitions."""


def pii_columns(*columns: Iterable[Column]) -> frozenset[str]:
    """Return the names, in lower case, of the columns with personal data in any of the lists."""
    return frozenset(column.name.lower() for each in columns for column in each if column.pii)


def personal_column_names(spec: TableSpec, pii: frozenset[str]) -> frozenset[str]:
    """Return ``pii`` and those of Hudi's meta columns that contain the values of these columns."""
    made = ((RECORD_KEY, spec.record_key), (PARTITION_PATH, spec.partition_by))
    return pii | {name for name, of in made if any(column.partition(".")[0].lower() in pii for column in of)}


def has_personal_columns(spec: TableSpec | None) -> bool:
    """Return whether any column of the table contains personal data."""
    return spec is not None and bool(pii_columns(spec.columns))


def has_masked_partitions(spec: TableSpec) -> bool:
    """Return whether partition paths contain values of columns with personal data."""
    pii = pii_columns(spec.columns)
    return any(column.lower() in pii for column in spec.partition_by)


def must_hide_record_keys(spec: TableSpec) -> bool:
    """Return whether record keys must not be written to unprotected files such as the timeline.

    This holds if they contain personal data or if base files are encrypted.
    """
    return spec.files.encryption_key is not None or _has_personal_keys(spec)


def masked_partition(path: str, spec: TableSpec | None) -> str:
    """Return the partition path with ``***`` for the values of columns with personal data.

    Without a spec, no column counts as personal.
    """
    if not path or spec is None or not has_masked_partitions(spec):
        return path
    parts = path.split("/")
    if len(parts) != len(spec.partition_by):
        return MASK
    return _masked_levels(parts, spec)


def masked_path(path: str, partition: str, spec: TableSpec | None) -> str:
    """Return the path of a file with its partition masked. The name of a file contains no personal data."""
    if not partition:
        return path
    return f"{masked_partition(partition, spec)}{path.removeprefix(partition)}"


def personal_in_either(applied: TableSpec, declared: TableSpec) -> TableSpec:
    """Return the applied spec with every column marked personal that is personal in either spec.

    It is used to mask live values. If a declaration makes a column personal, the column is hidden at once; if
    it makes a column public, the column stays hidden until that is applied.
    """
    pii = pii_columns(declared.columns)
    columns = (
        replace(column, pii=True) if column.name.lower() in pii else column for column in applied.columns
    )
    return replace(applied, columns=tuple(columns))


def masked_by(applied: TableSpec | None, declared: TableSpec | None) -> TableSpec | None:
    """Return the spec by which live values are masked, from the specs that are known; None if neither is."""
    if applied is None or declared is None:
        return declared if applied is None else applied
    return personal_in_either(applied, declared)


def cleared(outcome: _Outcome, spec: TableSpec | None, *, location: str) -> _Outcome:
    """Return a message or a result about a table, with personal values masked and all values cleared.

    The values of messages are masked by their kinds, and so are texts in fields of dataclasses that declare a
    kind (:data:`~parquetry.message.PARTITION_FIELD`). If the
    table has any personal column, the text of a library's error is replaced by the class of the error.

    Args:
        outcome: The message, or the dataclasses, tuples, lists and mappings that contain messages.
        spec: The spec of the table, or None, which masks nothing.
        location: The location of the table, by which its paths are recognised.

    """
    mask: Callable[[Value], Value] | None = None
    if spec is not None and has_personal_columns(spec):
        mask = partial(_masked_value, spec=spec, location=location)

    def shown(part: Any, kind: ValueKind | None) -> Any:
        if isinstance(part, Message):
            return part.masked(mask or _unchanged)
        if mask is None or kind is None or not isinstance(part, str):
            return part
        return mask(Value(kind, part)).text

    return with_parts(outcome, shown)


def log_failure(
    log: Logger,
    what: str,
    failure: BaseException | Message,
    spec: TableSpec | None,
    *,
    location: str,
    level: int = WARNING,
) -> None:
    """Log ``<what>: <reason>`` for a failure that is not raised, without personal values of the table.

    Args:
        log: The log.
        what: The consequence of the failure, without personal values.
        failure: The failure, or its message.
        spec: The spec of the table, or None, which masks nothing.
        location: The location of the table.
        level: The level of the log.

    """
    reason = failure if isinstance(failure, Message) else message_of(failure)
    log.log(level, "%s: %s", what, cleared(reason, spec, location=location), stacklevel=2)


@contextmanager
def failures_masked(spec: TableSpec | None, *, location: str) -> Iterator[None]:
    """Yield, and remove the values of columns with personal data from failures of the block.

    If the table has such columns, the causes of a failure are removed too, as the texts of libraries may
    contain values. An unexpected exception becomes a RuntimeError with its class and its traceback, without
    its message.
    """
    try:
        yield
    except ParquetryError as failure:
        failure.reword(partial(cleared, spec=spec, location=location))
        if failure.result is not None:
            failure.result = cleared(failure.result, spec, location=location)
        if has_personal_columns(spec):
            failure.__cause__ = failure.__context__ = None
        raise
    except OSError as failure:  # names files, and no rows
        if spec is not None and failure.filename is not None:
            failure.filename = _masked_uri(str(failure.filename), spec, location)
        raise
    except Exception as bug:
        if not has_personal_columns(spec):
            raise
        condition = CONDITION.search(str(bug)[:4096])
        name = f"{type(bug).__name__} {condition[0]}" if condition else type(bug).__name__
        error = RuntimeError(
            f"{name}: its message is omitted because the table has columns with personal data"
        )
        raise error.with_traceback(bug.__traceback__) from None


def _unchanged(value: Value) -> Value:
    return value


def _masked_value(value: Value, spec: TableSpec, location: str) -> Value:
    match value.kind:
        case ValueKind.QUOTE:
            return replace(value, text=value.mask)
        case ValueKind.RECORD_KEY:
            return replace(value, text=value.mask) if _has_personal_keys(spec) else value
        case ValueKind.PARTITION:
            return replace(value, text=masked_partition(value.text, spec))
        case ValueKind.FILE:
            return replace(value, text=_masked_file(value.text, spec))
        case ValueKind.URI:
            return replace(value, text=_masked_uri(value.text, spec, location))


def _has_personal_keys(spec: TableSpec) -> bool:
    pii = pii_columns(spec.columns)
    return any(field.partition(".")[0].lower() in pii for field in spec.record_key)


def _masked_uri(uri: str, spec: TableSpec, location: str) -> str:
    """Return the URI, masked as a path of the table if it is below the table's location."""
    if not has_masked_partitions(spec):
        return uri
    root = _normalised_path(location)
    # Spark escapes the paths that it lists.
    for spelled in (uri, unquote(uri)):
        where = _normalised_path(spelled)
        if location and where.startswith(f"{root}/"):
            path_in_table = where.removeprefix(f"{root}/")
            prefix = (
                spelled.removesuffix(path_in_table)
                if spelled.endswith(path_in_table)
                else f"{location.rstrip('/')}/"
            )
            return f"{prefix}{_masked_file(path_in_table, spec)}"
    return _masked_elsewhere(uri, spec)


def _normalised_path(uri: str) -> str:
    """Return the normalised path without its scheme."""
    return normpath(_SCHEME.sub("", uri))


def _masked_elsewhere(uri: str, spec: TableSpec) -> str:
    """Return a path outside the table with the personal values of its partition folders masked.

    These are ``column=value`` folders, and the folders above the name of a base file.
    """
    pii = {column.lower() for column in spec.partition_by} & pii_columns(spec.columns)
    *folders, last = uri.split("/")
    if _TABLE_FILE_NAME.match(last) and len(folders) > len(spec.partition_by):
        prefix = "/".join(folders[: -len(spec.partition_by)])
        return f"{prefix}/{_masked_file(uri.removeprefix(f'{prefix}/'), spec)}"
    named = ((part, part.partition("=")[0]) for part in (*folders, last))
    return "/".join(_masked_folder(part, name) if name.lower() in pii else part for part, name in named)


def _masked_file(path: str, spec: TableSpec) -> str:
    """Return the path of a file or folder of the table with its partition masked."""
    if not has_masked_partitions(spec):
        return path
    inside = _WITH_PARTITIONS.match(path)
    if (path == _TIMELINE_FOLDER or path.startswith(f"{_TIMELINE_FOLDER}/")) and not inside:
        return path
    prefix = inside[0] if inside else ""
    *folders, last = path.removeprefix(prefix).split("/")
    if inside or _TABLE_FILE_NAME.match(last):
        return f"{prefix}{masked_partition('/'.join(folders), spec)}{'/' if folders else ''}{last}"
    partition = [*folders, last]
    if len(partition) > len(spec.partition_by):
        return f"{prefix}{MASK}"
    return f"{prefix}{_masked_levels(partition, spec)}"


def _masked_levels(levels: Sequence[str], spec: TableSpec) -> str:
    """Return the given outermost levels of a partition path with personal values masked."""
    pii = pii_columns(spec.columns)
    named = zip(levels, spec.partition_by, strict=False)
    return "/".join(_masked_folder(part, column) if column.lower() in pii else part for part, column in named)


def _masked_folder(part: str, column: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={MASK}" if equals and name.lower() == column.lower() else MASK
