"""Samples of the rows and keys that fail a test; only the requested number of them leaves Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.keys import quoted
from parquetry.runtime.spark.testing.checks import RowCheck, shown_keys
from parquetry.runtime.spark.testing.counting import TestedTable
from parquetry.runtime.spec.row_tests import FailingKeys
from parquetry.text.secret_names import MASK

_MOST_CHARACTERS: Final = 200
"""The limit of characters of a value."""

_MOST_COLUMNS: Final = 20
"""The limit of columns for a table without a record key."""


def failing_keys(
    table: TestedTable, check: RowCheck, *, key: Sequence[str], personal: Collection[str], most: int
) -> FailingKeys:
    """Return up to ``most`` failing keys or rows, in no order.

    A test of uniqueness or of a relationship gives its own keys. Other tests give the record keys of failing
    rows.

    Args:
        table: The table.
        check: The test.
        key: The columns of the record key; if empty, the first columns of the table are shown.
        personal: The lower case names of the columns to mask.
        most: The limit of keys.

    """
    names, frame = _failing(table, check, key or [column.name for column in table.columns[:_MOST_COLUMNS]])
    hidden = [name.partition(".")[0].lower() in personal for name in names]
    with failures_translated(f"failing keys of test {check.test.name}", of_table=True):
        rows = frame.limit(most).collect()
    return FailingKeys(
        columns=tuple(names),
        rows=tuple(
            tuple(_shown(value, is_hidden=hides) for value, hides in zip(row, hidden, strict=True))
            for row in rows
        ),
    )


def _failing(table: TestedTable, check: RowCheck, key: Sequence[str]) -> tuple[list[str], DataFrame]:
    """Return the names of the shown columns, and a frame with failing keys or rows.

    A check of keys gives its own keys, and any other check the record keys of the failing rows.
    """
    rows = table.rows(check.test.files)
    if not check.keys:
        broken = F.greatest(*(F.when(one, 1).otherwise(0) for one in (*check.violations, F.lit(0) > 0))) > 0
        return [*key], rows.where(broken).select(*shown_keys(key))
    names = [*check.test.columns]
    keys = [one.alias(f"k{number}") for number, one in enumerate(check.keys)]
    counted = rows.select(*keys).dropna().groupBy(*(f"k{n}" for n in range(len(keys)))).count()
    if check.others is not None:
        there = check.others.distinct()
        counted = counted.join(there, [f"k{number}" for number in range(len(keys))], "left_anti")
    else:
        counted = counted.where("count > 1")
    shown = [F.col(quoted(f"k{number}")).cast("string") for number in range(len(keys))]
    return names, counted.select(*shown)


def _shown(value: str | None, *, is_hidden: bool) -> str | None:
    """Return the value as text, or a mask if it is hidden."""
    if value is None or not is_hidden:
        return value if value is None or len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]}..."
    return MASK
