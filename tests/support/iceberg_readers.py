"""Readers of Iceberg tables that are not ours: pyiceberg, Polars and DuckDB."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
from duckdb_extensions import import_extension
from pyiceberg.table import StaticTable


def static_table(path: Path | str) -> StaticTable:
    return StaticTable.from_metadata(str(path))


def pyiceberg(path: Path | str, *, snapshot: int | None = None) -> pa.Table:
    return static_table(path).scan(snapshot_id=snapshot).to_arrow()


def polars(path: Path | str) -> pa.Table:
    with warnings.catch_warnings():
        # It plans with pyiceberg, and reads the files itself.
        warnings.simplefilter("ignore", pl.exceptions.PerformanceWarning)
        return pl.scan_iceberg(static_table(path), reader_override="native").collect().to_arrow()


def duckdb_scan(path: Path | str) -> pa.Table:
    return _connection().execute("select * from iceberg_scan(?)", [str(path)]).to_arrow_table()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """A connection with the extensions, which are slow to load."""
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        import_extension(name, con=connection)
        connection.execute(f"load {name}")
    return connection


READERS = {"pyiceberg": pyiceberg, "polars": polars, "duckdb": duckdb_scan}
