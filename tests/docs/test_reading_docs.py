"""What the page on reading says, executed: the rows, and the files an engine is given."""

from __future__ import annotations

import re

import pyarrow.parquet as pq

from tests.support.repository import ROOT
from tests.support.small_table import make_table, view_rows

PAGE = ROOT / "docs/how-to/read.md"


def snippets(path):
    """The page's Python without Spark and without DuckDB, for a table at ``path``."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    kept = [line for block in blocks[1:] for line in block.splitlines() if not line.startswith("duckdb.")]
    return "\n".join(kept).replace('"/data/lake/orders"', repr(str(path)))


def test_rows_and_files_are_those_of_the_table_and_no_older_ones(tmp_path):
    table = make_table(tmp_path / "t")
    table.upsert({"k1": (1, "a"), "k2": (2, "b")})
    table.upsert({"k1": (3, "a")})
    found = {}
    exec(snippets(tmp_path / "t"), found)
    rows = {row.id: (row.v, row.p) for row in found["frame"].itertuples()}
    assert rows == view_rows(tmp_path / "t") == {"k1": (3, "a"), "k2": (2, "b")}
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in found["files"]) == 2
    assert len(list((tmp_path / "t").glob("p=*/*.parquet"))) == 3
