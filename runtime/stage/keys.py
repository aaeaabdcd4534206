"""The keys of a small staged batch, as tasks read them: of each partition the rows that count.

Nothing of Spark is imported. The rows that count are those of
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

from parquetry.message import Message, Value
from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import ARRIVAL, PARTITION, REFERENCE, keys_name
from parquetry.runtime.stage.place import StagePlace
from parquetry.runtime.storage.parallel import map_each


@dataclass(frozen=True, kw_only=True)
class BatchKeys:
    """Keys files of the task attempts ``names``, read once; ``partitioned``: keys count within partitions."""

    place: StagePlace
    names: tuple[str, ...]
    partitioned: bool
    columns: tuple[str, ...] | None = None
    """The columns that are read; None for all, which ``winners`` needs."""
    refuses_ties: bool = False

    def distinct(self, partition: str) -> pa.Array:
        """The keys, each once, sorted as UTF-8 bytes; of all partitions when keys count everywhere."""
        if not self.partitioned:
            return self._distinct
        at = self._places.get(partition)
        return _sorted_once(
            self._rows.column(RECORD_KEY).take(pa.array([] if at is None else at, pa.int64()))
        )

    def winners(self, partition: str) -> pa.Table:
        """Return :func:`winning_rows` of a partition; of all partitions when keys count everywhere."""
        if not self.partitioned:
            return winning_rows(self._rows, refuses_ties=self.refuses_ties)
        if partition not in self._places:
            return self._rows.slice(0, 0)
        rows = self._rows.take(pa.array(self._places[partition]))
        return winning_rows(rows, refuses_ties=self.refuses_ties)

    @cached_property
    def _distinct(self) -> pa.Array:
        return _sorted_once(self._rows.column(RECORD_KEY))

    @cached_property
    def _rows(self) -> pa.Table:
        return pa.concat_tables(key_tables(self.place, self.names, self.columns)).combine_chunks()

    @cached_property
    def _places(self) -> dict[str, npt.NDArray[np.int64]]:
        """The numbers of each partition's rows."""
        codes = pc.dictionary_encode(self._rows.column(PARTITION)).combine_chunks()
        numbers = codes.indices.to_numpy()
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(len(codes.dictionary)), side="right")
        return dict(zip(codes.dictionary.to_pylist(), np.split(order, ends[:-1]), strict=True))


def _sorted_once(keys: pa.ChunkedArray) -> pa.Array:
    unique = pc.unique(keys)
    return unique.take(pc.sort_indices(unique))


def key_tables(
    place: StagePlace, names: Sequence[str], columns: Sequence[str] | None = None
) -> list[pa.Table]:
    """The keys files of task attempts, whole or some columns of them; read side by side."""
    files = map_each(names, lambda name: place.read(keys_name(name)))
    return [read_parquet(pa.BufferReader(file), columns) for file in files]


def merged_keys(place: StagePlace, names: Sequence[str]) -> str:
    """The name of one keys file with the rows of all these; for who would read many of them often."""
    rows = pa.concat_tables(key_tables(place, names))
    name = uuid.uuid4().hex
    with place.create(keys_name(name)) as sink:
        pq.write_table(rows, sink, compression="snappy", use_dictionary=[PARTITION], store_schema=False)
    return name


def winning_rows(rows: pa.Table, *, refuses_ties: bool = False) -> pa.Table:
    """Return the row that counts of every key, sorted by key.

    With an order of arrival, the rows of a key are folded in it: a row replaces one before it unless that has
    a greater ordering value, and behind a delete any row is a new one. So all rows behind the last one with
    the greatest value are late, unless it deletes: then the same holds for those that follow. The ordering
    value of what comes out is that greatest one, by which it is compared with a stored row.

    Without such an order the row with the largest ordering value counts, of several a delete, then the larger
    hash; equal rows are told apart by their reference, and then by their partition. A null ordering value
    is the smallest, NaN the greatest.

    Raises InvalidDataError if it ``refuses_ties`` and rows of a key are told apart by no more than a delete
    flag or a hash.
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
    """Return the error for rows of a key of which nothing says which one counts."""
    return InvalidDataError(
        Message(
            "rows with the record key ",
            Value.record_key(key),
            " differ, and nothing says which of them counts: rows of a query have no order; let the query "
            "give one row per key, declare an ordering column in which they differ, or take any of them "
            "(ties: any)",
        )
    )


def _folded(rows: pa.Table) -> pa.Table:
    order = _sorted_indices([rows.column(RECORD_KEY), rows.column(ARRIVAL)])
    rows = rows.take(order)
    is_last = np.append(_differs([rows.column(RECORD_KEY)]), True)
    if ORDERING not in rows.column_names:
        return rows.filter(pa.array(is_last))
    by_rank = _sorted_indices(list(_ordering_ranks(rows.column(ORDERING))))
    ranked = list(_ordering_ranks(rows.column(ORDERING).take(by_rank)))
    ranks = np.empty(rows.num_rows, np.int64)
    ranks[by_rank.to_numpy()] = np.concatenate([[1], 1 + np.cumsum(_differs(ranked))])
    # From the last row to the first: ranks of a key that was seen before are smaller than any of the next.
    ranks = (np.cumsum(is_last[::-1]) * (rows.num_rows + 1) + ranks[::-1])[::-1]
    seen = np.append(np.maximum.accumulate(ranks[::-1])[::-1][1:], 0)
    candidates = np.flatnonzero(ranks > seen)
    # Those of a key have falling ranks: the first says whether any counts, and the first that is no delete is
    # what is there in the end.
    groups = np.cumsum(np.append([0], is_last[:-1]))[candidates]
    firsts = np.flatnonzero(np.append([True], groups[1:] != groups[:-1]))
    deletes = rows.column(DELETE).to_numpy()[candidates]
    kept = np.where(deletes, len(candidates), np.arange(len(candidates)))
    chosen = np.minimum.reduceat(kept, firsts)
    chosen = np.where(chosen < len(candidates), chosen, firsts)
    folded = rows.take(pa.array(candidates[chosen]))
    greatest = rows.column(ORDERING).take(pa.array(candidates[firsts]))
    at = folded.schema.get_field_index(ORDERING)
    return folded.set_column(at, folded.schema.field(at), greatest)


def _sorted_indices(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    ranked = pa.table({f"{number}": values for number, values in enumerate(columns)})
    return pc.sort_indices(ranked, sort_keys=[(name, "ascending") for name in ranked.column_names])


def _differs(columns: Sequence[pa.ChunkedArray]) -> npt.NDArray[np.bool_]:
    """Return for every row but the first whether it differs from the one before in one of the columns."""
    differs = np.zeros(max(len(columns[0]) - 1, 0), bool)
    for column in columns:
        equal = pc.equal(column[:-1], column[1:])
        are_null = pc.and_(pc.is_null(column[:-1]), pc.is_null(column[1:]))
        differs |= ~pc.or_(pc.fill_null(equal, False), are_null).to_numpy()  # noqa: FBT003 - pyarrow's signature
    return differs


def is_rankable(kind: pa.DataType) -> bool:
    """Whether values of the type can be ranked here; Spark ranks structs and lists too."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def _ordering_ranks(values: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
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
    """The references of all rows of some tables."""
    found = [table.column(REFERENCE).to_numpy() for table in tables]
    return np.concatenate(found) if found else np.empty(0, np.int64)
