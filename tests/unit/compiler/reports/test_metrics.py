"""Metrics of tables: read back by the parsers of prometheus-client, and compared with what the tables hold."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from parquetry.cli.main import command_line
from parquetry.compiler.reports.inspection import inspect_table
from parquetry.compiler.reports.lake import Unreadable, read_lake
from parquetry.compiler.reports.metrics import METRICS, MeasuredMetric, Sample, measured
from parquetry.compiler.reports.open_metrics import open_metrics
from parquetry.compiler.workspace.run_results import LastRun, recorded_run, save_results
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.storage.open import open_store
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.repository import ROOT
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import CountingStore, ShiftedStore

CLUSTERED = EVENTS | {
    "queries": [{"name": "low", "where": "v < 2"}],
    "clustering": {"trigger": "async", "execution": {"strategy": "sort", "columns": ["v"]}},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with two tables; `events` has four writes to two partitions."""
    folder = ProjectFolder.create(tmp_path_factory.mktemp("metrics") / "shop")
    folder.write("tables/events.yml", CLUSTERED)
    assert called(folder, "apply", "--auto-approve").exit_code == 0
    table = events(folder)
    for number in range(3):
        table.insert({f"a{number}": (number, "a"), f"b{number}": (number, "b")})
    table.upsert({"a1": (9, "a")})
    return folder.root


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "shop")
    return ProjectFolder(tmp_path / "shop")


def events(folder):
    return SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)


def called(folder, *words):
    return CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])


def values(text):
    """Every value of a text by name and labels beside project and target."""
    return {
        (
            sample.name,
            *sorted(value for key, value in sample.labels.items() if key not in ("project", "target")),
        ): (sample.value)
        for family in open_metrics_families(text)
        for sample in family.samples
    }


def test_both_parsers_read_the_same_values(folder):
    done = called(folder, "metrics")
    assert done.exit_code == 0, done.output
    text = done.stdout
    assert text.endswith("# EOF\n")
    by_one = {
        (s.name, *sorted(s.labels.items())): s.value for f in open_metrics_families(text) for s in f.samples
    }
    by_other = {(s.name, *sorted(s.labels.items())): s.value for f in text_families(text) for s in f.samples}
    assert by_one == by_other
    assert {labels["project"] for f in open_metrics_families(text) for _, labels, *_ in f.samples} == {"shop"}
    assert {labels["target"] for f in open_metrics_families(text) for _, labels, *_ in f.samples} == {"dev"}
    assert {labels["table"] for f in open_metrics_families(text) for _, labels, *_ in f.samples} == {
        "events",
        "orders",
    }


def test_names_follow_the_conventions():
    names = [metric.full_name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"parquetry_table_[a-z_]+", metric.full_name)
        assert not metric.full_name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
        assert metric.unit in ("", "bytes", "seconds", "ratio"), "base units alone"
        assert metric.help.endswith(".")
        assert '"' not in metric.help, "the two formats escape it differently"


def test_every_value_has_the_labels_that_its_metric_declares(folder):
    by_name = {metric.full_name: metric for metric in METRICS}
    (folder.root / "warehouse/orders/.hoodie/hoodie.properties").write_text("no table", encoding="utf-8")
    shown = measured(
        read_lake(folder.workspace(), last_runs={"events": LastRun(started_ms=1, succeeded=True)})
    )
    for metric in shown:
        for sample in metric.samples:
            assert [*sample.labels] == ["project", "target", "table", *by_name[metric.name].labels]
    unit_of = {family.name: family.unit for family in open_metrics_families(open_metrics(shown))}
    assert unit_of == {metric.name: metric.unit for metric in shown}


def test_figures_are_those_of_inspect(folder):
    found = values(called(folder, "metrics", "events").stdout)
    report = inspect_table(open_store(folder.root / "warehouse/events"))
    sizes = sorted(size for partition in report.partitions for size in partition.file_sizes_bytes)
    expected = {
        ("parquetry_table_files", "events"): len(sizes),
        ("parquetry_table_small_files", "events"): sum(p.small_files for p in report.partitions),
        ("parquetry_table_size_bytes", "events"): sum(sizes),
        ("parquetry_table_rows", "events"): 6,
        ("parquetry_table_partitions", "events"): 2,
        ("parquetry_table_file_size_bytes", "0", "events"): sizes[0],
        ("parquetry_table_file_size_bytes", "1", "events"): sizes[-1],
        ("parquetry_table_clustering_debt_bytes", "events"): report.debt.rewrite_bytes,
        ("parquetry_table_expired_files", "events"): report.debt.expired_files,
        ("parquetry_table_file_versions", "events"): 2,
        ("parquetry_table_orphans", "events"): 0,
        ("parquetry_table_timeline_commits", "events"): 5,
        ("parquetry_table_readable", "events"): 1,
    }
    assert report.debt.rewrite_bytes > 0
    assert {key: found[key] for key in expected} == expected
    read, after = (
        found[f"parquetry_table_query_read{word}_bytes", "events", "low"] for word in ("", "_expected")
    )
    assert 0 < read <= sum(sizes)
    assert 0 < after <= sum(sizes)


