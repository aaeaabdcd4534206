"""Values of columns that hold personal data: in no plan, comment or report, and whole in the table."""

from __future__ import annotations

import json
import logging
import subprocess
import traceback
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.clustering import ClusteringView
from parquetry.cli.views.diff import DiffView
from parquetry.cli.views.plan.github import render_github
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import encode
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.reports.diff import diff_specs
from parquetry.compiler.reports.inspection import inspect_table
from parquetry.compiler.reports.timeline import report_timeline
from parquetry.compiler.security.masking import masked_sql
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.errors import message_of
from parquetry.message import Message, Value, in_full
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.clustering.plan.execution import (
    ClusteringResult,
    RewrittenGroup,
    UnpublishedGroup,
    plan_result,
)
from parquetry.runtime.clustering.rewrite.task import GroupWork
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import InvalidDataError, RetryWrite
from parquetry.runtime.layout.clustering.model import ClusteringFile, PlannedGroup
from parquetry.runtime.main import execute
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.services import after_write
from parquetry.runtime.spec.masking import cleared, failures_masked, masked_partition
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from tests.support import base_files
from tests.support.project_folder import EVENTS, ORDERS, ProjectFolder
from tests.support.small_table import FAST, SmallTable

NOW = 1_800_000_000_000
SECRETS = ("Ada", "Lovelace", "987654321", "Byron", "Turin")
COLUMNS = [
    *ORDERS["columns"],
    {"name": "person", "type": "string", "pii": True},
    {"name": "initial", "type": "string", "generated": "coalesce(substr(person, 1, 1), 'Byron')"},
]
PRIVATE = {
    "columns": COLUMNS,
    "sources": [
        ORDERS["sources"][0]
        | {"delete_when": "person = 'Turin'", "select": "SELECT *, 987654321 AS born FROM source"}
    ],
    "queries": [
        {"name": "hers", "where": "`Person` = 'Ada' /* Lovelace */ OR born_in(person) = 987654321"},
        {"name": "recent", "where": "amount > 77.5"},
    ],
    "tests": [{"expression": "person <> 'Lovelace'"}],
}
ANOTHER = [{"name": "hers", "where": "person = 'Byron'"}, PRIVATE["queries"][1]]


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def plan(folder):
    return plan_workspace(folder.workspace(), now_ms=NOW)


def shapes(planned):
    yield encode(planned)
    yield PlanView().text(planned, Paint(enabled=False))
    yield render_markdown(planned, max_bytes=60_000)
    yield render_html(planned)
    yield render_github(planned)


def assert_hidden(planned):
    for text in shapes(planned):
        assert [secret for secret in SECRETS if secret in text] == ["987654321"] * ("987654321" in text)
        assert "born_in(person) = 987654321" not in text


def test_no_shape_of_a_plan_shows_them_and_other_conditions_stay(folder):
    folder.orders(**PRIVATE)
    created = plan(folder)
    assert_hidden(created)
    assert "amount > 77.5" in encode(created)
    assert "amount > 77.5" in render_markdown(created, max_bytes=60_000)
    assert apply_plan(created, folder.workspace()).failure is None
    assert plan(folder).is_empty
    folder.orders(**PRIVATE | {"queries": ANOTHER})
    changed = plan(folder)
    assert_hidden(changed)
    (change,) = changed.intent.actions[0].changes
    assert (change.path, change.old, change.new) == (
        "queries.hers.where",
        "`Person` = '***'   OR born_in(person) = '***'",
        "person = '***'",
    )


def test_the_table_is_given_the_whole_spec_from_a_saved_plan(folder, monkeypatch):
    folder.orders(**PRIVATE)
    monkeypatch.chdir(folder.root)
    run("plan", "--out", "plan.json")
    run("apply", "plan.json")
    queries = read_applied(open_store(folder.table)).spec.extra.queries
    assert queries[0].where == PRIVATE["queries"][0]["where"]
    run("plan", "--detailed-exitcode")


