"""What shells offer while a line is typed: the project's names, quickly, and never a word of trouble."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from parquetry.cli.main import command_line
from tools.command_reference import commands

SCRIPT = Path(sys.executable).parent / "parquetry"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("PARQUETRY_PROJECT", raising=False)
    (tmp_path / "tables" / "gold").mkdir(parents=True)
    (tmp_path / "tables" / ".hidden").mkdir()
    (tmp_path / "parquetry.yml").write_text(
        "name: lake\nvars: {keep: 3}\ndefaults: {tags: [all]}\n"
        "targets:\n  dev: {warehouse: ./w, vars: {place: x}}\n  prod: {warehouse: ./p, overrides: {tags: [live]}}\n"
    )
    (tmp_path / "tables" / "orders.yml").write_text("name: orders\ntags: [silver, \"{{ var('x') }}\"]\n")
    (tmp_path / "tables" / "gold" / "trips.yml").write_text("name: trips\ntags: [gold]\n")
    (tmp_path / "tables" / ".hidden" / "no.yml").write_text("name: hidden\n")
    (tmp_path / "tables" / "broken.yml").write_text("name: [\n\tbroken")
    (tmp_path / "tables" / "odd.yml").write_text("- 1\n")
    (tmp_path / "tables" / "bytes.yml").write_bytes(b"\xff\xfename: x")
    return tmp_path


def offered(*words, incomplete=""):
    shell = ShellComplete(command_line, {}, "parquetry", "_PARQUETRY_COMPLETE")
    return [item.value for item in shell.get_completions([str(word) for word in words], incomplete)]


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (("inspect",), "", ["orders", "trips"]),
        (("inspect",), "t", ["trips"]),
        (("timeline",), "o", ["orders"]),
        (("explain",), "o", ["orders"]),
        (("service", "clean"), "", ["orders", "trips"]),
        (("service", "rollback"), "tr", ["trips"]),
        (("simulate", "clustering"), "", ["orders", "trips"]),
        (("unlock",), "", ["orders", "trips"]),
        (("plan", "-t"), "", ["dev", "prod"]),
        (("run", "--target"), "p", ["prod"]),
        (("plan", "--var"), "", ["keep=", "place="]),
        (("plan", "-s"), "tag:", ["tag:all", "tag:gold", "tag:live", "tag:silver"]),
        (("plan", "--exclude"), "tag:g", ["tag:gold"]),
        (("plan", "-s"), "orders,tag:g", ["orders,tag:gold"]),
        (("ls", "-s"), "path:", ["path:tables", "path:tables/gold"]),
        (("plan", "-s"), "st", ["state:changed"]),
        (("plan", "-s"), "o", ["orders"]),
    ],
)
def test_names_of_the_project_are_offered(root, monkeypatch, words, incomplete, expected):
    command, *rest = words
    nested = command in ("service", "simulate")
    head = [command, rest.pop(0)] if nested else [command]
    assert offered(*head, "-p", root, *rest, incomplete=incomplete) == expected
    monkeypatch.chdir(root)
    assert offered(*words, incomplete=incomplete) == expected
    monkeypatch.chdir("/")
    monkeypatch.setenv("PARQUETRY_PROJECT", str(root))
    assert offered(*words, incomplete=incomplete) == expected


def test_every_argument_and_option_that_names_something_of_the_project_completes(root):
    for name, command in commands():
        for param in command.params:
            if param.name in ("table", "subject", "target", "select", "exclude", "variables"):
                assert param._custom_shell_complete is not None, f"{name} {param.name}"


def test_a_path_of_a_table_is_completed_as_a_folder(root):
    shell = ShellComplete(command_line, {}, "parquetry", "_PARQUETRY_COMPLETE")
    (item,) = shell.get_completions(["inspect", "-p", str(root)], "./ware")
    assert (item.type, item.value) == ("dir", "./ware")


def test_nothing_is_offered_and_nothing_raised_without_a_project(tmp_path):
    for text in (
        None,
        "[",
        "- 1\n",
        "targets: 3\nvars: [x]\ndefaults: x\n",
        "a: &a [*a]\n",
        "? {a: 1}\n: 2\n",
    ):
        if text is not None:
            (tmp_path / "parquetry.yml").write_text(text)
        for words in (("plan", "-t"), ("inspect",), ("plan", "--var")):
            command, *rest = words
            assert offered(command, "-p", tmp_path, *rest) == []
    assert offered("inspect", "-p", tmp_path / "missing") == []


def completed(line, cwd, shell="bash"):
    """What bash would be answered, by the installed script."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_PARQUETRY_COMPLETE": f"{shell}_complete",
    }
    environment.pop("PARQUETRY_PROJECT", None)
    return subprocess.run([SCRIPT], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_bash_gets_the_names_and_nothing_else(root):
    before = sorted(path for path in root.rglob("*"))
    done = completed("parquetry plan -s tag:", root)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [f"plain,tag:{tag}" for tag in ("all", "gold", "live", "silver")]
    assert completed("parquetry inspect o", root).stdout == "plain,orders\n"
    assert completed("parquetry run -t ", root).stdout == "plain,dev\nplain,prod\n"
    broken = completed("parquetry inspect -p nowhere ", root)
    assert (broken.stdout.strip(), broken.stderr) == ("", "")
    assert sorted(path for path in root.rglob("*")) == before


def test_an_interactive_bash_completes(root):
    """The function that the documentation installs, called as readline calls it."""
    program = (
        'eval "$(_PARQUETRY_COMPLETE=bash_source parquetry)"\n'
        "COMP_WORDS=(parquetry plan -s tag:g); COMP_CWORD=3\n"
        '_parquetry_completion parquetry tag:g -s; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = os.pathsep.join([str(SCRIPT.parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        cwd=root,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "tag:gold\n", done.stderr


def test_completion_imports_neither_spark_nor_arrow(root):
    program = (
        "import sys\nfrom click.shell_completion import ShellComplete\n"
        "from parquetry.cli.main import command_line\n"
        "shell = ShellComplete(command_line, {}, 'parquetry', '_X')\n"
        "assert shell.get_completions(['inspect'], '')\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'jinja2', 'jsonschema', 'fsspec'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
