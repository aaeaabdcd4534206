"""What a write through Spark holds in memory: the driver no more for more rows, a worker no more than a part."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.spark

MILLION = 1_000_000


def measured(what: str, folder: Path, *sizes: int) -> list[dict]:
    """The findings for each of the sizes, one after the other in one process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.spark_memory", what, str(folder), *map(str, sizes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()[-len(sizes) :]]


def medians(rounds: list[dict]) -> dict[str, float]:
    return {name: median(one[name] for one in rounds) for name in rounds[0]}


@pytest.mark.parametrize(
    ("rows", "rounds"),
    [
        (MILLION // 40, 1),
        *(pytest.param(rows, 3, marks=pytest.mark.long) for rows in (MILLION // 10, MILLION)),
    ],
)
def test_four_times_the_rows_take_no_more_of_the_driver(tmp_path, rows, rounds):
    found = [measured("driver", tmp_path / str(number), rows, 4 * rows) for number in range(rounds)]
    few, many = (medians([one[at] for one in found]) for at in (0, 1))
    print(few, many, sep="\n")
    assert few["files"] == many["files"] == few["rewritten"] == many["rewritten"] == 8
    for name in ("python_mib", "heap_inside_mib", "heap_mib"):
        assert abs(many[name] - few[name]) < 0.1 * few[name] + 16, name


@pytest.mark.long
def test_workers_that_update_every_row_of_full_files_fit_1_5_gib(tmp_path):
    (found,) = measured("workers", tmp_path, 120)
    print(found)
    assert found["compression"] > 5
    assert found["files"] == found["rewritten"]
    assert sum(size > 100 for size in found["file_mib"]) == 2
    assert len(found["peaks_mib"]) >= 2
    assert found["peaks_mib"][0] < 1.5 * 1024
