"""Every folder here is a case: a project, a script of commands, and what they are to answer.

Text that a command writes to stdout fits 80 columns: only what cannot be broken is wider.

`pytest tests/golden --update-golden` writes the answers anew; review them in the diff.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.support.github_server import TOKEN, local_github

HERE = Path(__file__).parent
CASES = sorted(path.parent.name for path in HERE.glob("*/script"))
WIDTH = 80
FOR_PROGRAMS = {"validate", "fmt", "schema", "metrics"}
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
_VARYING = (
    (re.compile(r"sha256:[0-9a-f]{64}"), "sha256:<digest>"),
    (re.compile(r"sha256:[0-9a-f]{12}\b"), "sha256:<digest>"),
    (re.compile(r"\b20[2-8]\d{14}\b"), "<----instant---->"),
    (re.compile(r"\b20\d{6}T\d{6}-[0-9a-f]{6}\b"), "<run>"),
    (re.compile(r"after \d+\.\d s"), "after <n> s"),
    (re.compile(r"(;| in) \d+\.\d s(\.?)$", re.MULTILINE), r"\1 <n> s\2"),
    (re.compile(r'("seconds": )\d+\.\d'), r"\1<n>"),
    (re.compile(r"(_timestamp_seconds\{.*\} ).+"), r"\1<time>"),
    (re.compile(r'("value": )1\d{9}\.\d+'), r"\1<ms>"),
    (re.compile(r'("started_ms": )\d+'), r"\1<ms>"),
    (re.compile(r'("parquetry\.(table_id|nonce)": )"[^"]+"'), r'\1"<id>"'),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r'("created_ms": )\d+'), r"\1<ms>"),
    (re.compile(r"(for |_seconds\": )\d+(,| s,)"), r"\1<n>\2"),
)


def transcript(script, directory, monkeypatch, forge):
    """What a terminal would show: each command, its output, and its exit code where it is not 0.

    `forge` is what people do on a local GitHub: `open`, `approve` and `merge` a pull request of HEAD.
    """
    lines = []
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        lines.append(f"$ {line}\n")
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            monkeypatch.setenv(name, value)
            continue
        if words[0] == "cp":
            shutil.copy(words[1], words[2])
            continue
        if words[0] == "mkdir":
            Path(words[1]).mkdir(exist_ok=True)
            continue
        if words[0] == "rm":
            doomed = Path(words[1])
            shutil.rmtree(doomed) if doomed.is_dir() else doomed.unlink()
            continue
        if words[0] == "git":
            subprocess.run([*GIT, *words[1:]], check=True)
            continue
        if words[0] == "cat":
            lines.append(Path(words[1]).read_text(encoding="utf-8"))
            continue
        if words[0] == "forge":
            head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
            on_forge(forge, words[1], head.stdout.strip())
            continue
        assert words[0] == "parquetry"
        result = CliRunner().invoke(command_line, words[1:], prog_name="parquetry")
        assert too_wide(words, result.stdout) == [], line
        lines.append(result.output)
        if result.exit_code:
            lines.append(f"[exit {result.exit_code}]\n")
    text = "".join(lines).replace(str(directory), "<directory>")
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text


def on_forge(forge, act, head):
    match act:
        case "open":
            forge.open(head)
        case "approve":
            forge.review(forge.pulls[7])
        case _:
            forge.merge(forge.pulls[7], head)


@pytest.fixture
def forge(monkeypatch):
    with local_github() as made:
        monkeypatch.setenv("GITHUB_API_URL", made.address)
        monkeypatch.setenv("GITHUB_REPOSITORY", "shop/lake")
        monkeypatch.setenv("GH_TOKEN", TOKEN)
        yield made


def too_wide(words, stdout):
    """The lines for people that could be narrower; findings keep one line each, as compilers' do."""
    if words[1] in FOR_PROGRAMS or "--format" in words:
        return []
    wide = (line for line in stdout.splitlines() if len(line) > WIDTH)
    return [line for line in wide if len(line.split()) > 1 and not line.lstrip().startswith("$ ")]


@pytest.mark.parametrize("case", CASES)
def test_commands_answer_as_recorded(case, tmp_path, monkeypatch, forge, request):
    folder = HERE / case
    # So long that a path in it is never on one line with words, wherever pytest keeps its folders.
    work = tmp_path / ("work" * (WIDTH // 4))
    shutil.copytree(folder / "project", work)
    monkeypatch.chdir(work)
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in [name for name in os.environ if name.startswith("PARQUETRY_")]:
        monkeypatch.delenv(name)
    # Keeps the plan from naming a commit of this repository.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    said = transcript((folder / "script").read_text(encoding="utf-8"), work, monkeypatch, forge)
    assert "a bug of parquetry" not in said
    expected = folder / "output"
    if request.config.getoption("--update-golden"):
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")


def test_there_are_cases():
    assert len(CASES) >= 5