@pytest.mark.parametrize("edited", [{"queries": ANOTHER}, {"queries": []}])
def test_a_saved_plan_whose_values_are_no_longer_declared_is_stale(folder, monkeypatch, edited):
    folder.orders(**PRIVATE)
    monkeypatch.chdir(folder.root)
    run("plan", "--out", "plan.json")
    folder.orders(**PRIVATE | edited)
    said = run("apply", "plan.json", exit_code=4)
    assert "hides values of table orders" in said
    assert not folder.table.exists()


def test_other_values_are_another_plan(folder):
    folder.orders(**PRIVATE)
    before = plan(folder).plan_id
    folder.orders(**PRIVATE | {"queries": [PRIVATE["queries"][0] | {"where": "person = 'x'"}]})
    first = plan(folder).plan_id
    folder.orders(**PRIVATE | {"queries": [PRIVATE["queries"][0] | {"where": "person = 'y'"}]})
    assert len({before, first, plan(folder).plan_id}) == 3


def test_a_saved_plan_that_forgets_the_table_keeps_its_record_whole(folder, monkeypatch):
    folder.orders(**PRIVATE)
    monkeypatch.chdir(folder.root)
    run("apply", "--auto-approve")
    (folder.root / "tables/orders.yml").unlink()
    run("plan", "--out", "plan.json")
    assert "Ada" not in (folder.root / "plan.json").read_text()
    run("apply", "plan.json")
    record = read_applied(open_store(folder.table))
    assert record.ref.forgotten
    assert record.spec.extra.queries[0].where == PRIVATE["queries"][0]["where"]


def test_columns_of_hudi_that_are_made_of_personal_ones_are_hidden_like_these(folder):
    """Record keys and partition paths spell the values of their columns."""
    folder.orders(
        columns=[c | {"nullable": False} if c["name"] == "person" else c for c in COLUMNS[:-1]],
        record_key=["person"],
        partition_by=["person"],
        queries=[{"name": "hers", "where": "_hoodie_partition_path = 'person=Ada'"}],
        tests=[
            {"expression": "_Hoodie_Record_Key <> 'Lovelace'"},
            {"not_null": ["amount"], "where": "_hoodie_record_key = 'Turin'"},
            {"expression": "_hoodie_commit_time > '2000'"},
        ],
    )
    planned = plan(folder)
    assert_hidden(planned)
    assert "2000" in encode(planned)
    explained = run("explain", "orders", "--project", str(folder.root))
    assert "_hoodie_partition_path = '***'" in explained
    assert not [secret for secret in SECRETS if secret in explained]


def test_what_was_personal_or_becomes_so_is_hidden_on_both_sides(folder):
    folder.orders(**PRIVATE)
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    public = [{key: value for key, value in column.items() if key != "pii"} for column in COLUMNS]
    folder.orders(**PRIVATE | {"columns": public, "queries": ANOTHER})
    changes = {change.path: change for change in plan(folder).intent.actions[0].changes}
    assert changes["queries.hers.where"].new == "person = '***'"
    assert "Ada" not in json.dumps([str(change) for change in changes.values()])


def test_a_diff_of_revisions_hides_them(folder):
    def git(*arguments):
        words = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(folder.root)]
        subprocess.run([*words, *arguments], check=True, capture_output=True)

    folder.orders(**PRIVATE)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    folder.orders(**PRIVATE | {"queries": ANOTHER})
    diff = diff_specs(folder.root, base="HEAD", target=None, variables={})
    text = DiffView().text(diff, Paint(enabled=False)) + json.dumps(DiffView().json(diff))
    assert "queries.hers.where" in text
    assert not [secret for secret in SECRETS if secret in text]


def test_partition_values_are_hidden_by_column():
    columns = (Column(name="day", type="date"), Column(name="Person", type="string", pii=True))
    spec = TableSpec(name="t", columns=columns, partition_by=("day", "Person"))
    assert masked_partition("day=2026-01-01/Person=Ada", spec) == "day=2026-01-01/Person=***"
    assert masked_partition("2026-01-01/Ada", spec) == "2026-01-01/***"
    assert masked_partition("2026-01-01/Ada/Lovelace", spec) == "***"
    assert masked_partition("", spec) == ""


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("email = 'it''s'", "email = '***'"),
        ("EMAIL like r'a%'", "EMAIL like '***'"),
        ('email in ("a", 12, 1.5)', "email in ('***', '***', '***')"),
        ("email = 'never ends", "email = '***'"),
        ("x = 1 -- email is secret", "x = 1 -- email is secret"),
        ("email > x -- secret", "email > x  "),
        ("`email`.a = date '2020-01-01'", "`email`.a = date '***'"),
        ("emails = 'a'", "emails = 'a'"),
    ],
)
def test_sql_that_names_a_personal_column_loses_its_literals(sql, shown):
    assert masked_sql(sql, {"email"}) == shown


