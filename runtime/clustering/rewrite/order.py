"""The order in which clustering lays rows down, and places that cut it into ranges and files."""

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
    execution_strategy,
    plug_in_errors,
    values_of,
    whole,
)
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.clustering import ENCRYPT, PRUNE, STITCH, ExecutionPolicy

SAMPLE_ROWS: Final = 65_536
"""How many rows the quantiles of a group are taken from."""

SAMPLE_BYTES: Final = 8 * 1024 * 1024
"""The most Arrow bytes that a sample of a group takes where it is kept, or sent around."""

_KEY: Final = "k"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """An order of rows by an execution strategy and columns, dotted where they lie in structs.

    ``split_by`` comes before it all: rows that differ there never share a file. There is at least one
    column in either.
    """

    strategy: str
    columns: tuple[str, ...]
    split_by: tuple[str, ...] = ()

    @property
    def top_level(self) -> frozenset[str]:
        """The columns of the table that the order looks at."""
        return frozenset(name.partition(".")[0] for name in (*self.split_by, *self.columns))


def row_order(execution: ExecutionPolicy) -> RowOrder | None:
    """The order of an execution policy; None where rows stay as they come.

    InvalidDataError for a strategy or a step that is not known here.
    """
    unknown = sorted(set(execution.then) - {ENCRYPT, PRUNE})
    if unknown:
        raise InvalidDataError(
            f"clustering.execution.then: {unknown[0]!r} cannot be done; take it out of the spec"
        )
    if execution.strategy == STITCH:
        split = execution.split_by
        return RowOrder(strategy="sort", columns=(), split_by=split) if split else None
    execution_strategy(execution.strategy)
    if not execution.columns:
        raise InvalidDataError(
            f"clustering.execution: {execution.strategy} needs columns; name them, or use {STITCH}"
        )
    return RowOrder(strategy=execution.strategy, columns=execution.columns, split_by=execution.split_by)


def declared_order(order: RowOrder, schema: pa.Schema) -> tuple[str, ...]:
    """The leading columns by which the rows of a file are then in plain order, as its footer may say.

    Fields of structs cannot be named there, and readers do not agree on where NaN belongs.
    """
    named = order.split_by + (order.columns if order.strategy == "sort" else ())
    return tuple(takewhile(lambda name: _has_plain_order(schema, name), named))


def _has_plain_order(schema: pa.Schema, name: str) -> bool:
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return not (pa.types.is_nested(kind) or pa.types.is_floating(kind))


class OrderKeys:
    """Computes what rows are sorted by. ``sample`` are rows of the same kind.

    ``columns`` are those of the table that the order looks at, which come in one piece.
    InvalidDataError when a column is not there, or when a strategy of somebody else fails.
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
        """The columns to sort by, ascending, the first before the others."""
        with plug_in_errors(self._strategy):
            keys = [*(values_of(rows, name) for name in self._split_by), *self._keys_of(rows)]
            found = pa.table(keys, names=[f"{_KEY}{number}" for number in range(len(keys))])
            if found.num_rows != rows.num_rows:
                raise ValueError(f"{found.num_rows} sort keys for {rows.num_rows} rows")
            types = found.schema.types
            if nested := next((kind for kind in types if pa.types.is_nested(kind)), None):
                raise TypeError(f"a sort key of type {nested}, which has no order")
            if types != (self._types or types):
                raise TypeError(f"sort keys of types {_told(types)}, and of {_told(self._types)} for others")
            self._types = types
            return found


def _told(types: Sequence[pa.DataType]) -> str:
    return ", ".join(map(str, types))


def sort_indices(keys: pa.Table) -> pa.Array:
    """The row numbers in order; rows with equal keys stay as they are."""
    return pa.array(stable_order([whole(column) for column in keys.columns]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """Places that divide an order into ranges, by the keys of rows.

    Rows go behind a cut of ``before`` when they are not smaller, and behind one of ``behind`` when they
    are greater; the latter are keys that many rows share, which have a range of their own.
    """

    before: pa.Table
    behind: pa.Table
    single: frozenset[int]

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return int(self.before.num_rows) + int(self.behind.num_rows) + 1

    def divide(self, keys: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows in order, and where in that each range begins; one more for the end."""
        rows, first = keys.num_rows, self.before.num_rows
        together = pa.concat_tables([self.before, keys, self.behind]).combine_chunks()
        order = sort_indices(together).to_numpy().astype(np.int64)
        is_row = (order >= first) & (order < first + rows)
        seen = np.cumsum(is_row)
        starts = np.concatenate([[0], seen[~is_row], [rows]])
        return order[is_row] - first, starts


