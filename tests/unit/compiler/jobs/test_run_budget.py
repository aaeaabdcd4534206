"""One budget for all tables of a run: who uses it first, what waits, and that plans predict it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier, Event, Lock
from types import SimpleNamespace

import pytest

from parquetry.cli.terminal.format import human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.operating.run import RunView
from parquetry.cli.views.plan.text import PlanView
from parquetry.cli.views.run_order import order_section
from parquetry.compiler.errors import UnexpectedError
from parquetry.compiler.evidence.run_order import DeferralReason, RateBasis
from parquetry.compiler.jobs.launch import BudgetedLauncher
from parquetry.compiler.jobs.results import to_json
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.jobs.table_jobs import Only, cluster_job
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.errors import ParquetryError
from parquetry.message import in_full
from parquetry.project.model.prices import nearest_cents
from parquetry.project_api import NoProgress
from parquetry.runtime.clustering.plan.survey import RUN_KEY
from parquetry.runtime.main import execute
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.sidecars import CLUSTERING_BEGUN_PATH, UNPUBLISHED_FOLDER
from tests.support.one_process_spark import OneProcessSpark
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable, rows_of

NOW = 1_800_000_000_000
TABLES = ("first", "second", "third")
DECLARED = EVENTS | {
    "sizing": {"max_file_size": "16KiB", "small_file_limit": "12KiB"},
    "clustering": {
        "trigger": "async",
        "every_commits": 1,
        "plan": {"target_file_size": "16KiB", "small_file_limit": "12KiB"},
        "execution": {"strategy": "sort", "columns": ["v"]},
    },
}


class Launched(NoProgress):
    """An observer that knows what was launched, in order."""

    def __init__(self):
        self.jobs = []

    def started(self, job):
        self.jobs.append((job.table, job.name))


@pytest.fixture
def folder(tmp_path):
    """Three tables of four small files each, all of about one size."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    for name in TABLES:
        folder.write(f"tables/{name}.yml", DECLARED | {"name": name})
    apply(folder)
    for name in TABLES:
        for number in range(4):
            table(folder, name).insert({f"k{number}-{n}": (n, "a") for n in range(4)})
    return folder


def apply(folder):
    workspace = folder.workspace()
    result = apply_plan(plan_workspace(workspace, now_ms=NOW), workspace, launch=launch)
    assert result.failure is None
    return result


def table(folder, name):
    return SmallTable(open_store(folder.root / "warehouse" / name), timing=FAST)


def with_budget(folder, **budget):
    folder.project(
        targets={"dev": {"warehouse": "./warehouse", "budget": {key: f"{n}B" for key, n in budget.items()}}}
    )
    apply(folder)


def size(folder, name):
    handle = table(folder, name).handle
    return sum(part.size_bytes for part in handle.view(handle.timeline()).all_slices())


def launch(job):
    return execute(job, session=lambda _: OneProcessSpark())


def run(folder, only=Only.SERVICES, *, clock=time.time, run_id="r", launch=launch, fails=False):
    """The bytes that clustering rewrote by table, the result, and the jobs in the order of their launch."""
    observer = Launched()
    result = run_tables(
        folder.workspace(),
        only=only,
        run_id=run_id,
        prepare=lambda _: launch,
        observer=observer,
        diagnose=lambda bug: UnexpectedError(str(bug)),
        clock=clock,
    )
    assert fails or result.failure is None
    rewrote = {
        outcome.table: outcome.result.clustering.bytes_before
        for outcome in result.outcomes
        if outcome.result is not None
        and outcome.result.clustering is not None
        and outcome.result.clustering.instants
    }
    return rewrote, result, observer.jobs


def predicted(folder):
    evidence = plan_workspace(folder.workspace(), now_ms=NOW, due=True).evidence
    runs = {name: figures.runs for name, figures in evidence.due.items() if figures.rewrite_bytes}
    return runs, {name: forecast.rewrite_bytes for name, forecast in evidence.forecasts.items()}