@given(st.text(alphabet="email '\"`0aA=-/*\\\n.", max_size=40))
def test_masking_twice_changes_nothing_more(text):
    once = masked_sql("email = " + text, {"email"})
    assert masked_sql(once, {"email"}) == once


def run(*words, exit_code=0):
    result = CliRunner().invoke(command_line, words, prog_name="parquetry")
    assert result.exit_code == exit_code, result.output
    return result.output


@pytest.fixture
def personal(folder):
    """The store of a table whose partitions are personal: two files of Ada's, one of Turin's."""
    columns = [dict(column, pii=True) if column["name"] == "p" else column for column in EVENTS["columns"]]
    folder.write("tables/events.yml", EVENTS | {"columns": columns})
    (folder.root / "tables/orders.yml").unlink()
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    store = open_store(folder.root / "warehouse/events")
    SmallTable(store, timing=FAST).insert({"a": (1, "Ada"), "b": (2, "Turin")})
    SmallTable(store, timing=FAST).insert({"c": (3, "Ada")})
    return store


def add_to_newest_commit(store, extra):
    newest = max(info.path for info in store.list(".hoodie") if info.path.endswith(".commit"))
    document = json.loads(store.read(newest))
    document["extraMetadata"] |= extra
    store.put(newest, json.dumps(document).encode())


def test_reports_of_a_table_hide_the_values_of_its_partitions(personal):
    assert {partition.path for partition in inspect_table(personal).partitions} <= {"p=***", "***"}
    report = report_timeline(personal).instants[-1]
    assert len(report.partitions) == 1
    assert "***" in report.partitions[0]


@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("inspect", "--format", "json"),
        ("timeline",),
        ("service", "cluster", "--plan-only"),
        ("simulate", "sizing", "--inserts", "1"),
    ],
)
def test_what_is_declared_personal_is_hidden_before_it_is_applied(folder, words):
    clustering = {"trigger": "async", "plan": {"small_file_limit": "100MiB"}}
    folder.write("tables/events.yml", EVENTS | {"clustering": clustering})
    (folder.root / "tables/orders.yml").unlink()
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    store = open_store(folder.root / "warehouse/events")
    for number in range(2):
        SmallTable(store, timing=FAST).insert({f"a{number}": (1, "Ada"), f"b{number}": (2, "Turin")})
    newest = max(report_timeline(store).instants, key=lambda each: each.time).time
    words = (*words, "events", *([newest] if words == ("timeline",) else []), "-p", str(folder.root))
    code = 2 if "sizing" in words else 0
    assert "Ada" in run(*words, exit_code=code)
    columns = [dict(column, pii=column["name"] == "p") for column in EVENTS["columns"]]
    folder.write("tables/events.yml", EVENTS | {"clustering": clustering, "columns": columns})
    said = run(*words, exit_code=code)
    assert "Ada" not in said
    assert "***" in said


def test_the_timeline_hides_what_commits_say_by_partition_and_of_keys(personal):
    told = {"parquetry.decisions": {"p=Ada": [7]}, "parquetry.inserted_keys": {"p=Ada": ["a", "Byron"]}}
    extra = {key: json.dumps(value) for key, value in told.items()}
    add_to_newest_commit(personal, extra | {"parquetry.plan_id": "sha256:7"})
    instant = max(report_timeline(personal).instants, key=lambda each: each.time)
    assert {key: instant.extra[key] for key in extra} == dict.fromkeys(extra, "***")
    assert instant.extra["parquetry.plan_id"] == "sha256:7"
    for form in ("text", "json"):
        said = run("timeline", personal.uri, instant.time, "--format", form)
        assert "parquetry.decisions" in said
        assert not [secret for secret in SECRETS if secret in said]


