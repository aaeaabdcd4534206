"""What may be told of columns that hold personal data (``pii: true``): not their values.

Partition paths, and what errors and results quote of rows, lose them before they leave a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from typing import Final

from parquetry.errors import ParquetryError
from parquetry.message import Value, ValueKind, with_values
from parquetry.runtime.quoting import CONDITION
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.secret_names import MASK

_SCHEME: Final = re.compile(r"^\w+:(?://)?")
_OF_TABLE: Final = ".hoodie/"
_MARKERS_OF_INSTANT: Final = re.compile(r"\.hoodie/\.temp/[^/]+/")


def pii_columns(*columns: Iterable[Column]) -> frozenset[str]:
    """The names, in lower case, of the columns that hold personal data in any of the lists."""
    return frozenset(column.name.lower() for each in columns for column in each if column.pii)


def has_personal_columns(spec: TableSpec | None) -> bool:
    """Whether any column of the table holds personal data."""
    return spec is not None and bool(pii_columns(spec.columns))


def has_masked_partitions(spec: TableSpec) -> bool:
    """Whether paths of partitions hold values of columns that hold personal data."""
    pii = pii_columns(spec.columns)
    return any(column.lower() in pii for column in spec.partition_by)


def masked_partition(path: str, spec: TableSpec | None) -> str:
    """The partition's path with ``***`` for the values of columns that hold personal data.

    Without a spec nothing is known to be personal.
    """
    if not path or spec is None or not has_masked_partitions(spec):
        return path
    pii = pii_columns(spec.columns)
    parts = path.split("/")
    if len(parts) != len(spec.partition_by):
        return MASK
    return "/".join(
        _masked_folder(part) if column.lower() in pii else part
        for column, part in zip(spec.partition_by, parts, strict=True)
    )


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
    except OSError:  # names files, and no rows
        raise
    except Exception as bug:
        if not has_personal_columns(spec):
            raise
        condition = CONDITION.search(str(bug)[:4096])
        name = f"{type(bug).__name__} {condition[0]}" if condition else type(bug).__name__
        error = RuntimeError(f"{name}: its message is left out, as the table has columns with personal data")
        raise error.with_traceback(bug.__traceback__) from None


def _masked_value(value: Value, spec: TableSpec, location: str) -> str | Value:
    match value.kind:
        case ValueKind.QUOTE:
            return value.mask
        case ValueKind.RECORD_KEY:
            return f"'{value.mask}'" if _has_personal_keys(spec) else value
        case ValueKind.PARTITION:
            masked = masked_partition(value.text, spec)
            return value if masked == value.text else repr(masked)
        case ValueKind.FILE:
            return _masked_below(value.text, spec)
        case ValueKind.URI:
            return _masked_uri(value.text, spec, location)


def _has_personal_keys(spec: TableSpec) -> bool:
    pii = pii_columns(spec.columns)
    return any(field.partition(".")[0].lower() in pii for field in spec.record_key)


def _masked_uri(uri: str, spec: TableSpec, location: str) -> str:
    """The path, masked as the table's where it lies below its location, else by ``column=value`` alone."""
    root, where = (_SCHEME.sub("", each).rstrip("/") for each in (location, uri))
    if root and where.startswith(f"{root}/"):
        below = where.removeprefix(f"{root}/")
        return f"{uri.rstrip('/').removesuffix(below)}{_masked_below(below, spec)}"
    return "/".join(_masked_by_name(part, spec) for part in uri.split("/"))


def _masked_below(path: str, spec: TableSpec) -> str:
    """The path of a file or folder of the table with its partition masked."""
    if not has_masked_partitions(spec):
        return path
    markers = _MARKERS_OF_INSTANT.match(path)
    if path.startswith(_OF_TABLE) and not markers:
        return path
    above = markers[0] if markers else ""
    parts = path.removeprefix(above).split("/")
    if len(parts) > len(spec.partition_by) + 1:
        return f"{above}{MASK}/{parts[-1]}"
    pii = pii_columns(spec.columns)
    folders = zip_longest(parts, spec.partition_by[: len(parts)], fillvalue="")
    shown = (_masked_folder(part) if column.lower() in pii else part for part, column in folders)
    return f"{above}{'/'.join(shown)}"


def _masked_by_name(part: str, spec: TableSpec) -> str:
    """The folder ``column=value`` of somebody else's path with its value masked."""
    name, equals, _ = part.partition("=")
    pii = pii_columns(spec.columns)
    of_partition = any(name == column for column in spec.partition_by if column.lower() in pii)
    return _masked_folder(part) if equals and of_partition else part


def _masked_folder(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={MASK}" if equals else MASK
