from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from threading import Thread

import pytest

from parquetry.cli.requests.progress import one_by_one
from parquetry.cli.terminal.output import Output
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.compiler.errors import JobFailedError
from parquetry.compiler.jobs.shipping import write_package
from parquetry.compiler.jobs.submit import SparkSubmit
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import jobs_of, open_workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.message import Message, command, run
from parquetry.runtime.errors import CorruptTableError, InvalidDataError
from parquetry.runtime.interruption import Interruption
from parquetry.runtime.main import RESULT_PREFIX, JobResult, _failure, main, report_path, run_document
from parquetry.runtime.spark_log import LogPipe
from parquetry.runtime.spec.job import resolve_environment
from parquetry.runtime.storage.open import open_store
from tests.support.project_folder import ProjectFolder, with_leave
from tests.support.secrets_seen import files_with

SPARK = {
    "launcher": "spark-submit",
    "master": "yarn",
    "conf": {"spark.a": "1"},
    "packages": ["g:a:1", "g:b:2"],
    "submit_args": ["--deploy-mode", "cluster", "--py-files", "mine.zip,b.py", "--py-files=c.py"],
}


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.project(targets={"dev": with_leave({"warehouse": "./warehouse", "spark": SPARK})})
    return folder


@pytest.fixture
def submit(folder):
    return SparkSubmit(workspace=folder.workspace(), run_id="r1", folder=folder.root / "target/runs/r1")


def ingest(folder):
    workspace = folder.workspace()
    return next(job for job in jobs_of(workspace, workspace.table("orders")) if job.source)


def pretending(folder, monkeypatch, body):
    """A spark-submit that runs ``body`` with the script's path in ``script``."""
    program = folder.root / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport sys\nscript = sys.argv[-1]\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(folder.root))


def test_the_package_and_the_files_of_the_target_are_shipped_together(folder, submit, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/spark")
    words = submit.command(ingest(folder), folder.root / "s.py", folder.root / "parquetry.zip")
    assert words == [
        "/spark/bin/spark-submit",
        "--master",
        "yarn",
        "--packages",
        "g:a:1,g:b:2",
        "--conf=spark.a=1",
        "--deploy-mode",
        "cluster",
        "--py-files",
        f"{folder.root}/parquetry.zip,mine.zip,b.py,c.py",
        f"{folder.root}/s.py",
    ]


def test_a_secret_is_on_no_command_line_and_in_no_file_but_reaches_the_job(folder, monkeypatch):
    monkeypatch.setenv("PARQUETRY_SECRET_KEY", "hunter22")
    key = "{{ env_var('PARQUETRY_SECRET_KEY') }}"
    conf = {"spark.a": "1", "spark.hadoop.fs.s3a.secret.key": key, "spark.ssl.keyPassword": "in clear"}
    given = ["--conf", f"spark.b=x{key}", f"--conf=spark.c={key}", "-c", "spark.d=2", "--queue=main"]
    spark = SPARK | {"conf": conf, "submit_args": given}
    folder.project(targets={"dev": {"warehouse": "./warehouse", "spark": spark, "storage": {"secret": key}}})
    workspace = open_workspace(folder.root, target=None, variables={}, environment=os.environ)
    body = f"""
import json, os
from pathlib import Path
sys.path[:] = {sys.path!r}
report = {{"argv": sys.argv, "environment": dict(os.environ), "script": Path(script).read_text()}}
Path({str(folder.root / "seen.json")!r}).write_text(json.dumps(report))
print({RESULT_PREFIX!r} + json.dumps({{"table": "orders", "job": "ingest_landing"}}))
print("the key is hunter22", file=sys.stderr)
"""
    pretending(folder, monkeypatch, body)
    pump = LogPipe._pump

    def late(pipe):
        time.sleep(0.3)
        pump(pipe)

    monkeypatch.setattr(LogPipe, "_pump", late)
    job = next(job for job in jobs_of(workspace, workspace.table("orders")) if job.source)
    SparkSubmit(workspace=workspace, run_id="r1", folder=folder.root / "target/runs/r1")(job)
    seen = json.loads((folder.root / "seen.json").read_text())
    assert "hunter22" not in str(seen["argv"])
    assert seen["argv"][5:8] == ["--conf=spark.a=1", "--conf=spark.d=2", "--queue=main"]
    assert "in clear" not in str(seen["argv"])
    assert seen["environment"]["PARQUETRY_SECRET_KEY"] == "hunter22"
    assert files_with("hunter22", [folder.root / "target"]) == []
    assert (folder.root / "target/runs/r1/spark.log").read_text() == "the key is ***\n"
    scope = {}
    exec(compile(seen["script"], "job.py", "exec"), {"__name__": "job", "__file__": "job.py"} | scope, scope)
    assert resolve_environment(scope["JOB"]["spark"]["conf"]) == {
        "spark.a": "1",
        "spark.hadoop.fs.s3a.secret.key": "hunter22",
        "spark.ssl.keyPassword": "in clear",
        "spark.b": "xhunter22",
        "spark.c": "hunter22",
    }
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (folder.root / "target/runs/r1").glob("*.py")}
    assert modes == {0o600}


