"""A replay of the applied limits agrees with the table, over random histories of the real writer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parquetry.compiler.replay.history import Reach, RecordedWrite, read_history
from parquetry.compiler.replay.layout import LayoutLimits
from parquetry.compiler.replay.model import Replay
from parquetry.compiler.replay.replaying import replay
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Extra, FilesPolicy, TableSpec
from tests.support.effort import in_full
from tests.support.sized_table import KIB, SPEC, SizedTable

NEAR = 0.05


def with_sizing(sizing: SizingPolicy) -> TableSpec:
    """The spec with row groups of an eighth of a file, as they are by default in larger files."""
    return replace(
        SPEC,
        sizing=sizing,
        files=FilesPolicy(row_group_size_bytes=sizing.max_file_size_bytes // 8),
        extra=Extra(clustering=ClusteringSpec.defaults_for(sizing)),
    )


def random_sizing(rng: np.random.Generator) -> SizingPolicy:
    # The writer cuts at multiples of eight rows: files of 64 rows end up to a ninth before their limit.
    most = int(rng.choice([128, 192, 256])) * KIB
    return SizingPolicy(
        max_file_size_bytes=most,
        small_file_limit_bytes=int(most * rng.choice([0, 0.4, 5 / 6])),
        min_fill=float(rng.choice([0, 0, 0.3])),
    )


def random_history(folder: Path, seed: int, *, writes: int, sizing: SizingPolicy | None = None) -> SizedTable:
    """Inserts, upserts of few and of many files, deletes, overwrites, clusterings; rows change their width."""
    rng = np.random.default_rng(seed)
    drawn = random_sizing(rng)
    table = SizedTable.create(folder, with_sizing(drawn if sizing is None else sizing), seed=1000 * seed)
    names = ["a", "b", "c"][: int(rng.integers(1, 4))]
    table.width = int(rng.choice([120, 200, 500]))
    for _ in range(writes):
        if rng.random() < 0.1:
            table.width = int(rng.choice([120, 200, 500]))
        rows = {name: int(rng.choice([0, 30, 300, 1500])) for name in names}
        few = None if rng.random() < 0.3 else int(rng.integers(1, 4))
        match rng.choice(
            ["insert", "bulk", "upsert", "delete", "overwrite", "cluster"],
            p=[0.35, 0.1, 0.35, 0.05, 0.05, 0.1],
        ):
            case "insert":
                table.insert(rows)
            case "bulk":
                table.insert(rows, operation="BULK_INSERT")
            case "upsert" if table.slices():
                updates = {name: int(rng.choice([0, 5, 100])) for name in names}
                table.upsert(rows, updates=updates, files=few)
            case "delete" if table.slices():
                table.delete({names[0]: 40}, files=few)
            case "overwrite":
                table.overwrite({names[0]: rows[names[0]] + 1})
            case "cluster":
                table.cluster()
    return table


def replayed(table: SizedTable, reach: Reach, limits: LayoutLimits | None = None) -> Replay:
    handle = table.handle
    history = read_history(handle, handle.view(handle.timeline()), reach)
    spec = table.spec
    found = replay(history, LayoutLimits(sizing=spec.sizing, clustering=spec.clustering), limits)
    assert found is not None
    return found


def check(table: SizedTable, found: Replay) -> None:
    """Files and bytes are those of the table within 5 %; within two files where it has few.

    What was written depends more on where a small difference falls: a file just below its limit is rewritten.
    """
    live = table.slices()
    size = sum(file.size_bytes for file in live)
    most = table.spec.sizing.max_file_size_bytes
    assert (found.recorded.files, found.recorded.size_bytes) == (len(live), size)
    assert abs(found.applied.files - len(live)) <= max(NEAR * len(live), 2)
    assert abs(found.applied.size_bytes - size) <= max(NEAR * size, most)
    written = found.recorded.all_written_bytes
    assert abs(found.applied.all_written_bytes - written) <= max(3 * NEAR * written, 2 * most)


@pytest.mark.parametrize(
    ("seed", "writes"),
    [
        (2, 20),
        pytest.param(7, 25, marks=pytest.mark.long),
        *(pytest.param(seed, 60, marks=pytest.mark.long) for seed in range(100, 130)),
    ],
)
def test_the_applied_limits_end_where_the_table_does(tmp_path, seed, writes):
    table = random_history(tmp_path / "table", seed, writes=writes)
    check(table, replayed(table, Reach(since="0")))


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(200, 220))]
)
def test_a_part_of_the_history_begins_with_the_files_that_there_were(tmp_path, seed):
    """The last writes alone, as a plan reads them, and a period that begins in the archive."""
    table = random_history(tmp_path / "table", seed, writes=30 if in_full() else 18)
    handle = table.handle
    events = read_history(handle, handle.view(handle.timeline()), Reach(since="0")).events
    writes = [event for event in events if isinstance(event, RecordedWrite)]
    assert not handle.timeline().is_completed(writes[2].time)
    check(table, replayed(table, Reach(newest=10, archive=False, cleans=False)))
    check(table, replayed(table, Reach(since=writes[2].time)))
