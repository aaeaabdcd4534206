"""Plans foretell what declared readers make of a change."""

from __future__ import annotations

import pytest

from parquetry.compiler.plan.codec import decode, encode
from tests.support.planning import apply, plan
from tests.support.project_folder import ProjectFolder, columns_with

CLUSTERED = {"trigger": "async", "execution": {"strategy": "sort", "columns": ["amount"]}}


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def told(folder):
    """The codes and readers of the plan's warnings."""
    document = plan(folder)
    assert decode(encode(document), name="plan").evidence.warnings == document.evidence.warnings
    return [
        (warning.code, str(warning.message).split(": ")[1].split(" returns ")[0].split(" cannot ")[0])
        for warning in document.evidence.warnings
    ]


def test_a_new_table_is_judged_as_a_whole(folder):
    folder.orders(readers=["clickhouse", "daft"], clustering=CLUSTERED)
    assert told(folder) == [
        ("SC603", "ClickHouse"),  # while a write is not committed
        ("SC603", "ClickHouse"),  # between a clustering and its clean
        ("SC603", "Daft"),
        ("SC603", "Daft"),
        ("SC604", "Daft"),  # special characters in partition values
    ]


def test_a_change_is_judged_by_what_it_adds(folder):
    folder.orders(readers=["clickhouse", "polars-parquet"])
    apply(folder)
    assert told(folder) == []
    folder.orders(readers=["clickhouse", "polars-parquet"], clustering=CLUSTERED)
    assert told(folder) == [("SC603", "ClickHouse"), ("SC603", "Polars over the folder")]
    apply(folder)
    assert told(folder) == []
    folder.orders(
        readers=["clickhouse", "polars-parquet"],
        clustering=CLUSTERED,
        columns=columns_with(note={"type": "string"}),
    )
    assert told(folder) == [("SC604", "Polars over the folder")]


def test_the_position_is_that_of_the_setting(folder):
    apply(folder)
    folder.orders(readers=["clickhouse"], clustering=CLUSTERED)
    (warning,) = plan(folder).evidence.warnings
    assert warning.table == "orders"
    lines = (folder.root / "tables" / "orders.yml").read_text().splitlines()
    assert "trigger" in lines[int(warning.origin.split(":")[1]) - 1]


def test_a_blocked_change_is_not_judged(folder):
    folder.orders(readers=["athena"])
    apply(folder)
    folder.orders(readers=["athena"], table_version=9, partition_by=None)
    assert plan(folder).intent.blocked
    assert told(folder) == []


def test_without_readers_nothing_is_said(folder):
    folder.orders(clustering=CLUSTERED, table_version=9)
    assert told(folder) == []


def test_a_reader_of_published_tables_is_named_before_publishing_ends(folder):
    folder.orders(readers=["duckdb-iceberg"])
    assert told(folder) == [("SC604", "DuckDB over Iceberg")]
    folder.orders(readers=["duckdb-iceberg"], publish={"iceberg": {}})
    assert told(folder) == []
    apply(folder)
    folder.orders(readers=["duckdb-iceberg"])
    (warning,) = plan(folder).evidence.warnings
    assert warning.code == "SC603"
    assert str(warning.message) == (
        "orders: DuckDB over Iceberg returns wrong rows once publish.iceberg is removed, as it sees no later write "
        "(8 of 12 rows); keep publish.iceberg, or read it with another reader of the matrix, such as parquetry's own"
    )
