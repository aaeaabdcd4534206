"""The table of exit codes in docs/reference/commands/README.md, row by row, through the installed script."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest

from tests.support.command_script import SCRIPT, environment, parquetry
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with
from tests.support.repository import ROOT

PAGE = ROOT / "docs/reference/commands/README.md"
PENDING = "20260101000000000"


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


@pytest.fixture
def applied(folder):
    assert parquetry("apply", "--auto-approve", cwd=folder.root).returncode == 0
    return folder


def code(folder, *arguments, **variables):
    """The exit code; a failure says something on stderr, and never a traceback."""
    done = parquetry(*arguments, cwd=folder.root, **variables)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr or done.returncode in (0, 1, 3)
    return done.returncode


def test_0_done(applied):
    applied.orders(description="Changed.")
    assert code(applied, "plan") == 0
    assert code(applied, "validate") == 0
    assert code(applied, "apply", "--auto-approve") == 0


def test_1_a_diagnosed_failure(applied):
    applied.orders(columns=columns_with(amount=None))
    assert code(applied, "plan") == 1
    assert code(applied, "apply", "--auto-approve") == 1
    applied.orders(ordering="nothing")
    assert code(applied, "validate") == 1
    assert code(applied, "plan") == 1
    assert code(applied, "timeline", "nowhere") == 1


def test_2_a_wrong_command_line(folder):
    assert code(folder, "plan", "--nothing") == 2
    assert code(folder, "nothing") == 2
    assert code(folder, "plan", "--select", "nowhere") == 2
    assert code(folder, "show", "nowhere.json") == 2
    assert code(folder, "apply") == 2


def test_3_a_difference_that_was_asked_for(folder):
    assert code(folder, "plan", "--detailed-exitcode") == 3
    assert code(folder, "fmt", "--check") == 3
    assert code(folder, "apply", "--auto-approve") == 0
    assert code(folder, "drift", "--check") == 0
    properties = folder.table / ".hoodie/hoodie.properties"
    properties.write_text(
        properties.read_text().replace("precombine.field=revision", "precombine.field=items")
    )
    assert code(folder, "drift", "--check") == 3


def test_4_what_was_reviewed_does_not_hold(applied):
    applied.orders(description="Reviewed.")
    assert code(applied, "plan", "--out", "plan.json") == 0
    assert code(applied, "apply", "--approved", "sha256:0") == 4
    assert code(applied, "apply", "plan.json") == 0
    assert code(applied, "apply", "plan.json") == 4
    saved = applied.root / "plan.json"
    saved.write_text(saved.read_text().replace("Reviewed.", "Another."))
    assert code(applied, "apply", "plan.json") == 4
    assert code(applied, "show", "plan.json") == 4


def test_5_another_writer_is_in_the_way(applied):
    for suffix in ("commit.requested", "inflight"):
        (applied.table / ".hoodie" / f"{PENDING}.{suffix}").write_text("")
    applied.orders(columns=columns_with(note={"type": "string"}))
    assert code(applied, "plan") == 0
    assert code(applied, "apply", "--auto-approve") == 5


def test_6_a_part_was_done(folder):
    folder.write("tables/other.yml", ORDERS | {"name": "other"})
    assert code(folder, "plan", "--out", "plan.json") == 0
    assert code(folder, "apply", "--auto-approve", "--select", "other") == 0
    assert code(folder, "apply", "plan.json") == 6


def test_70_a_bug_of_ours(folder, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import parquetry.cli.requests.workspaces as w\ndef broken(*a, **k): raise ZeroDivisionError('a figure')\n"
        "w.workspace_of = broken\nw.plan_for = broken\n"
    )
    done = parquetry("plan", cwd=folder.root, PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path))
    assert done.returncode == 70
    assert "ZeroDivisionError: a figure" in done.stderr
    (report,) = tmp_path.glob("parquetry-*")
    assert str(report) in done.stderr


def test_130_interrupted(folder, tmp_path):
    marker = tmp_path / "started"
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, time, parquetry.cli.requests.workspaces as w\n"
        f"def slow(*a, **k):\n    pathlib.Path({str(marker)!r}).touch()\n    time.sleep(60)\n"
        "w.workspace_of = slow\nw.plan_for = slow\n"
    )
    process = subprocess.Popen(
        [str(SCRIPT), "plan"],
        cwd=folder.root,
        env=environment(PYTHONPATH=str(tmp_path)),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not marker.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert "interrupted" in process.stderr.read()


def test_every_row_of_the_table_has_a_test():
    table = PAGE.read_text(encoding="utf-8").split("## Exit codes")[1].split("\n## ")[0]
    rows = {int(number) for number in re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)}
    tested = {int(name.split("_")[1]) for name in globals() if re.match(r"test_\d", name)}
    assert rows == tested


SHOWN = [
    ("plan", "--due"),
    ("plan", "--out", "plan.json"),
    ("show", "plan.json"),
    ("apply", "--auto-approve"),
    ("ls",),
    ("drift",),
    ("inspect", "orders"),
    ("timeline", "orders"),
]


def test_screens_fit_80_columns_in_a_pipe_and_have_no_colours(applied):
    applied.orders(
        columns=columns_with(note={"type": "struct<street:string,zip:string,country:string>"}),
        description="One row per order, as the shop's feed has it last, whatever it had before.",
    )
    for arguments in SHOWN:
        done = parquetry(*arguments, cwd=applied.root, COLUMNS="80")
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        for line in done.stdout.splitlines():
            assert len(line) <= 80 or len(line.split()) == 1, (arguments, line)


def test_a_reader_that_stops_reading_is_no_failure_of_ours(applied):
    command = f"{SCRIPT} plan --format json --due | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=applied.root,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{", "")