def test_what_is_said_of_personal_rows_is_left_out_of_the_log(folder, submit, monkeypatch):
    job = ingest(folder)
    columns = tuple(replace(column, pii=True) for column in job.spec.columns)
    body = "print('Zelda', file=sys.stderr, flush=True); print('java.io.IOException: Zelda'); sys.exit(7)"
    pretending(folder, monkeypatch, body)
    with pytest.raises(JobFailedError, match="ended with 7"):
        submit(replace(job, spec=replace(job.spec, columns=columns)))
    assert (submit.folder / "spark.log").read_text() == "orders ingest_landing: java.io.IOException: ***\n"


def test_the_zip_holds_the_runtime_and_the_face_alike_every_time(tmp_path):
    first, second = (write_package(ConfinedFolder(tmp_path), name) for name in ("a.zip", "b/b.zip"))
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    assert {
        "parquetry/__init__.py",
        "parquetry/runtime/main.py",
        "parquetry/runtime/spark/attempt/upsert.py",
    } <= set(names)
    assert not [name for name in names if name.split("/")[1] in ("cli", "compiler", "project", "templates")]


def test_the_result_line_comes_back_and_the_rest_goes_into_the_log_of_the_run(
    folder, submit, monkeypatch, capfd
):
    said = json.dumps({"table": "orders", "job": "ingest_landing", "files_read": 3})
    body = r"print('a trace', file=sys.stderr, flush=True);"
    body += rf"sys.stdout.buffer.write(b'caf\xe9\n'); print({RESULT_PREFIX + said!r}); print('bye')"
    pretending(folder, monkeypatch, body)
    result = submit(ingest(folder))
    assert (result.table, result.files_read) == ("orders", 3)
    log = (submit.folder / "spark.log").read_text()
    assert log == "a trace\norders ingest_landing: caf\\xe9\norders ingest_landing: bye\n"
    assert capfd.readouterr() == ("", "")


def test_a_driver_on_the_cluster_leaves_its_result_beside_the_table(folder, submit, monkeypatch):
    apply_plan(plan_workspace(folder.workspace(), now_ms=0), folder.workspace())
    pretending(
        folder,
        monkeypatch,
        "import subprocess\n"
        f"subprocess.run([{sys.executable!r}, script], stdout=subprocess.DEVNULL, check=True)",
    )
    result = submit(ingest(folder))
    assert (result.table, result.job, result.commit) == ("orders", "ingest_landing", None)
    assert list(open_store(folder.table).list(".hoodie/.parquetry/reports")) == []


def test_a_failure_comes_back_with_its_fields_and_the_sql_that_it_is_about(folder, submit, monkeypatch):
    failure = CorruptTableError("{file} is gone; restore it", file="a")
    failure.declared = "sources.landing.select"
    said = json.dumps(_failure(failure))
    pretending(folder, monkeypatch, f"print({RESULT_PREFIX + said!r})")
    with pytest.raises(JobFailedError) as failed:
        submit(ingest(folder))
    assert failed.value.message == failure.message
    assert (failed.value.declared, failed.value.exit_code) == ("sources.landing.select", 1)


def test_its_failure_comes_back_with_its_exit_code(folder, submit, monkeypatch):
    apply_plan(plan_workspace(folder.workspace(), now_ms=0), folder.workspace())
    folder.orders(description="Another spec than the applied one.")
    pretending(
        folder,
        monkeypatch,
        f"import subprocess\nsubprocess.run([{sys.executable!r}, script], stdout=subprocess.DEVNULL)",
    )
    with pytest.raises(JobFailedError, match=r"1 is applied.* its spec differs") as failed:
        submit(ingest(folder))
    assert failed.value.exit_code == 4


@pytest.mark.parametrize(("body", "said"), [("sys.exit(7)", "ended with 7"), ("pass", "left no result")])
def test_a_job_that_says_nothing_is_a_failure(folder, submit, monkeypatch, body, said):
    pretending(folder, monkeypatch, body)
    with pytest.raises(JobFailedError, match=said):
        submit(ingest(folder))


