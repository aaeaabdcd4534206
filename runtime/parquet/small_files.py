"""Reading small parquet files in the calling thread alone.

Arrow's dataset reader, which implements ``pyarrow.parquet.read_table``, passes the file to its own threads,
and one of them may release it last. If the bytes belong to a Python object, releasing them takes the
interpreter's lock, and a thread that requests this lock while the interpreter ends aborts the process: a
command that had already printed its answer would exit with 134.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.storage.ranged_input import RangedInput


def read_parquet(source: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of an open parquet file, with these columns or all of them."""
    if isinstance(source, RangedInput):
        source.announce([range(source.size())])
    with pq.ParquetFile(source, pre_buffer=False) as file:
        return file.read(None if columns is None else list(columns), use_threads=False)