def test_services_leave_their_times(folder):
    store = open_store(folder.root / "warehouse/events")
    table = SmallTable(store, timing=FAST)
    before_ms = store.now_ms() - 1
    table.upsert({"a1": (10, "a")})
    keep_none = dataclasses.replace(table.handle.spec.retention, keep_commits=1, archive_keep_commits=2)
    assert clean(table.handle, policy=keep_none, timing=FAST).files_deleted
    assert archive(table.handle, policy=keep_none, timing=FAST).instants
    create_savepoint(table.handle, timing=FAST)
    found = values(called(folder, "metrics", "events").stdout)
    for name in ("commit", "clean", "archive"):
        time_ms = found[f"parquetry_table_last_{name}_timestamp_seconds", "events"] * 1000
        assert before_ms <= time_ms <= store.now_ms(), name
    assert found["parquetry_table_savepoints", "0", "events"] == 1
    assert found["parquetry_table_savepoints", "7", "events"] == 0
    assert found["parquetry_table_commits_since_clean", "events"] == 0


def test_savepoints_are_counted_by_age(folder):
    create_savepoint(events(folder).handle, timing=FAST)
    later = dataclasses.replace(
        folder.workspace(),
        open=lambda *place: ShiftedStore(open_store(*place), days=8),
    )
    found = values(open_metrics(measured(read_lake(later, last_runs={}))))
    counts = [found["parquetry_table_savepoints", age, "events"] for age in ("0", "7", "30", "90")]
    assert counts == [1, 1, 0, 0]


def test_the_last_run_counts(folder):
    for number, error in (("1", None), ("2", "torn")):
        with recorded_run(
            folder.root, f"2026-01-0{number}", target="dev", tables=(), started_ms=int(number) * 1000
        ):
            jobs = [
                {"table": "events", "job": "ingest_a"},
                {"table": "events", "job": "clean", "error": error},
            ]
            assert (
                save_results(folder.root, f"2026-01-0{number}", {"exit_code": 0, "jobs": jobs}, kept="all")
                is None
            )
    with recorded_run(folder.root, "2026-01-03", target="prod", tables=(), started_ms=3000):
        save_results(
            folder.root, "2026-01-03", {"exit_code": 0, "jobs": [{"table": "events", "job": "c"}]}, kept="all"
        )
    found = values(called(folder, "metrics").stdout)
    assert found["parquetry_table_last_run_success", "events"] == 0
    assert found["parquetry_table_last_run_timestamp_seconds", "events"] == 2
    assert ("parquetry_table_last_run_success", "orders") not in found


LABELS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\x00"), max_size=20)


@given(st.lists(LABELS, min_size=1, max_size=4, unique=True), st.floats(allow_nan=False))
def test_any_label_comes_back(names, value):
    samples = tuple(Sample(labels={"project": 'a"b\\n', "table": name}, value=value) for name in names)
    metric = MeasuredMetric(name="parquetry_table_x", help="A help.", unit="", samples=samples)
    (family,) = open_metrics_families(open_metrics([metric]))
    assert [sample.labels for sample in family.samples] == [dict(sample.labels) for sample in samples]
    assert {sample.value for sample in family.samples} == {value}


def test_a_table_that_cannot_be_read_does_not_stop_the_others(folder):
    (folder.root / "warehouse/orders/.hoodie/hoodie.properties").write_text("no table", encoding="utf-8")
    done = called(folder, "metrics")
    assert done.exit_code == 1
    assert "1 of 2 tables cannot be read" in done.stderr
    found = values(done.stdout)
    assert found["parquetry_table_readable", "orders"] == 0
    assert found["parquetry_table_readable", "events"] == 1
    assert found["parquetry_table_rows", "events"] == 6
    assert ("parquetry_table_rows", "orders") not in found, "no figure stands for one that is not known"
    reasons = [key for key in found if key[0] == "parquetry_table_unreadable"]
    assert reasons == [("parquetry_table_unreadable", "corrupt", "orders")]


def test_a_table_that_is_not_applied_is_no_failure(folder):
    shutil.rmtree(folder.root / "warehouse/orders")
    done = called(folder, "metrics", "orders")
    assert done.exit_code == 0
    assert values(done.stdout) == {
        ("parquetry_table_readable", "orders"): 0,
        ("parquetry_table_unreadable", "not_applied", "orders"): 1,
    }


def test_a_table_of_another_project_is_foreign(folder):
    folder.project(name="others")
    lake = read_lake(folder.workspace(), last_runs={})
    assert {table.reason for table in lake.tables} == {Unreadable.FOREIGN}
    assert called(folder, "metrics").exit_code == 1


def test_no_personal_value_is_in_the_text(folder):
    columns = [column | ({"pii": True} if column["name"] == "p" else {}) for column in EVENTS["columns"]]
    folder.write("tables/events.yml", CLUSTERED | {"columns": columns})
    events(folder).insert({"c": (1, "Mrs Smith")})
    text = called(folder, "metrics").stdout
    assert values(text)["parquetry_table_partitions", "events"] == 3
    assert "Smith" not in text
    assert "Smith" not in called(folder, "metrics", "--format", "json").stdout


