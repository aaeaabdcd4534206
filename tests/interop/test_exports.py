"""What `compile --format hudi-options|ddl` prints is what real Hudi needs: we adopt what it makes."""

from __future__ import annotations

import random

import pytest

from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.spec_files.adopt import adopt
from parquetry.compiler.spec_files.exports import export_tables
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.interop.versions import MOSTLY_1_2_0
from tests.support.hudi_history import start
from tests.support.hudi_spark import HudiTable
from tests.support.project_folder import ProjectFolder
from tests.support.rows import to_arrow

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = [
    {"name": "id", "type": "string", "nullable": False},
    {"name": "region", "type": "string"},
    {"name": "version", "type": "bigint"},
    {"name": "c_int", "type": "int"},
    {"name": "c_price", "type": "decimal(10,2)"},
]


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables" / "orders.yml").unlink()
    return folder


def declare(folder, **changes):
    table = {
        "apiVersion": "parquetry/v1",
        "kind": "table",
        "name": "made",
        "columns": COLUMNS,
        "record_key": ["id"],
        "ordering": "version",
        "partition_by": ["region"],
        "sizing": {"max_file_size": "8MiB", "small_file_limit": "6MiB"},
        "retention": {"clean": {"keep_commits": 3}, "archive": {"keep_commits": 6}},
        **changes,
    }
    folder.write("tables/made.yml", table)
    (export,) = export_tables(folder.workspace())
    declared = folder.workspace().table("made").spec
    (folder.root / "tables" / "made.yml").unlink()
    return export, declared


def adopted(folder, path):
    adopt(folder.workspace(), str(path), name=None, reload=folder.workspace)
    assert plan_workspace(folder.workspace(), now_ms=0).is_empty
    return folder.workspace().table("made").spec


KINDS = ({}, {"partition_by": ["region", "c_int"]}, {"record_key": ["id", "version"]})


@pytest.mark.parametrize(
    ("hudi", "changes"),
    [
        pytest.param(version, changes, marks=[] if (i + j) % 2 == 0 else pytest.mark.long)
        for i, version in enumerate(("1.2.0", "0.15.0"))
        for j, changes in enumerate(KINDS)
    ],
    indirect=["hudi"],
    ids=str,
)
def test_real_hudi_writes_a_table_with_these_options_and_we_adopt_it(folder, hudi, changes):
    columns = [{**c, "nullable": c["name"] not in changes.get("record_key", ["id"])} for c in COLUMNS]
    export, declared = declare(folder, columns=columns, **changes)
    path = folder.root / "warehouse" / "made"
    made = start(hudi, path, partition_by=("region",), columns=["c_int", "c_price"])
    rows = made.rows(random.Random(81), range(20), 1)
    settings = dict(export.options.options)
    table = HudiTable(path=str(path), name="made", key=("id",), options=settings)
    arrow = to_arrow(rows, made.schema)
    hudi.write(table, arrow, "insert", mode="overwrite", options=settings, guarded=False)
    hudi.write(table, arrow, "upsert", options=settings, guarded=False)
    assert hudi.read(str(path)).num_rows == 20
    spec = adopted(folder, path)
    for field in ("columns", "record_key", "ordering", "partition_by", "hive_style", "url_encode"):
        assert getattr(spec, field) == getattr(declared, field), field


@MOSTLY_1_2_0
def test_spark_creates_the_table_from_the_statement_fills_and_reads_it(folder, hudi):
    export, declared = declare(folder)
    name = f"made_by_ddl_{hudi.version.replace('.', '_')}"
    statement = export.ddl.replace("`made`", f"`{name}`", 1).rstrip().rstrip(";")
    hudi.sql(statement)
    hudi.sql(
        f"insert into {name} (id, version, c_int, c_price, region) "
        "values ('a', 1, 1, 1.5, 'eu'), ('b', 1, 2, 2.5, 'us')",
        export.options.options,
    )
    hudi.sql(f"update {name} set c_int = 7 where id = 'a'", export.options.options)
    found = hudi.sql(f"select id, c_int, region from {name} order by id")
    assert [tuple(row.values()) for row in found] == [("a", 7, "eu"), ("b", 2, "us")]
    config = open_table(open_store(export.location)).config
    assert (config.version, config.record_key, config.partition_by) == (6, ("id",), ("region",))
    spec = adopt_made(folder, export)
    assert {column.name for column in spec.columns} == {column.name for column in declared.columns}
    assert (spec.record_key, spec.ordering) == (declared.record_key, declared.ordering)


def adopt_made(folder, export):
    adopt(folder.workspace(), export.location, name="made", reload=folder.workspace)
    assert plan_workspace(folder.workspace(), now_ms=0).is_empty
    return folder.workspace().table("made").spec
