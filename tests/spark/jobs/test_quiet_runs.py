"""What a run says when something is wrong: each word once, and Spark's traces in the log of the run alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from parquetry.runtime.storage.open import open_store
from tests.support.command_script import SCRIPT, environment, parquetry
from tests.support.processes import compute_in_java
from tests.support.project_folder import EVENTS, ORDERS, ProjectFolder
from tests.support.small_table import SmallTable

pytestmark = pytest.mark.spark

SOURCE = {"name": "landing", "format": "csv", "path": "landing/*", "operation": "upsert"}
GOOD = "order_id,city,amount,items,revision\n1,Oslo,1.5,1,1\n"
ENDLESS = (
    "SELECT cast(order_id AS bigint) + r.id AS order_id, city, cast(amount AS double) AS amount, "
    "cast(items AS int) AS items, cast(revision AS bigint) AS revision FROM source, range(100000000000) r"
)
TRACE = re.compile(r"^\s+at \S+\(|Traceback|incubator|^\{\"ts\"|SLF4J|^ERROR:", re.MULTILINE)


def made(root: Path, content: str | bytes = GOOD, **source: str) -> ProjectFolder:
    folder = ProjectFolder.create(root / "shop")
    folder.orders(sources=[SOURCE | source])
    applied = parquetry("apply", "--auto-approve", "-q", "-p", folder.root)
    assert applied.returncode == 0, applied.stderr
    (folder.root / "landing" / "a").write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def log_of(folder: ProjectFolder) -> Path:
    """The log of the newest run."""
    return max(folder.root.glob("target/runs/*/spark.log"))


CASES = {
    "a value of a csv file": (
        {"content": f"{GOOD}abc,Rome,2.5,2,1\n"},
        "a: line 3, column 'order_id': \"abc\" is not bigint; ",
    ),
    "a value of a json file": (
        {"content": '{"order_id": 1}\n\n{"order_id": "abc", "city": "Rome"}\n', "format": "json"},
        "a: line 3, column 'order_id': \"abc\" is not bigint; ",
    ),
    "sql": (
        {"delete_when": "no_such_column = 1"},
        r"sources\.landing\.delete_when: Spark cannot compute the rows: .*`no_such_column`",
    ),
    "a query": (
        {"select": "SELECT no_such_column AS order_id FROM source"},
        r"sources\.landing\.select: Spark cannot compute the rows: .*`no_such_column`",
    ),
    "a file": ({"content": b"PAR1 no rows PAR1", "format": "parquet"}, "a cannot be read"),
}


def lose_a_file(folder: ProjectFolder) -> None:
    """Let the applied table ``events`` miss a file, and its source have a new one."""
    SmallTable(store=open_store(folder.root / "warehouse/events")).insert({"a": (1, "x"), "b": (2, "y")})
    next(folder.root.glob("warehouse/events/p=x/*.parquet")).unlink()
    (folder.root / "landing/events").mkdir()
    (folder.root / "landing/events/a").write_text("id,v,p\na,2,x\n")


def test_a_quiet_failure_is_one_line_on_stderr_and_no_trace_and_lost_files_are_told_once(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    folder.write("tables/events.yml", EVENTS | {"sources": [SOURCE | {"path": "landing/events/*"}]})
    tables = {f"orders_{number}": case for number, case in enumerate(CASES)}
    for table, case in tables.items():
        settings, _ = CASES[case]
        content = settings.get("content", GOOD)
        changes = {key: value for key, value in settings.items() if key != "content"}
        source = SOURCE | {"path": f"landing/{table}/*"} | changes
        folder.write(f"tables/{table}.yml", ORDERS | {"name": table, "sources": [source]})
        (folder.root / "landing" / table).mkdir()
        landed = folder.root / "landing" / table / "a"
        landed.write_bytes(content if isinstance(content, bytes) else content.encode())
    applied = parquetry("apply", "--auto-approve", "-q", "-p", folder.root)
    assert applied.returncode == 0, applied.stderr
    lose_a_file(folder)
    done = parquetry("run", "-q", "-p", folder.root)
    failed = ["events files", "events ingest_landing", *(f"{table} ingest_landing" for table in tables)]
    width = max(map(len, failed))
    jobs, _, _ = done.stdout.partition("\n\n")
    assert (done.returncode, jobs.splitlines()) == (1, [f"{job:{width}}  failed" for job in failed])
    # The first failure is that of the command, and comes last; the others name their job.
    *lines, lost = done.stderr.splitlines()
    assert "is missing" in lost
    for line, table in zip(lines, tables, strict=True):
        case = tables[table]
        job = f"{table} ingest_landing: "
        place = rf"tables/{table}\.yml:\d+:\d+: " if case in ("sql", "a query") else ""
        assert re.match(rf"error: {job}{place}source landing of {table}: ", line)
        assert re.search(CASES[case][1].replace("a: ", "a.*"), line)
        assert len(line) < 700
        assert "Rome" not in line
    assert TRACE.search(log_of(folder).read_text())


@pytest.mark.long  # the failing run of test_secrets_unseen.py names its log too
def test_a_failure_says_where_the_log_is_and_leaves_the_traces_there(tmp_path):
    folder = made(tmp_path, f"{GOOD}abc,Rome,2.5,2,1\n")
    done = parquetry("run", "-p", folder.root)
    assert done.returncode == 1
    assert f"Spark's log is {log_of(folder)}\n" in done.stderr
    assert len(done.stderr.splitlines()) == 4
    assert done.stdout.startswith("orders ingest_landing  failed\n\n1 failed; 0 files (0 B) written in ")
    assert done.stderr.count("abc") == 1
    assert TRACE.search(done.stdout + done.stderr) is None


@pytest.mark.long
def test_values_of_personal_columns_are_not_told(tmp_path):
    folder = made(tmp_path, f"{GOOD}abc,Rome,2.5,2,1\n")
    columns = [
        column | {"pii": True} if column["name"] == "order_id" else column for column in ORDERS["columns"]
    ]
    folder.orders(columns=columns, sources=[SOURCE])
    parquetry("apply", "--auto-approve", "-q", "-p", folder.root)
    done = parquetry("run", "-q", "-p", folder.root)
    assert "line 3, column 'order_id': \"***\" is not bigint" in done.stderr
    assert "abc" not in done.stdout + done.stderr


@pytest.mark.parametrize("end", [pytest.param("ctrl-c", marks=pytest.mark.long), "the jvm is killed"])
def test_a_run_that_is_ended_names_the_log(end, tmp_path):
    folder = made(tmp_path, select=ENDLESS)
    run = subprocess.Popen(
        [str(SCRIPT), "run", "-q", "-p", str(folder.root)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # The rows are endless, so the write cannot have ended.
    java = compute_in_java(run.pid)
    if end == "ctrl-c":
        run.send_signal(signal.SIGINT)
    else:
        os.kill(java, signal.SIGKILL)
    _, said = run.communicate(timeout=240)
    assert run.returncode == (130 if end == "ctrl-c" else 1)
    (line,) = said.strip().splitlines()  # an empty one ends the line with ^C
    assert str(log_of(folder)) in line
