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

from parquetry.runtime.base_file.model import DELETE, HASH
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import ORDERING, PARTITION, REFERENCE, keys_name
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

    def distinct(self, partition: str) -> pa.Array:
        """The keys, each once, sorted as UTF-8 bytes; of all partitions when keys count everywhere."""
        if not self.partitioned:
            return self._distinct
        at = self._places.get(partition)
        return _sorted_once(
            self._rows.column(RECORD_KEY).take(pa.array([] if at is None else at, pa.int64()))
        )

    def winners(self, partition: str) -> pa.Table:
        """One row per key, sorted by key as UTF-8 bytes; of all partitions when keys count everywhere."""
        if not self.partitioned:
            return winning_rows(self._rows)
        if partition not in self._places:
            return self._rows.slice(0, 0)
        return winning_rows(self._rows.take(pa.array(self._places[partition])))

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


def winning_rows(rows: pa.Table) -> pa.Table:
    """One row per key, sorted by key: the largest ordering value, then a delete, then the larger hash.

    A null ordering value is the smallest, NaN the greatest. Rows that are equal in all of that are
    told apart by their arrival, and then by their partition.
    """
    keys = rows.column(RECORD_KEY)
    if pc.count_distinct(keys).as_py() == rows.num_rows:
        return rows.take(pc.sort_indices(keys))
    ranks = [keys, *_ordering_ranks(rows), pc.cast(rows.column(DELETE), pa.int8())]
    ranks += [rows.column(name) for name in (HASH, REFERENCE, PARTITION)]
    ranked = pa.table({f"{number}": values for number, values in enumerate(ranks)})
    by_rank = [(name, "ascending") for name in ranked.column_names]
    ordered = rows.take(pc.sort_indices(ranked, sort_keys=by_rank))
    sorted_keys = ordered.column(RECORD_KEY).combine_chunks()
    is_last = pc.not_equal(sorted_keys[:-1], sorted_keys[1:]).to_numpy(zero_copy_only=False)
    return ordered.filter(pa.array(np.append(is_last, True)))


def is_rankable(kind: pa.DataType) -> bool:
    """Whether values of the type can be ranked here; Spark ranks structs and lists too."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def _ordering_ranks(rows: pa.Table) -> Iterator[pa.ChunkedArray]:
    if ORDERING not in rows.column_names:
        return
    values = rows.column(ORDERING)
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
