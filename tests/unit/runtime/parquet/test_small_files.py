"""Small parquet files are read without a thread of Arrow's that could outlive the interpreter."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.parquet.small_files import read_parquet

ROWS = pa.table({f"c{number}": ["x", "y"] * 5 for number in range(30)})

READ = """
    import os, sys
    import pyarrow as pa
    import pyarrow.parquet as pq
    from parquetry.runtime.parquet.small_files import read_parquet
    from parquetry.runtime.table.statistics import decode_statistics, encode_statistics

    content = encode_statistics([])
    before = len(os.listdir("/proc/self/task"))
"""


@pytest.fixture
def folder(tmp_path):
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return tmp_path


@pytest.mark.parametrize(
    "read",
    [
        "read_parquet(pa.BufferReader(open(sys.argv[1] + '/rows.parquet', 'rb').read()))",
        "decode_statistics(content, location='sidecar')",
    ],
)
def test_no_thread_is_left_that_could_outlive_the_interpreter(folder, read):
    program = textwrap.dedent(READ) + f"{read}\nprint(len(os.listdir('/proc/self/task')) - before)\n"
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "0", "")


def test_columns_are_chosen(folder):
    assert read_parquet(folder / "rows.parquet").equals(ROWS)
    assert read_parquet(folder / "rows.parquet", ["c3", "c1"]).equals(ROWS.select(["c3", "c1"]))