def test_the_requests_of_a_table_are_counted(folder):
    """Ten requests, one for each partition, commit that is examined, and commit with live files."""
    stores = {}

    def opened(location, options, allowed):
        name = location.rsplit("/", 1)[-1]
        stores[name] = CountingStore(open_store(location, options, allowed), folder.root / f"{name}.log")
        return stores[name]

    lake = read_lake(dataclasses.replace(folder.workspace(), open=opened), last_runs={})
    assert all(table.rows is not None for table in lake.tables)
    commits, partitions, written = 5, 2, 4
    assert len(stores["events"].calls()) <= 10 + 1 + commits + partitions + written, stores["events"].calls()
    assert set(stores["events"].counts()) <= {"read", "list", "list_folders"}, "no footer, no write"
    assert len(set(stores["events"].calls())) >= len(stores["events"].calls()) - 1, (
        "only the timeline is read twice"
    )


def test_requests_do_not_grow_with_the_commits_of_the_timeline(folder):
    def requests():
        counting = {}

        def opened(location, options, allowed):
            counting[location] = CountingStore(
                open_store(location, options, allowed), folder.root / "calls.log"
            )
            return counting[location]

        (folder.root / "calls.log").unlink(missing_ok=True)
        workspace = folder.workspace(select=("events",))
        read_lake(dataclasses.replace(workspace, open=opened), last_runs={})
        (store,) = counting.values()
        return len(store.calls())

    table = events(folder)
    for number in range(8):
        table.upsert({"a1": (number, "a"), "b1": (number, "b")})
    before = requests()
    for number in range(8):
        table.upsert({"a1": (number, "a"), "b1": (number, "b")})
    assert requests() <= before


def test_the_file_is_replaced_all_at_once(folder, tmp_path):
    out = tmp_path / "collector" / "lake.prom"
    out.parent.mkdir()
    assert called(folder, "metrics", "--out", str(out)).exit_code == 0
    first = out.read_text(encoding="utf-8")
    assert len([*open_metrics_families(first)]) > 20
    with out.open(encoding="utf-8") as reader:
        reader.read(10)
        events(folder).insert({"later": (1, "a")})
        assert called(folder, "metrics", "--out", str(out)).exit_code == 0
        assert first[10:] == reader.read(), "whoever reads the old file reads it to its end"
    assert values(out.read_text(encoding="utf-8"))["parquetry_table_rows", "events"] == 7
    assert os.listdir(out.parent) == ["lake.prom"]
    assert out.stat().st_mode & 0o444 == 0o444 & ~_umask(), "node_exporter is another user"


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_file_is_written_although_a_table_cannot_be_read(folder, tmp_path):
    (folder.root / "warehouse/orders/.hoodie/hoodie.properties").write_text("no table", encoding="utf-8")
    assert called(folder, "metrics", "--out", str(tmp_path / "lake.prom")).exit_code == 1
    assert values((tmp_path / "lake.prom").read_text())["parquetry_table_readable", "orders"] == 0


def test_no_link_and_no_file_of_others_is_written(folder, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("by hand", encoding="utf-8")
    (tmp_path / "link.prom").symlink_to(mine)
    for name in ("mine.txt", "link.prom"):
        assert called(folder, "metrics", "--out", str(tmp_path / name)).exit_code != 0
    assert mine.read_text(encoding="utf-8") == "by hand"


def test_json_has_the_values_of_the_text(folder):
    shown = json.loads(called(folder, "metrics", "--format", "json").stdout)["metrics"]
    by_json = {
        (metric["name"], *sorted(sample["labels"].items())): sample["value"]
        for metric in shown
        for sample in metric["samples"]
    }
    text = called(folder, "metrics").stdout
    by_text = {
        (s.name, *sorted(s.labels.items())): s.value for f in open_metrics_families(text) for s in f.samples
    }
    assert by_json.keys() == by_text.keys()
    measured_at = "parquetry_table_measured_timestamp_seconds"
    assert {k: v for k, v in by_json.items() if k[0] != measured_at} == {
        k: v for k, v in by_text.items() if k[0] != measured_at
    }


def test_without_the_extra_the_text_says_what_to_install(folder, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("prometheus_client")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "parquetry.compiler.reports.open_metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    done = called(folder, "metrics")
    assert done.exit_code == 1
    assert "run `pip install prometheus-client`" in done.stderr
    assert json.loads(called(folder, "metrics", "--format", "json").stdout)["metrics"]


def test_tables_are_named_or_selected(folder):
    assert called(folder, "metrics", "events", "-s", "orders").exit_code == 2
    assert called(folder, "metrics", "evnts").exit_code == 2
    found = values(called(folder, "metrics", "-s", "orders").stdout)
    assert all("orders" in key and "events" not in key for key in found)


def test_the_page_lists_every_metric():
    page = (ROOT / "docs/how-to/monitor.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(parquetry_table_\w+)`", page, re.MULTILINE)
    assert listed == [metric.full_name for metric in METRICS]
