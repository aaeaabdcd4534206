"""Recorded statistics: written, read back, looked up, and never needed."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.table import statistics
from parquetry.runtime.table.statistics import decode_statistics, encode_statistics, look_up
from parquetry.runtime.timeline.sidecars import statistics_path
from tests.support.stores import CountingStore, Kind


@pytest.fixture
def store(tmp_path) -> CountingStore:
    return CountingStore(LocalStore(str(tmp_path / "t")), tmp_path / "log")


def write(store, name, instant, *, first=0, rows=10, groups=2) -> FileSlice:
    path = f"p/{name}_0-0-0_{instant}.parquet"
    numbers = range(first, first + rows)
    table = pa.table(
        {
            "_hoodie_record_key": [f"k{i:05}" for i in numbers],
            "V": list(numbers),
            "x": [i / 8 for i in numbers],
            "when": [date(2013, 1, 1)] * rows,
            "price": pa.array([Decimal(i).scaleb(-2) for i in numbers], pa.decimal128(10, 2)),
            "flag": [i % 2 == 0 for i in numbers],
            "blob": [bytes([i % 256]) for i in numbers],
        }
    )
    with store.create_file(path) as sink:
        pq.write_table(table, sink, row_group_size=max(1, rows // groups), store_schema=False)
    size = store.stat(path).size_bytes
    return FileSlice(partition="p", file_id=name, instant=instant, path=path, size_bytes=size)


def statistics_of(store, file_slice) -> FileStatistics:
    return file_statistics(
        file_slice.path, read_metadata(store, file_slice.path), size_bytes=file_slice.size_bytes
    )


def record(store, instant, *slices) -> None:
    store.put(statistics_path(instant), encode_statistics(statistics_of(store, s) for s in slices))


@pytest.mark.parametrize("groups", [1, 3])
def test_statistics_survive_being_recorded(store, groups):
    files = [statistics_of(store, write(store, name, "1", groups=groups)) for name in "ba"]
    recorded = decode_statistics(encode_statistics(files), location="x")
    assert recorded == tuple(sorted(files, key=lambda file: file.path))
    assert len(recorded[0].row_groups) >= groups
    for group in recorded[0].row_groups:
        assert {type(c.minimum) for c in group.columns.values()} == {str, int, float, Decimal, bool, bytes}


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-300, float("inf"), -float("inf")])
def test_floating_point_bounds_are_kept_exactly(value):
    column = ColumnStatistics(type="double", minimum=value, maximum=value, nulls=0)
    file = FileStatistics(
        path="f", size_bytes=1, row_groups=(RowGroupStatistics(rows=1, data_bytes=1, columns={"x": column}),)
    )
    (recorded,) = decode_statistics(encode_statistics([file]), location="x")
    assert repr(recorded.columns["x"].minimum) == repr(value)


def test_what_is_unknown_stays_unknown():
    column = ColumnStatistics(type="string")
    groups = tuple(RowGroupStatistics(rows=1, data_bytes=0, columns={"s": column}) for _ in range(2))
    files = (
        FileStatistics(path="a", size_bytes=1, row_groups=()),
        FileStatistics(path="b", size_bytes=1, row_groups=groups, clustering="digest"),
    )
    assert decode_statistics(encode_statistics(files), location="x") == files
    assert decode_statistics(encode_statistics([]), location="x") == ()


def test_of_some_columns_only_those_are_read(store):
    file = statistics_of(store, write(store, "a", "1"))
    (recorded,) = decode_statistics(encode_statistics([file]), location="x", columns=["v", "none"])
    assert [list(group.columns) for group in recorded.row_groups] == [["V"], ["V"]]
    assert (recorded.min_key, recorded.rows) == (file.min_key, 10)


def test_looking_up_reads_a_sidecar_per_instant_and_no_footer(store):
    slices = [write(store, name, instant) for name in "abc" for instant in ("1", "2")]
    for instant in ("1", "2"):
        record(store, instant, *(s for s in slices if s.instant == instant))
    store.reset()
    found = look_up(store, slices)
    assert store.counts() == {Kind.READ: 2}
    assert found == {s.path: statistics_of(store, s) for s in slices}


def test_footers_are_read_only_of_files_that_are_not_recorded(store):
    recorded, unrecorded, other = write(store, "a", "1"), write(store, "b", "1"), write(store, "c", "2")
    record(store, "1", recorded)
    store.reset()
    found = look_up(store, [recorded, unrecorded, other], columns=["V"])
    opened = sorted(path for kind, path in store.calls() if kind is Kind.OPEN_INPUT)
    assert opened == [unrecorded.path, other.path]
    assert set(found) == {recorded.path, unrecorded.path, other.path}
    assert all(list(file.columns) == ["V"] for file in found.values())


def test_a_record_of_another_size_does_not_count(store):
    file_slice = write(store, "a", "1")
    wrong = FileStatistics(path=file_slice.path, size_bytes=1, row_groups=())
    store.put(statistics_path("1"), encode_statistics([wrong]))
    assert look_up(store, [file_slice])[file_slice.path] == statistics_of(store, file_slice)


@pytest.mark.parametrize("content", [b"", b"half a file", None])
def test_a_sidecar_that_cannot_be_read_is_passed_over(store, content):
    file_slice = write(store, "a", "1")
    if content is None:
        table = pa.table({"path": ["x"]})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        content = sink.getvalue().to_pybytes()
    store.put(statistics_path("1"), content)
    assert look_up(store, [file_slice])[file_slice.path] == statistics_of(store, file_slice)
    with pytest.raises(
        CorruptTableError, match=r"there (is|has) .*; delete it: the footers contain the same"
    ):
        decode_statistics(content, location="there")


def test_a_sidecar_of_more_bytes_than_are_read_is_passed_over(store, monkeypatch):
    file_slice = write(store, "a", "1")
    record(store, "1", file_slice)
    monkeypatch.setattr(statistics, "MOST_BYTES", 10)
    assert look_up(store, [file_slice])[file_slice.path] == statistics_of(store, file_slice)


def test_nothing_is_looked_up_for_nothing(store):
    assert look_up(store, []) == {}
    assert store.calls() == ()


def test_file_and_record_are_small(store):
    files = [statistics_of(store, write(store, f"f{i}", "1", first=i * 10, groups=1)) for i in range(200)]
    assert len(encode_statistics(files)) < 200 * 400


def test_no_spoilt_byte_of_recorded_statistics_is_more_than_a_file_that_cannot_be_read():
    column = ColumnStatistics(type="bigint", minimum=1, maximum=2, nulls=0)
    groups = (RowGroupStatistics(rows=1, data_bytes=0, columns={"s": column}),)
    whole = encode_statistics([FileStatistics(path="b", size_bytes=1, row_groups=groups)])
    refused = 0
    for place in range(0, len(whole), 3):
        spoilt = bytearray(whole)
        spoilt[place] ^= 0x80
        try:
            decode_statistics(bytes(spoilt), location="x")
        except CorruptTableError:
            refused += 1
    assert refused > len(whole) // 12
    with pytest.raises(CorruptTableError, match="x is not a complete Parquet file of statistics"):
        decode_statistics(b"", location="x")