def test_keys_that_are_personal_are_hidden_in_any_partition(folder):
    columns = [dict(column, pii=column["name"] == "id") for column in EVENTS["columns"]]
    folder.write("tables/events.yml", EVENTS | {"columns": columns})
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    store = open_store(folder.root / "warehouse/events")
    SmallTable(store, timing=FAST).insert({"a": (1, "north")})
    told = {"parquetry.decisions": '{"p=north": []}', "parquetry.inserted_keys": '{"p=north": ["a", "a"]}'}
    add_to_newest_commit(store, told)
    extra = max(report_timeline(store).instants, key=lambda each: each.time).extra
    assert {key: extra[key] for key in told} == told | {"parquetry.inserted_keys": "***"}


@pytest.mark.parametrize("options", [(), ("-v",), ("--format", "json")])
def test_what_clustering_would_do_hides_partitions(personal, options):
    said = run("service", "cluster", personal.uri, "--plan-only", *options)
    assert "***" in said
    assert not [secret for secret in SECRETS if secret in said]
    if "json" in options:
        answer = json.loads(said)
        Draft202012Validator(answer_schema("service-cluster")).validate(answer)
        paths = [file["path"] for group in answer["groups"] for file in group["files"]]
        paths += [left["path"] for left in answer["excluded"]]
        live = [path.removeprefix("p=***/") for path in paths]
        assert sorted(live) == sorted(info.path.split("/")[1] for info in parquet_files(personal))


def parquet_files(store):
    return [
        info
        for info in store.list("", recursive=True)
        if info.path.endswith(".parquet") and info.path[0] != "."
    ]


def test_groups_that_writers_won_hide_partitions(personal):
    left = UnpublishedGroup(partition="p=Ada", files=2, reason="a writer changed it")
    view = ClusteringView()
    result = open_table(personal).cleared(ClusteringResult(left_out=(left,)))
    for said in (view.text(result, Paint(enabled=False)), json.dumps(view.json(result))):
        assert "p=***" in said
        assert "Ada" not in said


