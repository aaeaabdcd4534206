"""Healthy tables have no health line, tables with lines are sorted, the worst first, and every format shows them."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from math import inf

import jsonschema
import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint, json_document
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.operating.health import HealthView
from parquetry.cli.views.operating.metrics import MetricsView
from parquetry.compiler.reports.health import (
    DEBT_DAYS,
    HEALTH_CHECKS,
    health_lines,
    health_of,
)
from parquetry.compiler.reports.lake import Lake, Unreadable, UnreadTable, read_table
from parquetry.compiler.reports.metrics import measured
from parquetry.compiler.reports.open_metrics import open_metrics
from parquetry.runtime.publish.publishing import formats_of, publish
from parquetry.runtime.services.archive import ARCHIVE_BATCH
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spec.table_spec import DeltaFormat, Publish, RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, write_applied
from parquetry.runtime.table.handle import open_table
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.repository import ROOT
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import ShiftedStore
from tests.support.tested_layouts import (
    DAY_MS,
    FULL,
    fill,
    foreign_appends,
    healthy_table,
    shuffled_values,
    single_updates,
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("healthy") / "t"
    table = healthy_table(path)
    for number in range(3):
        fill(table, number, "abc")
    assert checks(table) == []
    return path


@pytest.fixture
def table(base, tmp_path):
    shutil.copytree(base, tmp_path / "t")
    return SmallTable(store=open_store(tmp_path / "t"), timing=FAST)


def condition(table, *, days=0):
    return read_table(open_table(ShiftedStore(table.store, days=days)), table="t")


def checks(table, *, days=0):
    """The names of the health lines of a table."""
    return [line.check for line in health_lines(condition(table, days=days))]


def with_spec(table, number=3, **changes):
    write_applied(table.store, dataclasses.replace(read_applied(table.store).spec, **changes), number=number)


def no_archivals(table):
    """Small files, as only their number counts."""
    with_spec(table, retention=RetentionPolicy(keep_commits=2, archive_keep_commits=3))
    foreign_appends(table, number=3 * ARCHIVE_BATCH + 1)


def a_savepoint(table):
    create_savepoint(table.handle, timing=FAST)


def published(table, *, shown=True):
    """Let the spec publish the table as a Delta table, and publish it if ``shown`` is True."""
    with_spec(table, publish=Publish(delta=DeltaFormat()))
    if shown:
        publish(table.handle, formats_of(table.handle))


def a_foreign_write_to_the_log(table):
    published(table)
    table.store.put(f"_delta_log/{1:020}.json", b'{"commitInfo": {"operation": "WRITE"}}\n')


def no_publishing(table):
    published(table, shown=False)


def test_a_repaired_table_has_no_line_any_more(table):
    single_updates(table)
    assert "clean" in checks(table)
    clean(table.handle, timing=FAST)
    assert not {"clean", "file_versions"} & {*checks(table)}
    a_savepoint(table)
    (line,) = [one for one in health_lines(condition(table, days=31)) if one.check == "savepoints"]
    assert line.command[:3] == ("service", "savepoint", "t")
    delete_savepoint(table.handle, line.command[3])
    assert "savepoints" not in checks(table, days=31)


def test_a_table_that_is_published_in_time_has_no_line(table):
    no_publishing(table)
    assert checks(table) == []
    publish(table.handle, formats_of(table.handle))
    assert checks(table, days=1) == []


def test_metadata_that_cannot_be_read_is_infinitely_behind(table):
    a_foreign_write_to_the_log(table)
    found = condition(table)
    assert found.publish_lag_seconds == {"delta": inf}
    assert [line.check for line in health_lines(found)] == ["publish"]
    (lag,) = [m for m in measured(Lake(project="shop", target="dev", tables=(found,))) if "lag" in m.name]
    assert '"} +Inf\n' in open_metrics([lag])
    answer = json.loads(json_document(MetricsView(), [lag]))
    assert answer["metrics"][0]["samples"][0]["value"] is None
    jsonschema.validate(answer, answer_schema("metrics"))


def test_a_clean_that_found_nothing_counts(table):
    for number in range(3, 9):
        fill(table, number, "a")
    assert condition(table).commits_to_clean >= 5
    clean(table.handle, timing=FAST)
    assert condition(table).commits_to_clean == 0


def test_versions_that_age_or_a_savepoint_keeps_are_no_decay(table):
    single_updates(table)
    clean_lines = {"clean", "file_versions"}
    assert clean_lines <= {*checks(table)}
    with_spec(table, retention=RetentionPolicy(keep_commits=None, max_age_seconds=86_400))
    assert not clean_lines & {*checks(table)}
    with_spec(table, number=4, retention=RetentionPolicy(keep_commits=None))
    assert condition(table).file_versions_kept is None
    a_savepoint(table)
    with_spec(table, number=5, retention=RetentionPolicy(keep_commits=2, keep_versions=6))
    assert condition(table).file_versions_kept == 7


@pytest.mark.long
def test_a_savepoint_holds_archivals_back_without_a_line(table):
    create_savepoint(table.handle, timing=FAST)
    no_archivals(table)
    assert "archive" not in checks(table)


def test_files_that_the_limits_make_are_needed(table):
    few = condition(table).files_needed
    spec = read_applied(table.store).spec
    with_spec(table, sizing=dataclasses.replace(spec.sizing, insert_split_size=FULL))
    assert condition(table).files_needed == 9 > 2 * few
    execution = dataclasses.replace(spec.clustering.execution, split_by=("v",))
    policy = dataclasses.replace(spec.clustering, execution=execution)
    with_spec(table, number=4, extra=dataclasses.replace(spec.extra, clustering=policy))
    assert condition(table).files_needed is None
    assert "files" not in checks(table)


@pytest.fixture(scope="module")
def healthy(base):
    return dataclasses.replace(condition(SmallTable(open_store(base))), table="healthy")


def test_the_table_whose_debt_costs_queries_most_is_first(healthy):
    def sick(name, **figures):
        return dataclasses.replace(healthy, table=name, skew=5.0, **figures)

    unread = UnreadTable(table="unread", reason=Unreadable.STORAGE, message="no answer")
    new = UnreadTable(table="new", reason=Unreadable.NOT_APPLIED, message="not applied")
    debt = dataclasses.replace(healthy.debt, rewrite_bytes=1)
    costly = sick("costly", excess_read_bytes=9e9)
    tables = (
        new,
        healthy,
        sick("a"),
        sick("due", debt=debt),
        sick("cheap", excess_read_bytes=1.5),
        costly,
        unread,
    )
    found = health_of(Lake(project="shop", target="dev", tables=tables))
    assert [table.table for table in found.tables] == [
        *("unread", "costly", "cheap", "due", "a", "healthy", "new")
    ]
    assert [table.table for table in found.needing_attention] == ["unread", "costly", "cheap", "due", "a"]
    text = HealthView().text(found, Paint(enabled=False))
    assert text.startswith("5 of 7 tables need attention\n\nunread\n")
    assert "costly  queries read 9 GB a day too much\n  skew: the largest partition has 5.0 times" in text
    assert "\n    $ parquetry inspect costly\n" in text
    assert text.endswith("not applied: new")
    jsonschema.validate(json.loads(json.dumps(HealthView().json(found))), answer_schema("health"))
    rows = HealthView().markdown(found).splitlines()
    reason = "the largest partition has 5.0 times the bytes of the median one"
    assert f"| `costly` | 9 GB a day | `skew` | {reason} | `parquetry inspect costly` |" in rows
    page = HealthView().html(found)
    assert page.index(">costly<") < page.index(">cheap<") < page.index(">healthy<")
    assert "5 of 7 tables need attention" in page


def test_files_are_due_since_the_last_clustering(healthy):
    def found(clustered, *, until_due=0):
        now_ms, debt = healthy.now_ms, dataclasses.replace(healthy.debt, rewrite_bytes=1)
        figures = dataclasses.replace(
            healthy,
            debt=dataclasses.replace(debt, commits_until_due=until_due),
            oldest_due_ms=now_ms - 40 * DAY_MS,
            last_clustering_ms=None if clustered is None else now_ms - clustered * DAY_MS,
        )
        return [line.check for line in health_lines(figures)]

    assert found(None) == found(DEBT_DAYS + 1) == ["clustering_debt"]
    assert found(DEBT_DAYS) == found(None, until_due=1) == []


def test_queries_count_as_often_as_they_run(table):
    shuffled_values(table)
    once = condition(table).excess_read_bytes
    assert once > 0
    extra = read_applied(table.store).spec.extra
    for number, runs in ((3, 24.0), (4, 0.0)):
        queries = tuple(dataclasses.replace(query, runs_per_day=runs) for query in extra.queries)
        with_spec(table, number=number, extra=dataclasses.replace(extra, queries=queries))
        assert condition(table).excess_read_bytes == runs * once


def called(folder, *words):
    return CliRunner().invoke(command_line, ["health", *words, "-p", str(folder.root)])


def test_check_ends_with_3_if_a_table_needs_attention(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/events.yml", EVENTS)
    done = CliRunner().invoke(command_line, ["apply", "--auto-approve", "-p", str(folder.root)])
    assert done.exit_code == 0
    assert called(folder, "--check").exit_code == 0
    foreign_appends(SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST))
    assert called(folder).exit_code == 0
    done = called(folder, "--check", "events")
    assert done.exit_code == 3
    command = f"parquetry service cluster events --plan-only -v --project {folder.root}"
    assert command in done.stdout
    for shape in ("markdown", "html", "json"):
        done = called(folder, "--check", "--format", shape)
        assert done.exit_code == 3
        assert command in done.stdout
    (folder.root / "warehouse/orders/.hoodie/hoodie.properties").write_text("no table", encoding="utf-8")
    done = called(folder, "--check")
    assert done.exit_code == 1
    assert "parquetry doctor --select orders" in done.stdout
    assert "small_files" in done.stdout


def test_the_page_lists_every_check():
    page = (ROOT / "docs/how-to/monitor.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+?) \| `parquetry", page, re.MULTILINE)
    assert listed == [(check.name, check.limit) for check in HEALTH_CHECKS]
