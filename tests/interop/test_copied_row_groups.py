"""Files put together from row groups that were copied byte by byte, before readers and writers that are not ours."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.spec.table_spec import BloomFilter, FilesPolicy, TableSpec
from tests.interop.test_hudi_beside_us import Beside
from tests.interop.versions import MOSTLY_0_15_0, MOSTLY_1_2_0
from tests.support import our_table
from tests.support.judges import assert_history, assert_latest
from tests.support.our_table import OurReader
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SPEC = TableSpec(name="ours", columns=(), record_key=("id",), ordering="version", partition_by=("region",))


@MOSTLY_0_15_0
def test_files_of_copied_row_groups_are_read_and_written_by_real_hudi(spark, tmp_path, hudi, judges):
    bloom_filter = BloomFilter.EXACT if hudi.version.startswith("0") else BloomFilter.ALWAYS_TRUE
    rnd = random.Random(51)
    files = FilesPolicy(row_group_size_bytes=12_000, compression="snappy", bloom_filter=bloom_filter)
    ours = our_table.create(spark, tmp_path / "ours", spec=replace(SPEC, files=files))
    ours.upsert(ours.rows(rnd, range(400), 1))
    assert min(map(len, row_group_rows(ours.path))) >= 3
    ours.upsert(ours.rows(rnd, [*range(8), *range(400, 408)], 2))
    assert all(len(groups) >= 3 for groups in row_group_rows(ours.path))
    assert unsound(ours.path) == []
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)
    beside = Beside(hudi, ours)
    beside.upsert(ours.rows(rnd, range(100, 140), 3))
    beside.upsert(ours.rows(rnd, range(130, 150), 4), index="BLOOM")
    beside.delete(ours.rows(rnd, range(20, 28), 5))
    beside.cluster()
    ours.upsert(ours.rows(rnd, range(60, 70), 6))
    assert_latest([*judges, OurReader(spark)], str(ours.path), ours.model)


@MOSTLY_1_2_0
def test_patched_row_groups_are_read_and_written_by_real_hudi(spark, tmp_path, hudi, judges):
    """One column of few rows changes: the other columns' chunks are the old file's, byte for byte."""
    bloom_filter = BloomFilter.EXACT if hudi.version.startswith("0") else BloomFilter.ALWAYS_TRUE
    rnd = random.Random(52)
    files = FilesPolicy(row_group_size_bytes=12_000, compression="snappy", bloom_filter=bloom_filter)
    ours = our_table.create(spark, tmp_path / "ours", spec=replace(SPEC, files=files))
    rows = ours.rows(rnd, range(400), 1)
    ours.upsert(rows)
    before = column_chunks(ours.path)
    changed = [{**row, "c_int": -number} for number, row in enumerate(rows[:8])]
    ours.upsert(changed)
    after = column_chunks(ours.path)
    patched = {place: kept for place, old in before.items() if (kept := same_columns(old, after[place]))}
    assert {file for file, _ in patched} == {file for file, _ in before}
    mixed = [kept for kept in patched.values() if "c_int" not in kept]
    assert mixed
    assert all({"id", "region", "version", "c_string", "c_price", "c_binary"} <= kept for kept in mixed)
    assert unsound(ours.path) == []
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)
    beside = Beside(hudi, ours)
    beside.upsert([{**row, "c_int": 7} for row in rows[4:12]])
    beside.upsert(ours.rows(rnd, range(100, 120), 4), index="BLOOM")
    ours.upsert([{**row, "c_int": 8} for row in rows[200:208]])
    assert_latest([*judges, OurReader(spark)], str(ours.path), ours.model)


Place = tuple[str, int]
"""A row group: file id and number."""


def column_chunks(folder) -> dict[Place, dict[str, bytes]]:
    """The bytes of every column chunk in the newest file of every group."""
    newest: dict[str, Path] = {}
    for path in sorted(folder.glob("region*/*.parquet"), key=lambda p: p.name.split("_")[2]):
        newest[path.name.split("_")[0]] = path
    found: dict[Place, dict[str, bytes]] = {}
    for file_id, path in newest.items():
        content, metadata = path.read_bytes(), pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            chunks = [group.column(index) for index in range(group.num_columns)]
            found[file_id, number] = {
                chunk.path_in_schema: content[_start(chunk) : _start(chunk) + chunk.total_compressed_size]
                for chunk in chunks
            }
    return found


def _start(chunk) -> int:
    offsets = (chunk.dictionary_page_offset, chunk.data_page_offset)
    return min(offset for offset in offsets if offset is not None)


def same_columns(one: dict[str, bytes], other: dict[str, bytes]) -> set[str]:
    """The columns whose chunks are equal."""
    return {name for name, chunk in one.items() if other[name] == chunk}


def row_group_rows(folder) -> list[list[int]]:
    """The rows of every row group of every file."""
    found = []
    for path in folder.glob("region*/*.parquet"):
        metadata = pq.read_metadata(path)
        found.append([metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)])
    return found
