"""The row order of a clustering, and the boundaries that divide it into ranges and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.clustering.rewrite.stable_order import stable_order
from parquetry.runtime.clustering.rewrite.strategies import (
    as_one_array,
    execution_strategy,
    plug_in_errors,
    values_of,
)
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.clustering import ENCRYPT, PRUNE, STITCH, ExecutionPolicy

SAMPLE_ROWS: Final = 65_536
"""The number of rows from which the quantiles of a group are taken."""

SAMPLE_BYTES: Final = 8 * 1024 * 1024
"""The largest size of a group's sample in Arrow bytes, where it is stored or sent to tasks."""

_KEY: Final = "k"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The row order of an execution strategy over columns; fields of structs have dotted names.

    ``split_by`` takes precedence: rows with different values of these columns never share a file. At least
    one of ``columns`` and ``split_by`` is not empty.
    """

    strategy: str
    columns: tuple[str, ...]
    split_by: tuple[str, ...] = ()

    @property
    def top_level(self) -> frozenset[str]:
        """The top-level columns that the order uses."""
        return frozenset(name.partition(".")[0] for name in (*self.split_by, *self.columns))


def row_order(execution: ExecutionPolicy) -> RowOrder | None:
    """Return the row order of an execution policy, or None if rows keep their order.

    Raises:
        InvalidDataError: If the strategy or a step is unknown, or columns are missing.

    """
    unknown = sorted(set(execution.then) - {ENCRYPT, PRUNE})
    if unknown:
        raise InvalidDataError(
            "clustering.execution.then: the step {step!r} is unknown; remove it from the spec",
            step=unknown[0],
        )
    if execution.strategy == STITCH:
        split = execution.split_by
        return RowOrder(strategy="sort", columns=(), split_by=split) if split else None
    execution_strategy(execution.strategy)
    if not execution.columns:
        raise InvalidDataError(
            "clustering.execution: {strategy} needs columns; name them, or use {alternative}",
            strategy=execution.strategy,
            alternative=STITCH,
        )
    return RowOrder(strategy=execution.strategy, columns=execution.columns, split_by=execution.split_by)


def declared_order(order: RowOrder, schema: pa.Schema) -> tuple[str, ...]:
    """Return the leading columns by which the rows of a file are sorted, to be recorded in its footer.

    The list ends before the first column that a footer cannot describe: fields of structs have no name there,
    and readers do not agree on the position of NaN.
    """
    named = order.split_by + (order.columns if order.strategy == "sort" else ())
    return tuple(takewhile(lambda name: _has_plain_order(schema, name), named))


def _has_plain_order(schema: pa.Schema, name: str) -> bool:
    """Return whether a footer can describe the order of the column."""
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind))


class OrderKeys:
    """Computes the sort keys of rows, ranked by a ``sample`` with the same columns.

    ``columns`` are the top-level columns that the order uses, which have to be in one piece. If a column is
    missing, or a plug-in strategy fails, InvalidDataError is raised.
    """

    def __init__(self, order: RowOrder, sample: pa.Table) -> None:
        self.columns = order.top_level
        self._split_by = order.split_by
        self._strategy = order.strategy
        self._types: list[pa.DataType] = []
        strategy = execution_strategy(order.strategy)
        with plug_in_errors(order.strategy):
            self._keys_of = strategy(order.columns, sample)

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the key columns of the rows, to sort by in ascending order, the first one first."""
        with plug_in_errors(self._strategy):
            keys = [*(values_of(rows, name) for name in self._split_by), *self._keys_of(rows)]
            table = pa.table(keys, names=[f"{_KEY}{number}" for number in range(len(keys))])
            if table.num_rows != rows.num_rows:
                raise ValueError(f"it returned {table.num_rows} sort keys for {rows.num_rows} rows")
            types = table.schema.types
            if nested := next((kind for kind in types if pa.types.is_nested(kind)), None):
                raise TypeError(f"it returned a sort key of type {nested}, which has no order")
            if types != (self._types or types):
                raise TypeError(
                    f"it returned sort keys of types {_type_names(types)}, but {_type_names(self._types)} "
                    "for other rows"
                )
            self._types = types
            return table


def _type_names(types: Sequence[pa.DataType]) -> str:
    return ", ".join(map(str, types))


