"""What a command on the files of strangers may use: it ends with a message, whatever it does at that moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from parquetry.cli.budget import CommandBudget, has_budget
from parquetry.errors import UsageError
from parquetry.runtime.storage.open import open_store
from tests.support.command_script import SCRIPT, environment, parquetry
from tests.support.project_folder import ProjectFolder
from tests.support.small_table import COLUMNS, SmallTable

BUDGETS = [
    (
        "seconds=0.05",
        "error: the command took more than 0.05 seconds, the limit for an untrusted project",
    ),
    (
        "memory=10MiB",
        "error: the command took more than 10,485,760 bytes of memory, the limit for an untrusted project",
    ),
]


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def run(*arguments, **variables):
    """The script in a process that has imported nothing yet."""
    return subprocess.run(
        [SCRIPT, *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )


def working(code, budget):
    """A process that says which child works for it, and keeps the budget while the child executes the code.

    No signal is ignored in it, as under `nohup`.
    """
    lines = [
        "import ctypes, os, sys, time",
        "from parquetry.cli.budget import fork_within_budget",
        "fork_within_budget([], {'PARQUETRY_BUDGET': sys.argv[1]})",
        "print(os.getpid(), flush=True)",
        code,
    ]
    return subprocess.Popen(
        ["env", "--default-signal", sys.executable, "-c", "\n".join(lines), budget],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def is_there(process):
    with suppress(ProcessLookupError):
        os.kill(int(process), 0)
        return True
    return False


@pytest.mark.parametrize(("budget", "said"), BUDGETS)
@pytest.mark.parametrize("command", [("validate",), ("diff", "--base", "HEAD"), ("plan",), ("ls",)])
def test_a_command_that_uses_more_ends_with_a_refusal(folder, command, budget, said):
    done = run(*command, "-p", folder.root, PARQUETRY_UNTRUSTED="1", PARQUETRY_BUDGET=budget)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(said)
    assert done.stderr.endswith("; check its files, or raise the limit in PARQUETRY_BUDGET\n")


def test_a_saved_plan_of_a_stranger_is_shown_within_the_budget(folder, tmp_path):
    plan = tmp_path / "plan.json"
    assert parquetry("plan", "--out", plan, "-p", folder.root).returncode == 0
    assert run("show", plan, PARQUETRY_UNTRUSTED="1").returncode == 0
    done = run("show", plan, PARQUETRY_UNTRUSTED="1", PARQUETRY_BUDGET="seconds=0.05")
    assert (done.returncode, done.stdout) == (1, "")


def test_the_option_alone_sets_the_budget_and_logs_have_a_line(folder):
    done = run(
        "plan", "--untrusted", "--log-format", "json", "-p", folder.root, PARQUETRY_BUDGET="seconds=0.05"
    )
    line = json.loads(done.stderr)
    assert (done.returncode, line["exit_code"], line["level"]) == (1, 1, "error")
    assert line["message"].startswith("the command took more than 0.05 seconds")


def test_a_command_on_files_that_are_trusted_has_no_budget(folder):
    for untrusted in ("", "0", "no"):
        done = run(
            "validate", "-p", folder.root, PARQUETRY_UNTRUSTED=untrusted, PARQUETRY_BUDGET="seconds=0.01"
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_within_the_budget_a_command_ends_as_it_would_without(folder):
    for command in (("validate",), ("validate", "--nonsense"), ("compile",)):
        with_budget, without = (
            run(*command, "-p", folder.root, PARQUETRY_UNTRUSTED=said) for said in ("1", "0")
        )
        if command != ("compile",):
            assert with_budget.stdout == without.stdout
            assert with_budget.stderr == without.stderr
        assert with_budget.returncode == (2 if command == ("compile",) else without.returncode)


@pytest.mark.parametrize(
    ("code", "budget", "said"),
    [
        # A call of C that keeps Python's lock, and one that lets it go.
        ("ctypes.PyDLL(None).sleep(600)", "seconds=1", "took more than 1 seconds"),
        ("time.sleep(600)", "seconds=1", "took more than 1 seconds"),
        ("10 ** 10 ** 10", "seconds=1", "took more than 1 seconds"),
        ("some = [bytearray(os.urandom(1 << 20)) for _ in range(1 << 12)]", "memory=200MiB", "of memory"),
        ("import resource; some = b'x' * (1 << 30); time.sleep(600)", "memory=200MiB", "of memory"),
    ],
)
def test_code_that_does_not_come_back_to_python_is_ended(code, budget, said):
    with working(code, budget) as process:
        out, err = process.communicate()
    assert process.returncode == 1
    assert said in err
    assert not is_there(out)


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("sys.exit(4)", 4),
        ("os._exit(70)", 70),
        ("os.kill(os.getpid(), 11)", 128 + 11),
        ("raise SystemExit", 0),
    ],
)
def test_how_the_command_ends_is_how_the_process_ends(code, ends):
    with working(code, "") as process:
        _, err = process.communicate()
    assert (process.returncode, err) == (ends, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_stops_the_process_stops_the_command(number):
    with working("time.sleep(600)", "") as process:
        child = process.stdout.readline()
        process.send_signal(number)
        process.wait()
    assert process.returncode == 128 + number
    assert not is_there(child)


def test_what_the_command_started_ends_with_it():
    code = "import subprocess; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    with working(code, "seconds=2") as process:
        # This waits until nobody has the other end of the pipe, which `sleep` has too.
        out, _ = process.communicate()
    assert (process.returncode, is_there(out)) == (1, False)


def test_what_is_read_of_tables_is_counted(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    columns = [{"name": column.name, "type": column.type, "nullable": column.nullable} for column in COLUMNS]
    folder.orders(columns=columns, record_key=["id"], partition_by=["p"], ordering="v", sources=[])
    assert parquetry("apply", "--auto-approve", "-p", folder.root).returncode == 0
    SmallTable(store=open_store(folder.table)).upsert({"k1": (1, "a"), "k2": (2, "b")})
    folder.orders(
        columns=columns, record_key=["id"], partition_by=["p"], ordering="v", sources=[], description="New."
    )
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "specs"], ["branch", "base"]):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", folder.root, *identity, *words], check=True, capture_output=True)
    plan = ("plan", "--untrusted", "--base", "base", "-p", folder.root)
    assert run(*plan).returncode == 0
    done = run(*plan, PARQUETRY_BUDGET="read=1KiB")
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        "error: the command read more than 1,024 bytes of tables, the limit for an untrusted" in done.stderr
    )


def test_the_variable_gives_some_of_the_limits():
    assert CommandBudget.of("") == CommandBudget()
    assert CommandBudget.of(" read=1KiB, seconds=2.5") == CommandBudget(seconds=2.5, read=1024)
    assert CommandBudget.of("memory=2GiB").memory == 2 << 30


@pytest.mark.parametrize(
    "text", ["seconds", "seconds=", "seconds=nan", "seconds=inf", "seconds=-1", "memory=7", "disk=1GiB", "9"]
)
def test_another_form_of_the_variable_is_a_usage_error(folder, text):
    with pytest.raises(UsageError, match="write seconds=NUMBER, memory=SIZE and read=SIZE"):
        CommandBudget.of(text)
    done = run("validate", "-p", folder.root, PARQUETRY_UNTRUSTED="1", PARQUETRY_BUDGET=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: PARQUETRY_BUDGET is ")


def test_who_has_a_budget():
    assert has_budget(["plan", "--untrusted"], {})
    assert not has_budget(["plan"], {})
    for said, expected in {
        "1": True,
        "yes": True,
        "nonsense": True,
        "0": False,
        "off": False,
        "": False,
    }.items():
        assert has_budget(["validate"], {"PARQUETRY_UNTRUSTED": said}) is expected
