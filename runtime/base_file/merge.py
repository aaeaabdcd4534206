"""Updates, deletes and inserts: the rows of the next version of a base file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.arrow.columns import are_surely_same, values_at
from parquetry.runtime.arrow.conform import conform
from parquetry.runtime.base_file.incoming import IncomingRows
from parquetry.runtime.base_file.model import DELETE, ORDERING, POSITION
from parquetry.runtime.base_file.rows import RowOrigin, RowStamper, one_batch, with_origin
from parquetry.runtime.spec.meta_columns import COMMIT_SEQNO, COMMIT_TIME

_ROWS_PER_RUN: Final = 512
"""If the rows between two changes are at least this many, slices are cheaper than gathering single rows."""

_PROBED_ROWS: Final = 64

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """The numbers of the stored rows that are updated and deleted.

    ``rows`` are the new versions of the updated rows, in the order of ``updated``.
    """

    updated: Rows
    deleted: Rows
    rows: pa.RecordBatch


@dataclass(slots=True, kw_only=True)
class Merger:
    """Decides between stored and incoming rows, and counts the rows that are deleted and those that lose.

    If both rows have an ordering value, the greater one wins; null is the smallest and NaN the greatest
    value. On a tie the incoming row wins. A delete that loses does not delete. Without an ``ordering``
    column, which may be a field within structs, every incoming row wins. ``late`` counts the incoming rows
    that lost; ``changed`` is set once an incoming row has won or was inserted.
    """

    stamper: RowStamper
    ordering: str | None
    deleted: int = 0
    late: int = 0
    changed: bool = False

    def decide(self, stored: pa.RecordBatch, first: int, incoming: pa.RecordBatch) -> RowChanges:
        """Decide which incoming rows win, count the others, and return the changes to the stored rows.

        Args:
            stored: Consecutive rows of the base file.
            first: The number of the first stored row in the file.
            incoming: Rows whose positions are all within the stored rows.
        """
        positions: Rows = incoming.column(POSITION).to_numpy() - first
        wins = self._wins(stored, positions, incoming)
        deletes = incoming.column(DELETE).fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        updated, deleted = positions[wins & ~deletes], positions[wins & deletes]
        self.deleted += len(deleted)
        winners = incoming if len(updated) == len(positions) else incoming.filter(pa.array(wins & ~deletes))
        rows = self.stamper.stamp(winners, stored.schema)
        return RowChanges(updated=updated, deleted=deleted, rows=rows)

    def decide_deletes(self, stored: pa.RecordBatch, first: int, incoming: pa.RecordBatch) -> Rows:
        """Decide as :meth:`decide` if all incoming rows are deletes; return which stored rows to remove."""
        positions: Rows = incoming.column(POSITION).to_numpy() - first
        removed = positions[self._wins(stored, positions, incoming)]
        self.deleted += len(removed)
        return removed

    def _wins(
        self, stored: pa.RecordBatch, positions: Rows, incoming: pa.RecordBatch
    ) -> npt.NDArray[np.bool_]:
        """Return which incoming rows win against the rows at ``positions``, and count the others as late."""
        if self.ordering is None:
            self.changed = self.changed or len(positions) > 0
            return np.ones(len(positions), bool)
        stored_ordering = values_at(stored, self.ordering).take(pa.array(positions))
        if ORDERING in incoming.schema.names:
            ordering = conform(incoming.column(ORDERING), stored_ordering.type)
        else:
            ordering = values_at(incoming, self.ordering)
        wins = ~_is_greater(stored_ordering, ordering)
        self.late += len(positions) - int(wins.sum())
        self.changed = self.changed or bool(wins.any())
        return wins

    def inserted(self, incoming: IncomingRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have no position and are no deletes, with INSERTED as their origin."""
        for batch in incoming.take_rest():
            deleted = batch.column(DELETE)
            rows = batch
            if deleted.true_count:
                rows = batch.filter(pc.invert(deleted.fill_null(False)))  # noqa: FBT003 - pyarrow's signature
            if rows.num_rows:
                self.changed = True
                yield with_origin(self.stamper.stamp(rows, schema), RowOrigin.INSERTED)