def sort_indices(keys: pa.Table) -> pa.Array:
    """Return the row numbers in ascending order of their keys; rows with equal keys keep their order."""
    return pa.array(stable_order([as_one_array(column) for column in keys.columns]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """The boundaries that divide an order into ranges, as keys of rows.

    A row is after a boundary in ``before_keys`` if its key is not smaller, and after a boundary in
    ``after_keys`` if its key is greater. The keys in ``after_keys`` are shared by many rows. Each of these
    has a range of its own, and ``shared_ranges`` has the numbers of these ranges.
    """

    before_keys: pa.Table
    after_keys: pa.Table
    shared_ranges: frozenset[int]

    @property
    def ranges(self) -> int:
        """The number of ranges."""
        return int(self.before_keys.num_rows) + int(self.after_keys.num_rows) + 1

    def divide(self, keys: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the row numbers in order, and the start of each range in them, followed by the end."""
        rows, first = keys.num_rows, self.before_keys.num_rows
        together = pa.concat_tables([self.before_keys, keys, self.after_keys]).combine_chunks()
        order = sort_indices(together).to_numpy().astype(np.int64)
        is_row = (order >= first) & (order < first + rows)
        seen = np.cumsum(is_row)
        starts = np.concatenate([[0], seen[~is_row], [rows]])
        return order[is_row] - first, starts


def boundaries_of(
    sample: pa.Table, ranges: int, *, weights: npt.NDArray[np.int64] | None = None
) -> Boundaries:
    """Return the boundaries of about ``ranges`` ranges of equal weight, from the keys of a sample.

    Args:
        sample: The keys of the sample.
        ranges: The number of ranges.
        weights: The weight of each sampled row, 1 by default.

    """
    order = sort_indices(sample)
    ordered = sample.take(order).combine_chunks()
    weighed = np.ones(len(order), np.int64) if weights is None else weights[order.to_numpy()]
    upto = np.cumsum(weighed)
    if ranges == 1 or not len(upto):
        return Boundaries(
            before_keys=ordered.slice(0, 0), after_keys=ordered.slice(0, 0), shared_ranges=frozenset()
        )
    positions = np.searchsorted(upto, np.arange(1, ranges) * upto[-1] // ranges, side="right")
    chosen = ordered.take(pa.array(positions))
    same = _equals_next(chosen)
    is_first = np.concatenate([[True], ~same])
    is_shared = is_first & np.concatenate([same, [False]])
    shared = np.flatnonzero(is_shared[is_first])
    return Boundaries(
        before_keys=chosen.filter(pa.array(is_first)),
        after_keys=chosen.filter(pa.array(is_shared)),
        # Each boundary starts a range. A shared key starts its own range and, after it, the next one.
        shared_ranges=frozenset(int(number + position + 1) for position, number in enumerate(shared)),
    )


def _equals_next(keys: pa.Table) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows whose keys equal those of the next row."""
    same = np.ones(keys.num_rows - 1, bool)
    for column in keys.columns:
        values = as_one_array(column)
        if pa.types.is_floating(values.type):
            # Sorting treats 0.0 and -0.0 as equal, and also all NaN values.
            values = pc.if_else(pc.is_nan(values), np.nan, pc.add(values, pa.scalar(0.0, values.type)))
        codes = values.dictionary_encode().indices
        codes = codes.fill_null(-1).to_numpy()
        same &= codes[1:] == codes[:-1]
    return same


def split_starts(rows: pa.RecordBatch, before: pa.RecordBatch | None, order: RowOrder) -> list[int]:
    """Return the positions of rows that may not share a file with the row before them.

    The first row is compared with the last row of ``before``.
    """
    if not order.split_by or not rows.num_rows:
        return []
    last = [] if before is None else [before.slice(before.num_rows - 1)]
    keys = _split_keys(pa.Table.from_batches([*last, rows]), order)
    changes = np.flatnonzero(~_equals_next(keys)) + 1 - len(last)
    return [int(start) for start in changes]


def split_value_count(rows: pa.Table, order: RowOrder) -> int:
    """Return the number of distinct ``split_by`` values, which may not share a file."""
    if not order.split_by or not rows.num_rows:
        return int(rows.num_rows > 0)
    keys = _split_keys(rows, order)
    return int(np.count_nonzero(~_equals_next(keys.take(sort_indices(keys)).combine_chunks()))) + 1


def _split_keys(rows: pa.Table, order: RowOrder) -> pa.Table:
    return pa.table([values_of(rows, name) for name in order.split_by], names=list(order.split_by))


def gathered(pieces: list[pa.RecordBatch]) -> pa.Table:
    """Return the rows of all batches, at least one, in one piece. The list of batches is emptied.

    It copies column by column, so that at most one column is in memory twice.
    """
    rows = pa.Table.from_batches(pieces)
    pieces.clear()
    schema, columns = rows.schema, rows.columns
    del rows
    columns.reverse()
    return pa.Table.from_arrays([in_one_piece(columns.pop()) for _ in schema], schema=schema)


def in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array, with the dictionaries of its chunks unified."""
    return as_one_array(pa.table([column], names=[_KEY]).combine_chunks().column(0))
