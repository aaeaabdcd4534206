"""Which of several rows with one key counts, and what is found in a file, against plain Python."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.batch_keys import BatchKeys, is_rankable, merged_keys, winning_rows
from parquetry.runtime.stage.location import LocalStage
from parquetry.runtime.stage.part import ARRIVAL, PARTITION, REFERENCE, keys_name

ORDERINGS = {
    "double": (pa.float64(), st.none() | st.floats()),
    "int": (pa.int32(), st.none() | st.integers(-3, 3)),
    "string": (pa.string(), st.none() | st.sampled_from(["", "a", "é", "\uffff", "\U00010000"])),
    "boolean": (pa.bool_(), st.none() | st.booleans()),
    "decimal": (pa.decimal128(9, 2), st.none() | st.decimals(-9, 9, places=2)),
    "none": (None, st.none()),
}


def keys_table(rows, kind):
    columns = {
        REFERENCE: pa.array([r[0] for r in rows], pa.int64()),
        PARTITION: pa.array([r[1] for r in rows], pa.string()),
        HASH: pa.array([r[2] for r in rows], pa.int64()),
        DELETE: pa.array([r[3] for r in rows], pa.bool_()),
        RECORD_KEY: pa.array([r[4] for r in rows], pa.string()),
    }
    if kind is not None:
        columns[ORDERING] = pa.array([r[5] for r in rows], kind)
    return pa.table(columns)


def rank(row):
    """As the design says: ordering (null smallest, NaN greatest), delete, hash, arrival."""
    value = row[5]
    if isinstance(value, str):
        value = value.encode()
    is_nan = isinstance(value, float) and math.isnan(value)
    return (value is not None, is_nan, 0 if value is None or is_nan else value, row[3], row[2], row[0])


@st.composite
def batches(draw):
    kind, values = ORDERINGS[draw(st.sampled_from(sorted(ORDERINGS)))]
    count = draw(st.integers(0, 25))
    rows = [
        (
            number,
            draw(st.sampled_from(["p", "q", "r"])),
            draw(st.integers(-2, 2)),
            draw(st.booleans()),
            draw(st.sampled_from(["k", "l", "é", "\uffff", "\U00010000"])),
            draw(values),
        )
        for number in range(count)
    ]
    return rows, kind


@given(batches())
def test_one_row_of_every_key_counts(batch):
    rows, kind = batch
    best = {}
    for row in sorted(rows, key=rank):
        best[row[4]] = row[0]

    found = winning_rows(keys_table(rows, kind))

    assert dict(zip(found[RECORD_KEY].to_pylist(), found[REFERENCE].to_pylist(), strict=True)) == best
    assert [key.encode() for key in found[RECORD_KEY].to_pylist()] == sorted(key.encode() for key in best)


def folded(rows, held):
    """The row that is stored after these, one by one, over a held one; None for no row."""
    for row in rows:
        if held is None or rank(row)[:3] >= rank(held)[:3]:
            held = None if row[3] else row
    return held


@given(batches(), st.randoms(), st.data())
def test_rows_are_folded_in_their_order_of_arrival_over_what_is_stored(batch, random, data):
    rows, kind = batch
    places = list(range(len(rows)))
    random.shuffle(places)
    arrivals = pa.array([f"{place:04x}" for place in places], pa.string())
    in_order = [row for _, row in sorted(zip(places, rows, strict=True))]

    found = winning_rows(keys_table(rows, kind).append_column(ARRIVAL, arrivals))

    by_reference = {row[0]: row for row in rows}
    for winner in found.to_pylist():
        key, row = winner[RECORD_KEY], by_reference[winner[REFERENCE]]
        counts = (*row[:5], winner.get(ORDERING))
        value = data.draw(next(values for one, values in ORDERINGS.values() if one == kind))
        for held in (None, (-1, "p", 0, False, key, value)):
            wins = held is None or rank(counts)[:3] >= rank(held)[:3]
            stored = (None if row[3] else row) if wins else held
            assert stored == folded([each for each in in_order if each[4] == key], held)
    assert len(found) == len({row[4] for row in rows})


@given(batches())
def test_rows_that_nothing_tells_apart_are_refused(batch):
    rows, kind = batch
    by_rank = {}
    for row in rows:
        by_rank.setdefault(row[4], []).append(row)
    tied = False
    for several in by_rank.values():
        greatest = max(rank(row)[:3] for row in several)
        made = {"deleted" if row[3] else row[2] for row in several if rank(row)[:3] == greatest}
        tied = tied or len(made) > 1
    if tied:
        with pytest.raises(InvalidDataError, match="no rule decides which"):
            winning_rows(keys_table(rows, kind), refuses_ties=True)
    else:
        found = winning_rows(keys_table(rows, kind), refuses_ties=True)
        assert found.equals(winning_rows(keys_table(rows, kind)))


def test_a_nan_with_its_sign_set_is_a_nan():
    negative = struct.unpack("d", struct.pack("Q", 0xFFF8000000000000))[0]
    rows = [(0, "p", 0, False, "k", math.inf), (1, "p", 0, False, "k", negative)]

    assert winning_rows(keys_table(rows, pa.float64()))[REFERENCE].to_pylist() == [1]


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("partitioned", [True, False])
def test_keys_count_within_partitions_or_everywhere(tmp_path, partitioned, merged):
    place = LocalStage(folder=str(tmp_path))
    rows = [
        (0, "p", 0, False, "k", 1),
        (1, "q", 0, False, "k", 2),
        (2, "p", 0, False, "l", 1),
        (3, "p", 0, False, "k", 3),
    ]
    for name, some in (("one", rows[:3]), ("two", rows[3:])):
        pq.write_table(keys_table(some, pa.int32()), tmp_path / keys_name(name))
    names = (merged_keys(place, ("one", "two")),) if merged else ("one", "two")
    keys = BatchKeys(location=place, names=names, partitioned=partitioned)

    found = {p: keys.winners(p)[REFERENCE].to_pylist() for p in ("p", "q", "absent")}

    if partitioned:
        assert found == {"p": [3, 2], "q": [1], "absent": []}
    else:
        assert list(found.values()) == 3 * [[3, 2]]


@pytest.mark.parametrize("partitioned", [True, False])
def test_distinct_keys_are_sorted_as_bytes_and_each_file_is_read_once(tmp_path, partitioned):
    reads = []

    class Place(LocalStage):
        def read(self, name):
            reads.append(name)
            return super().read(name)

    place = Place(folder=str(tmp_path))
    rows = [
        (number, partition, 0, False, key, None)
        for number, (partition, key) in enumerate(["pl", "pk", "q\U00010000", "pk", "q\uffff", "ql"])
    ]
    for name, some in (("one", rows[:4]), ("two", rows[4:])):
        pq.write_table(keys_table(some, None), tmp_path / keys_name(name))
    columns = (RECORD_KEY, PARTITION) if partitioned else (RECORD_KEY,)
    keys = BatchKeys(location=place, names=("one", "two"), partitioned=partitioned, columns=columns)

    found = {p: keys.distinct(p).to_pylist() for p in ("p", "q", "absent")}

    if partitioned:
        assert found == {"p": ["k", "l"], "q": ["l", "\uffff", "\U00010000"], "absent": []}
    else:
        assert list(found.values()) == 3 * [["k", "l", "\uffff", "\U00010000"]]
    assert sorted(reads) == [keys_name("one"), keys_name("two")]


def test_what_only_spark_can_rank():
    assert not is_rankable(pa.struct({"a": pa.int32()}))
    assert not is_rankable(pa.list_(pa.int32()))
    assert is_rankable(pa.timestamp("us", tz="UTC"))
