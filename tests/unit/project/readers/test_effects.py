"""What declared readers make of a table, by the matrix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.project.readers.effects import effects
from parquetry.project.readers.matrix import ReaderResult, matrix
from parquetry.runtime.spec.clustering import ClusteringSpec, Trigger
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import (
    Column,
    Extra,
    FilesPolicy,
    Operation,
    RetentionPolicy,
    Source,
    TableSpec,
)

ALL = tuple(matrix().readers)
PLAIN = TableSpec(
    name="orders",
    columns=(Column(name="id", type="bigint", nullable=False), Column(name="v", type="bigint")),
    record_key=("id",),
)
CLUSTERED = replace(PLAIN, extra=Extra(clustering=ClusteringSpec(trigger=Trigger.ASYNC)))
ONE_VERSION = RetentionPolicy(keep_commits=None, keep_versions=1)


def with_column(kind: str) -> TableSpec:
    return PLAIN.with_columns((*PLAIN.columns, Column(name="c", type=kind)))


SPECS = {
    "upserted": PLAIN,
    "clustered": CLUSTERED,
    "cleaned": replace(CLUSTERED, retention=ONE_VERSION),
    "partition_deleted": replace(
        PLAIN,
        sources=(Source(name="s", format="csv", path="in", operation=Operation.INSERT_OVERWRITE),),
    ),
    "nested": with_column("struct<a:int>"),
    "decimals": with_column("decimal(7,2)"),
    "before_1970": with_column("timestamp"),
    "special_partitions": replace(with_column("string"), partition_by=("c",)),
    "encrypted": replace(PLAIN, files=FilesPolicy(encryption_key="env:KEY")),
    "without_meta_columns": replace(PLAIN, files=FilesPolicy(meta_columns=MetaColumns.NONE)),
    "version_8": replace(PLAIN, table_version=8),
    "version_9": replace(PLAIN, table_version=9),
}
"""A spec of each kind that a spec alone can have."""


def test_every_kind_of_the_matrix_has_a_cause_in_specs():
    assert SPECS.keys() | {"plain", "evolved"} == matrix().kinds.keys()


@pytest.mark.parametrize("kind", SPECS)
def test_a_reader_is_named_exactly_if_its_cell_is_not_right(kind):
    found = {effect.reader.name for effect in effects(SPECS[kind], ALL) if effect.trait.kind == kind}
    upserted = {name: reader.cells.get("upserted") for name, reader in matrix().readers.items()}
    failing = {
        name
        for name, reader in matrix().readers.items()
        if (cell := reader.cells.get(kind)) is not None
        and cell.result is not ReaderResult.RIGHT
        # It fails in this way at every upserted table, which is said once.
        and (kind == "upserted" or cell != upserted[name])
    }
    assert found == failing


def test_clickhouse_doubles_the_rows_of_a_clustered_table():
    (effect,) = effects(CLUSTERED, ["clickhouse"])
    assert effect.is_wrong
    assert str(effect.message) == (
        "ClickHouse returns wrong rows between a clustering and the clean of the files that it replaced "
        "(32 of 16 rows)"
    )
    assert "inspect --files" in effect.remedy
    assert effects(PLAIN, ["clickhouse"]) == ()
    assert effects(CLUSTERED, []) == ()


def test_the_remedies_are_remedies():
    cured = replace(CLUSTERED, retention=ONE_VERSION)
    assert effects(cured, ["clickhouse"]) == ()
    assert effects(cured, ["polars-parquet", "duckdb-parquet", "pyarrow-parquet", "spark-parquet"]) == ()
    assert [effect.trait.kind for effect in effects(cured, ["daft"])] == ["cleaned"]
    off = replace(cured, extra=Extra(clustering=ClusteringSpec(trigger=Trigger.OFF)))
    assert effects(replace(off, retention=PLAIN.retention), ["daft"]) == ()


def test_a_change_is_blamed_for_what_it_adds_alone():
    clustered_decimals = replace(with_column("decimal(7,2)"), extra=CLUSTERED.extra)
    found = effects(clustered_decimals, ["clickhouse"], since=with_column("decimal(7,2)"))
    assert [effect.trait.kind for effect in found] == ["clustered"]
    assert effects(clustered_decimals, ["clickhouse"], since=clustered_decimals) == ()


def test_added_and_widened_columns_count_where_older_files_are_there():
    wider = PLAIN.with_columns((PLAIN.columns[0], Column(name="v", type="string")))
    for changed in (with_column("int"), wider):
        found = effects(changed, ["polars-parquet"], since=PLAIN)
        assert [effect.trait.kind for effect in found] == ["evolved"]
        assert not [
            effect for effect in effects(changed, ["polars-parquet"]) if effect.trait.kind == "evolved"
        ]
    assert effects(PLAIN, ["polars-parquet"], since=PLAIN) == ()


def test_types_are_found_at_any_depth():
    spec = with_column("array<struct<a:map<string,timestamp>>>")
    kinds = {effect.trait.kind for effect in effects(spec, ["clickhouse"])}
    assert kinds == {"nested"}
