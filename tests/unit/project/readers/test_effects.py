"""Effects of specs on declared readers, by the matrix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.project.readers.effects import Effect, effects
from parquetry.project.readers.matrix import ReaderResult, matrix
from parquetry.runtime.spec.clustering import ClusteringSpec, Trigger
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import (
    Column,
    DeltaFormat,
    Extra,
    FilesPolicy,
    IcebergFormat,
    Operation,
    Publish,
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


def published(spec: TableSpec) -> TableSpec:
    return replace(spec, publish=Publish(delta=DeltaFormat(), iceberg=IcebergFormat()))


SPECS = {
    "unfinished": PLAIN,
    "upserted": PLAIN,
    "clustered": CLUSTERED,
    "cleaned": replace(CLUSTERED, retention=ONE_VERSION),
    "partition_deleted": replace(
        PLAIN,
        sources=(Source(name="s", format="csv", path="in", operation=Operation.INSERT_OVERWRITE),),
    ),
    "nested": with_column("struct<a:int>"),
    "nested_deeply": with_column("array<struct<a:int>>"),
    "decimals": with_column("decimal(7,2)"),
    "before_1970": with_column("timestamp"),
    "special_partitions": replace(with_column("string"), partition_by=("c",)),
    "encrypted": replace(PLAIN, files=FilesPolicy(encryption_key="env:KEY")),
    "without_meta_columns": replace(PLAIN, files=FilesPolicy(meta_columns=MetaColumns.NONE)),
    "version_8": replace(PLAIN, table_version=8),
    "version_9": replace(PLAIN, table_version=9),
    "published_delta": replace(PLAIN, publish=Publish(delta=DeltaFormat())),
    "published_iceberg": replace(PLAIN, publish=Publish(iceberg=IcebergFormat())),
    "unpublished": PLAIN,
}
"""A spec of each kind that a spec alone can have."""

EVOLVED = {
    "column_added": (PLAIN, with_column("string")),
    "column_widened": (with_column("int"), with_column("bigint")),
    "field_added": (with_column("array<struct<a:int>>"), with_column("array<struct<a:int,b:int>>")),
    "field_widened": (with_column("struct<a:int>"), with_column("struct<a:bigint>")),
    "publishing_stopped": (published(PLAIN), PLAIN),
}
"""Two specs of each kind that a change brings about."""


def test_every_kind_of_the_matrix_has_a_cause_in_specs():
    assert SPECS.keys() | EVOLVED.keys() | {"plain"} == matrix().kinds.keys()


def failing(kind: str) -> set[str]:
    """The readers that fail at a kind, in another way than at every upserted table, which is said once."""
    return {
        name
        for name, reader in matrix().readers.items()
        if (cell := reader.cells.get(kind)) is not None
        and cell.result is not ReaderResult.RIGHT
        and (kind == "upserted" or cell != reader.cells.get("upserted"))
        # What the metadata does to other readers, it has done before.
        and (kind != "publishing_stopped" or reader.published_as is not None)
    }


def of(spec: TableSpec, reader: str) -> dict[str, Effect]:
    return {effect.trait.kind: effect for effect in effects(spec, [reader])}


@pytest.mark.parametrize("kind", SPECS)
def test_a_reader_is_named_exactly_if_its_cell_is_not_right(kind):
    spec = SPECS[kind] if kind == "unpublished" else published(SPECS[kind])
    found = {effect.reader.name for effect in effects(spec, ALL) if effect.trait.kind == kind}
    assert found == failing(kind)


@pytest.mark.parametrize("kind", EVOLVED)
def test_a_changed_column_counts_where_older_files_are_there(kind):
    old, new = EVOLVED[kind]
    if kind != "publishing_stopped":
        old, new = published(old), published(new)
    found = {effect.reader.name for effect in effects(new, ALL, since=old) if effect.trait.kind == kind}
    assert found == failing(kind)
    assert failing(kind)
    assert kind not in {effect.trait.kind for effect in effects(new, ALL)}
    assert effects(new, ALL, since=new) == ()


PUBLISHED_READERS = {
    name: reader.published_as for name, reader in matrix().readers.items() if reader.published_as
}


@pytest.mark.parametrize("name", PUBLISHED_READERS)
def test_a_reader_of_published_tables_is_named_where_its_format_is_not_published(name):
    form = PUBLISHED_READERS[name]
    own, both = SPECS[f"published_{form}"], published(PLAIN)
    (effect,) = effects(replace(CLUSTERED, files=FilesPolicy(encryption_key="env:KEY")), [name])
    assert str(effect.message).startswith(
        f"{matrix().readers[name].title} cannot read the table without publish.{form} ("
    )
    assert str(effect.remedy) == f"set publish.{form}: {{}}"
    (other,) = SPECS.keys() & {"published_delta", "published_iceberg"} - {f"published_{form}"}
    assert of(SPECS[other], name).keys() == {"unpublished"}
    assert of(own, name) == of(both, name) == {}
    assert effects(both, [name], since=own) == effects(own, [name], since=PLAIN) == ()
    assert effects(PLAIN, [name], since=PLAIN) == effects(PLAIN, [name], since=SPECS[other]) == ()
    (effect,) = effects(SPECS[other], [name], since=both)
    assert (effect.trait.kind, effect.is_wrong) == ("publishing_stopped", True)


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("array<int>", "array<bigint>", {"field_widened"}),
        ("map<string,struct<a:int>>", "map<string,struct<a:bigint,b:int>>", {"field_added", "field_widened"}),
        ("struct<a:struct<b:int>>", "struct<a:struct<b:int,c:int>>", {"field_added"}),
        (None, "struct<a:struct<b:int>>", {"nested", "column_added"}),
        ("struct<a:int>", "struct<a:int>", set()),
    ],
)
def test_changes_of_fields_are_told_apart(old, new, kinds):
    before = PLAIN if old is None else with_column(old)
    readers = ["polars-parquet", "clickhouse"]
    assert {e.trait.kind for e in effects(with_column(new), readers, since=before)} == kinds


def test_several_changed_columns_are_one_trait():
    more = with_column("int")
    more = more.with_columns((*more.columns, Column(name="d", type="int"), Column(name="e", type="int")))
    (effect,) = effects(more, ["polars-parquet"], since=PLAIN)
    assert effect.trait.path == "columns.c"
    assert effect.trait.when == "while older files lack c and 2 more"


def test_clickhouse_doubles_the_rows_of_a_clustered_table():
    effect = of(CLUSTERED, "clickhouse")["clustered"]
    assert effect.is_wrong
    assert str(effect.message) == (
        "ClickHouse returns wrong rows between a clustering and the clean of the files that it replaced "
        "(32 of 16 rows)"
    )
    assert "inspect --files" in str(effect.remedy)
    assert of(PLAIN, "clickhouse").keys() == {"unfinished"}
    assert effects(CLUSTERED, []) == ()


def test_the_remedies_are_remedies():
    cured = replace(CLUSTERED, retention=ONE_VERSION)
    for reader in ("clickhouse", "polars-parquet", "duckdb-parquet", "pyarrow-parquet", "spark-parquet"):
        assert of(cured, reader).keys() == {"unfinished"}
    assert "cleaned" in of(cured, "daft")
    off = replace(CLUSTERED, extra=Extra(clustering=ClusteringSpec(trigger=Trigger.OFF)))
    assert of(off, "daft").keys() <= {"unfinished"}


def test_a_change_is_blamed_for_what_it_adds_alone():
    clustered_decimals = replace(with_column("decimal(7,2)"), extra=CLUSTERED.extra)
    found = effects(clustered_decimals, ["clickhouse"], since=with_column("decimal(7,2)"))
    assert [effect.trait.kind for effect in found] == ["clustered"]
    assert effects(clustered_decimals, ["clickhouse"], since=clustered_decimals) == ()


def test_types_are_found_at_any_depth():
    deep = {"unfinished", "nested", "nested_deeply"}
    for column_type in ("array<struct<a:map<string,timestamp>>>", "struct<a:map<string,array<int>>>"):
        assert of(with_column(column_type), "clickhouse").keys() == deep
    assert of(with_column("struct<a:array<int>>"), "clickhouse").keys() == deep - {"nested_deeply"}