def test_tables_share_the_budget_and_the_one_that_waited_longest_comes_first(folder):
    limit = max(size(folder, name) for name in TABLES) + 100
    with_budget(folder, per_run=limit)
    assert predicted(folder)[0] == {"first": 1, "second": 2, "third": 3}
    paid = []
    for _ in range(3):
        _, forecast = predicted(folder)
        rewrote, result, _ = run(folder)
        assert sum(rewrote.values()) <= limit
        assert {name: n for name, n in forecast.items() if n} == rewrote
        paid += rewrote
        assert [outcome.table for outcome in result.outcomes] == sorted(o.table for o in result.outcomes)
    assert paid == list(TABLES)
    assert predicted(folder)[0] == {}
    for name in TABLES:
        assert len(rows_of(folder.root / "warehouse" / name)) == 16
    # All have debt again: the first is the one that was clustered before the others.
    for name in TABLES:
        for number in range(4):
            table(folder, name).insert({f"l{number}-{n}": (n, "a") for n in range(4)})
    assert list(run(folder)[0])[:1] == ["first"]


def test_what_the_budget_does_not_suffice_for_is_told(folder):
    with_budget(folder, per_run=max(size(folder, name) for name in TABLES) + 100)
    _, result, _ = run(folder)
    text = RunView().text(result, Paint(enabled=False))
    (line,) = [line for line in text.splitlines() if line.startswith("second cluster")]
    assert "nothing clustered; the rest of the run's budget is too small for 4 due files" in line
    assert "a later run clusters them" in line


def test_the_ingestion_of_all_tables_comes_before_any_clustering(folder):
    for name in TABLES:
        folder.write(
            f"tables/{name}.yml",
            DECLARED | {"name": name, "sources": [{"name": "new", "path": f"{name}/*.csv", "format": "csv"}]},
        )
    apply(folder)
    _, _, jobs = run(folder, only=None)
    kinds = [name for _, name in jobs]
    assert kinds == ["ingest_new"] * 3 + ["cluster", "services"] * 3


