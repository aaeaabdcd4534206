"""How commands end, through the script that pip installs."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from parquetry.cli.failures import run_guarded
from parquetry.cli.main import COMMANDS, command_line
from parquetry.errors import ParquetryError
from parquetry.runtime import errors
from tests.support.command_script import SCRIPT, environment, parquetry
from tests.support.processes import sleeps
from tests.support.project_folder import ProjectFolder, columns_with


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def raising(error):
    def body():
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ParquetryError("a"), 1),
        (errors.InvalidDataError("a"), 1),
        (errors.MissingJavaError("a"), 1),
        (click.UsageError("a"), 2),
        (errors.StalePlanError("a"), 4),
        (errors.ConflictError("a"), 5),
        (errors.LockHeldError("a"), 5),
        (errors.PartialFailureError("a"), 6),
        (click.Abort(), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_failure_has_its_code(error, code, capsys):
    assert run_guarded(raising(error)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err != ""


def test_a_bug_exits_70_and_leaves_its_traceback_in_a_file(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert run_guarded(raising(ZeroDivisionError("a figure was 0"))) == 70
    message = capsys.readouterr().err
    assert "ZeroDivisionError: a figure was 0" in message
    (report,) = tmp_path.iterdir()
    assert str(report) in message
    assert "Traceback (most recent call last)" in report.read_text()


def test_results_go_to_stdout_and_errors_to_stderr(folder):
    done = parquetry("validate", "-p", folder.root, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["valid"] is True
    failed = parquetry("timeline", "nowhere", "-p", folder.root)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "no table 'nowhere'" in failed.stderr


def test_a_command_line_that_is_wrong_exits_2(folder):
    assert parquetry("plan", "--frmat", "json").returncode == 2
    assert parquetry("apply", "-p", folder.root).returncode == 2
    assert "--auto-approve" in parquetry("apply", "-p", folder.root).stderr
    assert not folder.table.exists()


def test_plan_and_apply_by_their_codes(folder):
    plan = folder.root / "plan.json"
    assert parquetry("plan", "-p", folder.root, "--out", plan).returncode == 0
    assert parquetry("plan", "-p", folder.root, "--detailed-exitcode").returncode == 3
    assert parquetry("apply", plan, "-p", folder.root).returncode == 0
    assert parquetry("plan", "-p", folder.root, "--detailed-exitcode").returncode == 0
    again = parquetry("apply", plan, "-p", folder.root)
    assert again.returncode == 4
    assert "plan again" in again.stderr


def test_a_blocked_plan_exits_1_and_is_saved(folder):
    parquetry("apply", "-p", folder.root, "--auto-approve")
    folder.orders(columns=columns_with(amount=None))
    out = folder.root / "plan.json"
    done = parquetry("plan", "-p", folder.root, "--out", out, "--detailed-exitcode")
    assert done.returncode == 1
    assert json.loads(out.read_text())["intent"]["blocked"][0]["code"] == "SC310"


def test_only_the_approved_plan_is_applied(folder):
    plan = json.loads(parquetry("plan", "-p", folder.root, "--format", "json").stdout)
    folder.orders(description="Changed after the review.")
    refused = parquetry("apply", "-p", folder.root, "--approved", plan["plan_id"])
    assert refused.returncode == 4
    assert not folder.table.exists()
    folder.orders()
    assert parquetry("apply", "-p", folder.root, "--approved", plan["plan_id"]).returncode == 0


def test_what_somebody_wrote_is_not_replaced_by_what_is_saved(folder):
    specs = folder.root / "tables/orders.yml"
    before = specs.read_bytes()
    for option in (["plan", "--out", specs], ["plan", "--out", "-"]):
        refused = parquetry(*option, "-p", folder.root)
        assert refused.returncode == 2
        assert "--out" in refused.stderr
    assert specs.read_bytes() == before
    saved = folder.root / "plan.json"
    for _ in range(2):
        assert parquetry("plan", "-p", folder.root, "--out", saved).returncode == 0


def test_a_saved_plan_is_held_to_the_approved_one(folder):
    saved = folder.root / "plan.json"
    parquetry("plan", "-p", folder.root, "--out", saved)
    plan_id = json.loads(saved.read_text())["plan_id"]
    refused = parquetry("apply", "-p", folder.root, saved, "--approved", "sha256:00")
    assert refused.returncode == 4
    assert plan_id in refused.stderr
    assert not folder.table.exists()
    assert parquetry("apply", "-p", folder.root, saved, "--approved", plan_id).returncode == 0
    used = parquetry("apply", "-p", folder.root, saved)
    assert used.returncode == 4
    assert "this plan has already been applied" in used.stderr


def test_one_table_that_fails_leaves_a_partial_result(folder):
    folder.write("tables/other.yml", {**_orders_document(folder), "name": "other"})
    plan = folder.root / "plan.json"
    parquetry("plan", "-p", folder.root, "--out", plan)
    parquetry("apply", "-p", folder.root, "--auto-approve", "--select", "other")
    done = parquetry("apply", plan, "-p", folder.root, "--format", "json")
    assert done.returncode == 6
    tables = {table["table"]: table for table in json.loads(done.stdout)["tables"]}
    assert tables["orders"]["applied"] == 1
    assert "plan again" in tables["other"]["error"]


def test_options_have_twins_in_the_environment(folder):
    done = parquetry("validate", PARQUETRY_PROJECT=str(folder.root), PARQUETRY_FORMAT="json")
    assert json.loads(done.stdout)["files"] == 2
    changes = parquetry("plan", PARQUETRY_PROJECT=str(folder.root), PARQUETRY_DETAILED_EXITCODE="1")
    assert changes.returncode == 3
    nothing = parquetry("plan", PARQUETRY_PROJECT=str(folder.root), PARQUETRY_EXCLUDE="orders")
    assert "No changes: 0 tables" in nothing.stdout
    for name in ("DETAILED_EXITCODE", "DUE", "QUIET", "VERBOSE"):
        refused = parquetry("plan", **{f"PARQUETRY_{name}": "maybe"})
        assert refused.returncode == 2
        assert "'maybe' is neither yes nor no: write 1, true or yes" in " ".join(refused.stderr.split())
    undeclared = parquetry("validate", PARQUETRY_PROJECT=str(folder.root), PARQUETRY_VAR="a=1")
    assert undeclared.returncode == 2
    assert "sets 'a', which the project does not declare" in undeclared.stderr
    # What approves has none.
    assert parquetry("apply", PARQUETRY_PROJECT=str(folder.root), PARQUETRY_AUTO_APPROVE="1").returncode == 2


def test_colours_are_for_terminals_and_no_color_is_obeyed(folder):
    assert "\x1b[" not in parquetry("validate", "-p", folder.root).stdout
    assert "\x1b[" in parquetry("validate", "-p", folder.root, "--color", "always").stdout
    assert "\x1b[" in on_terminal("validate", "-p", folder.root)[1]
    assert "\x1b[" not in on_terminal("validate", "-p", folder.root, NO_COLOR="1")[1]


def interruptible():
    """A background job of a shell ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def on_terminal(*arguments, answer=None, stop=None, **changes):
    """Run the script on a terminal; returns its exit code and all it said."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [str(SCRIPT), *map(str, arguments)],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment(TERM="xterm", **changes),
        preexec_fn=interruptible,
    )
    os.close(follower)
    said, stopped = b"", False
    while True:
        # A signal that comes just before input() waits is lost on it.
        if stopped and not select.select([leader], [], [], 5)[0]:
            process.send_signal(stop)
            continue
        try:
            said += os.read(leader, 4096)
        except OSError:
            break
        if said.rstrip().endswith(b"[y/N]:"):
            if answer is not None:
                os.write(leader, answer)
                answer = None
            elif stop is not None and not stopped:
                while not sleeps(process.pid):
                    time.sleep(0.01)
                process.send_signal(stop)
                stopped = True
                time.sleep(0.1)
    code = process.wait(timeout=60)
    os.close(leader)
    return code, said.decode()


def test_apply_asks_on_a_terminal(folder):
    code, said = on_terminal("apply", "-p", folder.root, answer=b"n\n")
    assert (code, folder.table.exists()) == (1, False)
    assert "declined" in said
    code, said = on_terminal("apply", "-p", folder.root, answer=b"y\n")
    assert (code, folder.table.exists()) == (0, True)
    assert "Next: parquetry run" in said


def test_an_interrupted_question_changes_nothing(folder):
    code, said = on_terminal("apply", "-p", folder.root, stop=signal.SIGINT)
    assert (code, folder.table.exists()) == (130, False)
    assert "interrupted" in said


def test_a_reader_that_goes_away_is_no_bug(folder):
    command = f"{SCRIPT} plan -p {folder.root} --format json | head -c 10"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the result cannot be .*: No space left"),
        (OSError(errno.EROFS, "Read-only file system", "target/runs"), "target/runs cannot be .*writable"),
        (PermissionError(errno.EACCES, "Permission denied", "target"), "target cannot be .*get access"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x"), "x cannot be .*too long; shorten the name"),
    ],
)
def test_a_disk_that_is_full_or_closed_is_no_bug(capsys, error, message):
    def body():
        raise error

    assert run_guarded(body, arguments=()) == 1
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("length", [120, 900, 6000])
@pytest.mark.parametrize("place", ["name", "location", "path"])
def test_names_that_are_too_long_are_no_bug(folder, place, length):
    text = "x" * length
    match place:
        case "path":
            folder.orders(sources=[{"name": "landing", "format": "csv", "path": f"{text}/*.csv"}])
        case _:
            folder.orders(**{place: text})
    for command in (("validate",), ("plan",), ("plan", "--due"), ("source", "list", "orders"), ("compile",)):
        done = CliRunner().invoke(command_line, [*command, "-p", str(folder.root)])
        assert done.exit_code in ((0, 1, 2) if length < 6000 else (1,)), done.output


@pytest.mark.parametrize("command", ["validate", "plan", "fmt", "compile"])
def test_a_folder_whose_name_is_too_long_is_no_bug(command):
    done = CliRunner().invoke(command_line, [command, "-p", "x" * 6000])
    assert done.exit_code == 1, done.output
    assert "File name too long; shorten the name" in done.output


@pytest.mark.parametrize("arguments", [("ls", "--format", "json"), ("validate",)])
def test_a_result_for_which_there_is_no_room(folder, arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(SCRIPT), *arguments],
            cwd=folder.root,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "error: the result cannot be written or read: No space left on device; make room there\n"
    )


def test_streams_that_are_closed_are_no_bug(folder):
    command = f"'{SCRIPT}' ls -p '{folder.root}' <&- >&-"
    done = subprocess.run(
        ["sh", "-c", command], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_current_directory_that_is_gone_is_no_bug(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd '{gone}' && rmdir '{gone}' && '{SCRIPT}' plan"
    done = subprocess.run(
        ["sh", "-c", command], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "error: the current directory was removed; change to one that exists\n",
    )


def test_help_imports_nothing_heavy():
    heavy = (
        "yaml",
        "jsonschema",
        "jinja2",
        "pyarrow",
        "pandas",
        "numpy",
        "fastavro",
        "pyspark",
        "fsspec",
        "rich",
    )
    helps = [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
    program = (
        "import sys\n"
        "from parquetry.cli.main import command_line\n"
        f"for arguments in {helps!r}:\n"
        "    try: command_line(arguments)\n"
        "    except SystemExit as end: assert end.code == 0\n"
        f"    loaded = [name for name in {heavy!r} if name in sys.modules]\n"
        "    assert not loaded, (arguments, loaded)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") == len(helps) - 1


def test_every_command_of_the_list_exists_and_has_that_help():
    context = click.Context(command_line)
    for name, line in COMMANDS.items():
        command = command_line.get_command(context, name)
        assert command is not None
        assert command.help
        assert line.endswith(".")
    assert command_line.get_command(context, "nothing") is None


@pytest.mark.parametrize("name", ["service", "simulate"])
def test_a_group_lists_its_commands_with_whole_sentences(name):
    result = CliRunner().invoke(command_line, [name, "--help"])
    said = " ".join(result.output.partition("Commands:")[2].split())
    assert "..." not in said
    for command in command_line.get_command(click.Context(command_line), name).commands.values():
        assert " ".join(command.help.split(".")[0].split()) in said


def test_python_m_parquetry_is_the_same(folder):
    folder.orders(key_scope="table")
    done = subprocess.run(
        [sys.executable, "-m", "parquetry", "validate", "-p", str(folder.root)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "valid: 1 table in 2 files\n")


def _orders_document(folder):
    import yaml

    return yaml.safe_load(Path(folder.root / "tables/orders.yml").read_text())