def test_a_trial_that_needs_a_partition_names_none(personal):
    said = run("simulate", "sizing", personal.uri, "--inserts", "10", exit_code=2)
    assert "has 2 partitions" in said
    assert not [secret for secret in SECRETS if secret in said]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            Message("{uri} is cut off", uri=Value.uri("/w/t/Person=Ada/1-2_0-0-0_20260101.parquet")),
            "/w/t/Person=***/1-2_0-0-0_20260101.parquet is cut off",
        ),
        (
            Message("{uri} is cut off", uri=Value.uri("/w/t/Ada B/1-2_1-3-5_20260101.parquet")),
            "/w/t/***/1-2_1-3-5_20260101.parquet is cut off",
        ),
        (Message.of(Value.file("Ada/.hoodie_partition_metadata")), "***/.hoodie_partition_metadata"),
        (Message.of(Value.file("Ada")), "***"),
        (
            Message.of(Value.file(".hoodie/.temp/20260101/Ada/1-2.parquet.marker.CREATE")),
            ".hoodie/.temp/20260101/***/1-2.parquet.marker.CREATE",
        ),
        (Message.of(Value.file(".hoodie/20260101.commit")), ".hoodie/20260101.commit"),
        (Message.of(Value.file("2026/01/01/x.parquet")), "***/x.parquet"),
        (Message.of(Value.file("2026/01/01")), "***"),
        (Message.of(Value.file("Ada=Person/x.parquet")), "***/x.parquet"),
        (Message.of(Value.file(".hoodie")), ".hoodie"),
        (Message.of(Value.file(".hoodie/.temp/20260101/MARKERS0")), ".hoodie/.temp/20260101/MARKERS0"),
        (
            Message.of(Value.file("Ada/0527aa51-dba6-52c2-af56-b98fcf43e664-0")),
            "***/0527aa51-dba6-52c2-af56-b98fcf43e664-0",
        ),
        (
            Message.of(Value.uri("s3://raw/t/Ada/1-2_0-0-0_2026.parquet")),
            "s3://raw/t/***/1-2_0-0-0_2026.parquet",
        ),
        (
            Message(
                "changed file group 1-2 of partition {partition}", partition=Value.partition("Person=Ada")
            ),
            "changed file group 1-2 of partition 'Person=***'",
        ),
        (
            Message(
                "first in record key {key} in partition {partition}",
                key=Value.record_key("Byron"),
                partition=Value.partition("it's"),
            ),
            "first in record key '***' in partition '***'",
        ),
        (Message.of(Value.uri("s3://raw/in/Person=Ada/a.csv")), "s3://raw/in/Person=***/a.csv"),
        (Message("rows: {reason}", reason=quoted_library_text("[X_Y] the value 'Ada'")), "rows: [X_Y] ***"),
        ("partition 'Ada' in our own words stays", "partition 'Ada' in our own words stays"),
    ],
)
def test_values_in_errors_and_warnings_of_jobs_are_hidden(said, shown):
    columns = (Column(name="id", type="string", pii=True), Column(name="Person", type="string", pii=True))
    spec = TableSpec(name="t", columns=columns, record_key=("id",), partition_by=("Person",))
    assert cleared(said, spec, location="/w/t") == shown
    assert cleared(cleared(said, spec, location="/w/t"), spec, location="/w/t") == shown
    public = TableSpec(
        name="t", columns=tuple(replace(c, pii=False) for c in columns), partition_by=("Person",)
    )
    assert cleared(said, public, location="/w/t") == said


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (OSError(28, "No space left", "/w/t/Ada/1-2_0-0-0_2026.parquet"), "No space left: '/w/t/***/"),
        (ValueError("For input string: Ada"), "ValueError"),
        (
            RetryWrite("{file} is gone", file=Value.file("Ada/1-2_0-0-0_2026.parquet")),
            "***/1-2_0-0-0_2026.parquet is gone",
        ),
        (RetryWrite("a file is gone"), "a file is gone"),
        (InvalidDataError("rows; in {partition}", partition=Value.partition("Ada")), "rows; in '***'"),
    ],
)
def test_failures_of_every_kind_are_hidden_in_warnings(failure, shown):
    columns = (Column(name="person", type="string", pii=True),)
    spec = TableSpec(name="t", columns=columns, partition_by=("person",))
    masked = cleared(message_of(failure), spec, location="/w/t")
    assert shown in masked
    assert "Ada" not in masked


def test_an_error_of_the_system_names_no_partition():
    columns = (Column(name="person", type="string", pii=True),)
    spec = TableSpec(name="t", columns=columns, partition_by=("person",))
    with pytest.raises(OSError, match="denied") as failure, failures_masked(spec, location="/w/t"):
        raise PermissionError(13, "denied", "/w/t/Ada")
    assert failure.value.filename == "/w/t/***"


def test_a_group_that_was_lost_as_a_whole_names_no_partition():
    why = Message("1 has changed file group 2 of partition {partition}", partition=Value.partition("Ada"))
    commit = CommitResult(instant=None, action="replacecommit", operation="cluster", retry_reasons=(why, why))
    columns = (Column(name="person", type="string", pii=True),)
    spec = TableSpec(name="t", columns=columns, partition_by=("person",))
    work = GroupWork(index=0, partition="Ada", slices=(), target_bytes=1, order=None)
    lost = plan_result(commit, [RewrittenGroup(work=work, files=())], (), ()).left_out
    shown = cleared(ClusteringResult(left_out=tuple(lost)), spec, location="/w/t")
    assert "Ada" not in repr(shown)
    assert str(shown.left_out[0].reason).startswith("1 has changed file group 2 of partition '***'; ")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/w/t/2026/Ada B", "/w/t/2026/***"),
        ("file:///w/t/2026/Ada/x.parquet", "file:///w/t/2026/***/x.parquet"),
        ("file:/w/t/2026/Ada", "file:/w/t/2026/***"),
        ("file://localhost/w/t/2026/Ada", "file://localhost/w/t/2026/***"),
        ("file:///w/x/../t/2026/Ada", "file:///w/x/../t/2026/***"),
        ("file:/%77/t/2026/Ada%20B/x.parquet", "file:/w/t/2026/***/x.parquet"),
        ("/w/t/2026", "/w/t/2026"),
        ("/w/t/2026/Ada/Byron/x", "/w/t/***"),
        ("/w/t/.hoodie/.temp/1", "/w/t/.hoodie/.temp/1"),
        ("/w/u/2026/Ada", "/w/u/2026/Ada"),
        ("/w/tt/2026/Ada", "/w/tt/2026/Ada"),
        ("/w/u/person=Ada", "/w/u/person=***"),
    ],
)
@pytest.mark.parametrize("location", ["/w/t", "file:///w/t/"])
def test_folders_below_the_table_are_hidden(said, shown, location):
    columns = (Column(name="day", type="string"), Column(name="person", type="string", pii=True))
    spec = TableSpec(name="t", columns=columns, partition_by=("day", "person"))
    assert cleared(Message.of(Value.uri(said)), spec, location=location) == shown
    masked_once = cleared(Message.of(Value.uri(said)), spec, location=location)
    assert cleared(masked_once, spec, location=location) == shown


