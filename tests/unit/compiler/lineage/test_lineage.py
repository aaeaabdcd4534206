"""Events of `run` and `apply`, held against OpenLineage's own schemas and ours, and where they may go."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from parquetry.cli.main import command_line
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.jobs.table_jobs import Only
from parquetry.compiler.lineage import events as events_module
from parquetry.compiler.lineage.work import TableWork
from parquetry.project_api import NoProgress, unexpected_error
from parquetry.runtime.clustering.plan.execution import ClusteringResult
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import ConflictError
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.job import JobKind
from parquetry.runtime.spec.table_spec import Source
from tests.support.project_folder import EVENTS, ORDERS, PROJECT, ProjectFolder

PUBLISHED = Path(__file__).parent / "openlineage"
OURS = Path(events_module.__file__).with_name("facets.json")
SCHEMAS = [json.loads(path.read_text(encoding="utf-8")) for path in (*PUBLISHED.glob("*.json"), OURS)]
REGISTRY = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS)
SECRET = "correct-horse-battery"


def check(value, reference):
    validator = Draft202012Validator(
        {"$ref": reference}, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    validator.validate(value)


def checked(event):
    """The event, if it and each of its facets are valid by the schema that they name."""
    check(event, "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent")
    check(event, event["schemaURL"])
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert urlsplit(event["producer"]).scheme
    holders = [event["run"].get("facets", {}), event["job"].get("facets", {})]
    for dataset in (*event["inputs"], *event["outputs"]):
        holders += [dataset.get(key, {}) for key in ("facets", "inputFacets", "outputFacets")]
    found = [facet for facets in holders for facet in facets.values()]
    assert found
    for facet in found:
        check(facet, facet["_schemaURL"])
    return event


def events_of(path):
    return [checked(json.loads(line)) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def told(events):
    return [(event["eventType"], event["job"]["name"]) for event in events]


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/events.yml", EVENTS)
    return folder


def declare(folder, *, allowed=True, **lineage):
    keys = ("file", "url", "api_key")
    entries = [{"setting": f"lineage.{key}", "value": lineage.get(key), "reason": "ours"} for key in keys]
    target = {"lineage": lineage} | ({"allow": entries} if allowed else {})
    folder.project(targets={"dev": PROJECT["targets"]["dev"] | target})


def called(folder, *words):
    return CliRunner().invoke(command_line, [*words, "-p", str(folder.root)])


def apply(folder, **lineage):
    declare(folder, **lineage)
    done = called(folder, "apply", "--auto-approve")
    assert done.exit_code == 0, done.output
    return done


def run(folder, launch, *, only=None):
    return run_tables(
        folder.workspace(),
        only=only,
        run_id="20261129T120000-abc12",
        prepare=lambda _: launch,
        observer=NoProgress(),
        diagnose=unexpected_error,
    )


def outcomes(job):
    """Results of jobs: an ingestion commits, a clustering rewrites, and others have nothing to do."""
    if job.kind is JobKind.INGEST:
        commit = CommitResult(
            instant="20261129120000001",
            action="commit",
            operation="upsert",
            inserted_rows=7,
            updated_rows=2,
            deleted_rows=3,
            files_added=1,
            files_rewritten=1,
            bytes_written=4096,
        )
        return JobResult(table=job.table, job=job.name, files_read=3, commit=commit)
    if job.kind is JobKind.CLUSTER:
        done = ClusteringResult(
            instants=("20261129120000002",), rows=9, files_before=4, files_after=1, bytes_after=99
        )
        return JobResult(table=job.table, job=job.name, clustering=done)
    return JobResult(table=job.table, job=job.name)


def test_apply_reports_each_table_with_its_schema_plan_and_commit(folder):
    folder.orders(
        columns=[
            *ORDERS["columns"],
            {"name": "buyer", "type": "struct<name:string,home:struct<zip:string>>", "description": "Who."},
        ]
    )
    folder.write(".gitignore", {})
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", *words], cwd=folder.root, check=True)
    apply(folder, file="target/lineage.jsonl")
    found = events_of(folder.root / "target/lineage.jsonl")
    assert told(found) == [
        ("START", "dev.apply"),
        ("START", "dev.events.apply"),
        ("COMPLETE", "dev.events.apply"),
        ("START", "dev.orders.apply"),
        ("COMPLETE", "dev.orders.apply"),
        ("COMPLETE", "dev.apply"),
    ]
    command, done = found[0], found[4]
    assert done["run"]["facets"]["parent"]["run"]["runId"] == command["run"]["runId"]
    assert found[3]["run"]["runId"] == done["run"]["runId"] != found[1]["run"]["runId"]
    (output,) = done["outputs"]
    assert (output["namespace"], output["name"]) == ("file", str(folder.table))
    fields = output["facets"]["schema"]["fields"]
    assert [(field["name"], field["type"]) for field in fields[:2]] == [
        ("order_id", "bigint"),
        ("city", "string"),
    ]
    assert fields[-1]["description"] == "Who."
    assert fields[-1]["fields"][1]["fields"][0]["name"] == "zip"
    assert output["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "CREATE"
    plan = done["run"]["facets"]["parquetry_plan"]
    assert plan["steps"] == ["create", "record"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder.root, check=True, capture_output=True, text=True
    )
    git = done["run"]["facets"]["parquetry_git"]
    assert (git["commit"], git["uncommittedChanges"]) == (head.stdout.strip(), True)


def test_an_evolution_alters_its_table_alone(folder):
    apply(folder, file="target/lineage.jsonl")
    (folder.root / "target/lineage.jsonl").unlink()
    folder.orders(columns=[*ORDERS["columns"], {"name": "note", "type": "string"}])
    apply(folder, file="target/lineage.jsonl")
    _, _, done, _ = events_of(folder.root / "target/lineage.jsonl")
    (output,) = done["outputs"]
    assert output["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "ALTER"
    assert [field["name"] for field in output["facets"]["schema"]["fields"]][-1] == "note"
    assert output["outputFacets"]["parquetry_commit"]["instants"]


def test_a_run_reports_what_it_read_and_wrote(folder):
    folder.orders(clustering={"trigger": "async", "execution": {"columns": ["amount"]}})
    apply(folder, file="target/lineage.jsonl")
    (folder.root / "target/lineage.jsonl").unlink()
    # Clustering is due by files, of which there are none: the jobs that start are the others.
    assert run(folder, outcomes).failure is None
    found = events_of(folder.root / "target/lineage.jsonl")
    assert told(found) == [
        ("START", "dev.run"),
        ("START", "dev.orders.ingest_landing"),
        ("COMPLETE", "dev.orders.ingest_landing"),
        ("START", "dev.events.services"),
        ("COMPLETE", "dev.events.services"),
        ("START", "dev.orders.services"),
        ("COMPLETE", "dev.orders.services"),
        ("COMPLETE", "dev.run"),
    ]
    done = found[2]
    (source,) = done["inputs"]
    assert (source["namespace"], source["name"]) == ("file", str(folder.root / "landing"))
    assert source["inputFacets"]["inputStatistics"]["fileCount"] == 3
    (output,) = done["outputs"]
    statistics = output["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"], statistics["size"]) == (9, 2, 4096)
    committed = output["outputFacets"]["parquetry_commit"]
    assert (committed["instants"], committed["counts"]["deleted_rows"]) == (["20261129120000001"], 3)
    assert output["facets"]["version"]["datasetVersion"] == "20261129120000001"
    assert done["run"]["facets"]["parquetry_run"]["id"] == "20261129T120000-abc12"
    assert done["run"]["facets"]["parquetry_plan"]["planId"].startswith("sha256:")
    assert "outputStatistics" not in found[4]["outputs"][0]["outputFacets"]


def test_a_clustering_reads_and_writes_its_table(folder, monkeypatch):
    monkeypatch.setattr("parquetry.compiler.jobs.attempts.is_clustering_due", lambda *_: True)
    folder.orders(clustering={"trigger": "async", "execution": {"columns": ["amount"]}})
    apply(folder, file="target/lineage.jsonl")
    assert run(folder, outcomes).failure is None
    found = events_of(folder.root / "target/lineage.jsonl")
    (done,) = (event for event in found if told([event]) == [("COMPLETE", "dev.orders.cluster")])
    assert [one["name"] for one in (*done["inputs"], *done["outputs"])] == [str(folder.table)] * 2
    written = done["outputs"][0]["outputFacets"]
    assert (written["outputStatistics"]["rowCount"], written["outputStatistics"]["fileCount"]) == (9, 1)
    assert written["parquetry_commit"]["counts"]["files_before"] == 4


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("landing/*.csv", ("file", "/project/landing")),
        ("landing/2026-{01,02}/x.csv", ("file", "/project/landing")),
        ("/data/in.csv", ("file", "/data/in.csv")),
        ("s3a://bucket/in/day=*/x.parquet", ("s3://bucket", "in")),
        ("gs://bucket", ("gs://bucket", "/")),
        ("file:///data/x", ("file", "/data/x")),
    ],
)
def test_datasets_are_named_by_the_rules_of_openlineage(folder, path, expected):
    spec = folder.workspace().table("orders").spec
    source = Source(name="s", format="csv", path=path)
    work = TableWork(table="t", job="j", location="x", directory="/project", spec=spec, source=source)
    assert (work.source_dataset.namespace, work.source_dataset.name) == expected


def test_a_failure_names_its_reason_and_other_tables_go_on(folder):
    apply(folder, file="target/lineage.jsonl")
    (folder.root / "target/lineage.jsonl").unlink()

    def launch(job):
        if job.table == "orders":
            raise ConflictError("the table is {state}", state="busy")
        return outcomes(job)

    assert run(folder, launch).failure is not None
    found = events_of(folder.root / "target/lineage.jsonl")
    ends = {name: state for state, name in told(found) if state != "START"}
    assert ends == {"dev.orders.ingest_landing": "FAIL", "dev.events.services": "COMPLETE", "dev.run": "FAIL"}
    failed = next(event for event in found if event["eventType"] == "FAIL")
    assert failed["run"]["facets"]["errorMessage"]["message"] == "the table is busy"


def test_an_interruption_ends_what_was_started(folder):
    apply(folder, file="target/lineage.jsonl")
    (folder.root / "target/lineage.jsonl").unlink()

    def launch(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, launch)
    assert told(events_of(folder.root / "target/lineage.jsonl"))[-2:] == [
        ("ABORT", "dev.orders.ingest_landing"),
        ("ABORT", "dev.run"),
    ]


def test_nothing_is_sent_without_a_place_or_without_work(folder):
    apply(folder, file="target/lineage.jsonl")
    (folder.root / "target/lineage.jsonl").unlink()
    assert called(folder, "apply", "--auto-approve").exit_code == 0  # there is nothing to apply
    assert not (folder.root / "target/lineage.jsonl").exists()


class Server(BaseHTTPRequestHandler):
    """A server of events that keeps what it gets in ``server.got`` and answers with ``server.status``."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers.get("Authorization"), json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Location", f"{self.server.url}/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        server.got, server.status = [], 201
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_server_gets_each_event_with_the_key_that_nothing_records(folder, server, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_API_KEY", SECRET)
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    settings = {"url": server.url, "api_key": "{{ env_var('OPENLINEAGE_API_KEY') }}"}
    done = apply(folder, **settings)
    paths, keys, bodies = zip(*server.got, strict=True)
    assert set(paths) == {"/api/v1/lineage"}
    assert set(keys) == {f"Bearer {SECRET}"}
    assert len([checked(body) for body in bodies]) == 6
    written = [path.read_bytes() for path in folder.root.rglob("*") if path.is_file()]
    assert SECRET not in done.output
    assert SECRET not in json.dumps(bodies)
    assert not any(SECRET.encode() in content for content in written)
    server.got.clear()
    apply(folder, url=f"{server.url}/openapi/lineage")
    assert {path for path, _, _ in server.got} == {"/openapi/lineage"}


def test_the_server_gets_no_password_of_the_machine(folder, server, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(netrc))
    apply(folder, url=server.url)
    assert {key for _, key, _ in server.got} == {None}


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_a_failure(folder, server, caplog, status):
    server.status = status
    with caplog.at_level(logging.WARNING):
        apply(folder, url=server.url)
    assert [path for path, _, _ in server.got] == ["/api/v1/lineage"]
    assert f"lineage.url cannot be sent: the server answers with {status}" in caplog.text


def test_a_server_that_fails_is_asked_once_and_changes_no_exit_code(folder, server, caplog):
    server.status = 503
    with caplog.at_level(logging.WARNING):
        apply(folder, url=server.url, file="target/lineage.jsonl")
    assert len(server.got) == 3  # one event, tried three times
    (warning,) = [record.getMessage() for record in caplog.records if "lineage" in record.getMessage()]
    assert warning.startswith("lineage: lineage.url cannot be sent: ")
    assert len(events_of(folder.root / "target/lineage.jsonl")) == 6


def test_a_place_that_is_not_allowed_or_not_applied_gets_nothing(folder, server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_API_KEY", SECRET)
    apply(folder, file="target/lineage.jsonl")
    (folder.root / "target/lineage.jsonl").unlink()
    places = (
        {"url": server.url},
        {"file": str(tmp_path / "events.jsonl")},
        {"api_key": "{{ env_var('OPENLINEAGE_API_KEY') }}"},
    )
    for place in places:
        declare(folder, allowed=False, **({"console": True} | place))
        done = called(folder, "apply", "--auto-approve")
        assert done.exit_code != 0
        assert "SC702" in done.output
        assert '"eventType"' not in done.output
        for allowed in (False, True):
            declare(folder, allowed=allowed, **({"console": True} | place))
            done = called(folder, "run", "--only", "services")
            assert done.exit_code != 0
            assert "SC702" in done.output
            assert '"eventType"' not in done.output
    assert server.got == []
    assert not (tmp_path / "events.jsonl").exists()


def test_the_console_is_standard_error(folder):
    done = apply(folder, console=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith('{"eventTime"')]
    assert [state for state, _ in told([checked(json.loads(line)) for line in lines])].count("COMPLETE") == 3
    assert "eventTime" not in done.stdout


def test_a_file_with_another_content_and_a_link_are_left_alone(folder, tmp_path, caplog):
    script = tmp_path / "deploy.sh"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    apply(folder, file=str(script))
    assert script.read_text(encoding="utf-8") == "#!/bin/sh\n"
    (folder.root / "target/lineage.jsonl").symlink_to(script)
    script.write_text("", encoding="utf-8")
    apply(folder, file="target/lineage.jsonl")
    assert script.read_text(encoding="utf-8") == ""
    assert (
        len([record for record in caplog.records if "lineage.file cannot be sent" in record.getMessage()])
        == 2
    )


def test_without_the_package_a_command_warns_and_goes_on(folder, monkeypatch, caplog):
    monkeypatch.delitem(sys.modules, "parquetry.compiler.lineage.events", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage", None)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    monkeypatch.setitem(sys.modules, "openlineage.client.event_v2", None)
    apply(folder, file="target/lineage.jsonl")
    assert "run `pip install openlineage-python`" in caplog.text
    assert not (folder.root / "target/lineage.jsonl").exists()


@pytest.mark.parametrize(
    "lineage",
    [
        {},
        {"file": ""},
        {"console": "yes"},
        {"url": "http://user:word@host"},
        {"url": "ftp://host"},
        {"file": "x", "api_key": SECRET},
        {"transport": "kafka"},
    ],
)
def test_other_settings_are_refused(folder, lineage):
    declare(folder, **lineage)
    assert called(folder, "validate").exit_code == 1


def test_services_alone_are_reported(folder):
    apply(folder, file="target/lineage.jsonl")
    (folder.root / "target/lineage.jsonl").unlink()
    assert run(folder, outcomes, only=Only.SERVICES).failure is None
    assert len(events_of(folder.root / "target/lineage.jsonl")) == 6
