"""The scans of event logs: which plan counts, which sums are its own, and what is passed over."""

from __future__ import annotations

import json

import pytest

from parquetry.compiler.learning import spark_log
from parquetry.compiler.learning.spark_log import EventCounts, scans_of
from tests.support.event_log import EventLog, above, joined, scan

PLACE = "s3a://lake/orders"


def read(log, *, extra=()):
    counts = EventCounts()
    lines = [*log.content.splitlines(), *extra]
    return [*scans_of(lines, counts, log="app")], counts


def test_a_scan_has_its_filters_its_size_and_the_rows_that_passed():
    log = EventLog.of(zone="Europe/Rome")
    plan = above(
        scan(PLACE, data="[(items#3 = 5)]", pushed="[EqualTo(items,5)]", first=10),
        *("WholeStageCodegen (1)", "HashAggregate", "Project", "Filter", "ColumnarToRow", "InputAdapter"),
        rows=20,
    )
    log.query(plan, sums={10: 1000, 11: 4096, 20: 250, 99: 7}, time=5)
    (found,), counts = read(log)
    assert (found.location, found.started_ms) == (PLACE, 5)
    assert (found.read_bytes, found.rows, found.passed) == (4096, 1000, 250)
    assert (found.filters.data, found.filters.pushed) == ("[(items#3 = 5)]", "[EqualTo(items,5)]")
    assert str(found.session.zone) == str(found.session.machine_zone) == "Europe/Rome"
    assert (counts.queries, counts.not_understood) == (1, 0)
    assert counts.events == len(log.lines)


def test_a_filter_above_a_join_is_not_that_of_a_scan():
    log = EventLog.of()
    log.query(above(joined(scan(PLACE, first=1), scan("/b", first=5)), "Filter", rows=20), sums={20: 3})
    found, _ = read(log)
    assert [(one.location, one.passed) for one in found] == [(PLACE, None), ("/b", None)]


def test_the_last_plan_of_adaptive_execution_counts():
    log = EventLog.of()
    first = joined(scan(PLACE, first=1), scan("/b", first=5))
    log.query(first, joined(scan(PLACE, data="[(items#3 = 5)]", first=1)), sums={2: 100})
    (found,), _ = read(log)
    assert (found.filters.data, found.read_bytes) == ("[(items#3 = 5)]", 100)


def test_what_is_reused_and_what_was_cached_is_read_once():
    log = EventLog.of()
    reused = above(scan(PLACE, first=1), "ReusedSubquery")
    log.query(joined(scan(PLACE, first=1), reused), sums={2: 100})
    cached = above(scan(PLACE, first=10), "InMemoryTableScan")
    log.query(cached, sums={11: 200})
    log.query(cached)
    found, _ = read(log)
    assert [one.read_bytes for one in found] == [100, 200]


def test_sums_that_come_after_the_end_of_a_query_count():
    log = EventLog.of()
    log.query(scan(PLACE, first=1))
    log.event("SparkListenerStageCompleted", **{"Stage Info": {"Accumulables": [{"ID": 2, "Value": 9}]}})
    (found,), _ = read(log)
    assert found.read_bytes == 9


def test_queries_that_never_end_are_scans(monkeypatch):
    monkeypatch.setattr(spark_log, "_OPEN", 3)
    monkeypatch.setattr(spark_log, "_ENDED", 2)
    log = EventLog.of()
    for number in range(8):
        log.query(scan(PLACE, first=10 * number), sums={10 * number + 1: number}, ends=number % 2 == 0)
    found, _ = read(log)
    assert sorted(one.read_bytes for one in found) == [*range(8)]


def test_memory_does_not_grow_with_the_queries():
    log = EventLog.of()
    for number in range(500):
        log.query(scan(PLACE, first=10 * number), sums={10 * number + 1: number})
    application = spark_log._Application("app", EventCounts())
    for line in log.content.splitlines():
        event = json.loads(line)
        name = event["Event"].rpartition(".")[2]
        if name in spark_log._EVENTS:
            [*application.take(name, event)]
    assert len(application._open) == 0
    assert len(application._ended) <= spark_log._ENDED
    assert len(application._by_sum) <= 2 * spark_log._ENDED


@pytest.mark.parametrize("ends", [True, False])
def test_memory_does_not_grow_with_the_texts_of_queries(monkeypatch, ends):
    monkeypatch.setattr(spark_log, "_KEPT_BYTES", 100_000)
    log = EventLog.of()
    for number in range(50):
        log.query(scan(PLACE, data=f"[{'x' * 30_000}]", first=number * 10), ends=ends)
    application = spark_log._Application("app", EventCounts())
    found = []
    for line in log.lines[2:]:
        event = json.loads(line)
        found += application.take(event["Event"].rpartition(".")[2], event)
        assert len(application._open) + len(application._ended) <= 3
    found += application.rest()
    assert len({one.query for one in found}) == len(found) == 50
    assert application._kept_bytes == 0


