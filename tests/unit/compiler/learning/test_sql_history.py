"""Query histories of Trino, Athena and dbt, and the queries that are learned from them."""

from __future__ import annotations

import json

import pytest
import yaml

from parquetry.compiler.learning import log_files, proposal, sql_history
from parquetry.compiler.learning.proposal import learn
from parquetry.compiler.learning.sql_history import LogKind, StatementCounts, statements_of
from parquetry.compiler.workspace.opened import open_workspace
from parquetry.errors import UsageError
from tests.support.project_folder import ProjectFolder


def trino(sql, *, read_bytes=100, inputs=True, schema="shop", time="2024-01-02T03:04:05Z"):
    """A QueryCompletedEvent as an event listener writes it."""
    table = {"catalogName": "lake", "schema": "shop", "table": "orders", "physicalInputBytes": read_bytes}
    return {
        "metadata": {"queryId": "q", "query": sql, "queryState": "FINISHED"},
        "statistics": {"physicalInputBytes": read_bytes},
        "context": {"user": "ada", "catalog": "lake", "schema": schema},
        "ioMetadata": {"inputs": [table] if inputs else []},
        "createTime": time,
    }


def athena(sql):
    """An execution as Athena's API returns it."""
    return {
        "QueryExecutionId": "1",
        "Query": sql,
        "QueryExecutionContext": {"Database": "shop", "Catalog": "AwsDataCatalog"},
        "Status": {"State": "SUCCEEDED", "SubmissionDateTime": "2024-01-02T03:04:05.678000+01:00"},
        "Statistics": {"DataScannedInBytes": 70},
    }


def dbt(*sqls, adapter="trino"):
    """A manifest with compiled models."""
    nodes = {
        f"model.shop.m{number}": {
            "resource_type": "model",
            "language": "sql",
            "database": "lake",
            "schema": "shop",
            "compiled_code": sql,
        }
        for number, sql in enumerate(sqls)
    }
    nodes["test.shop.t"] = {"resource_type": "test", "compiled_code": "select 1"}
    return {"metadata": {"adapter_type": adapter}, "nodes": nodes}


def statements(content, kind):
    counts = StatementCounts()
    return [*statements_of(content.encode().split(b"\n"), kind, counts, log="log")], counts


def test_events_of_trino():
    lines = [json.dumps(trino("select 1")), "", "half", json.dumps({"context": {}}), json.dumps(trino(None))]
    (found,), counts = statements("\n".join(lines), LogKind.TRINO)
    assert (found.sql, found.dialect, found.context) == ("select 1", "trino", ("lake", "shop"))
    assert (found.sizes, found.read_bytes) == ({("lake", "shop", "orders"): 100}, 100)
    assert found.started_ms == 1_704_164_645_000
    assert (counts.events, counts.not_understood) == (3, 3)


@pytest.mark.parametrize("indent", [None, 2])
def test_executions_of_athena(indent):
    one = athena("select 1")
    for document, number in (
        ({"QueryExecutions": [one, {}, one]}, 2),
        ({"QueryExecution": one}, 1),
        (one, 1),
    ):
        found, counts = statements(json.dumps(document, indent=indent), LogKind.ATHENA)
        assert [each.sql for each in found] == ["select 1"] * number
        assert found[0].context == ("awsdatacatalog", "shop")
        assert (found[0].read_bytes, found[0].started_ms) == (70, 1_704_161_045_678)
        assert counts.not_understood == number - 1


def test_manifests_of_dbt():
    found, counts = statements(json.dumps(dbt("select 1", None, adapter="athena")), LogKind.DBT)
    assert [(each.sql, each.dialect) for each in found] == [("select 1", "athena")]
    assert counts.not_understood == 1
    found, counts = statements(json.dumps(dbt("select 1", adapter="oracle")), LogKind.DBT)
    assert (found, counts.not_understood) == ([], 1)


def test_statements_that_failed_are_counted_alone():
    failed = trino("select 1") | {"failureInfo": {"errorCode": {"name": "DIVISION_BY_ZERO"}}}
    lines = [json.dumps(each) for each in (failed, trino("select 2") | {"failureInfo": None})]
    found, counts = statements("\n".join(lines), LogKind.TRINO)
    assert ([each.sql for each in found], counts.failed, counts.not_understood) == (["select 2"], 1, 0)
    states = ["FAILED", "CANCELLED", "SUCCEEDED"]
    answer = {"QueryExecutions": [athena(state) | {"Status": {"State": state}} for state in states]}
    found, counts = statements(json.dumps(answer), LogKind.ATHENA)
    assert ([each.sql for each in found], counts.failed) == (["SUCCEEDED"], 2)