def apply_changes(stored: pa.RecordBatch, changes: RowChanges) -> pa.RecordBatch:
    """Return the stored rows in order with the changes applied, and with the origin of each row."""
    runs = len(changes.updated) + len(changes.deleted)
    if not runs:
        return with_origin(stored, RowOrigin.COPIED)
    if not len(changes.updated):
        return with_origin(without_rows(stored, changes.deleted), RowOrigin.COPIED)
    replace = _by_slices if stored.num_rows >= _ROWS_PER_RUN * runs else _by_gathering
    return replace(stored, changes.rows, changes.updated, changes.deleted)


def without_rows(stored: pa.RecordBatch, removed: Rows) -> pa.RecordBatch:
    """Return the stored rows in order, except the rows with the numbers ``removed``."""
    kept = np.ones(stored.num_rows, bool)
    kept[removed] = False
    return stored.filter(pa.array(kept))


def unchanged_columns(stored: pa.RecordBatch, changes: RowChanges) -> list[str]:
    """Return the columns in which no update changes a value, never commit time or sequence number."""
    first = pa.array(changes.updated[:_PROBED_ROWS])
    every = pa.array(changes.updated)
    return [
        name
        for name, old, new in zip(stored.schema.names, stored.columns, changes.rows.columns, strict=True)
        if name not in {COMMIT_TIME, COMMIT_SEQNO}
        and are_surely_same(old.take(first), new[:_PROBED_ROWS])
        and are_surely_same(old.take(every), new)
    ]


def _is_greater(stored: pa.Array, incoming: pa.Array) -> npt.NDArray[np.bool_]:
    """Return where the stored ordering value is greater; null is the smallest value and NaN the greatest."""
    later = pc.greater(stored, incoming)
    if pa.types.is_floating(stored.type):
        later = pc.or_(later, pc.and_(pc.is_nan(stored), pc.invert(pc.is_nan(incoming))))
    later = later.fill_null(False)  # noqa: FBT003 - pyarrow's signature
    beats_null = pc.and_(stored.is_valid(), incoming.is_null())
    answer: npt.NDArray[np.bool_] = pc.or_(later, beats_null).to_numpy(zero_copy_only=False)
    return answer


def _by_gathering(
    batch: pa.RecordBatch, changed: pa.RecordBatch, updated: Rows, deleted: Rows
) -> pa.RecordBatch:
    rows = np.arange(batch.num_rows)
    rows[updated] = batch.num_rows + np.arange(changed.num_rows)
    origins = np.full(batch.num_rows, RowOrigin.COPIED, np.int8)
    origins[updated] = RowOrigin.UPDATED
    if len(deleted):
        rows = np.delete(rows, deleted)
        origins = np.delete(origins, deleted)
    indices = pa.array(rows)
    columns = [
        pa.concat_arrays([old, new]).take(indices)
        for old, new in zip(batch.columns, changed.columns, strict=True)
    ]
    return with_origin(pa.RecordBatch.from_arrays(columns, schema=batch.schema), pa.array(origins))


def _by_slices(
    batch: pa.RecordBatch, changed: pa.RecordBatch, updated: Rows, deleted: Rows
) -> pa.RecordBatch:
    copied, fresh = _sharing_dictionaries(
        with_origin(batch, RowOrigin.COPIED), with_origin(changed, RowOrigin.UPDATED)
    )
    replaced = dict(zip(updated.tolist(), range(len(updated)), strict=True))
    slices = []
    start = 0
    for row in np.sort(np.concatenate([updated, deleted])).tolist():
        slices.append(copied.slice(start, row - start))
        if row in replaced:
            slices.append(fresh.slice(replaced[row], 1))
        start = row + 1
    slices.append(copied.slice(start))
    return one_batch(slices)


def _sharing_dictionaries(
    first: pa.RecordBatch, second: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the same rows, with one dictionary per column that both batches refer to."""
    columns = [
        _sharing_dictionary(one, other) if pa.types.is_dictionary(one.type) else (one, other)
        for one, other in zip(first.columns, second.columns, strict=True)
    ]
    return (
        pa.RecordBatch.from_arrays([one for one, _ in columns], schema=first.schema),
        pa.RecordBatch.from_arrays([other for _, other in columns], schema=second.schema),
    )


def _sharing_dictionary(one: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    both = pa.concat_arrays([one, other])
    return both[: len(one)], both[len(one) :]