def test_rows_that_are_refused_name_the_partition_so_that_it_is_hidden(tmp_path):
    ctx = base_files.context(tmp_path, [Column(name="v", type="int")])
    rows = base_files.batches([base_files.Incoming(key=None)], ctx.schema)
    spec = TableSpec(
        name="t", columns=(Column(name="person", type="string", pii=True),), partition_by=("person",)
    )
    with pytest.raises(InvalidDataError) as failure:
        write_bucket(ctx, base_files.bucket(ctx, partition="Ada"), rows)
    assert "Ada" in str(failure.value)
    assert "Ada" not in cleared(failure.value.message, spec, location=ctx.store.uri)


def test_what_a_job_answers_and_fails_with_hides_them(folder):
    columns = [dict(column, pii=column["name"] == "city") for column in ORDERS["columns"]]
    folder.orders(columns=columns)
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    folder.deliver("a.csv", "order_id,city\n1,Turin\n")
    workspace = folder.workspace()
    ingest = next(job for job in jobs_of(workspace, workspace.table("orders")) if job.source)

    def session(job):
        file = Value.uri(f"{job.location}/city=Turin/1_0-0-0_2.parquet")
        raise InvalidDataError("{file} is no parquet file", file=file)

    with pytest.raises(InvalidDataError) as failure:
        execute(ingest, session=session)
    assert str(failure.value) == f"{ingest.location}/city=***/1_0-0-0_2.parquet is no parquet file"
    reason = Message("file group 1 of partition {partition}", partition=Value.partition("city=Turin"))
    retried = CommitResult(
        instant=None,
        action="commit",
        operation="upsert",
        retry_reasons=(reason,),
    )
    shown = cleared(retried, ingest.spec, location=ingest.location)
    assert shown.retry_reasons == ("file group 1 of partition 'city=***'",)
    lost = UnpublishedGroup(partition="city=Turin", files=2, reason=reason)
    cleaned = Message("clean: {file}", file=Value.file("city=Turin/x"))
    told = cleared(
        ClusteringResult(left_out=(lost,), warnings=(cleaned,)), ingest.spec, location=ingest.location
    )
    assert "Turin" not in str(told)
    assert told.left_out[0].partition == "city=***"


def test_the_reasons_for_files_that_a_job_sets_aside_hide_them(folder, monkeypatch):
    columns = [dict(column, pii=column["name"] == "city") for column in ORDERS["columns"]]
    folder.orders(columns=columns, sources=[{**ORDERS["sources"][0], "bad_files": "set_aside"}])
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    folder.deliver("a.csv", "order_id,city\n1,Turin\n")
    workspace = folder.workspace()
    ingest = next(job for job in jobs_of(workspace, workspace.table("orders")) if job.source)

    def refuse(spark, handle, source, due, **_):
        row = Value.quote("no number in 'Turin'", "ParseError")
        raise InvalidDataError("{file}: {row}", file=Value.uri(due.files[0].file.path), row=row)

    monkeypatch.setattr("parquetry.runtime.spark.ingest.write_batch", refuse)
    (reason,) = execute(ingest, session=lambda _: None).set_aside
    assert str(reason) == in_full(reason)
    assert str(reason).endswith("/a.csv: ParseError")