def test_a_file_larger_than_the_budget_is_clustered_by_itself(folder):
    for name in TABLES[1:]:
        (folder.root / f"tables/{name}.yml").unlink()
    with_budget(folder, per_run=size(folder, "first") // 5)
    assert predicted(folder)[0] == {"first": 4}
    done = 0
    while predicted(folder)[0]:
        rewrote, result, _ = run(folder)
        (clustered,) = (
            o.result.clustering for o in result.outcomes if o.table in rewrote and o.name == "cluster"
        )
        assert (clustered.groups, clustered.files_before) == (1, 1)
        done += 1
    assert done == 4
    assert len(rows_of(folder.root / "warehouse" / "first")) == 16


def test_a_budget_of_nothing_is_told_and_pays_nothing(folder):
    with_budget(folder, per_run=0)
    rewrote, result, _ = run(folder)
    assert rewrote == {}
    assert "is too small for 4 due files" in RunView().text(result, Paint(enabled=False))
    assert set(predicted(folder)[0].values()) == {0}
    plan = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert "to rewrite, by no run, as its budget is 0" in PlanView().text(plan, Paint(enabled=False))


def test_apply_rewrites_no_more_than_was_reviewed_over_all_tables(folder):
    limit = 2 * max(size(folder, name) for name in TABLES) + 100
    for name in TABLES:
        section = DECLARED["clustering"] | {
            "existing": "now",
            "execution": {"strategy": "sort", "columns": ["id"]},
        }
        folder.write(f"tables/{name}.yml", DECLARED | {"name": name, "clustering": section})
    folder.project(targets={"dev": {"warehouse": "./warehouse", "budget": {"per_apply": f"{limit}B"}}})
    results = apply(folder).results
    rewrote = [result.rewritten.size_bytes for result in results]
    assert [bool(size_bytes) for size_bytes in rewrote] == [True, True, False]
    assert sum(rewrote) <= limit


DAY = 86_400


def with_operations(folder, *, prices=None, **rules):
    target = {"warehouse": "./warehouse", "operations": rules} | ({"prices": prices} if prices else {})
    folder.project(targets={"dev": target})
    apply(folder)


def ordered(order):
    """The tables of an order, with what is taken of each and why the rest waits."""
    return [(one.table, one.taken_bytes, one.reason) for one in order.tables]


def plan_due(folder, now=None):
    now_ms = round((time.time() if now is None else now) * 1000)
    return plan_workspace(folder.workspace(), now_ms=now_ms, due=True)


def with_queries(folder, *, tags=None, **runs_per_day):
    """Declare for tables how often a day a query on the sorted column runs, which gains by clustering.

    Each table gets two more files whose values of the column overlap.
    """
    for name, runs in runs_per_day.items():
        query = {"name": "few", "where": "v < 20", "runs_per_day": runs}
        more = {"name": name, "queries": [query], "tags": (tags or {}).get(name, [])}
        folder.write(f"tables/{name}.yml", DECLARED | more)
        for number in range(2):
            table(folder, name).insert({f"w{number}-{n * 7919}": (n, "a") for n in range(1500)})


def test_a_plan_shows_the_order_by_gain_and_the_run_follows_it(folder):
    with_queries(folder, third=1000, second=10)
    limit = 2 * max(size(folder, name) for name in TABLES) + 100
    with_operations(folder, budget={"rewrite": f"{limit}B"})
    plan = plan_due(folder)
    order = plan.evidence.order
    assert [one.table for one in order.tables] == ["third", "second", "first"]
    assert order.tables[0].gain_bytes > order.tables[1].gain_bytes > order.tables[2].gain_bytes == 0
    assert [one.reason for one in order.tables] == [None, None, DeferralReason.BUDGET]
    assert {one.rate_basis for one in order.tables} == {RateBasis.TABLE}
    planned = {one.table: one.taken_bytes for one in order.tables if one.taken_bytes}
    forecasts = plan.evidence.forecasts
    assert {name: one.rewrite_bytes for name, one in forecasts.items() if one.rewrite_bytes} == planned
    rewrote, result, jobs = run(folder)
    assert rewrote == planned
    assert ordered(result.order) == ordered(order)
    # Cleans and archives rewrite nothing, so they come first, also for tables whose clustering waits.
    assert [name for _, name in jobs] == ["services"] * 3 + ["cluster"] * 2
    assert [table for table, name in jobs if name == "cluster"] == ["third", "second"]
    assert ordered(plan_due(folder).evidence.order) == [("first", size(folder, "first"), None)]
    assert list(run(folder)[0]) == ["first"]


def test_plans_and_runs_say_what_they_take_and_why_the_rest_waits(folder):
    with_queries(folder, third=1000)
    limit = max(size(folder, name) for name in TABLES) + 100
    with_operations(folder, budget={"rewrite": f"{limit}B", "hours": 3}, priorities={"gold": 4})
    text = " ".join(PlanView().text(plan_due(folder), Paint(enabled=False)).split())
    assert " UTC, 1 table, about " in text
    assert " of 3 h: " in text
    assert "order 1 of 3: rewrites " in text
    assert "(measured on the table); queries read" in text
    assert "deferred 1 group" in text
    assert "the rest of the run's budget is too small" in text
    _, result, _ = run(folder)
    lines = RunView().text(result, Paint(enabled=False)).splitlines()
    assert [line.split()[:2] for line in lines if "deferred 1 group" in line] == [
        ["first", "deferred"],
        ["second", "deferred"],
    ]
    assert lines[-1].endswith("clustered, 2 tables deferred.")


def test_the_gain_is_money_where_scanned_bytes_have_a_price(folder):
    with_queries(folder, third=1000)
    with_operations(folder, max_delay="7d", prices={"currency": "EUR", "read_requests_million": 0.4})
    order = plan_due(folder).evidence.order
    assert (order.currency, order.tables[0].gain_micros) == (None, None)
    prices = {"currency": "EUR", "scanned_tib": 1e6, "read_requests_million": 0.4}
    with_operations(folder, max_delay="7d", prices=prices)
    plan = plan_due(folder)
    first = plan.evidence.order.tables[0]
    # Fewer files are opened, so requests add to the price of the bytes.
    assert first.table == "third"
    assert first.gain_micros > first.gain_bytes * 1e12 / 2**40 > 0
    text = " ".join(PlanView().text(plan, Paint(enabled=False)).split())
    assert f"({nearest_cents(first.gain_micros)} EUR) a day less" in text
    _, result, _ = run(folder)
    assert to_json(result)["order"]["currency"] == "EUR"
    assert [one.gain_micros for one in result.order.tables] == [first.gain_micros, 0, 0]


def test_a_gain_of_requests_alone_is_shown(folder):
    """A query that reads all rows opens fewer files after the clustering, and reads no fewer bytes."""
    query = {"name": "all", "where": "v >= 0", "runs_per_day": 1e6}
    folder.write("tables/third.yml", DECLARED | {"name": "third", "queries": [query]})
    prices = {"currency": "EUR", "scanned_tib": 5, "read_requests_million": 0.4}
    with_operations(folder, max_delay="7d", prices=prices)
    plan = plan_due(folder)
    first = plan.evidence.order.tables[0]
    assert (first.table, first.gain_bytes) == ("third", 0)
    assert first.gain_micros > 0
    gain = f"0 B ({nearest_cents(first.gain_micros)} EUR)"
    text = " ".join(PlanView().text(plan, Paint(enabled=False)).split())
    assert f"queries read {gain} a day less" in text
    (block,) = order_section(plan.evidence.order, note="").blocks
    assert [row[2] for row in block.rows] == [gain, "", ""]


@pytest.mark.long
def test_priorities_weigh_the_gain(folder):
    with_queries(folder, first=100, second=100, tags={"second": ["gold"]})
    with_operations(folder, priorities={"gold": 10})
    assert next(one.table for one in plan_due(folder).evidence.order.tables) == "second"
    with_operations(folder, priorities={"gold": 0.1})
    assert next(one.table for one in plan_due(folder).evidence.order.tables) == "first"


def test_outside_the_window_sources_are_ingested_and_services_wait(folder):
    now = datetime.now(UTC)
    closed = f"{now + timedelta(hours=5):%H:%M}-{now + timedelta(hours=7):%H:%M} UTC"
    with_operations(folder, window=closed)
    rewrote, result, jobs = run(folder)
    assert (rewrote, jobs) == ({}, [])
    assert ordered(result.order) == [(name, 0, DeferralReason.WINDOW) for name in TABLES]
    assert "the window of the target is closed" in RunView().text(result, Paint(enabled=False))
    # The plan shows the run at the beginning of the window.
    order = plan_due(folder).evidence.order
    assert [one.reason for one in order.tables] == [None] * 3
    assert 4 * 3600 <= order.starts_ms / 1000 - now.timestamp() <= 5 * 3600
    assert order.seconds == 2 * 3600
    rewrote, _, _ = run(folder, clock=lambda: order.starts_ms / 1000)
    assert set(rewrote) == set(TABLES)


def test_a_table_is_left_alone_during_its_cooldown_and_comes_first_when_it_is_overdue(folder):
    with_queries(folder, third=1000)
    with_operations(folder, cooldown="12h", max_delay="7d")
    run(folder)
    for name in TABLES:
        for number in range(4):
            table(folder, name).insert({f"l{number}-{n}": (n, "a") for n in range(4)})
    now = time.time()
    assert {reason for *_, reason in ordered(plan_due(folder, now).evidence.order)} == {
        DeferralReason.COOLDOWN
    }
    assert run(folder)[0] == {}
    later = plan_due(folder, now + DAY).evidence.order
    assert next(one.table for one in later.tables) == "third"
    assert not any(one.is_overdue for one in later.tables)
    overdue = plan_due(folder, now + 8 * DAY).evidence.order
    assert all(one.is_overdue for one in overdue.tables)
    waits = [one.delay_seconds for one in overdue.tables]
    assert waits == sorted(waits, reverse=True)


def test_a_run_stops_when_its_time_ends_and_the_next_one_goes_on(folder):
    with_operations(folder, budget={"hours": 1})
    begun = time.time()
    clock = iter([begun] * 4 + [begun + 3600] * 10)
    rewrote, result, _ = run(folder, clock=lambda: next(clock))
    assert len(rewrote) == 2
    assert [one.reason for one in result.order.tables] == [None, None, DeferralReason.TIME]
    assert len(run(folder)[0]) == 1


def clustering_of_first(result):
    (clustering,) = (
        o.result.clustering for o in result.outcomes if o.table == "first" and o.result.clustering
    )
    return clustering


@pytest.mark.parametrize(
    "groups", [pytest.param(None, marks=pytest.mark.long), pytest.param(0, marks=pytest.mark.long), 1]
)
def test_clustering_stops_between_groups_when_its_time_ends(folder, monkeypatch, groups):
    """The time ends before the plan (None) or during the job; one commit has the groups that have begun."""
    for name in TABLES[1:]:
        (folder.root / f"tables/{name}.yml").unlink()
    section = DECLARED["clustering"] | {"plan": DECLARED["clustering"]["plan"] | {"max_group_size": "16KiB"}}
    for number in range(8):
        folder.write("tables/first.yml", DECLARED | {"name": "first", "clustering": section})
        table(folder, "first").insert({f"m{number}-{n}": (n, "a") for n in range(400)})
    with_operations(folder, budget={"hours": 1})
    (due,) = plan_due(folder).evidence.order.tables
    assert due.taken_groups >= 8
    begun, later = time.time(), time.time() + 4000
    # The time is read before the plan, before the job and by each task.
    times = iter([*[begun] * (0 if groups is None else 2 + groups), *[later] * 50])
    monkeypatch.setattr("parquetry.runtime.spark.cluster.time", SimpleNamespace(time=lambda: next(times)))
    clustering = clustering_of_first(run(folder)[1])
    groups = groups or 0
    assert (clustering.groups, len(clustering.instants), clustering.left_out) == (groups, min(groups, 1), ())
    assert f"with {clustering.excluded_files:,} due files left" in in_full(clustering.warnings[0])
    handle = table(folder, "first").handle
    assert list(handle.store.list(UNPUBLISHED_FOLDER)) == []
    for instant in clustering.instants:
        assert json.loads(handle.timeline().commit_metadata(instant).extra[RUN_KEY])["deferred"] >= 1
    monkeypatch.undo()
    # The rest is due at once. It makes few commits, because each counts for the versions that a clean keeps.
    clustering = clustering_of_first(run(folder, run_id="r2")[1])
    assert clustering.groups == due.taken_groups - groups
    assert 1 < len(clustering.instants) <= 4
    assert len(rows_of(folder.root / "warehouse" / "first")) == 16 + 8 * 400


def test_a_table_that_fails_does_not_stop_the_others(folder):
    with_operations(folder, max_delay="7d")

    def failing(job):
        if (job.table, job.name) == ("first", "cluster"):
            raise ParquetryError("no luck")
        if (job.table, job.name) == ("second", "services"):
            raise PermissionError
        return launch(job)

    rewrote, result, _ = run(folder, launch=failing, fails=True)
    assert list(rewrote) == ["third"]
    assert [(o.table, o.name) for o in result.outcomes if o.error is not None] == [
        ("first", "cluster"),
        ("second", "services"),
    ]


def dying(name):
    """A launcher that dies in the clustering of a table, when its Spark session starts."""

    def session(_):
        raise ParquetryError("no luck")

    return lambda job: (
        execute(job, session=session) if (job.table, job.name) == (name, "cluster") else launch(job)
    )


def test_what_was_rewritten_in_vain_counts_for_the_budget(folder):
    """A failed job counts all bytes that it was to rewrite, as nobody knows how many it rewrote."""
    sizes = {name: size(folder, name) for name in TABLES}
    with_operations(folder, budget={"rewrite": f"{2 * max(sizes.values()) + 100}B"})
    rewrote, result, _ = run(folder, launch=dying("first"), fails=True)
    assert list(rewrote) == ["second"]
    assert [one.reason for one in result.order.tables] == [None, None, DeferralReason.BUDGET]
    assert result.exit_code == 6
    assert to_json(result)["order"]["spent_bytes"] == sizes["first"] + sizes["second"]
    line = RunView().text(result, Paint(enabled=False)).splitlines()[-1]
    assert line.startswith("1 failed, 1 changed, 1 unchanged; 1 file (")
    assert f" clustered, {human_size(sizes['first'])} lost to failures or writers, 1 table deferred." in line


def test_without_operations_it_counts_too_if_the_job_began(folder):
    with_budget(folder, per_run=2 * max(size(folder, name) for name in TABLES) + 100)

    def refusing(job):
        if (job.table, job.name) == ("first", "cluster"):
            raise ParquetryError("spark-submit cannot be started")
        return launch(job)

    rewrote, result, _ = run(folder, launch=dying("first"), fails=True)
    assert list(rewrote) == ["second"]
    (left,) = (o.result.clustering for o in result.outcomes if (o.table, o.name) == ("third", "cluster"))
    assert "budget is too small" in in_full(left.warnings[0])
    # The record of the job that died does not count for one that has not begun.
    begun_ms = table(folder, "first").store.now_ms() - 60_000
    begun = json.dumps({"at_ms": begun_ms, "size_bytes": 2**40}).encode()
    table(folder, "first").store.put(CLUSTERING_BEGUN_PATH, begun)
    assert list(run(folder, launch=refusing, fails=True)[0]) == ["third"]


def test_no_record_of_a_table_uses_more_of_the_budget_than_its_job_was_given(folder):
    """A record that anybody can write to a table takes no budget of other tables."""
    workspace = folder.workspace()
    job = cluster_job(workspace, workspace.table("first"))

    def died(job):
        begun = json.dumps({"at_ms": 2**50, "size_bytes": 2**50}).encode()
        table(folder, "first").store.put(CLUSTERING_BEGUN_PATH, begun)
        raise ParquetryError("spark-submit was killed")

    launcher = BudgetedLauncher(died)
    with pytest.raises(ParquetryError, match="killed"):
        launcher(replace(job, budget_bytes=1000, spent_bytes=700))
    assert launcher.spent_bytes == 300


def test_a_table_whose_clustering_fails_has_had_its_turn(folder):
    with_queries(folder, third=1000)
    with_operations(folder, max_delay="7d", cooldown="12h")
    rewrote, *_ = run(folder, launch=dying("third"), fails=True)
    assert list(rewrote) == ["first", "second"]
    for name in ("first", "second"):
        for number in range(4):
            table(folder, name).insert({f"l{number}-{n}": (n, "a") for n in range(4)})
    now = time.time()
    later = plan_due(folder, now + DAY).evidence.order
    assert [one.table for one in later.tables] == ["first", "second", "third"]
    # A failure is no clustering, so there is no cooldown after it.
    assert ordered(plan_due(folder, now).evidence.order)[-1][::2] == ("third", None)
    # Its wait ended when it was tried.
    begun = json.dumps({"at_ms": round((now + 8 * DAY) * 1000), "size_bytes": 1}).encode()
    table(folder, "third").store.put(CLUSTERING_BEGUN_PATH, begun)
    overdue = plan_due(folder, now + 9 * DAY).evidence.order
    assert [(one.table, one.is_overdue) for one in overdue.tables] == [
        ("first", True),
        ("second", True),
        ("third", False),
    ]


@pytest.mark.parametrize("clustering_hours", [0.0, pytest.param(1.0, marks=pytest.mark.long)])
def test_cleans_leave_half_of_the_window_and_all_of_the_hours_to_clusterings(folder, clustering_hours):
    begin = datetime.now(UTC).replace(second=0, microsecond=0)
    window = f"{begin:%H:%M}-{begin + timedelta(hours=2):%H:%M} UTC"
    with_operations(folder, window=window, budget={"hours": 0.5})
    hours = 0.0

    def slow(job):
        nonlocal hours
        hours += 0.8 if job.name == "services" else clustering_hours
        return launch(job)

    _, result, jobs = run(folder, launch=slow, clock=lambda: begin.timestamp() + hours * 3600)
    served = [name for name, job in jobs if job == "services"]
    if clustering_hours:
        # The window closes during the first clustering: nothing else begins.
        assert [job for _, job in jobs] == ["services", "services", "cluster"]
        assert [one.reason for one in result.order.tables] == [None, *[DeferralReason.TIME] * 2]
    else:
        assert [job for _, job in jobs] == ["services"] * 2 + ["cluster"] * 3 + ["services"]
        assert served == list(TABLES)


@pytest.mark.parametrize(("clean_hours", "expected"), [(0.3, TABLES), (0.5, TABLES[:2])])
def test_a_clean_that_would_not_end_in_the_window_waits_for_the_next_run(folder, clean_hours, expected):
    """The next run begins it in the first half of its window, where nothing is compared, so none starves."""
    third = table(folder, "third")
    cluster(OneProcessSpark(), third.handle, timing=FAST)
    third.insert({"more": (1, "a")})
    one_version = replace(third.handle.spec.retention, keep_commits=1)
    instant = clean(third.handle, policy=one_version, timing=FAST).instant
    timeline = third.handle.timeline()
    (done,) = (one for one in timeline.of(Action.CLEAN) if one.time == instant)
    slow_clean = replace(timeline.clean_metadata(instant), time_taken_ms=round(clean_hours * 3_600_000))
    third.store.put(done.path, slow_clean.encode())
    begin = datetime.now(UTC).replace(second=0, microsecond=0)
    with_operations(folder, window=f"{begin:%H:%M}-{begin + timedelta(hours=2):%H:%M} UTC")

    def served(job_hours):
        hours = 0.0

        def slow(job):
            nonlocal hours
            hours += job_hours if job.name == "services" else 0
            return launch(job)

        _, _, jobs = run(folder, launch=slow, clock=lambda: begin.timestamp() + hours * 3600)
        return tuple(name for name, job in jobs if job == "services")

    assert served(0.8) == expected
    assert served(0.1) == TABLES


def test_tables_run_side_by_side_and_share_the_budget(folder):
    sizes = {name: size(folder, name) for name in TABLES}
    with_operations(folder, parallel=2, budget={"rewrite": f"{2 * max(sizes.values()) + 100}B"})
    together, running, most, turn = Barrier(2, timeout=60), set(), [], Lock()

    def meeting(job):
        if job.name != "cluster":
            return launch(job)
        assert job.spark.conf["spark.scheduler.mode"] == "FAIR"
        with turn:
            running.add(job.table)
        together.wait()
        with turn:
            most.append(len(running))
        together.wait()
        try:
            return launch(job)
        finally:
            with turn:
                running.discard(job.table)

    rewrote, result, jobs = run(folder, launch=meeting)
    assert sorted(rewrote) == ["first", "second"]
    assert max(most) == 2
    assert sum(rewrote.values()) == sizes["first"] + sizes["second"]
    assert [one.reason for one in result.order.tables] == [None, None, DeferralReason.BUDGET]
    assert len([name for _, name in jobs if name == "cluster"]) == 2
    for name in TABLES:
        assert len(rows_of(folder.root / "warehouse" / name)) == 16


def test_an_interruption_ends_the_run_of_all_tables(folder):
    with_operations(folder, parallel=2)
    begun, ended = Event(), []

    def slow(job):
        if job.table == "second" and job.name == "cluster":
            begun.wait(60)
            ended.append(job.table)
        elif job.name == "cluster":
            begun.set()
            raise KeyboardInterrupt
        return launch(job)

    with pytest.raises(KeyboardInterrupt):
        run(folder, launch=slow)
    assert ended in ([], ["second"])
    assert run(folder, run_id="r2")[1].failure is None
