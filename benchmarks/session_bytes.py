"""The bytes of each column of the sessions before and after the sort: ``python -m benchmarks.session_bytes``.

It encodes a tenth of the rows as parquetry's writers do, without Spark: every tenth small file, and the rows of
a tenth of all session ids in their order, which are as dense as in the whole table. Sizes are given for all
rows. Writes results/session_bytes.json and SESSIONS.md. ``SCALE`` is that of the session experiment.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import sessions
from benchmarks.session_report import render
from benchmarks.session_tables import COLUMN
from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.base_file.rows import DICTIONARY
from parquetry.runtime.spec.meta_columns import (
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    MetaColumns,
)
from parquetry.runtime.spec.table_spec import FilesPolicy
from tests.interop.environment import cache_folder

HERE = Path(__file__).resolve().parent
SHARE = 10
ROWS_OF_A_ROW_GROUP = 473_000
"""The rows of a row group of 8 MiB in the sorted table."""

INSTANT = "20240601000000000"


def main() -> None:
    scale = float(os.environ.get("SCALE", "1"))
    inputs = cache_folder() / "bench" / f"sessions-{scale:g}"
    counts = sessions.prepare(inputs, scale=scale)
    paths = sorted((inputs / "small").glob("*.parquet"))
    arrived = [pq.read_table(path) for path in paths[::SHARE]]
    arranged = tenth_of_ids(paths)
    found = {
        columns.value: {
            "before": column_bytes(
                [[rows] for rows in arrived], columns, is_ordered=False, of_rows=counts["rows"]
            ),
            "after": column_bytes([arranged], columns, is_ordered=True, of_rows=counts["rows"]),
        }
        for columns in MetaColumns
    }
    whole = pa.concat_tables(arranged)
    bits = {
        "before": bits_of_differences(pa.concat_tables(arrived)),
        "after": bits_of_differences(whole),
    }
    measured = {"rows": counts["rows"], "bytes": found, "bits": bits}
    (HERE / "results" / "session_bytes.json").write_text(json.dumps(measured, indent=1) + "\n")
    experiment = json.loads((HERE / "results" / "session_experiment.json").read_text())
    page = render(experiment, measured)
    (HERE / "SESSIONS.md").write_text(page)
    print(page)


def tenth_of_ids(paths: Iterable[Path]) -> list[pa.Table]:
    """Return the rows of a tenth of the ids, in the order of the ids, in row groups."""
    low, high = (f"{(1 << 63) * number // SHARE:016x}" for number in (3, 4))
    parts = []
    for path in paths:
        rows = pq.read_table(path)
        ids = rows[COLUMN]
        parts.append(rows.filter(pc.and_(pc.greater_equal(ids, low), pc.less(ids, high))))
    rows = pa.concat_tables(parts)
    rows = rows.take(pc.sort_indices(rows[COLUMN].combine_chunks())).combine_chunks()
    groups = max(round(rows.num_rows / ROWS_OF_A_ROW_GROUP), 1)
    step = -(-rows.num_rows // groups)
    return [rows.slice(first, step) for first in range(0, rows.num_rows, step)]


def column_bytes(
    files: Sequence[Sequence[pa.Table]], columns: MetaColumns, *, is_ordered: bool, of_rows: int
) -> dict[str, float]:
    """Return the bytes of each column, and of the page indexes and footers, scaled to ``of_rows`` rows."""
    total: Counter[str] = Counter()
    first = 0
    for row_groups in files:
        encoder = RowGroupEncoder(FilesPolicy(), is_ordered=is_ordered)
        for rows in row_groups:
            parts = encoder.encode(with_meta_columns(rows, columns, first)).parts
            first += rows.num_rows
            for chunk in parts.chunks(0):
                total[chunk.name] += chunk.size_bytes
            total["index"] += parts.index_bytes(0)
    return {name: size * of_rows / first for name, size in total.items()}


def with_meta_columns(rows: pa.Table, columns: MetaColumns, first: int) -> pa.Table:
    """Return the rows with meta columns; their sequence numbers begin with ``first``."""
    numbers = pa.array(np.arange(first, first + rows.num_rows)).cast(pa.string())
    meta = {
        COMMIT_TIME: constant(INSTANT, rows.num_rows),
        "_hoodie_commit_seqno": pc.binary_join_element_wise(pa.scalar(f"{INSTANT}_0_"), numbers, ""),
        RECORD_KEY: rows["k"],
        PARTITION_PATH: constant("", rows.num_rows),
        FILE_NAME: constant(f"{'0' * 36}-0_0-0-0_{INSTANT}.parquet", rows.num_rows),
    }
    empty = {name: pa.nulls(rows.num_rows, meta[name].type) for name in columns.empty}
    own = {name: rows[name] for name in rows.column_names}
    return pa.table(meta | empty | own)


def constant(value: str, rows: int) -> pa.DictionaryArray:
    """Return a column with one value."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [value]).cast(DICTIONARY)


def bits_of_differences(rows: pa.Table) -> dict[str, float]:
    """Return the entropy, in bits a row, of the differences between neighbours in numeric columns.

    A difference is coded as its magnitude, by the frequency of magnitudes, and the bits below.
    """
    numbers = {
        "k": pc.cast(pc.utf8_slice_codeunits(rows["k"], 2), pa.int64()),
        "at": pc.cast(rows["at"], pa.int64()),
    }
    found = {}
    for name, column in numbers.items():
        magnitudes = np.floor(np.log2(np.abs(np.diff(column.to_numpy())) + 1)).astype(int)
        shares = np.bincount(magnitudes) / len(magnitudes)
        shares = shares[shares > 0]
        found[name] = float(-(shares * np.log2(shares)).sum() + magnitudes.mean())
    return found


if __name__ == "__main__":
    main()
