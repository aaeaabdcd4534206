"""What a change costs: predicted with the plan, in money, by the errors of past predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from html import unescape

import pytest
from click.testing import CliRunner
from jsonschema import validate

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.cli.views.review import FollowUpView, follow_up_comment
from parquetry.cli.views.timeline import TimelineView
from parquetry.compiler.evidence import figures
from parquetry.compiler.evidence.money import PlanPrices, followed_costs
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode, plan_json
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.reports.costs import cost_rows
from parquetry.compiler.reports.timeline import report_timeline
from parquetry.compiler.review.follow_up import DebtStatus, follow_up
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.work import ClusteringWork
from parquetry.runtime.clustering.plan.history import past_work
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.codec import canonical_json, digest_of
from parquetry.runtime.storage.open import open_store
from tests.support.one_process_spark import OneProcessSpark
from tests.support.project_folder import EVENTS, PROJECT, ProjectFolder
from tests.support.small_table import FAST, SmallTable

NOW = 1_800_000_000_000
PRICES = {
    "currency": "EUR",
    "storage_gib_month": 0.0245,
    "read_requests_million": 0.43,
    "write_requests_million": 5.4,
    "core_hour": 0.048,
    "scanned_tib": 5,
}
QUERIES = [{"name": "low", "where": "v < 3", "runs_per_day": 1000}, {"name": "rare", "where": "v = 2"}]
SORTED = {"trigger": "async", "execution": {"strategy": "sort", "columns": ["v"]}}
CURVE = {"trigger": "async", "execution": {"strategy": "zorder", "columns": ["v", "id"]}}


@pytest.fixture
def folder(tmp_path):
    """A project with prices, and ``events`` in 4 small files."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    prices(folder, PRICES)
    folder.write("tables/events.yml", EVENTS | {"queries": QUERIES})
    apply(folder)
    fill(folder, range(4))
    return folder


def prices(folder, declared):
    target = PROJECT["targets"]["dev"] | ({} if declared is None else {"prices": declared})
    folder.project(targets={"dev": target})


def events(folder):
    return SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)


def fill(folder, numbers):
    for number in numbers:
        events(folder).insert({f"k{number}-{i}": (i, "a") for i in range(50)})


def planned(folder, **options):
    return plan_workspace(folder.workspace(), now_ms=NOW, **options)


def apply(folder):
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None


def declare(folder, **changes):
    folder.write("tables/events.yml", EVENTS | {"queries": QUERIES} | changes)


def all_formats(plan):
    return "\n".join(
        (
            PlanView().text(plan, Paint(enabled=False)),
            render_markdown(plan, max_bytes=60_000),
            unescape(render_html(plan)),
            json.dumps(plan_json(plan)),
        )
    )


def test_a_plan_shows_ranges_in_every_format(folder):
    declare(folder, clustering=SORTED)
    plan = planned(folder, due=True)
    validate(plan_json(plan), answer_schema("plan"))
    costs = plan.evidence.figures["events"].costs
    assert costs.currency == "EUR"
    assert 0 < costs.one_off.low_micros < costs.one_off.high_micros
    assert [query.query for query in costs.forecast.queries] == ["low"], "the other one has no runs_per_day"
    (row,) = cost_rows(plan)
    assert " to " in row.one_off
    text, markdown, page = (
        PlanView().text(plan, Paint(enabled=False)),
        render_markdown(plan, max_bytes=60_000),
        unescape(render_html(plan)),
    )
    assert f"costs {row.one_off} once" in " ".join(text.split())
    assert f"| events | {row.one_off} |" in markdown
    assert f"costs {row.one_off} once" in page
    assert "assumed" in row.note
    total = plan.evidence.costs
    assert (total.one_off, total.monthly) == (costs.one_off, costs.monthly)
    assert total.prices.core_hour == "0.048"


def test_a_query_scans_no_more_of_what_is_rewritten_than_is_written(folder):
    declare(folder, clustering=SORTED, queries=[{"name": "all", "where": "v >= 0", "runs_per_day": 1000}])
    forecast = planned(folder, due=True).evidence.figures["events"].costs.forecast
    (query,) = forecast.queries
    assert query.expected_bytes.high <= forecast.work.written_bytes.high