def test_the_sums_of_replaced_plans_are_forgotten():
    log = EventLog.of()
    plans = [above(scan(PLACE, first=10 * number), "Filter", rows=10 * number + 5) for number in range(50)]
    log.query(*plans, sums={491: 7})
    application = spark_log._Application("app", EventCounts())
    for line in log.content.splitlines():
        event = json.loads(line)
        [*application.take(event["Event"].rpartition(".")[2], event)]
    assert len(application._by_sum) <= 3
    (found,) = application.rest()
    assert found.read_bytes == 7
    assert application._by_sum == {}


@pytest.mark.parametrize(
    ("changed", "not_understood"),
    [
        ({"id": [1]}, 1),
        ({"id": "a"}, 1),
        ({"id": True}, 1),
        ({"id": 1.5}, 1),
        ({"time": 10**400}, 0),
        ({"time": -1}, 0),
        ({"time": True}, 0),
        ({"executionId": True}, 1),
        ({"value": 10**400}, 1),
    ],
)
def test_an_odd_event_ends_nothing(changed, not_understood):
    log = EventLog.of()
    log.query(scan(PLACE, first=1), sums={2: 9})
    plan = scan(PLACE, first=11)
    plan["metrics"][0]["accumulatorId"] = changed.get("id", 11)
    start = {
        "Event": "a.SparkListenerSQLExecutionStart",
        "executionId": changed.get("executionId", 7),
        "time": changed.get("time", 5),
        "sparkPlanInfo": plan,
    }
    sums = {
        "Event": "a.SparkListenerDriverAccumUpdates",
        "executionId": 7,
        "accumUpdates": [[12, changed.get("value", 3)]],
    }
    found, counts = read(log, extra=[json.dumps(each).encode() for each in (start, sums)])
    assert found[0].read_bytes == 9
    assert len(found) == (1 if "id" in changed or "executionId" in changed else 2)
    assert all(one.started_ms is None or 0 <= one.started_ms <= 2**53 for one in found)
    assert counts.not_understood == not_understood


def test_lines_that_are_no_events_are_counted():
    log = EventLog.of()
    log.query(scan(PLACE, first=1))
    start = '{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"'
    extra = [
        *(b"", b"26/11/29 INFO a log of a driver", b"\xff\xfe", b"[]", b'{"a": 1}'),
        f'{start},"executionId":'.encode(),
        f'{start},"executionId":7}}'.encode(),
        f'{start},"executionId":7,"sparkPlanInfo":[]}}'.encode(),
        f'{start},"executionId":"x","sparkPlanInfo":{{"nodeName":"Scan"}}}}'.encode(),
        f'{start},"executionId":8,"sparkPlanInfo":{"[" * 100_000}'.encode(),
        b'{"Event":"SparkListenerStageCompleted","Stage Info":{"Accumulables":[{"Value":{}}]}}',
    ]
    found, counts = read(log, extra=extra)
    assert len(found) == 1
    assert counts.not_understood == len(extra) - 1


def test_the_keys_of_an_event_may_have_any_order():
    log = EventLog.of()
    event = {
        "executionId": 3,
        "sparkPlanInfo": scan(PLACE),
        "time": 1,
        "Event": "a.b.SparkListenerSQLExecutionStart",
    }
    found, counts = read(log, extra=[json.dumps(event).encode(), b'{"a": 1, "Event": "Other"}'])
    assert [one.location for one in found] == [PLACE]
    assert counts.not_understood == 0


def test_nodes_that_have_only_a_description_are_read():
    log = EventLog.of()
    node = {
        "nodeName": "BatchScan parquet",
        "simpleString": "BatchScan parquet[a#1] ParquetScan DataFilters: [isnotnull(a#1), (a#1 = 5)], Format: parquet, "
        "Location: InMemoryFileIndex(1 paths)[file:/lake/orders], PartitionFilters: [], PushedFilters: "
        "[IsNotNull(a), EqualTo(a,5)], ReadSchema: struct<a:int>, RuntimeFilters: []",
        "children": [],
    }
    log.query(joined(node, {"nodeName": "LocalTableScan", "simpleString": "LocalTableScan [a#1]"}))
    (found,), _ = read(log)
    assert found.location == "file:/lake/orders"
    assert (found.filters.data, found.filters.partition) == ("[isnotnull(a#1), (a#1 = 5)]", "[]")
    assert (found.filters.pushed, found.read_schema) == ("[IsNotNull(a), EqualTo(a,5)]", "struct<a:int>")


def test_the_first_path_of_a_location():
    log = EventLog.of()
    for location in (
        "HoodieFileIndex(1 paths)[/lake/a, b]",
        "InMemoryFileIndex(3 paths)[/lake/x/p=1, /lake/x/p=2, ...]",
        "InMemoryFileIndex[hdfs://h/old]",
        "InMemoryFileIndex(2 paths)[...]",
        "org.apache.hudi.HoodieFileIndex[]",
        "something else[",
    ):
        log.query(scan(location))
    found, _ = read(log)
    assert [one.location for one in found] == ["/lake/a, b", "/lake/x/p=1", "hdfs://h/old", None, None, None]
