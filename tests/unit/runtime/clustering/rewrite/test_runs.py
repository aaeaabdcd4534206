from __future__ import annotations

import stat
import tempfile

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.clustering.rewrite import runs
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder, boundaries_of
from parquetry.runtime.clustering.rewrite.runs import ranges_of, sort_by_ranges
from tests.support.base_files import MIB
from tests.support.clustering_memory import spilled_files
from tests.support.effort import each_value_once

BATCH_ROWS = 4000


def batches_of(count):
    """Batches of rows in no order; each has a dictionary of its own, and a key twice."""
    rng = np.random.default_rng(1)
    for number in range(count):
        n = rng.integers(0, 10**9, BATCH_ROWS)
        key = pa.array(n).cast(pa.string())
        words = pa.array([f"{number}-{word}" for word in range(5)])
        yield pa.RecordBatch.from_pydict(
            {
                "n": pa.array(n),
                "key": key,
                "id": key,
                "word": pa.DictionaryArray.from_arrays(pa.array(n % 5, pa.int32()), words),
                "rare": pa.array([None if value % 3 else "x" * (value % 50) for value in n.tolist()]),
                "at": pa.array(np.arange(BATCH_ROWS) + number * BATCH_ROWS),
            }
        )


def divided(count, run_bytes, *, held_bytes=0, sealed=False):
    """The rows of so many batches in order, as they come, and into how many ranges they were divided."""
    (first,) = batches_of(1)
    keys = OrderKeys(RowOrder(strategy="sort", columns=("n",)), pa.Table.from_batches([first]))
    ranges = ranges_of(count * batch_arrow_bytes(first), run_bytes=run_bytes)
    boundaries = boundaries_of(keys.of(pa.Table.from_batches([first])), ranges)
    found = sort_by_ranges(
        batches_of(count), keys, boundaries, run_bytes=run_bytes, held_bytes=held_bytes, encrypt_spills=sealed
    )
    return found, boundaries.ranges


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("held_bytes", [0, MIB, 64 * MIB])
def test_rows_of_many_batches_come_in_order_each_range_in_one_piece(held_bytes, sealed):
    found, ranges = divided(20, MIB, held_bytes=held_bytes, sealed=sealed)
    pieces = list(found)
    came = pa.Table.from_batches(list(batches_of(20)))
    word = came.schema.get_field_index("word")
    came = came.set_column(word, "word", came["word"].cast(pa.string()))
    moved = pa.Table.from_batches(pieces)
    moved = moved.set_column(word, "word", moved["word"].cast(pa.string()))
    assert moved.equals(came.sort_by([("n", "ascending"), ("at", "ascending")]))
    assert len(pieces) == ranges > 5


def test_rows_on_a_local_disk_are_for_the_owner_of_the_process_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found, _ = divided(8, MIB)
    next(found)
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.glob("*.arrow"))
    found.close()
    assert list(tmp_path.iterdir()) == []


def test_a_run_writes_each_range_once_however_many_batches_it_has(monkeypatch):
    packed = []
    pack = runs._pack
    monkeypatch.setattr(runs, "_pack", lambda piece, sink: packed.append(piece) or pack(piece, sink))
    found, ranges = divided(20, MIB)
    with spilled_files() as files:
        assert sum(piece.num_rows for piece in found) == 20 * BATCH_ROWS
    assert len(packed) == len(files) * ranges < sum(piece["n"].num_chunks for piece in packed)
    assert sum(piece.num_rows for piece in packed) == 20 * BATCH_ROWS


@pytest.mark.parametrize(("count", "held_bytes"), each_value_once([80, 320], [0, 8 * MIB]))
def test_rows_take_three_runs_of_memory_however_many_there_are(count_allocations, count, held_bytes):
    counting = count_allocations()
    found, _ = divided(count, MIB, held_bytes=held_bytes)
    assert sum(piece.num_rows for piece in found) == count * BATCH_ROWS
    assert counting.max_memory() < held_bytes + 3 * MIB
