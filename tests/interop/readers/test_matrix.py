"""Every reader makes of every kind of table what the matrix says."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.compiler.reports.duckdb_view import duckdb_view
from parquetry.project.readers.matrix import MatrixCell, ReaderResult, matrix
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.interop.readers.kinds import KINDS, MadeTable, make
from tests.interop.readers.readers import WITHOUT_JVM, cell, gist
from tests.interop.readers.run import MATRIX, cells_without_jvm, changes, make_tables, other_cells, versions
from tools.readers_page import PAGE, readers_page

HINT = "if that is right, run `make readers` and look at the difference"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return make_tables(tmp_path_factory.mktemp("readers"))


def test_readers_without_a_jvm_do_what_the_matrix_says(tables):
    found = cells_without_jvm(tables)
    assert found.keys() == WITHOUT_JVM.keys()
    assert changes(matrix(), found) == [], HINT


def test_the_view_of_duckdb_is_right_for_every_kind_but_encrypted(tables):
    def read(table):
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(duckdb_view(open_store(table.path)).statement)
            return connection.sql("FROM orders").to_arrow_table()

    found = {kind: cell("duckdb-parquet", table, read) for kind, table in tables.items()}
    assert {kind for kind, answer in found.items() if answer.result is not ReaderResult.RIGHT} == {
        "encrypted"
    }
    assert found["encrypted"].result is ReaderResult.REFUSED
    assert "to_duckdb" in found["encrypted"].detail


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.interop
def test_all_other_readers_do_what_the_matrix_says(tables, tmp_path):
    found = other_cells(tables, tmp_path)
    run = {name for name, reader in matrix().readers.items() if reader.version is not None}
    assert found.keys() | WITHOUT_JVM.keys() == run
    assert changes(matrix(), found) == [], HINT
    known = versions()
    assert {name: matrix().readers[name].version for name in run} == {name: known[name] for name in run}


def test_the_tables_are_of_their_kinds(tables):
    """Files that are not live are there where the kind says so, and nowhere else."""
    assert tables.keys() == KINDS.keys() == matrix().kinds.keys()
    for kind, table in tables.items():
        stored = {str(path.relative_to(table.path)) for path in table.path.rglob("*.parquet")}
        metadata = {path for path in stored if path.startswith("_delta_log/")}
        assert bool(metadata) == (kind == "published_delta")
        stored -= metadata
        handle = open_table(open_store(table.path, allowed=Allowed(keys=frozenset(table.keys))))
        live = {part.path for part in handle.view(handle.timeline()).all_slices()}
        assert live <= stored
        has_other_files = kind in {
            *("unfinished", "upserted", "clustered", "partition_deleted"),
            *("without_meta_columns", "version_8", "version_9"),
        }
        assert (live != stored) == has_other_files, kind
        is_published = any((table.path / name).exists() for name in ("_delta_log", "metadata"))
        assert is_published == kind.startswith("publish"), kind
        assert bool(table.failures) == (kind == "encrypted")
        checkpoints = [*table.published_path.glob("_delta_log/*.checkpoint.parquet")]
        assert bool(checkpoints) == (kind == "published_delta"), kind
    (file, *_) = tables["without_meta_columns"].path.rglob("*.parquet")
    assert pq.read_table(file, columns=["_hoodie_record_key"])[0].null_count > 0
    for version in (8, 9):
        properties = tables[f"version_{version}"].path / ".hoodie" / "hoodie.properties"
        assert f"hoodie.table.version={version}\n" in properties.read_text()


def test_an_answer_is_compared_with_the_rows(tmp_path):
    table = make("plain", tmp_path)
    rows = table.rows

    def judged(answer):
        return cell("hudi-rs", table, lambda _: answer)

    assert (
        judged(rows) == judged(rows.take([3, 1, 2, 0, 7, 6, 5, 4])) == MatrixCell(result=ReaderResult.RIGHT)
    )
    assert judged(rows.slice(1)) == MatrixCell(result=ReaderResult.WRONG, detail="7 of 8 rows")
    assert judged(rows.take([0, *range(8)])) == MatrixCell(result=ReaderResult.WRONG, detail="9 of 8 rows")
    assert judged(rows.take([0, *range(7)])).result is ReaderResult.WRONG
    assert judged(rows.drop_columns(["v"])) == MatrixCell(result=ReaderResult.WRONG, detail="no column v")
    changed = rows.set_column(1, "v", [[0, *range(10, 17)]])
    assert judged(changed) == MatrixCell(result=ReaderResult.WRONG, detail="10 for 1 in v")
    refused = cell("hudi-rs", table, lambda _: (_ for _ in ()).throw(ValueError("no such codec")))
    assert refused == MatrixCell(result=ReaderResult.REFUSED, detail="no such codec")


def test_a_changed_cell_is_named():
    reader = matrix().readers["hudi-rs"]
    found = {
        "hudi-rs": {**reader.cells, "plain": MatrixCell(result=ReaderResult.WRONG, detail="9 of 8 rows")}
    }
    (line,) = changes(matrix(), found)
    assert line.startswith("hudi-rs, plain: ")
    assert changes(matrix(), {"hudi-rs": reader.cells}) == []
    other = replace(reader.cells["encrypted"], detail="another message")
    assert len(changes(matrix(), {"hudi-rs": {"encrypted": other}})) == 1


def test_gists_do_not_depend_on_the_run(tmp_path):
    name = "a0b1c2d3-0000-5000-8000-000000000000-0_0-0-0_20260101000000000.parquet"
    said = f"Could not open '{tmp_path}/place=oslo/{name}'\nat Reader.open"
    table = MadeTable(path=tmp_path, rows=pa.table({}), published_path=tmp_path / "published", failures={})
    assert gist(said, table) == "Could not open 'FILE'"
    java = "An error occurred while calling o12.load\n: Failed\nCaused by: a\n\tat b\nCaused by: no key\n"
    assert gist(java, table) == "no key"
    assert gist(f"no '{tmp_path}/published/metadata/1a2b-m0.avro'", table) == "no 'metadata/FILE'"
    assert gist("", table) == "no message"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == readers_page(matrix()), "run `python -m tools.readers_page`"
    assert MATRIX.exists()
