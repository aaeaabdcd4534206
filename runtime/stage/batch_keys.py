"""The record keys of a small staged batch, and the winning row of each key, as tasks read them.

This module does not import Spark. The winning rows equal those of
:func:`~parquetry.runtime.spark.lookup.tagging.winners`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.message import Value
from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.location import StageLocation
from parquetry.runtime.stage.part import ARRIVAL, PARTITION, REFERENCE, keys_name
from parquetry.runtime.storage.parallel import map_each


@dataclass(frozen=True, kw_only=True)
class BatchKeys:
    """The keys files of the task attempts ``names``, read once.

    If ``partitioned``, keys are unique within partitions, otherwise within the table.
    """

    location: StageLocation
    names: tuple[str, ...]
    partitioned: bool
    columns: tuple[str, ...] | None = None
    """The columns to read; None for all, which ``winners`` needs."""
    refuses_ties: bool = False

    def distinct(self, partition: str) -> pa.Array:
        """Return the distinct keys of a partition, sorted as UTF-8 bytes.

        If keys are unique within the table, the keys of all partitions are returned.
        """
        if not self.partitioned:
            return self._distinct
        numbers = self._row_numbers.get(partition)
        return _sorted_once(
            self._rows.column(RECORD_KEY).take(pa.array([] if numbers is None else numbers, pa.int64()))
        )

    def winners(self, partition: str) -> pa.Table:
        """Return :func:`winning_rows` of a partition, or of all partitions if keys are unique per table."""
        if not self.partitioned:
            return winning_rows(self._rows, refuses_ties=self.refuses_ties)
        if partition not in self._row_numbers:
            return self._rows.slice(0, 0)
        rows = self._rows.take(pa.array(self._row_numbers[partition]))
        return winning_rows(rows, refuses_ties=self.refuses_ties)

    @cached_property
    def _distinct(self) -> pa.Array:
        return _sorted_once(self._rows.column(RECORD_KEY))

    @cached_property
    def _rows(self) -> pa.Table:
        return pa.concat_tables(key_tables(self.location, self.names, self.columns)).combine_chunks()

    @cached_property
    def _row_numbers(self) -> dict[str, npt.NDArray[np.int64]]:
        """The row numbers of each partition."""
        codes = pc.dictionary_encode(self._rows.column(PARTITION)).combine_chunks()
        numbers = codes.indices.to_numpy()
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(codes.dictionary)), side="right")
        return dict(zip(codes.dictionary.to_pylist(), np.split(order, ends[:-1]), strict=True))


def _sorted_once(keys: pa.ChunkedArray) -> pa.Array:
    """Return the distinct keys, sorted as UTF-8 bytes."""
    unique = pc.unique(keys)
    return unique.take(pc.sort_indices(unique))


def key_tables(
    location: StageLocation, names: Sequence[str], columns: Sequence[str] | None = None
) -> list[pa.Table]:
    """Read the keys files of the task attempts, or some of their columns, in parallel."""
    files = map_each(names, lambda name: location.read(keys_name(name)))
    return [read_parquet(pa.BufferReader(file), columns) for file in files]


def merged_keys(location: StageLocation, names: Sequence[str]) -> str:
    """Write the contents of all keys files to one file, which later tasks open instead; return its name."""
    rows = pa.concat_tables(key_tables(location, names))
    name = uuid.uuid4().hex
    with location.create(keys_name(name)) as sink:
        pq.write_table(rows, sink, compression="snappy", use_dictionary=[PARTITION], store_schema=False)
    return name


def winning_rows(rows: pa.Table, *, refuses_ties: bool = False) -> pa.Table:
    """Return the winning row of every key, sorted by key.

    If the rows have an order of arrival, the rows of a key are folded in this order. A row replaces the row
    before it, unless that row has a greater ordering value. After a delete, any row is new. So all rows after
    the last one with the greatest value are late, unless that one is a delete: then the same rule applies to
    the rows after it. The result gets the greatest ordering value, with which it is compared with a stored
    row.

    Without such an order, the row with the largest ordering value wins; among equal values a delete wins,
    then the larger hash. Equal rows are ordered by their reference, then by their partition. A null ordering
    value is the smallest, NaN the greatest.

    Raises:
        InvalidDataError: If ``refuses_ties`` and only a delete flag or a hash distinguishes rows of a key.
    """
    keys = rows.column(RECORD_KEY)
    if pc.count_distinct(keys).as_py() == rows.num_rows:
        return rows.take(pc.sort_indices(keys))
    if ARRIVAL in rows.column_names:
        return _folded(rows)
    ordering = list(_ordering_ranks(rows.column(ORDERING))) if ORDERING in rows.column_names else []
    deletes = pc.cast(rows.column(DELETE), pa.int8())
    order = _sorted_indices(
        [keys, *ordering, deletes, *(rows.column(n) for n in (HASH, REFERENCE, PARTITION))]
    )
    ordered = rows.take(order)
    is_last = np.append(_differs([ordered.column(RECORD_KEY)]), True)
    if refuses_ties:
        firsts = np.flatnonzero(
            np.append([True], _differs([values.take(order) for values in (keys, *ordering)]))
        )
        lasts = np.append(firsts[1:], ordered.num_rows) - 1
        firsts, lasts = firsts[is_last[lasts]], lasts[is_last[lasts]]
        is_delete, hashes = ordered.column(DELETE).to_numpy(), ordered.column(HASH).to_numpy()
        are_tied = ~is_delete[firsts] & (is_delete[lasts] | (hashes[firsts] != hashes[lasts]))
        if are_tied.any():
            raise tied_rows(ordered.column(RECORD_KEY)[int(firsts[are_tied][0])].as_py())
    return ordered.filter(pa.array(is_last))


def tied_rows(key: str) -> InvalidDataError:
    """Return the error for rows with the same key of which no rule determines the winner."""
    return InvalidDataError(
        "rows with the record key {key} differ, and no rule decides which of them wins, as the rows of "
        "a query have no order; let the query return one row per key, declare an ordering column in "
        "which they differ, or accept any of them (ties: any)",
        key=Value.record_key(key),
    )


def _folded(rows: pa.Table) -> pa.Table:
    """Return the row of every key that is valid after all its rows, in order of arrival.

    Its ordering value is the greatest of the key.
    """
    order = _sorted_indices([rows.column(RECORD_KEY), rows.column(ARRIVAL)])
    rows = rows.take(order)
    is_last = np.append(_differs([rows.column(RECORD_KEY)]), True)
    if ORDERING not in rows.column_names:
        return rows.filter(pa.array(is_last))
    by_rank = _sorted_indices(list(_ordering_ranks(rows.column(ORDERING))))
    ranked = list(_ordering_ranks(rows.column(ORDERING).take(by_rank)))
    ranks = np.empty(rows.num_rows, np.int64)
    ranks[by_rank.to_numpy()] = np.concatenate([[1], 1 + np.cumsum(_differs(ranked))])
    # Go from the last row to the first. The ranks of each key are shifted, so that those of a key that was
    # already seen are smaller than any rank of the next key.
    ranks = (np.cumsum(is_last[::-1]) * (rows.num_rows + 1) + ranks[::-1])[::-1]
    seen = np.append(np.maximum.accumulate(ranks[::-1])[::-1][1:], 0)
    candidates = np.flatnonzero(ranks > seen)
    # The candidates of a key have descending ranks. The first has the greatest value, and the first that is
    # not a delete is the final row.
    groups = np.cumsum(np.append([0], is_last[:-1]))[candidates]
    firsts = np.flatnonzero(np.append([True], groups[1:] != groups[:-1]))
    deletes = rows.column(DELETE).to_numpy()[candidates]
    kept = np.where(deletes, len(candidates), np.arange(len(candidates)))
    chosen = np.minimum.reduceat(kept, firsts)
    chosen = np.where(chosen < len(candidates), chosen, firsts)
    folded = rows.take(pa.array(candidates[chosen]))
    greatest = rows.column(ORDERING).take(pa.array(candidates[firsts]))
    number = folded.schema.get_field_index(ORDERING)
    return folded.set_column(number, folded.schema.field(number), greatest)


def _sorted_indices(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    ranked = pa.table({f"{number}": values for number, values in enumerate(columns)})
    return pc.sort_indices(ranked, sort_keys=[(name, "ascending") for name in ranked.column_names])


def _differs(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.bool_]:
    """Return, for every row but the first, whether it differs from the previous row in one of the columns."""
    differs = np.zeros(max(len(columns[0]) - 1, 0), bool)
    for column in columns:
        equal = pc.equal(column[:-1], column[1:])
        are_null = pc.and_(pc.is_null(column[:-1]), pc.is_null(column[1:]))
        differs |= ~pc.or_(pc.fill_null(equal, False), are_null).to_numpy()  # noqa: FBT003 - pyarrow's signature
    return differs


def is_rankable(kind: pa.DataType) -> bool:
    """Return whether values of the type can be ranked here; Spark also ranks structs and lists."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def _ordering_ranks(values: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Yield the sort columns of ordering values, which place nulls first and NaN last."""
    yield pc.cast(pc.is_valid(values), pa.int8())
    if pa.types.is_floating(values.type):
        not_a_number = pc.is_nan(values)
        yield pc.cast(not_a_number, pa.int8())
        yield pc.if_else(not_a_number, pa.scalar(0.0, values.type), values)
    elif pa.types.is_boolean(values.type):
        yield pc.cast(values, pa.int8())
    else:
        yield values


def references(tables: Sequence[pa.Table]) -> npt.NDArray[np.int64]:
    """Return the column of references of all rows of the tables, in one array."""
    found = [table.column(REFERENCE).to_numpy() for table in tables]
    return np.concatenate(found) if found else np.empty(0, np.int64)