def test_what_spark_submit_said_before_it_failed_is_named(folder, submit, monkeypatch, capfd):
    pretending(folder, monkeypatch, "sys.exit('out of memory')")
    with pytest.raises(JobFailedError, match=r"ended with 1: see its output in .*/target/runs/r1/spark\.log"):
        submit(ingest(folder))
    assert (submit.folder / "spark.log").read_text() == "out of memory\n"
    assert capfd.readouterr() == ("", "")


def test_a_report_that_cannot_be_written_changes_nothing(folder, capsys):
    job = ingest(folder)
    document = replace(job, location="/proc/nowhere").to_json()
    assert run_document(document, folder=".", report=report_path("x")) == run_document(document, folder=".")
    assert capsys.readouterr().out.count(RESULT_PREFIX) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the job cannot be read: No such file or directory"),
        (b'{"version": 1,', "the job is not JSON: Expecting property name"),
        (b"\xff", "the job is not JSON: 'utf-8' codec"),
        (b"[1]", r"a job is an object, not \[1\]"),
    ],
)
def test_a_file_that_holds_no_job_is_named(tmp_path, capsys, content, said):
    file = tmp_path / "job.json"
    if content is not None:
        file.write_bytes(content)
    assert main([str(file)]) == 1
    output = capsys.readouterr()
    assert re.fullmatch(rf"error: {re.escape(str(file))}: {said}.*; run `parquetry compile` .*\n", output.err)
    assert json.loads(output.out.removeprefix(RESULT_PREFIX))["exit_code"] == 1


def test_jobs_that_turn_up_one_by_one_are_shown_while_they_run(folder, capsys):
    prepared = []

    def prepare(jobs):
        prepared.append(jobs)
        return lambda job: JobResult(table=job.table, job=job.name)

    job = ingest(folder)
    launch = one_by_one(prepare, Output())
    assert [launch(job).job, launch(job).job] == ["ingest_landing"] * 2
    assert prepared == [(job,), (job,)]
    said = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" after ")[0] or line for line in said] == [
        "orders ingest_landing: started",
        "orders ingest_landing: done",
    ] * 2


def printed(document):
    """A body that prints the document as a job's result."""
    return f"print({RESULT_PREFIX!r} + {json.dumps(document)!r})"


def test_commands_of_a_job_elsewhere_are_completed_here(folder, submit, monkeypatch):
    remedy = Message(
        "gone; {command}, see {command2}", command=run("apply"), command2=command("timeline", "orders")
    )
    pretending(folder, monkeypatch, printed(_failure(CorruptTableError("it is; {remedy}", remedy=remedy))))
    with pytest.raises(JobFailedError) as caught:
        submit(ingest(folder))
    caught.value.writer = TypedOptions(target="prod").written
    assert str(caught.value) == (
        "it is; gone; run `parquetry apply --target prod`, see `parquetry timeline orders --target prod`"
    )


def test_commands_that_a_result_does_not_name_are_refused(folder, submit, monkeypatch):
    false = {"place": ["job"], "at": 0, "words": ["run"], "imperative": False}
    document = {"table": "orders", "job": "ingest_landing", "commands": [false]}
    pretending(folder, monkeypatch, printed(document))
    with pytest.raises(InvalidDataError, match="at the recorded position"):
        submit(ingest(folder))


SLEEPS = """
import pathlib, time
pathlib.Path(script).with_name("begun").touch()
time.sleep(60)
"""


def test_an_interruption_of_the_run_terminates_its_process(folder, submit, monkeypatch):
    pretending(folder, monkeypatch, SLEEPS)
    job, interruption, failures = ingest(folder), Interruption(), []

    def follow():
        with pytest.raises(JobFailedError, match="spark-submit ended with -15") as failure:
            submit(job)
        failures.append(failure)

    thread = Thread(target=interruption.run, args=(follow,))
    thread.start()
    await_file(submit.folder / "begun")
    interruption.request()
    thread.join(30)
    assert not thread.is_alive()
    assert len(failures) == 1


def test_an_interruption_of_this_process_alone_terminates_the_process_that_it_follows(
    folder, submit, monkeypatch
):
    pretending(folder, monkeypatch, f"print('begun', flush=True){SLEEPS}")
    children, popen = [], subprocess.Popen

    def started(*arguments, **options):
        children.append(popen(*arguments, **options))
        return children[-1]

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("parquetry.compiler.jobs.submit.subprocess.Popen", started)
    monkeypatch.setattr(LogPipe, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        submit(ingest(folder))
    assert children[-1].wait(30) == -signal.SIGTERM


def await_file(path):
    ends = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < ends, path
        time.sleep(0.02)
