"""What may be told of columns that hold personal data (``pii: true``): not their values.

Partition paths, and what errors and results quote of rows, lose them before they leave a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from posixpath import normpath
from typing import Final
from urllib.parse import unquote

from parquetry.errors import ParquetryError
from parquetry.message import Value, ValueKind, with_values
from parquetry.runtime.quoting import CONDITION
from parquetry.runtime.spec.meta_columns import PARTITION_PATH, RECORD_KEY
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.secret_names import MASK

_SCHEME: Final = re.compile(r"^\w+:(?://(?:localhost(?=/))?)?")
_OF_TIMELINE: Final = ".hoodie"
_OF_TABLE: Final = re.compile(
    r".*\.parquet(?:\.\w+)*\Z|\.hoodie_partition_metadata|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?\Z"
)
"""Names of base files and of file groups."""

_MARKERS_OF_INSTANT: Final = re.compile(r"\.hoodie/\.temp/[^/]+/")


def pii_columns(*columns: Iterable[Column]) -> frozenset[str]:
    """The names, in lower case, of the columns that hold personal data in any of the lists."""
    return frozenset(column.name.lower() for each in columns for column in each if column.pii)


def personal_names(spec: TableSpec, pii: frozenset[str]) -> frozenset[str]:
    """Return the columns, and those of Hudi that are made of their values, as SQL names them."""
    made = ((RECORD_KEY, spec.record_key), (PARTITION_PATH, spec.partition_by))
    return pii | {name for name, of in made if any(column.partition(".")[0].lower() in pii for column in of)}


def has_personal_columns(spec: TableSpec | None) -> bool:
    """Whether any column of the table holds personal data."""
    return spec is not None and bool(pii_columns(spec.columns))


def has_masked_partitions(spec: TableSpec) -> bool:
    """Whether paths of partitions hold values of columns that hold personal data."""
    pii = pii_columns(spec.columns)
    return any(column.lower() in pii for column in spec.partition_by)


def has_private_keys(spec: TableSpec) -> bool:
    """Return True if record keys are for no file that everybody may read, as one of the timeline is."""
    return spec.files.encryption_key is not None or _has_personal_keys(spec)


def masked_partition(path: str, spec: TableSpec | None) -> str:
    """The partition's path with ``***`` for the values of columns that hold personal data.

    Without a spec nothing is known to be personal.
    """
    if not path or spec is None or not has_masked_partitions(spec):
        return path
    parts = path.split("/")
    if len(parts) != len(spec.partition_by):
        return MASK
    return _masked_levels(parts, spec)


def masked_path(path: str, partition: str, spec: TableSpec | None) -> str:
    """The path of a file in a partition, whose name tells nothing, with the partition masked."""
    if not partition:
        return path
    return f"{masked_partition(partition, spec)}{path.removeprefix(partition)}"


def masked_message(text: str, spec: TableSpec | None, *, location: str) -> str:
    """An error or a warning about the table without values of columns that hold personal data.

    Of partitions, record keys and paths what such columns give is masked; ``location`` tells which paths are
    the table's. Of what a library says the class of the error stays, if the table has such a column at all.
    """
    if not has_personal_columns(spec):
        return text
    assert spec is not None
    return with_values(text, partial(_masked_value, spec=spec, location=location))


@contextmanager
def failures_masked(spec: TableSpec | None, *, location: str) -> Iterator[None]:
    """Failures of the block, about a table, say nothing of values of columns that hold personal data.

    What they were raised from, whose words are a library's, goes where the table has such columns. What
    nobody expected is then told by its class, and by where it was raised.
    """
    try:
        yield
    except ParquetryError as failure:
        failure.reword(partial(masked_message, spec=spec, location=location))
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
        error = RuntimeError(f"{name}: its message is left out, as the table has columns with personal data")
        raise error.with_traceback(bug.__traceback__) from None


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
    """The path, masked as the table's where it lies below its location, else as somebody else's."""
    if not has_masked_partitions(spec):
        return uri
    root = _bare(location)
    # Spark escapes what it lists.
    for spelled in (uri, unquote(uri)):
        where = _bare(spelled)
        if location and where.startswith(f"{root}/"):
            below = where.removeprefix(f"{root}/")
            above = spelled.removesuffix(below) if spelled.endswith(below) else f"{location.rstrip('/')}/"
            return f"{above}{_masked_file(below, spec)}"
    return _masked_elsewhere(uri, spec)


def _bare(uri: str) -> str:
    """The path in one spelling, without its scheme."""
    return normpath(_SCHEME.sub("", uri))


def _masked_elsewhere(uri: str, spec: TableSpec) -> str:
    """The path without the values of ``column=value`` folders, nor the folders that hold a base file."""
    pii = {column.lower() for column in spec.partition_by} & pii_columns(spec.columns)
    *folders, last = uri.split("/")
    if _OF_TABLE.match(last) and len(folders) > len(spec.partition_by):
        above = "/".join(folders[: -len(spec.partition_by)])
        return f"{above}/{_masked_file(uri.removeprefix(f'{above}/'), spec)}"
    named = ((part, part.partition("=")[0]) for part in (*folders, last))
    return "/".join(_masked_folder(part, name) if name.lower() in pii else part for part, name in named)


def _masked_file(path: str, spec: TableSpec) -> str:
    """The path of a file or folder of the table with its partition masked."""
    if not has_masked_partitions(spec):
        return path
    markers = _MARKERS_OF_INSTANT.match(path)
    if (path == _OF_TIMELINE or path.startswith(f"{_OF_TIMELINE}/")) and not markers:
        return path
    above = markers[0] if markers else ""
    *folders, last = path.removeprefix(above).split("/")
    if markers or _OF_TABLE.match(last):
        return f"{above}{masked_partition('/'.join(folders), spec)}{'/' if folders else ''}{last}"
    partition = [*folders, last]
    if len(partition) > len(spec.partition_by):
        return f"{above}{MASK}"
    return f"{above}{_masked_levels(partition, spec)}"


def _masked_levels(levels: Sequence[str], spec: TableSpec) -> str:
    """The outermost levels of a partition's path, or all of them."""
    pii = pii_columns(spec.columns)
    named = zip(levels, spec.partition_by, strict=False)
    return "/".join(_masked_folder(part, column) if column.lower() in pii else part for part, column in named)


def _masked_folder(part: str, column: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={MASK}" if equals and name.lower() == column.lower() else MASK