def boundaries_of(
    sample: pa.Table, ranges: int, *, weights: npt.NDArray[np.int64] | None = None
) -> Boundaries:
    """Cuts into about so many ranges of about the same weight, judged by the keys of a sample.

    ``weights`` are those of its rows, which count one each without.
    """
    order = sort_indices(sample)
    ordered = sample.take(order).combine_chunks()
    weighed = np.ones(len(order), np.int64) if weights is None else weights[order.to_numpy()]
    upto = np.cumsum(weighed)
    if ranges == 1 or not len(upto):
        return Boundaries(before=ordered.slice(0, 0), behind=ordered.slice(0, 0), single=frozenset())
    places = np.searchsorted(upto, np.arange(1, ranges) * upto[-1] // ranges, side="right")
    chosen = ordered.take(pa.array(places))
    same = _equals_next(chosen)
    is_first = np.concatenate([[True], ~same])
    is_shared = is_first & np.concatenate([same, [False]])
    single = np.flatnonzero(is_shared[is_first])
    return Boundaries(
        before=chosen.filter(pa.array(is_first)),
        behind=chosen.filter(pa.array(is_shared)),
        # Every cut opens a range; a shared key opens its own and, behind it, the next one.
        single=frozenset(int(number + place + 1) for place, number in enumerate(single)),
    )


def _equals_next(keys: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows sort as the next one does."""
    same = np.ones(keys.num_rows - 1, bool)
    for column in keys.columns:
        values = whole(column)
        if pa.types.is_floating(values.type):
            # Sorting takes 0.0 and -0.0 for equal, as it does any NaN and any other.
            values = pc.if_else(pc.is_nan(values), np.nan, pc.add(values, pa.scalar(0.0, values.type)))
        codes = values.dictionary_encode().indices
        codes = codes.fill_null(-1).to_numpy()
        same &= codes[1:] == codes[:-1]
    return same


def split_places(rows: pa.RecordBatch, before: pa.RecordBatch | None, order: RowOrder) -> list[int]:
    """Where rows begin that may not share a file with those in front of them, the last of ``before``."""
    if not order.split_by or not rows.num_rows:
        return []
    last = [] if before is None else [before.slice(before.num_rows - 1)]
    keys = _split_keys(pa.Table.from_batches([*last, rows]), order)
    changes = np.flatnonzero(~_equals_next(keys)) + 1 - len(last)
    return [int(place) for place in changes]


def values_apart(rows: pa.Table, order: RowOrder) -> int:
    """How many different values rows have that may not share a file."""
    if not order.split_by or not rows.num_rows:
        return int(rows.num_rows > 0)
    keys = _split_keys(rows, order)
    return int(np.count_nonzero(~_equals_next(keys.take(sort_indices(keys)).combine_chunks()))) + 1


def _split_keys(rows: pa.Table, order: RowOrder) -> pa.Table:
    return pa.table([values_of(rows, name) for name in order.split_by], names=list(order.split_by))


def gathered(pieces: list[pa.RecordBatch]) -> pa.Table:
    """The rows of all batches, at least one, in one piece; the list lets go of them.

    Column by column, so that no more than one of them is there twice.
    """
    rows = pa.Table.from_batches(pieces)
    pieces.clear()
    schema, columns = rows.schema, rows.columns
    del rows
    columns.reverse()
    return pa.Table.from_arrays([in_one_piece(columns.pop()) for _ in schema], schema=schema)


def in_one_piece(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, dictionaries of its pieces united."""
    return whole(pa.table([column], names=[_KEY]).combine_chunks().column(0))