def test_what_writers_log_hides_them(personal, caplog):
    lost = iter([Message("{file} has been cleaned meanwhile", file=Value.file("p=Ada/1_0-0-0_2.parquet"))])

    def lose_once(_):
        for reason in lost:
            raise RetryWrite(reason)

    with caplog.at_level(logging.INFO, logger="parquetry"):
        result = SmallTable(personal, timing=FAST, before_publish=lose_once).insert({"d": (4, "Ada")})
    assert result.retries == 1
    assert "lost: p=***/1_0-0-0_2.parquet has been cleaned meanwhile" in caplog.text


def test_a_service_that_fails_after_a_write_hides_them(personal, caplog, monkeypatch):
    def failing(table, **_):
        file = Value.uri(f"{table.store.uri}/p=Ada/1_0-0-0_2.parquet")
        raise InvalidDataError("{file} cannot be deleted", file=file)

    monkeypatch.setattr(after_write, "clean_if_due", failing)
    result = SmallTable(personal, timing=FAST, services=True).insert({"d": (4, "Ada")})
    (warning,) = result.warnings
    assert str(warning).endswith("p=***/1_0-0-0_2.parquet cannot be deleted")
    assert "p=***/1_0" in caplog.text
    assert "p=Ada" not in caplog.text


SECRET = "Ada42"
PERSONAL = [
    {"name": "order_id", "type": "bigint", "nullable": False},
    {"name": "person", "type": "string", "pii": True},
    {"name": "twin", "type": "string", "generated": f"concat(person, '{SECRET}')"},
]
CONDITIONS = {
    "columns": PERSONAL,
    "ordering": None,
    "partition_by": None,
    "sources": [
        {
            "name": "landing",
            "format": "csv",
            "path": "landing/*.csv",
            "operation": "upsert",
            "select": f"SELECT *, person = '{SECRET}' AS known FROM source",
            "drop": ["known"],
            "delete_when": f"person = '{SECRET}'",
        }
    ],
    "queries": [{"name": "q", "where": f"person = '{SECRET}'"}],
    "tests": [{"expression": f"person <> '{SECRET}'"}],
}


def answered(*arguments):
    return CliRunner().invoke(command_line, [*arguments]).output


@pytest.mark.parametrize("shape", ["text", "json"])
def test_explain_and_validate_show_no_literals_of_masked_conditions(tmp_path, shape):
    folder = ProjectFolder.create(tmp_path)
    folder.orders(**CONDITIONS)
    place = ["-p", str(folder.root), "--format", shape]
    for subject in ("orders", "orders.sources", "orders.queries.q.where", "orders.columns.twin.generated"):
        said = answered("explain", subject, *place)
        assert "person" in said
        assert SECRET not in said, subject
    folder.orders(**CONDITIONS, partitioning={"hive_style": True})
    assert SECRET not in answered("validate", *place)
    assert "SECRET" not in answered("ls", *place)