def test_without_prices_nothing_of_it_appears(folder):
    prices(folder, None)
    declare(folder, clustering=SORTED)
    shown = all_formats(planned(folder, due=True))
    for word in ("EUR", "costs", "micros", "one-off", "pays back"):
        assert word not in shown


def test_the_id_of_a_plan_depends_on_no_price(folder):
    declare(folder, clustering=SORTED)
    with_prices = planned(folder)
    prices(folder, PRICES | {"core_hour": 99})
    assert planned(folder).plan_id == with_prices.plan_id
    prices(folder, None)
    assert planned(folder).plan_id == with_prices.plan_id


def test_a_saved_plan_keeps_them_and_refuses_what_is_no_price(folder):
    declare(folder, clustering=SORTED)
    plan = planned(folder)
    text = encode(plan)
    assert decode(text, name="p.json").evidence.costs == plan.evidence.costs
    for keys, value in (
        (("costs", "prices", "core_hour"), "1e999999"),
        (("costs", "prices", "currency"), "\x1b[31mEUR"),
        (("figures", "events", "costs", "currency"), "\x1b[31mEUR"),
    ):
        document = json.loads(text)
        del document["digest"]
        place = document["evidence"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        edited = canonical_json(document | {"digest": digest_of(document)})
        with pytest.raises(StalePlanError, match=r"is not a price|is a code of three"):
            decode(edited, name="p.json")


def test_what_a_clustering_takes_is_recorded_and_narrows_the_next_ranges(folder, monkeypatch):
    declare(folder, clustering=SORTED)
    first = planned(folder).evidence.figures["events"].costs.forecast.work
    apply(folder)
    cluster(OneProcessSpark(), events(folder).handle, timing=FAST)
    handle = events(folder).handle
    (work,) = past_work(handle, handle.timeline())
    assert (work.files, work.read_bytes) == (4, first.read_bytes)
    assert work.written_files == 1
    assert work.core_milliseconds > 0
    assert work.sampled_bytes is not None, "queries are declared, so a sample was drawn"
    assert work.expected_bytes.low < work.expected_bytes.high
    fill(folder, range(4, 8))
    declare(folder, clustering=CURVE)
    costs = planned(folder).evidence.figures["events"].costs
    assert costs.forecast.work.basis.past_bytes == costs.forecast.work.basis.past_throughputs == 1
    assert costs.forecast.work.basis.sampled
    assert costs.forecast.queries[0].past == 2
    monkeypatch.setattr(figures, "predict", lambda *_, **__: {})
    by_sizes = planned(folder).evidence.figures["events"].costs.forecast
    assert by_sizes.work.basis.past_bytes == 0, "the past one was of another layout"
    assert by_sizes.queries[0].past == 0, "past predictions were from samples"


def test_numbers_that_nobody_can_have_measured_are_no_past_predictions(folder):
    declare(folder, clustering=SORTED)
    apply(folder)
    cluster(OneProcessSpark(), events(folder).handle, timing=FAST)
    fill(folder, range(4, 8))
    declare(folder, clustering=CURVE)
    (path,) = (folder.root / "warehouse/events/.hoodie").glob("*.replacecommit")
    written = json.loads(path.read_text())
    work, measured = (
        json.loads(written["extraMetadata"][key]) for key in ("parquetry.work", "parquetry.measured")
    )
    backwards = {"low": 2, "high": 1}
    for change in ({"written_bytes": -1}, {"sampled_bytes": -1}, {"expected_bytes": backwards}):
        written["extraMetadata"]["parquetry.work"] = json.dumps(work | change)
        path.write_text(json.dumps(written))
        basis = planned(folder, due=True).evidence.figures["events"].costs.forecast.work.basis
        assert basis.past_bytes == basis.past_throughputs == 0
        report = report_timeline(
            events(folder).store, prices=PlanPrices.of(folder.workspace().project.target.prices)
        )
        assert all(instant.costs is None for instant in report.instants)
    measured[0]["after"]["data_bytes"] = -(2**40)
    written["extraMetadata"]["parquetry.measured"] = json.dumps(measured)
    path.write_text(json.dumps(written))
    assert planned(folder, due=True).evidence.figures["events"].costs.forecast.queries[0].past == 0


def test_the_timeline_shows_what_a_clustering_cost(folder):
    declare(folder, clustering=SORTED)
    apply(folder)
    cluster(OneProcessSpark(), events(folder).handle, timing=FAST)
    store, paid = events(folder).store, PlanPrices.of(folder.workspace().project.target.prices)
    report = report_timeline(store, prices=paid)
    (clustered,) = [instant for instant in report.instants if instant.costs is not None]
    assert [part.part for part in clustered.costs.parts] == [
        "compute",
        "requests, estimated",
        "compute and requests",
    ]
    handle = events(folder).handle
    (work,) = past_work(handle, handle.timeline())
    exact = Fraction("0.048") * work.core_milliseconds / 3_600_000
    assert clustered.costs.parts[0].measured_micros == round(exact * 1_000_000)
    text = TimelineView(verbose=True).text(report, Paint(enabled=False))
    assert "compute and requests" in text
    validate(TimelineView().json(report), answer_schema("timeline"))
    assert "EUR" not in TimelineView(verbose=True).text(report_timeline(store), Paint(enabled=False))
    assert "costs" not in json.dumps(TimelineView().json(report_timeline(store)))
    done = CliRunner().invoke(command_line, ["timeline", "events", "-v", "--project", str(folder.root)])
    assert "compute and requests" in done.output


def test_a_follow_up_shows_predicted_and_measured(folder):
    cluster(OneProcessSpark(), events(folder).handle, timing=FAST)
    fill(folder, range(4, 8))
    declare(folder, clustering=SORTED)
    plan = planned(folder, due=True)
    assert apply_plan(plan, folder.workspace()).failure is None
    cluster(OneProcessSpark(), events(folder).handle, timing=FAST)
    prices(folder, PRICES | {"core_hour": 99})
    outcome = follow_up(plan, folder.workspace())
    (table,) = outcome.tables
    parts = {part.part: part for part in table.costs.parts}
    predicted = plan.evidence.figures["events"].costs
    assert parts["compute"].expected == predicted.compute
    assert parts["storage a month"].expected == predicted.storage
    assert parts["queries a month"].expected == predicted.queries
    handle = events(folder).handle
    _, work = past_work(handle, handle.timeline())
    by_hand = Fraction("0.0245") * (work.written_bytes - work.read_bytes) / 2**30
    assert parts["storage a month"].measured_micros == round(by_hand * 1_000_000)
    compute = Fraction("0.048") * work.core_milliseconds / 3_600_000
    assert parts["compute"].measured_micros == round(compute * 1_000_000), "by the prices of the plan"
    comment = follow_up_comment(outcome, max_bytes=60_000)
    assert "| queries a month |" in comment
    view = FollowUpView(pull_request=None)
    assert "queries a month" in view.text(outcome, Paint(enabled=False))
    validate(view.json(outcome), answer_schema("review-follow-up"))


def test_a_follow_up_of_work_that_nobody_recorded_shows_no_costs(folder):
    declare(folder, clustering=SORTED)
    plan = planned(folder, due=True)
    assert apply_plan(plan, folder.workspace()).failure is None
    cluster(OneProcessSpark(), events(folder).handle, timing=FAST)
    (path,) = (folder.root / "warehouse/events/.hoodie").glob("*.replacecommit")
    written = json.loads(path.read_text())
    del written["extraMetadata"]["parquetry.work"]
    path.write_text(json.dumps(written))
    (table,) = follow_up(plan, folder.workspace()).tables
    assert table.status is DebtStatus.PAID
    assert table.costs is None, "not a cost of 0"


def test_old_versions_cost_until_a_clean_deletes_them(folder):
    declare(folder, clustering=SORTED, retention={"clean": {"max_age": "15d"}})
    costs = planned(folder).evidence.figures["events"].costs
    assert costs.forecast.kept_seconds.low == 15 * 86_400
    month_micros = costs.forecast.kept_bytes * 0.0245 / 2**30 * 1e6
    assert costs.old_versions.low_micros == int(month_micros / 2)
    declare(folder, clustering=SORTED, retention={"clean": {"keep_versions": 1}})
    assert planned(folder).evidence.figures["events"].costs.forecast.kept_seconds.low == 0


def test_what_no_rule_deletes_is_stored_for_good_when_it_is_followed_up(folder):
    declare(folder, clustering=SORTED, retention={"clean": {"max_age": "15d"}})
    plan = planned(folder)
    costs = plan.evidence.figures["events"].costs
    work = ClusteringWork(
        files=4,
        read_bytes=1000,
        written_files=1,
        written_bytes=900,
        attempted_bytes=1,
        core_milliseconds=1,
        expected_bytes=PredictionInterval.exactly(900),
        expected_core_milliseconds=PredictionInterval.exactly(1),
    )
    paid = replace(plan.evidence.costs.prices, storage_gib_month=str(2**30))
    gone, kept = (
        followed_costs(
            replace(costs, forecast=replace(costs.forecast, kept_seconds=seconds)), [work], {}, paid
        )
        for seconds in (costs.forecast.kept_seconds, None)
    )
    storage = {part.part: part.measured_micros for part in gone.parts}["storage a month"]
    assert storage == -100 * 1_000_000
    assert {part.part: part.measured_micros for part in kept.parts}["storage a month"] == 900 * 1_000_000


def test_narrower_retention_saves_storage(folder):
    table = events(folder)
    for _ in range(3):
        table.upsert({"k0-0": (1, "a")})
    declare(folder, retention={"clean": {"keep_commits": 1}})
    costs = planned(folder).evidence.figures["events"].costs
    assert costs.forecast.freed_bytes == -costs.forecast.storage_bytes.low
    assert costs.forecast.storage_bytes.low == costs.forecast.storage_bytes.high < 0
    assert costs.one_off.high_micros == 0
    assert costs.monthly.low_micros < 0


def test_what_rewrites_nothing_has_no_row(folder):
    declare(folder, description="Other words.")
    plan = planned(folder)
    assert plan.evidence.figures["events"].costs.is_nothing
    assert cost_rows(plan) == ()
    assert "EUR" not in PlanView().text(plan, Paint(enabled=False))


def test_all_tables_are_added_up(folder):
    folder.write("tables/more.yml", EVENTS | {"name": "more", "queries": QUERIES})
    apply(folder)
    SmallTable(open_store(folder.root / "warehouse/more"), timing=FAST).insert({"k": (1, "a")})
    SmallTable(open_store(folder.root / "warehouse/more"), timing=FAST).insert({"l": (2, "a")})
    for name in ("events", "more"):
        folder.write(f"tables/{name}.yml", EVENTS | {"name": name, "queries": QUERIES, "clustering": SORTED})
    plan = planned(folder)
    one, other = (plan.evidence.figures[name].costs for name in ("events", "more"))
    assert plan.evidence.costs.one_off == one.one_off + other.one_off
    assert [row.table for row in cost_rows(plan)] == ["events", "more", "all"]
    assert "All tables cost" in PlanView().text(plan, Paint(enabled=False))


def test_guardrails_see_costs(folder):
    declare(folder, clustering=SORTED)
    (folder.root / "guardrails").mkdir()
    rule = {
        "apiVersion": "parquetry/v1",
        "kind": "guardrail",
        "name": "budget",
        "expression": "costs.one_off.high_micros <= 1",
        "message": "{table.name} may cost {costs.one_off.high_micros} {costs.currency}",
    }
    folder.write("guardrails/budget.yml", rule)
    (blocked,) = planned(folder).intent.blocked
    assert "events may cost 0.0" in blocked.reason
    assert "EUR" in blocked.reason
    prices(folder, None)
    assert planned(folder).intent.blocked == (), "without prices every amount is 0"


def test_amounts_beyond_what_json_holds_are_held(folder):
    prices(folder, PRICES | {"storage_gib_month": 1_000_000, "scanned_tib": 1_000_000})
    queries = [QUERIES[0] | {"runs_per_day": 1_000_000_000}]
    declare(folder, clustering=SORTED, queries=queries)
    plan = planned(folder)
    huge = replace(plan, evidence=replace(plan.evidence, drift=()))
    assert decode(encode(huge), name="p.json").evidence == huge.evidence
