"""Rows without Spark: the rows that hudi-rs reads, in little memory, and nothing of files that are not needed."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquetry
from parquetry.errors import ParquetryError
from parquetry.runtime.errors import ConflictError, CorruptTableError, InvalidDataError
from parquetry.runtime.read import rows as read_rows
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support import hudi_rs
from tests.support.small_table import make_table
from tests.support.stores import CountingStore


@pytest.fixture
def history(tmp_path):
    """A table after four writes, with their instants."""
    table = make_table(tmp_path / "t")
    times = [
        table.upsert({f"k{number:02}": (number, "ab"[number % 2]) for number in range(20)}).instant,
        table.upsert({f"k{number:02}": (100 + number, "ab"[number % 2]) for number in range(5)}).instant,
        table.delete(["k07", "k08"]).instant,
        table.insert({"new": (7, "c")}).instant,
    ]
    return parquetry.open(tmp_path / "t"), times


def by_key(rows):
    assert len(set(rows.column("_hoodie_record_key").to_pylist())) == rows.num_rows
    return sorted(rows.select(sorted(rows.column_names)).to_pylist(), key=lambda row: row["id"])


def test_the_rows_are_those_of_hudi_rs_now_and_then(history):
    table, times = history
    assert by_key(table.to_arrow(meta=True)) == by_key(hudi_rs.read(table.uri))
    for time in times:
        assert by_key(table.to_arrow(meta=True, as_of=time)) == by_key(hudi_rs.read(table.uri, as_of=time))
    written = table.to_arrow(since=times[0], until=times[1], columns=["v"])
    assert sorted(written.column("v").to_pylist()) == [100, 101, 102, 103, 104]
    assert table.to_arrow(since=times[-1]).num_rows == 0


def test_every_form_has_the_same_rows(history):
    table, _ = history
    asked = {"columns": ["v", "id"], "where": "v >= 100 or p = 'c'"}
    rows = table.to_arrow(**asked)
    assert rows.column_names == ["v", "id"]
    assert sorted(rows.column("v").to_pylist()) == [7, 100, 101, 102, 103, 104]
    assert table.to_batches(**asked).read_all().equals(rows)
    assert table.scan(**asked).count_rows() == 6
    assert pa.Table.from_pandas(table.to_pandas(**asked), schema=rows.schema).equals(rows)
    assert table.to_polars(**asked).equals(pl.DataFrame(rows))
    with duckdb.connect() as connection:
        table.to_duckdb(connection, "asked", **asked)
        for _ in range(2):
            assert connection.sql("SELECT sum(v), count(*) FROM asked").fetchall() == [(517, 6)]


def test_a_view_of_duckdb_reads_the_table_as_it_is_at_each_query(tmp_path):
    writer = make_table(tmp_path / "t")
    writer.insert({"one": (1, "a")})
    with duckdb.connect() as connection:
        parquetry.open(tmp_path / "t").to_duckdb(connection, "rows")
        assert connection.sql("SELECT count(*) FROM rows").fetchall() == [(1,)]
        writer.insert({"two": (2, "a")})
        assert connection.sql("SELECT count(*) FROM rows").fetchall() == [(2,)]


def test_an_empty_table_has_its_columns_and_no_rows(tmp_path):
    make_table(tmp_path / "t")
    table = parquetry.open(tmp_path / "t")
    assert table.to_arrow().schema.names == ["id", "v", "p"]
    assert table.to_arrow(meta=True).schema.names == [*META_COLUMNS, "id", "v", "p"]
    assert table.to_arrow(where="v = 1").num_rows == 0


def test_hudi_columns_can_be_asked_for_and_compared(history):
    table, times = history
    rows = table.to_arrow(columns=["id", "_hoodie_commit_time"], where=f"_hoodie_commit_time = '{times[-1]}'")
    assert rows.to_pylist() == [{"id": "new", "_hoodie_commit_time": times[-1]}]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"columns": ["V"]}, "the table has no column 'V'"),
        ({"columns": []}, "name at least one column"),
        ({"columns": ["v", "v"]}, "'v' is there twice"),
        ({"columns": ["_hoodie_file_name"], "meta": True}, "'_hoodie_file_name' is there twice"),
        ({"where": "length(id) = 3"}, "cannot be evaluated without Spark"),
        ({"as_of": "yesterday"}, "is not a time"),
        ({"as_of": "2026-01-01", "since": "2026-01-01"}, "exclude each other"),
    ],
)
def test_what_cannot_be_read_is_refused_before_a_file_is_opened(history, asked, message):
    table, _ = history
    with pytest.raises(InvalidDataError, match=message):
        table.to_batches(**asked)


def test_files_that_a_condition_excludes_are_not_opened(history, tmp_path):
    table, _ = history
    handle = open_table(CountingStore(open_store(table.uri), tmp_path / "calls"))
    assert read_rows.read_rows(handle, where="p = 'c' and v = 7").read_all().num_rows == 1
    opened = {
        name for kind, name in handle.store.calls() if name.endswith(".parquet") and ".hoodie" not in name
    }
    assert len(opened) == 1


def test_damage_is_an_error_that_names_the_file(history):
    table, _ = history
    handle = open_table(open_store(table.uri))
    file = handle.view(handle.timeline()).all_slices()[0].path
    path = handle.store.uri.removeprefix("file://") + "/" + file
    with open(path, "r+b") as content:
        content.seek(-8, 2)
        content.write(b"\xff" * 8)
    with pytest.raises(CorruptTableError, match="is not a whole parquet file"):
        table.to_arrow()
    with open(path, "r+b") as content:
        content.truncate(100)
    with pytest.raises(CorruptTableError, match="100 bytes"):
        table.to_arrow()


def test_a_file_that_a_clean_removes_meanwhile_is_a_conflict(history):
    table, _ = history
    rows = table.to_batches()
    for path in open_store(table.uri).list("p=a"):
        open_store(table.uri).delete(path.path)
    with pytest.raises(ConflictError, match="was removed by a clean while it was read; read again"):
        rows.read_all()


def large_files(folder, count, rows):
    """Files with one column of ``rows`` random numbers, and the batches of each."""
    random = np.random.default_rng(1)
    files = []
    for number in range(count):
        files.append(str(folder / f"{number}.parquet"))
        table = pa.table({"v": random.integers(0, 1 << 60, rows)})
        pq.write_table(table, files[-1], use_dictionary=False, row_group_size=1 << 19)
    return files


def batches_of(file):
    parquet = pq.ParquetFile(file)
    for group in range(parquet.num_row_groups):
        yield from parquet.iter_batches(read_rows.BATCH_BYTES // 8, row_groups=[group])


def test_files_are_read_in_order_with_few_batches_in_memory(tmp_path):
    files = large_files(tmp_path, 6, 4 << 20)
    before, most, sums = pa.total_allocated_bytes(), 0, []
    for batch in read_rows._in_order(files, batches_of):
        sums.append(pa.compute.sum(batch.column(0)).as_py())
        most = max(most, pa.total_allocated_bytes() - before)
    assert sums == [pa.compute.sum(b.column(0)).as_py() for file in files for b in batches_of(file)]
    assert most < 100 << 20 < 6 * (4 << 20) * 8


def test_the_first_failure_ends_the_reading_of_all_files():
    ended = threading.Event()

    def batches(number):
        if number == 2:
            raise ParquetryError("{file} is bad", file="two")
        try:
            yield pa.record_batch({"n": [number]})
        finally:
            ended.set()

    found = read_rows._in_order(range(1000), batches)
    assert [next(found)["n"][0].as_py() for _ in range(2)] == [0, 1]
    with pytest.raises(ParquetryError, match="two is bad"):
        next(found)
    assert ended.is_set()


def test_a_stream_that_is_dropped_leaves_no_thread(tmp_path):
    files = large_files(tmp_path, 6, 1 << 20)
    found = read_rows._in_order(files, batches_of)
    next(found)
    assert any(thread.name.startswith("rows") for thread in threading.enumerate())
    del found
    gc.collect()
    assert not any(thread.name.startswith("rows") for thread in threading.enumerate())


PROGRAM = """
import sys
import parquetry
rows = parquetry.open(sys.argv[1]).to_batches(columns=["id"])
rows.read_next_batch()
print("ended")
"""


def test_a_program_ends_while_a_stream_is_open(tmp_path):
    keys = [f"{number:0{read_rows.BATCH_BYTES // 8}}" for number in range(40)]
    make_table(tmp_path / "t").insert({key: (number, "a") for number, key in enumerate(keys)})
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "t"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (ran.stdout, ran.stderr) == ("ended\n", "")