@pytest.mark.parametrize(
    "changes",
    [
        {"queries": [{"name": "q", "where": f"person = {SECRET} 5 7"}]},
        {"queries": [{"name": "q", "where": f"person = {SECRET}"}]},
        {"queries": [{"name": "q", "where": f"person = '{SECRET}"}]},
        {"queries": [{"name": "q", "where": f"person = ('{SECRET}'"}]},
        {"queries": [{"name": "q", "where": f"person = '{SECRET}'", "unknown": 1}]},
        {"queries": [{"name": "q", "where": [SECRET]}]},
        {"queries": [{"name": "q", "where": f"person =\n  '{SECRET}' 'x' 5"}]},
        {"queries": [{"name": "q", "where": f"reflect(person, '{SECRET}')"}]},
        {"columns": [*PERSONAL[:2], PERSONAL[2] | {"generated": f"concat(person '{SECRET}')"}]},
        {"sources": [CONDITIONS["sources"][0] | {"select": f"SELECT {SECRET} x y, person FROM source"}]},
        {"sources": [CONDITIONS["sources"][0] | {"delete_when": f"person IN ('{SECRET}' 5)"}]},
        {"tests": [{"expression": f"person <> '{SECRET}' 9"}]},
    ],
)
def test_findings_in_masked_conditions_name_places_and_no_values(tmp_path, changes):
    folder = ProjectFolder.create(tmp_path)
    folder.orders(**CONDITIONS | changes)
    for shape in ("text", "json", "github"):
        said = answered("validate", "-p", str(folder.root), "--format", shape)
        assert "orders.yml" in said
        assert SECRET not in said
    assert SECRET not in answered("plan", "-p", str(folder.root))
    text = (folder.root / "tables/orders.yml").read_text()
    for broken in (
        f"queries: [{{name: q, where: \"person = '{SECRET}'\"}}]",
        f"\twhere: person = '{SECRET}'",
    ):
        (folder.root / "tables/orders.yml").write_text(f"{text}\n{broken}\n")
        assert SECRET not in answered("validate", "-p", str(folder.root))


def test_findings_quote_the_words_of_other_tables(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    folder.orders(queries=[{"name": "q", "where": "city = 'Rome' 5"}])
    said = answered("validate", "-p", str(folder.root))
    assert "the SQL cannot be parsed here at '5'" in said
    assert "where: city = 'Rome' 5" in said


def test_what_nobody_foresaw_is_told_by_its_class_alone():
    personal = TableSpec(name="t", columns=(Column(name="id", type="string", pii=True),))
    said = "[CAST_INVALID_INPUT] The value 'Ada'"
    with pytest.raises(RuntimeError) as failure, failures_masked(personal, location="/w/t"):
        raise ValueError(said)
    assert "Ada" not in "".join(traceback.format_exception(failure.value))
    assert str(failure.value).startswith("ValueError [CAST_INVALID_INPUT]: its message is omitted")
    with pytest.raises(OSError, match="full"), failures_masked(personal, location="/w/t"):
        raise OSError(28, "full")
    public = replace(personal, columns=(Column(name="id", type="string"),))
    with pytest.raises(ValueError, match="Ada"), failures_masked(public, location="/w/t"):
        raise ValueError("Ada")


def test_failures_of_personal_tables_have_no_cause_and_no_words_of_libraries():
    personal = TableSpec(name="t", columns=(Column(name="id", type="string", pii=True),))
    public = replace(personal, columns=(Column(name="id", type="string"),))
    quoted = quoted_library_text("[X_Y] value 'Ada'")
    for spec, said in ((personal, "rows: [X_Y] ***; fix"), (public, "rows: [X_Y] value 'Ada'; fix")):
        with pytest.raises(InvalidDataError) as failure, failures_masked(spec, location="/w/t"):
            raise InvalidDataError("rows: {quoted}; fix", quoted=quoted) from ValueError("Ada")
        assert str(failure.value) == said
        assert (failure.value.__cause__ is None) is (spec is personal)


def test_a_result_is_cleared_with_everything_in_it():
    columns = (Column(name="p", type="string", pii=True),)
    spec = TableSpec(name="t", columns=columns, record_key=("p",), partition_by=("p",))
    file = ClusteringFile(
        partition="p=Ada",
        file_id="1",
        instant="2",
        path="p=Ada/1_0-0-0_2.parquet",
        size_bytes=1,
        min_key="Ada",
    )
    group = PlannedGroup(partition="p=Ada", files=(file,), output_files=1, benefit=1, reasons={})
    shown = cleared({"groups": [group], "rows": 1}, spec, location="/w/t")
    (masked,) = shown["groups"]
    assert (masked.partition, masked.files[0].path) == ("p=***", "p=***/1_0-0-0_2.parquet")
    assert masked.files[0].min_key == "***"
    assert "Ada" not in repr(shown)
    assert cleared(shown, spec, location="/w/t") == shown
    public = replace(spec, columns=(Column(name="p", type="string"),))
    assert cleared(group, public, location="/w/t") is group
