"""Footers of parquet files, as values."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.errors import CorruptTableError, NotFoundError
from parquetry.runtime.layout.skipping.statistics import KEY_LIMIT, TEXT_LIMIT, ColumnStatistics
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.footer import file_statistics, read_metadata, row_groups_of
from parquetry.runtime.parquet.tail import MOST_FOOTER_BYTES, footer_bytes
from parquetry.runtime.storage.local import LocalStore

NAN = float("nan")


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(str(tmp_path / "t"))


def write(store, table, path="p/f.parquet", *, key_values=None, **options):
    with store.create_file(path) as sink, pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table, **options)
        writer.add_key_value_metadata(key_values or {})
    return path


def statistics(array) -> ColumnStatistics | None:
    target = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": array}), target, store_schema=False)
    metadata = pq.read_metadata(pa.BufferReader(target.getvalue()))
    return file_statistics("f", metadata, size_bytes=1).columns.get("c")


DAY = date(1969, 12, 30)
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("array", "kind", "low", "high"),
    [
        (pa.array([3, None, -1], pa.int32()), "int", -1, 3),
        (pa.array([2**62, None, -(2**62)], pa.int64()), "bigint", -(2**62), 2**62),
        (pa.array([3, None, -1], pa.int8()), "int", -1, 3),
        (pa.array([1.5, None, -2.5], pa.float32()), "float", -2.5, 1.5),
        (pa.array([1e300, None, -2.5], pa.float64()), "double", -2.5, 1e300),
        (pa.array([NAN, None, 1.0], pa.float64()), "double", 1.0, 1.0),
        (pa.array([NAN, None, NAN], pa.float64()), "double", None, None),
        (pa.array([True, None, False]), "boolean", False, True),
        (pa.array(["b", None, "日"]), "string", "b", "日"),
        (pa.array([b"\xff", None, b""]), "binary", b"", b"\xff"),
        (pa.array([DAY, None, date(1970, 1, 3)]), "date", -2, 2),
        (pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")), "timestamp", -1, -1),
        (pa.array([-1, None, 1], pa.timestamp("ms", "UTC")), "timestamp", -1000, 1000),
        (pa.array([-1001, None, 1001], pa.timestamp("ns", "UTC")), "timestamp", -2, 2),
        (pa.array([-1, None, 1], pa.timestamp("us")), "timestamp_ntz", -1, 1),
        (
            pa.array([Decimal("-1.01"), None, Decimal("99.99")], pa.decimal128(10, 2)),
            "decimal(10,2)",
            Decimal("-1.01"),
            Decimal("99.99"),
        ),
        (
            pa.array([Decimal(10**37), None, Decimal(-1)], pa.decimal128(38, 0)),
            "decimal(38,0)",
            Decimal(-1),
            Decimal(10**37),
        ),
        (pa.array([None, None, None], pa.int64()), "bigint", None, None),
    ],
)
def test_bounds_of_every_type(array, kind, low, high):
    found = statistics(array)
    assert found == ColumnStatistics(type=kind, minimum=low, maximum=high, nulls=array.null_count)
    assert (type(found.minimum), type(found.maximum)) == (type(low), type(high))


@pytest.mark.parametrize("stored_as", ["int32", "int64"])
def test_decimals_that_others_stored_as_integers(stored_as, store):
    precision = 9 if stored_as == "int32" else 18
    table = pa.table({"c": pa.array([Decimal("-1.01"), Decimal("5.00")], pa.decimal128(precision, 2))})
    with store.create_file("f") as sink:
        pq.write_table(table, sink, store_decimal_as_integer=True)
    found = row_groups_of(read_metadata(store, "f"))[0].columns["c"]
    assert found.type == f"decimal({precision},2)"
    assert (found.minimum, found.maximum) == (Decimal("-1.01"), Decimal("5.00"))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2**31 + 5], pa.uint32()),
        pa.array([1, 2], pa.time64("us")),
        pa.array([[1], [2, None]], pa.list_(pa.int64())),
    ],
)
def test_types_whose_order_is_not_told_have_none(array):
    assert statistics(array) is None


def test_columns_within_structs_have_dotted_names(store):
    rows = [{"a": 1, "l": [1]}, None, {"a": 4, "l": None}]
    path = write(store, pa.table({"st": rows}))
    columns = row_groups_of(read_metadata(store, path))[0].columns
    assert columns == {"st.a": ColumnStatistics(type="bigint", minimum=1, maximum=4, nulls=1)}


def test_row_groups_have_rows_bounds_and_bytes(store):
    path = write(store, pa.table({"v": list(range(10))}), row_group_size=4)
    groups = row_groups_of(read_metadata(store, path))
    assert [group.rows for group in groups] == [4, 4, 2]
    assert [(g.columns["v"].minimum, g.columns["v"].maximum) for g in groups] == [(0, 3), (4, 7), (8, 9)]
    assert all(group.data_bytes > 0 for group in groups)
    assert sum(group.data_bytes for group in groups) < store.stat(path).size_bytes


def test_the_key_range_is_in_the_order_of_utf8_bytes(store):
    """U+FFFF sorts after U+10000 in Java, before it in UTF-8."""
    path = write(store, pa.table({"_hoodie_record_key": ["\U00010000", "￿", "a"]}))
    found = file_statistics(path, read_metadata(store, path), size_bytes=7)
    assert (found.min_key, found.max_key) == ("a", "\U00010000")
    assert (found.path, found.size_bytes, found.rows) == (path, 7, 3)


def test_recorded_texts_are_short_and_still_bounds(store):
    keys = ["k" * 300 + "a", "k" * 300 + "z"]
    path = write(store, pa.table({"_hoodie_record_key": keys, "t": ["ä" * 100, "z"]}))
    found = file_statistics(path, read_metadata(store, path), size_bytes=1)
    assert found.min_key == "k" * KEY_LIMIT
    assert found.max_key == "k" * (KEY_LIMIT - 1) + "l"
    assert found.columns["t"].maximum == "ä" * (TEXT_LIMIT - 1) + "å"
    assert row_groups_of(read_metadata(store, path))[0].columns["t"].maximum == "ä" * 100


def test_bounds_that_the_writer_left_out_are_unknown(store):
    path = write(store, pa.table({"_hoodie_record_key": ["x" * 5000], "v": ["x" * 5000]}))
    found = file_statistics(path, read_metadata(store, path), size_bytes=1)
    assert (found.min_key, found.max_key) == (None, None)
    assert found.columns["v"] == ColumnStatistics(type="string", nulls=0)


def test_a_file_without_rows(store):
    table = pa.table({"_hoodie_record_key": pa.array([], pa.string())})
    path = write(store, table)
    found = file_statistics(path, read_metadata(store, path), size_bytes=1)
    assert (found.rows, found.data_bytes, found.columns, found.min_key) == (0, 0, {}, None)


def test_the_clustering_digest_is_found(store):
    path = write(store, pa.table({"v": [1]}), key_values={"parquetry.clustering": "abc"})
    assert file_statistics(path, read_metadata(store, path), size_bytes=1).clustering == "abc"


def test_wide_tables_are_recorded_in_part(store):
    path = write(store, pa.table({f"c{i}": [i] for i in range(100)}))
    assert list(row_groups_of(read_metadata(store, path))[0].columns) == [f"c{i}" for i in range(64)]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all", "cut"])
def test_a_file_that_is_cut_short_is_named(store, content):
    if content == "cut":
        whole = store.read(write(store, pa.table({"v": list(range(1000))})))
        content = whole[: len(whole) // 2]
    store.put("p/f.parquet", content)
    message = rf"{store.root}/p/f.parquet is not a whole parquet file: .*[^.]; restore the file"
    with pytest.raises(CorruptTableError, match=message):
        read_metadata(store, "p/f.parquet")


def test_a_file_that_is_gone_is_not_found(store):
    with pytest.raises(NotFoundError, match="p/gone"):
        read_metadata(store, "p/gone.parquet")


@pytest.mark.parametrize("magic", [b"PAR1", b"PARE"])
def test_a_footer_that_is_too_long_is_refused_before_it_is_read(store, magic):
    claimed = MOST_FOOTER_BYTES + 1
    place = store.root / "p" / "f.parquet"
    place.parent.mkdir(parents=True)
    with place.open("wb") as file:
        file.truncate(4 + claimed)
        file.seek(0, 2)
        file.write(struct.pack("<I", claimed) + magic)
    with pytest.raises(
        CorruptTableError, match=r"f\.parquet.*67,108,865 bytes, but the limit is 67,108,864"
    ) as refused:
        read_metadata(store, "p/f.parquet")
    assert "restore the file" in str(refused.value)
    with store.open_input("p/f.parquet") as content, pytest.raises(ValueError, match=r"footer|end like"):
        ParquetParts(content)


def test_the_footer_of_a_file_is_as_long_as_arrow_finds_it(store):
    path = write(store, pa.table({"a": [1, 2]}))
    with store.open_input(path) as content:
        assert footer_bytes(content) == pq.read_metadata(content).serialized_size
