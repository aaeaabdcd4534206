"""Deletion of whole partitions in one commit. Their files stay until they are cleaned.

A partition is given by its path, or by values, which are converted to the types of the partition columns. The
converted value determines the folder name.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal as Number
from decimal import InvalidOperation, localcontext
from functools import partial
from numbers import Integral
from typing import Any, Final

from parquetry.runtime.commit.damaged_files import damaged_groups
from parquetry.runtime.commit.outcome import CommitResult, Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.files import column_types
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.services.after_write import run_due_services
from parquetry.runtime.spec.types import ColumnType, Decimal, parse_type
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.partition_path import NULL_FOLDER_TEXTS, KeyRules, partition_path
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.runtime.write.null_partition import check_null_partitions

_OPERATION = "DELETE_PARTITION"

PartitionValue = str | int | bool | dt.date | Number | None

_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_DIGITS: Final = re.compile(r"-?[0-9]+")
_MOST_DIGITS: Final = 38
_EXPECTED: Final = {
    "string": "text",
    "boolean": "True or False",
    "date": "a date",
    "timestamp": "a datetime, or microseconds since 1970 in UTC",
    "float": "the number's text in the folder's name",
    "double": "the number's text in the folder's name",
}


@with_masked_failures
def delete_partitions(
    handle: TableHandle,
    partitions: Iterable[str | Mapping[str, Any]],
    *,
    timing: Timing = DEFAULT_TIMING,
) -> CommitResult:
    """Delete partitions, each given by its path or by a value per partition column.

    Absent and empty partitions are ignored. If no partition remains, nothing is committed.

    Args:
        handle: The table.
        partitions: Paths, or values by partition column.
        timing: The periods of the commit protocol.

    Raises:
        InvalidDataError: If the table has no partitions, if values identify no partition or do not have the
            type of their column, or if one partition is given instead of a list.
    """
    if isinstance(partitions, str | Mapping):
        one = quoted_library_text(repr(partitions))
        raise InvalidDataError("expected a list of partitions, not {found}; pass [{found}]", found=one)
    config = handle.config
    if not config.partition_by:
        raise InvalidDataError(
            "{table} has no partitions to delete; use insert_overwrite_table with no rows to empty it",
            table=config.name,
        )
    rules = KeyRules.of(config, named_key=False)
    kinds = column_types(handle.effective_spec(handle.timeline()).columns)
    by_value = {partition_path(rules, _typed(p, kinds)) for p in partitions if not isinstance(p, str)}
    paths = sorted({*by_value, *(p for p in partitions if isinstance(p, str))})

    def body(transaction: Transaction) -> WriteOutcome | None:
        table, timeline = transaction.table, transaction.timeline
        view = table.view(timeline)
        known = set(view.partitions())
        named = {path: view.slices(path) for path in by_value & known}
        check_null_partitions(table.store, rules, named)
        # A missing file that is put back later must not restore rows of a deleted partition.
        damaged = damaged_groups(view, paths)
        ids = {
            path: (*(s.file_id for s in view.slices(path)), *damaged.get(path, ()))
            for path in paths
            if path in known or path in damaged
        }
        replaced = {path: file_ids for path, file_ids in ids.items() if file_ids}
        if not replaced:
            return None
        return WriteOutcome(
            operation=_OPERATION,
            schema_json=table.schema_json(timeline, table.effective_spec(timeline).columns),
            replaced=replaced,
            footprint=Footprint(overwritten=frozenset(replaced)),
        )

    services = partial(run_due_services, timing=timing)
    return run_write(
        handle,
        action=Action.REPLACECOMMIT,
        operation=_OPERATION,
        body=body,
        timing=timing,
        services=services,
    )


def _typed(values: Mapping[str, Any], kinds: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the values in the types of their columns. Values of unknown columns are unchanged.

    Raise InvalidDataError for a text that has no partition of its own, because its rows are in that of null.
    """
    typed = {
        name: partition_value(name, parse_type(kinds[name]), value) if name in kinds else value
        for name, value in values.items()
    }
    for name, value in typed.items():
        if value in NULL_FOLDER_TEXTS:
            raise InvalidDataError(
                "{column}={value!r} has no partition of its own: its rows are in that of null; delete "
                "them with match, or the whole partition by its path",
                column=name,
                value=str(value),
            )
    return typed


def partition_value(column: str, kind: ColumnType, value: Any) -> PartitionValue:
    """Return ``value`` as a value of the column's type ``kind``. None stands for null.

    Values of any class are accepted, and also their texts, if the value determines the folder name.

    Raises:
        InvalidDataError: If the value does not have that type, such as ``1.555`` for ``decimal(10,2)``, or
            could have several folder names.

    """
    if value is None:
        return None
    converted = _of_decimal(kind, value) if isinstance(kind, Decimal) else _of_primitive(str(kind), value)
    if converted is None:
        expected = f"a number that {kind} holds" if isinstance(kind, Decimal) else _expected(str(kind))
        raise InvalidDataError(
            "partition column {column!r} is {type} and cannot hold {found} of type {found_type}; pass "
            "{expected}, or give the partition by its path",
            column=column,
            type=str(kind),
            found=quoted_library_text(repr(value)),
            found_type=type(value).__name__,
            expected=expected,
        )
    return converted


def _expected(kind: str) -> str:
    """Return a phrase for the values that the type accepts, for errors."""
    return _EXPECTED.get(kind, "a whole number" if kind in _WHOLE else "what it holds")


def _of_primitive(kind: str, value: Any) -> PartitionValue:  # noqa: PLR0911 - a type, an answer
    text = isinstance(value, str)
    whole = _whole(value)
    day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    if text and (kind in ("string", "float", "double")):
        return str(value)
    if kind == "string":
        return str(value) if day else _plain_text(value)
    if kind == "timestamp" and isinstance(value, dt.datetime):
        return value
    if kind in _WHOLE or kind == "timestamp":
        return int(value) if text and _DIGITS.fullmatch(value) else whole
    if kind == "boolean" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if kind == "date" and (day or text):
        return value if day else _day(value)
    return None


def _whole(value: Any) -> int | None:
    """Return a number of any class as an int. Booleans and numbers that are not whole give None."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, Number) and value.is_finite() and value.adjusted() < _MOST_DIGITS:
        return int(value) if value == int(value) else None
    return None


def _plain_text(value: Any) -> str | None:
    """Return the text of a number or a boolean as Spark spells it.

    The result is None if Python writes the number with an exponent, or if the value is of another class.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Number):
        return str(value) if value.is_finite() and "E" not in str(value) else None
    return str(value) if isinstance(value, Integral) else None


def _day(text: str) -> dt.date | None:
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        return None


def _of_decimal(kind: Decimal, value: Any) -> Number | None:
    if isinstance(value, bool) or not isinstance(value, str | Integral | Number):
        return None
    with localcontext(prec=kind.precision) as context:
        context.traps[InvalidOperation] = True
        try:
            exact = Number(value if isinstance(value, str | Number) else int(value))
            stored = exact.quantize(Number(1).scaleb(-kind.scale))
        except InvalidOperation:
            return None
    # Decimals in rows have no negative zero.
    return (stored or stored.copy_abs()) if stored == exact else None
