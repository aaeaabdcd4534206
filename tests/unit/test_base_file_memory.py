from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def merge(folder, file_mib: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.base_file_memory", str(folder), str(file_mib)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_merging_a_wide_file_takes_little_memory(tmp_path):
    found = merge(tmp_path, 24)
    assert found["compression"] > 2
    assert found["peak_mib"] < 500


@pytest.mark.soak
def test_a_full_file_whose_every_row_is_updated_fits_a_worker(tmp_path):
    found = merge(tmp_path, 120)
    print(found)
    assert found["compression"] > 5
    assert found["peak_mib"] < 1.5 * 1024 / 2