def test_odd_times_and_sizes_are_unknown():
    for value in (10**400, -1, True, 1e400, 2**63):
        (found,), _ = statements(json.dumps(trino("select 1", read_bytes=value, time=value)), LogKind.TRINO)
        assert (found.sizes, found.read_bytes, found.started_ms) == ({}, None, None)


@pytest.mark.parametrize("content", ["", "no json", "[1]\n[2]", '{"a":', "\ud7ff"])
def test_other_files_have_no_statements(content):
    for kind in (LogKind.TRINO, LogKind.ATHENA, LogKind.DBT):
        assert statements(content, kind)[0] == []


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def learned(folder, content, kind, *, write=False, places=("shop.orders",)):
    file = folder.root.parent / "history.json"
    file.write_text(content)

    def opened():
        return open_workspace(folder.root, target=None, variables={}, environment={})

    return learn(
        opened(),
        [str(file)],
        places=dict.fromkeys(places, "orders"),
        most=20,
        kind=kind,
        write=opened if write else None,
    )


def test_queries_are_learned_from_trino(folder):
    sqls = ["items = 5", "items = 6", "city = 'x' and items > 1", "upper(city) = 'X'"]
    events = [trino(f"select * from orders where {sql}") for sql in sqls]
    events += [
        trino("select * from orders a join orders b on a.items = b.items where a.items = 7"),
        trino("select * from elsewhere where items = 5", inputs=False),
        trino("select * from orders where items = 5", schema="other", inputs=False),
        trino("select (("),
    ]
    found = learned(folder, "\n".join(map(json.dumps, events)), LogKind.TRINO, write=True)
    (table,) = found.tables
    assert (found.queries, found.scans, found.events_not_understood) == (8, 8, 1)
    assert (table.scans, table.read_bytes, table.unconditional_scans) == (6, 500, 2)
    assert [(query.shape, query.runs, query.read_bytes) for query in table.queries] == [
        ("items = ?", 3, 250),
        ("city = ? and items > ?", 1, 100),
    ]
    assert {other.location for other in found.others} == {"lake.other.orders", "lake.shop.elsewhere"}
    queries = yaml.safe_load((folder.root / "tables/orders.yml").read_text())["queries"]
    assert [query["weight"] for query in queries] == [75, 25]


def test_a_name_that_two_catalogs_have_is_no_table(folder):
    sqls = [f"select * from {catalog}.shop.orders where items = 5" for catalog in ("lake", "old", "lake")]
    content = "\n".join(json.dumps(trino(sql, inputs=False)) for sql in (*sqls, sqls[0]))
    content += "\n" + json.dumps(trino(sqls[0]) | {"failureInfo": {}})
    found = learned(folder, content, LogKind.TRINO)
    assert (found.tables, found.ambiguous, found.scans, found.failed) == ((), ("orders",), 4, 1)
    assert [(other.location, other.scans, other.read_bytes) for other in found.others] == [
        ("lake.shop.orders", 3, 300),
        ("old.shop.orders", 1, 100),
    ]
    for places in (["lake.shop.orders"], ["shop.orders", "lake.shop.orders"]):
        found = learned(folder, content, LogKind.TRINO, places=places)
        assert (found.tables[0].scans, found.ambiguous) == (3, ())
        assert [(other.location, other.scans) for other in found.others] == [("old.shop.orders", 1)]


def test_queries_are_learned_from_athena_and_dbt(folder):
    sql = "select * from orders where items = 5"
    for content, kind, size in (
        (json.dumps(athena(sql)), LogKind.ATHENA, 70),
        (json.dumps(dbt(sql, "select 1")), LogKind.DBT, 0),
    ):
        (table,) = learned(folder, content, kind).tables
        assert [(query.where, query.read_bytes) for query in table.queries] == [("items = 5", size)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("bound", ["LARGEST_DOCUMENT_BYTES", "MOST_DOCUMENT_VALUES"])
def test_a_manifest_that_is_too_large_is_refused_with_its_size(folder, monkeypatch, indent, bound):
    content = json.dumps(dbt("select * from orders where items = 5"), indent=indent)
    # A manifest may be longer than a line of a log.
    monkeypatch.setattr(proposal, "LONGEST_LINE_BYTES", 10)
    monkeypatch.setattr(log_files, "MOST_VALUES", 1)
    monkeypatch.setattr(sql_history, "MOST_VALUES", 1)
    assert learned(folder, content, LogKind.DBT).scans == 1
    for module in (proposal, sql_history):
        monkeypatch.setattr(module, bound, 10)
    with pytest.raises(UsageError, match=r"more than .*10.* the most that are read.* jq -c"):
        learned(folder, content, LogKind.DBT)


def test_a_history_of_another_program_is_an_error(folder):
    with pytest.raises(UsageError, match="event listener"):
        learned(folder, "half a line", LogKind.TRINO)
