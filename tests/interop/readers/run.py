"""Run every reader on every kind of table: `python -m tests.interop.readers.run` writes the matrix and its page."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from parquetry.project.readers.matrix import FILE, Matrix, MatrixCell, from_json
from tests.interop.environment import FORMAT_VERSIONS
from tests.interop.readers.kinds import KINDS, MadeTable, make
from tests.interop.readers.readers import (
    HUDI,
    WITHOUT_JVM,
    cell,
    read_separately,
    separate_versions,
    spark_readers,
)
from tests.support.repository import ROOT
from tools import readers_page

MATRIX = ROOT / "project" / "readers" / FILE
_PACKAGES = {
    "hudi-rs": "hudi",
    "duckdb-parquet": "duckdb",
    "polars-parquet": "polars",
    "pyarrow-parquet": "pyarrow",
    "spark-parquet": "pyspark",
    "delta-rs": "deltalake",
    "duckdb-delta": "duckdb",
    "polars-delta": "polars",
    "pyiceberg": "pyiceberg",
    "duckdb-iceberg": "duckdb",
    "polars-iceberg": "polars",
}

Cells = Mapping[str, Mapping[str, MatrixCell]]


def make_tables(folder: Path) -> dict[str, MadeTable]:
    """A table of each kind, by kind."""
    return {kind: make(kind, folder) for kind in KINDS}


def cells_without_jvm(tables: Mapping[str, MadeTable]) -> Cells:
    """The cells of the readers that need nothing but this process."""
    return {
        name: {kind: cell(name, table, read) for kind, table in tables.items()}
        for name, read in WITHOUT_JVM.items()
    }


def other_cells(tables: Mapping[str, MadeTable], folder: Path) -> Cells:
    """The cells of the readers on Spark, and of those in an environment of their own."""
    found = dict(read_separately(tables, folder / "separate"))
    with spark_readers(folder / "spark") as readers:
        for name, read in readers.items():
            found[name] = {kind: cell(name, table, read) for kind, table in tables.items()}
    return found


def versions() -> dict[str, str | None]:
    """The version of each reader that was run; ours is the one of the matrix."""
    found: dict[str, str | None] = {name: version(package) for name, package in _PACKAGES.items()}
    return found | HUDI | FORMAT_VERSIONS | separate_versions() | {"parquetry": "this version"}


def to_json(cell: MatrixCell) -> dict[str, Any]:
    """The cell as the matrix has it."""
    given = {"result": cell.result.value, "detail": cell.detail, "source": cell.source}
    return {key: value for key, value in given.items() if value is not None}


def main() -> int:
    """Write the matrix and its page, and print the cells that changed."""
    document = json.loads(MATRIX.read_text(encoding="utf-8"))
    before = from_json(document)
    with tempfile.TemporaryDirectory(prefix="readers-") as name:
        folder = Path(name)
        tables = make_tables(folder / "tables")
        found = {**cells_without_jvm(tables), **other_cells(tables, folder)}
    known = versions()
    for reader, cells in found.items():
        entry = document["readers"][reader]
        entry["version"] = known[reader]
        entry["cells"] = {kind: to_json(cells[kind]) for kind in document["kinds"]}
    MATRIX.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    readers_page.write(from_json(document))
    print("\n".join(changes(before, found)) or "no cell has changed")
    return 0


def changes(before: Matrix, found: Cells) -> list[str]:
    """A line for each cell that is another one than in the matrix."""
    return [
        f"{name}, {kind}: {old} became {new}"
        for name, cells in found.items()
        for kind, new in cells.items()
        if (old := before.readers[name].cells.get(kind)) != new
    ]


if __name__ == "__main__":
    sys.exit(main())
