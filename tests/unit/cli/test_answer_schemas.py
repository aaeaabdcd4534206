"""Recorded answers of commands fit the schemas that `parquetry schema` publishes."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import ANSWERS, answer_schema
from parquetry.cli.views.clustering import ClusteringView, ScheduledView
from parquetry.cli.views.operating.purge import PurgeView, SurveyView
from parquetry.cli.views.operating.run import RunView
from parquetry.cli.views.operating.services import LocksView, ReleaseView
from parquetry.compiler.jobs.results import JobOutcome, RunResult
from parquetry.compiler.plan.model import ChangeClass, Step
from parquetry.compiler.reports.locks import HeldLock
from parquetry.runtime.apply.table_change import ChangeResult
from parquetry.runtime.clustering.forecast.queries import MeasuredQuery, QueryForecast
from parquetry.runtime.clustering.plan.due import ClusteringForecast, ScheduledClustering
from parquetry.runtime.clustering.plan.execution import ClusteringResult, UnpublishedGroup
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.layout.clustering.model import ChosenBy, Debt, ScopeChoice, ScopeFigures
from parquetry.runtime.layout.skipping.files import Reads
from parquetry.runtime.main import JobResult, ServiceResult
from parquetry.runtime.services.scrub import ScrubResult
from parquetry.runtime.spark.purge import FoundValue, PurgeCondition, PurgeReport, SourceFiles, Survey
from parquetry.runtime.spec.clustering import ClusteringScope
from tests.support.repository import ROOT, TESTS
from tools.command_reference import commands

GOLDEN = TESTS / "golden"
HEADS = {
    "plan": ("plan", "show"),
    "inspect": ("inspect orders --format", "inspect orders --out"),
    "inspect-files": ("inspect orders --files",),
    "inspect-view": ("inspect orders --view",),
    "simulate-sizing": ("simulate sizing --files",),
    "simulate-replay": ("simulate sizing orders --replay",),
    "test": ("test --select",),
    "test-history": ("test --history",),
    "review-follow-up": ("review follow-up",),
}


def recorded(answer):
    """Every JSON answer of a command in the golden transcripts.

    The doctor's is of the machine it is on, and a purge needs Spark, which transcripts do without.
    """
    if answer == "service-purge":
        return [SurveyView().json(SURVEY), PurgeView().json(PURGED)]
    if answer == "doctor":
        return [json.loads(CliRunner().invoke(command_line, ["doctor", "--format", "json"]).stdout)]
    commands = tuple(f"parquetry {words} " for words in HEADS.get(answer, (answer.replace("-", " "),)))
    found = []
    for file in sorted(GOLDEN.glob("*/output")):
        for screen in re.split(r"^\$ ", file.read_text(encoding="utf-8"), flags=re.MULTILINE):
            head, _, body = screen.partition("\n")
            if head.startswith(commands) and "--format json" in head:
                number = re.sub(r"(?<=: )<(ms|n)>", "0", body)
                found.append(json.loads(re.sub(r"^\[exit \d+\]$", "", number, flags=re.MULTILINE)))
    return found


@pytest.mark.parametrize("answer", ANSWERS)
def test_recorded_answers_fit_their_schema(answer):
    Draft202012Validator.check_schema(answer_schema(answer))
    # The transcripts hold a word in the place of an instant.
    instant = {"type": "string", "pattern": r"^(\d{14}(\d{3})?|<-+instant-+>)$"}
    text = json.dumps(answer_schema(answer)).replace(
        json.dumps("^[0-9]{14}([0-9]{3})?$"), json.dumps(instant["pattern"])
    )
    documents = recorded(answer)
    assert documents, f"no golden transcript has an answer of {answer}"
    for document in documents:
        Draft202012Validator(json.loads(text)).validate(document)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_key_that_is_missing_is_noticed(answer):
    validator = Draft202012Validator(answer_schema(answer))
    for document in recorded(answer):
        for key in document:
            smaller = {name: value for name, value in document.items() if name != key}
            optional = key not in json.dumps(answer_schema(answer).get("required", [key]))
            assert optional or not validator.is_valid(smaller), key


def test_every_command_that_prints_json_has_a_schema():
    """But for what prints a schema itself or a saved plan, and services whose results have none."""
    in_json = {
        name.replace(" ", "-")
        for name, command in commands()
        for option in command.params
        if "--format" in option.opts and "json" in option.type.choices
    }
    services = {f"service-{verb}" for verb in ("rollback", "savepoint", "restore")}
    assert in_json - set(ANSWERS) == {"schema", "show", *services}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_schema_is_printed_as_it_is(answer):
    done = CliRunner().invoke(command_line, ["schema", answer])
    assert json.loads(done.stdout) == answer_schema(answer)


def test_every_key_is_described():
    def walk(node, path):
        for name, child in node.get("properties", {}).items():
            assert child.get("description", "").endswith("."), f"{path}.{name}"
            walk(child, f"{path}.{name}")
        for part in {"items", "then", "else"} & set(node):
            walk(node[part], path)

    for answer in ANSWERS:
        walk(answer_schema(answer), answer)
        for name, child in answer_schema(answer).get("$defs", {}).items():
            walk(child, f"{answer} {name}")


TOUCHED = Reads(files=3, row_groups=3, rows=9, data_bytes=900)
CHOICE = ScopeChoice(
    partition="day=1",
    scope=ClusteringScope.GROUP,
    chosen_by=ChosenBy.NO_QUERIES,
    group=ScopeFigures(groups=2, rewritten_files=4, rewritten_bytes=8, shuffled_bytes=0, files_after=2),
)
FORESEEN = QueryForecast(query="by_day", now=TOUCHED, expected=TOUCHED)
SCHEDULED = ScheduledClustering(
    instant="20261121120000000",
    forecast=ClusteringForecast(debt=Debt(choices=(CHOICE,)), queries=(FORESEEN,)),
)
DONE = ClusteringResult(
    instants=("20261121120000000",),
    left_out=(UnpublishedGroup(partition="day=2", files=2, reason="a writer changed it"),),
    queries=(MeasuredQuery.of("by_day", before=TOUCHED, expected=TOUCHED, after=TOUCHED),),
    warnings=("look here",),
)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("scheduled", ScheduledView(verbose=False).json(SCHEDULED)),
        ("scheduled", ScheduledView(verbose=False).json(ScheduledClustering())),
        ("result", ClusteringView().json(DONE)),
        ("result", ClusteringView().json(ClusteringResult())),
    ],
)
def test_every_answer_of_clustering_fits_the_schema_and_is_named_in_it(kind, answer):
    schema = answer_schema("service-cluster")
    Draft202012Validator(schema).validate(answer)
    assert set(answer) == set(schema["$defs"][kind]["properties"])


SOURCES = (SourceFiles(source="crm", files=1, paths=("landing/a.csv",)),)
SURVEY = Survey(
    table="people",
    rows=1,
    files=1,
    older_rows=2,
    older_files=2,
    sources=SOURCES,
    condition=PurgeCondition(where="mail = 'anna@example.com'"),
    values=frozenset({"anna@example.com"}),
)
PURGED = PurgeReport(
    table="people",
    rows_deleted=1,
    delete="20261121120000000",
    clean="20261121120000001",
    files_deleted=2,
    scrubbed=ScrubResult(timeline_files=1),
    checked={"data": 3, "timeline": 12},
    values=2,
    shared_values=1,
    found=(FoundValue(file=".hoodie/notes.txt", place="text"),),
    sources=SOURCES,
)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("survey", SurveyView().json(SURVEY)),
        ("survey", SurveyView().json(replace(SURVEY, sources=None))),
        ("report", PurgeView().json(PURGED)),
        ("report", PurgeView().json(replace(PURGED, sources=None))),
    ],
)
def test_every_answer_of_purge_fits_the_schema_and_holds_no_value(kind, answer):
    schema = answer_schema("service-purge")
    Draft202012Validator(schema).validate(answer)
    assert set(answer) == set(schema["$defs"][kind]["properties"])
    assert "anna" not in str(answer)
    assert "anna" not in repr(SURVEY)


def test_a_purge_in_words():
    paint = Paint(enabled=False)
    assert SurveyView().line(SURVEY) == "people has 1 row in 1 file, and 2 rows in 2 older files."
    assert PurgeView().text(PURGED, paint).splitlines() == [
        "deleted   1 row, commit 20261121120000000",
        "cleaned   2 old files, clean 20261121120000001",
        "scrubbed  1 timeline file, 0 archive logs, 0 statistics files, 0 samples",
        "checked   15 files (3 data, 12 timeline) for 1 value",
        "          1 value left out: other rows have it too",
        "found     in 1 place:",
        "  .hoodie/notes.txt: text",
        "rows came from 1 file of source crm:",
        "  landing/a.csv",
        "not checked: files of sources, backups, versions that a bucket keeps,",
        "             logs of Spark, other tables",
    ]
    unknown = "the source files of the rows are unknown: the table keeps no commit times"
    assert unknown in PurgeView().text(replace(PURGED, sources=None), paint).splitlines()
    assert "proven    no file of people holds" in PurgeView().text(replace(PURGED, found=()), paint)


COMMITTED = CommitResult(
    instant="20261121120000000",
    action="commit",
    operation="upsert",
    inserted_rows=3,
    retry_reasons=("another writer",),
    warnings=("look here",),
)
PARTS = {
    "commit": COMMITTED,
    "clustering": DONE,
    "services": ServiceResult(files_cleaned=2),
    "applied": ChangeResult(created=True, applied_number=1),
}


@pytest.mark.parametrize("part", PARTS)
def test_every_answer_of_a_run_fits_the_schema_and_is_named_in_it(part):
    done = JobResult(table="orders", job="ingest_feed", **{part: PARTS[part]})
    failed = JobOutcome(table="orders", name="services", error=StalePlanError("it is gone"))
    outcomes = (JobOutcome(table="orders", name="ingest_feed", result=done), failed)
    answer = RunView().json(RunResult(run_id="20261121T105213-3303dc", outcomes=outcomes))
    definitions = answer_schema("run")["$defs"]
    Draft202012Validator(answer_schema("run")).validate(answer)
    job, refused = answer["jobs"]
    assert set(job) == set(refused) == set(definitions["job"]["properties"])
    assert set(job["result"]) | {"synced"} == set(definitions["result"]["properties"])
    assert set(job["result"][part]) == set(definitions[part]["properties"])
    del job["result"][part]
    assert not Draft202012Validator(answer_schema("run")).is_valid(answer)


def test_the_schema_of_a_difference_names_every_key():
    definitions = answer_schema("diff")["$defs"]
    tables = [table for document in recorded("diff") for table in document["tables"]]
    assert {table["status"] for table in tables} == set(definitions["table"]["properties"]["status"]["enum"])
    for table in tables:
        assert set(table) == set(definitions["table"]["properties"])
        for change in table["changes"]:
            assert set(change) == set(definitions["change"]["properties"])
        if table["estimate"] is not None:
            assert set(table["estimate"]) == set(definitions["estimate"]["properties"])
    assert any(table["changes"] for table in tables)
    assert any(table["estimate"] for table in tables)


def test_the_schema_of_what_was_applied_names_every_key_class_and_step():
    table = answer_schema("apply")["properties"]["tables"]["items"]["properties"]
    found = [entry for document in recorded("apply") for entry in document["tables"]]
    assert found
    assert all(set(entry) | {"synced"} == set(table) for entry in found)
    assert table["class"]["enum"] == [str(member) for member in ChangeClass]
    assert set(table["steps"]["items"]["enum"]) == {str(step) for step in Step}


def test_the_answer_to_a_released_lock_fits_the_schema():
    lock = HeldLock(
        table="orders",
        path="p",
        holder="a process",
        age_seconds=4,
        instant=None,
        abandoned=False,
        expires_in_seconds=None,
    )
    validator = Draft202012Validator(answer_schema("unlock"))
    validator.validate(ReleaseView().json(lock))
    validator.validate(LocksView().json((lock,)))
    assert not validator.is_valid({})
    assert set(ReleaseView().json(lock)["released"]) == set(
        answer_schema("unlock")["$defs"]["lock"]["properties"]
    )


REFERENCE = sorted((ROOT / "docs" / "reference" / "commands").glob("*.md"))


@pytest.mark.parametrize(
    "answer",
    [
        *(
            "init",
            "fmt",
            "unlock",
            "service-clean",
            "service-archive",
            "service-cluster",
            "service-purge",
            "diff",
            "apply",
            "run",
        ),
        *("compile", "drift", "adopt", "doctor", "inspect-files", "inspect-view", "head"),
    ],
)
def test_the_reference_names_every_key(answer):
    """In one of its JSON documents, with all the others of that answer."""
    sections = "\n".join(page.read_text(encoding="utf-8").partition("\n## JSON\n")[2] for page in REFERENCE)
    blocks = "\n".join(re.findall(r"^```\n(.*?)^```", sections, flags=re.DOTALL | re.MULTILINE))
    documents = [
        set(re.findall(r'"(\w+)":', text)) for text in re.split(r"^(?=\{)", blocks, flags=re.MULTILINE)
    ]
    schema = answer_schema(answer)
    shapes = [
        schema,
        *(schema["$defs"][name.rpartition("/")[2]] for name in map(_target, schema.get("anyOf", ()))),
    ]
    for shape in shapes:
        wanted = set(shape.get("properties", ())) - ({"released"} if answer == "unlock" else set())
        assert any(wanted <= keys for keys in documents), wanted


def _target(part):
    return part.get("$ref", "lock")


def test_the_schema_of_a_plan_knows_every_field_that_is_recorded():
    """What is left out of the schema is not promised to scripts: nothing is."""

    def check(schema, document, path):
        if "$ref" in schema:
            schema = definitions[schema["$ref"].rpartition("/")[2]]
        for part in schema.get("anyOf", ()):
            check(part, document, path)
        if isinstance(document, list):
            for item in document:
                check(schema.get("items", {}), item, path)
        elif isinstance(document, dict) and "properties" in schema:
            assert set(document) <= set(schema["properties"]), path
            seen.update(f"{path}.{key}" for key in document)
            for key, value in document.items():
                check(schema["properties"][key], value, f"{path}.{key}")
        elif isinstance(document, dict) and isinstance(schema.get("additionalProperties"), dict):
            for value in document.values():
                check(schema["additionalProperties"], value, path)

    seen = set()
    whole = answer_schema("plan")
    definitions = whole["$defs"]
    for document in recorded("plan"):
        check(whole, document, "plan")
    assert {
        "plan.intent.actions.changes.live",
        "plan.evidence.ingest.problem",
        "plan.intent.blocked.recipe.text",
    } <= seen
