"""What goes to stderr: lines for people or for log collectors, bars on a terminal, reports of bugs."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
from pathlib import Path

import click
import pytest

from parquetry.cli.bug_report import masked, write_report
from parquetry.cli.failures import run_guarded
from parquetry.cli.terminal.messages import requested_format
from parquetry.runtime.errors import StalePlanError
from tests.support.command_script import SCRIPT, environment, parquetry
from tests.support.project_folder import ProjectFolder


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    assert parquetry("apply", "--auto-approve", "-p", folder.root).returncode == 0
    return folder


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_is_an_object_and_the_result_stays_on_stdout(folder):
    done = parquetry(
        "service", "clean", "orders", "--log-format", "json", "--format", "json", "-p", folder.root
    )
    started, ended = lines(done.stderr)
    assert (started["level"], started["message"]) == ("info", "orders clean: started")
    assert (ended["work"], ended["ok"], ended["seconds"] >= 0) == ("orders clean", True, True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", started["time"])
    assert json.loads(done.stdout)["files_deleted"] == 0


def test_run_says_start_and_end_of_each_job(folder):
    done = parquetry("run", "--only", "services", "--log-format=json", "-p", folder.root)
    assert [(line["table"], line["job"]) for line in lines(done.stderr)] == [("orders", "services")] * 2
    quiet = parquetry("run", "--only", "services", "-q", "-p", folder.root)
    assert quiet.stderr == ""


def test_findings_in_specs_are_a_line_each(folder):
    folder.orders(ordering="nothing", record_key=["none"])
    for command in ("plan", "ls"):
        done = parquetry(command, "--log-format", "json", "-p", folder.root)
        assert (done.returncode, done.stdout) == (1, "")
        found = lines(done.stderr)
        assert {(line["level"], line["file"]) for line in found} == {("error", "tables/orders.yml")}
        assert all(line["code"].startswith("PQ") and line["line"] > 1 and line["column"] for line in found)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["inspect", "nothing"], 2, "no table 'nothing'"),
        (["plan", "--nonsense"], 2, "No such option"),
        (["service", "rollback", "orders", "20990101000000000"], 2, "stdin is not a terminal"),
    ],
)
def test_failures_are_objects_too(folder, arguments, code, said):
    done = parquetry(*arguments, cwd=folder.root, PARQUETRY_LOG_FORMAT="json")
    (line,) = lines(done.stderr)
    assert (done.returncode, line["level"], line["exit_code"]) == (code, "error", code)
    assert said in line["message"]


def on_a_terminal(*arguments):
    """What a terminal gets on stderr."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(SCRIPT), *map(str, arguments)],
        env=environment(TERM="xterm", COLUMNS="100"),
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as child:
        os.close(theirs)
        said = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            said += part
    os.close(ours)
    assert child.returncode == 0
    return said.decode()


def test_a_terminal_gets_a_bar_and_no_lines(folder):
    for arguments in (["run", "--only", "services"], ["service", "clean", "orders"]):
        said = on_a_terminal(*arguments, "-p", folder.root)
        assert "━" in said
        assert "started" not in said
    assert "━" not in on_a_terminal("service", "clean", "orders", "-q", "-p", folder.root)


@pytest.mark.parametrize(
    ("arguments", "variable", "wanted"),
    [
        (["--log-format", "json"], None, "json"),
        (["x", "--log-format=json"], None, "json"),
        ([], "json", "json"),
        (["--log-format", "text"], "json", "text"),
        (["--log-format"], None, "text"),
        (["--log-format", "xml"], None, "text"),
    ],
)
def test_the_format_is_known_before_the_command_line_is_parsed(arguments, variable, wanted):
    assert requested_format(arguments, {"PARQUETRY_LOG_FORMAT": variable} if variable else {}) == wanted


def raising(error):
    def body():
        raise error

    return body


def test_a_bug_leaves_a_report_with_versions_and_without_secrets(monkeypatch, capsys):
    monkeypatch.setenv("PARQUETRY_SECRET_KEY", "s3cr3t-value")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tok-12345")
    monkeypatch.setattr(
        "sys.argv", ["parquetry", "plan", "--var", "key=hunter22", "--var=a=hunter33", "-t", "dev"]
    )
    bug = KeyError("s3cr3t-value at https://me:pw99-word@host/x")
    assert run_guarded(raising(bug), arguments=["--log-format", "json"]) == 70
    line = json.loads(capsys.readouterr().err)
    path = Path(re.search(r"in (/\S+\.traceback)", line["message"])[1])
    text = path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    for secret in ("s3cr3t-value", "tok-12345", "hunter22", "hunter33", "pw99-word"):
        assert secret not in text + line["message"]
    assert "command: parquetry plan --var 'key=***' '--var=a=***' -t dev" in text
    assert re.search(r"^parquetry \d+\.\d+\.\d+, Python 3\.", text, flags=re.MULTILINE)
    assert re.search(r"pyarrow \d+", text)
    assert "Traceback (most recent call last)" in text
    assert "https://***@host/x" in text
    path.unlink()


def test_secrets_are_taken_out_longest_first_and_short_values_stay():
    given = {"A_SECRET": "abcd", "B_TOKEN": "abcdef", "C_PASSWORD": "x", "HOME": "/root"}
    assert masked("abcdef abcd x /root", given) == "*** *** x /root"
    path = "/lake/t/p=Ada L/day=2026-01-01/1-2_0-0-0_20260101000000000.parquet"
    assert masked(f"size=3/4 of {path}", {}) == f"size=3/4 of {path}".replace("Ada L", "***").replace(
        "2026-01-01", "***"
    )


def test_a_report_takes_any_text():
    path = Path(write_report(ValueError("\ud800"), arguments=["a"], environment={}))
    assert "ValueError" in path.read_text()
    path.unlink()


def test_failures_end_with_their_own_codes(capsys):
    assert run_guarded(raising(StalePlanError("gone")), arguments=[]) == 4
    assert run_guarded(raising(click.Abort()), arguments=[]) == 1
    assert run_guarded(raising(KeyboardInterrupt()), arguments=[]) == 130
    assert run_guarded(lambda: 3, arguments=[]) == 3
    assert capsys.readouterr().err == "error: gone\ndeclined\ninterrupted\n"
