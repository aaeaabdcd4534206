"""Small parquet files read by the calling thread alone.

Arrow's dataset reader, which ``pyarrow.parquet.read_table`` is, hands the file to threads of its own,
and one of them may let go of it last. When the bytes belong to a Python object that takes the
interpreter's lock, and a thread that asks for the lock of an interpreter that ends aborts the process:
a command that had already printed its answer would exit with 134.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def read_parquet(source: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of an open parquet file; of ``columns`` only."""
    with pq.ParquetFile(source, pre_buffer=False) as file:
        return file.read(None if columns is None else list(columns), use_threads=False)
