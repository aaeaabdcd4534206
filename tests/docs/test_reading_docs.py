"""What the page on reading says, executed: the rows, and the files an engine is given."""

from __future__ import annotations

import re

import duckdb
import pyarrow.parquet as pq

import parquetry
from tests.support.repository import ROOT
from tests.support.small_table import make_table, view_rows

PAGE = ROOT / "docs/how-to/read.md"


BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
_, OURS, *OF_HUDI_RS = BLOCKS


def snippets(path):
    """The page's Python for hudi-rs, without DuckDB, for a table at ``path``."""
    kept = [line for block in OF_HUDI_RS for line in block.splitlines() if not line.startswith("duckdb.")]
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


def test_each_form_of_rows_without_spark_is_made(tmp_path):
    table = make_table(tmp_path / "t")
    instant = table.upsert({"k1": (1, "Oslo"), "k2": (200, "Rome")}).instant
    names = {"order_id": "id", "amount": "v", "city": "p", "20261121104312040": str(int(instant) - 1)}
    lines = [re.sub("|".join(names), lambda found: names[found[0]], line) for line in OURS.splitlines()]
    with duckdb.connect() as connection:
        known = {"orders": parquetry.open(tmp_path / "t"), "connection": connection}
        in_oslo, then, written, stream, _, count = [eval(line, known) for line in lines]
        assert connection.sql("SELECT sum(v) FROM orders").fetchall() == [(201,)]
    assert in_oslo.to_dict("list") == {"id": ["k1"], "v": [1]}
    assert then.height == 0
    assert written.num_rows == stream.read_all().num_rows == 2
    assert count == 1
