"""Readers of Delta tables that are not ours: delta-rs, Polars and DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import deltalake
import duckdb
import polars as pl
import pyarrow as pa
from duckdb_extensions import import_extension


def delta_rs(path: Path | str, *, version: int | None = None) -> pa.Table:
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(path), version=version))
    return pa.table(builder.execute("select * from t").read_all())


def polars(path: Path | str) -> pa.Table:
    return pl.scan_delta(str(path)).collect().to_arrow()


def duckdb_scan(path: Path | str) -> pa.Table:
    return _connection().execute("select * from delta_scan(?)", [str(path)]).to_arrow_table()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """A connection with the extension, which is slow to load."""
    connection = duckdb.connect()
    import_extension("delta", con=connection)
    connection.execute("load delta")
    return connection


READERS = {"delta-rs": delta_rs, "polars": polars, "duckdb": duckdb_scan}


def sorted_rows(table: pa.Table, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """The rows of the columns, in an order that does not depend on the reader."""
    rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return sorted(rows, key=repr)
