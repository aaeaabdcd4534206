"""A new user's first hour: the console blocks of a page, run one after another in an empty directory.

``python -m tools.tour`` runs README.md and docs/tutorial.md and writes the current output into the pages;
``--check`` only compares. Instants, sizes and commit ids may differ.

A YAML block that begins with ``# PATH`` is written to that path. A fragment is inserted into the last such
file, after the list entries that begin like the fragment.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*\n(?:(?<=<<'END'\n)(?:.*\n)*?END\n)?)", re.MULTILINE)
_VARYING = (
    (re.compile(r"\b20[2-9]\d{14}\b"), "<instant>"),
    (re.compile(r"\b\d+(\.\d+)? (B|KB|MB)\b"), "<size>"),
    (re.compile(r" in \d+\.\d s\."), " in <seconds> s."),
    (re.compile(r", commit [0-9a-f]{12}\b"), ""),
    (re.compile(r"[ -]+"), " "),
)
_SKIPPED = re.compile(r"make |python -m venv|pip install")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command of a page: the output in the page, the real output, and the exit code."""

    command: str
    shown: str
    output: str
    exit_code: int

    @property
    def as_shown(self) -> bool:
        """True if the page shows no output, or the real output except for varying figures."""
        return not self.shown or _normalised_words(self.shown) == _normalised_words(self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The output and exit code of a command, and the shell's directory after it."""

    output: str
    exit_code: int
    directory: Path


Shell = Callable[[str, str | None, Path], Answer]
"""A function that runs a command with its input in a directory."""


def bash(command: str, entered: str | None, directory: Path) -> Answer:
    """Run a command in bash; without ``entered``, on a terminal where every question is answered with yes."""
    controller, terminal = pty.openpty()
    os.write(controller, b"y\n")
    with tempfile.NamedTemporaryFile("r", suffix=".directory") as place:
        script = f"{command}\ncode=$?\npwd > {place.name}\nexit $code"
        given = {"input": entered} if entered is not None else {"stdin": terminal}
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=directory,
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            **given,
        )
        left = Path(place.read().strip() or directory)
    os.close(controller)
    os.close(terminal)
    output = done.stdout if done.returncode == 0 else done.stdout + done.stderr
    return Answer(output=output, exit_code=done.returncode, directory=left)


class Tour:
    """The commands of pages, run in a shell that keeps its directory between commands."""

    def __init__(self, directory: Path, shell: Shell = bash) -> None:
        self.directory = directory
        self._shell = shell
        self._last_file: Path | None = None

    def play(self, page: str) -> Iterator[Step]:
        """Yield the commands of a page after running them, in order."""
        for block in _BLOCK.finditer(page):
            info, body = block["info"].strip(), block["body"]
            match info.split():
                case ["console"] if not _SKIPPED.search(body):
                    yield from self._console(body)
                case ["yaml"]:
                    self._write(body)
                case ["yaml", "fragment"]:
                    self._extend(body)
                case ["python"] if "SparkSession" in body:
                    yield self._typed("python -", body, shown="")

    def _console(self, body: str) -> Iterator[Step]:
        starts = [*_COMMAND.finditer(body)]
        ends = [match.start() for match in starts[1:]] + [len(body)]
        for match, end in zip(starts, ends, strict=True):
            yield self._typed(match["command"].rstrip("\n"), None, shown=body[match.end() : end])

    def _typed(self, command: str, entered: str | None, *, shown: str) -> Step:
        answer = self._shell(command, entered, self.directory)
        self.directory = answer.directory
        return Step(command=command, shown=shown, output=answer.output, exit_code=answer.exit_code)

    def _write(self, body: str) -> None:
        heading = re.match(r"# (\S+\.yml)\n", body)
        if heading is None:
            return
        self._last_file = self.directory / heading[1]
        self._last_file.parent.mkdir(parents=True, exist_ok=True)
        self._last_file.write_text(body, encoding="utf-8")

    def _extend(self, fragment: str) -> None:
        assert self._last_file is not None, "a fragment stands below a file"
        text = self._last_file.read_text(encoding="utf-8")
        begins = re.match(r"\s*- \{\w+", fragment)
        assert begins is not None, "a fragment is an entry of a list"
        alike = [line for line in text.splitlines(keepends=True) if line.startswith(begins.group())]
        # Insert after the last of the adjacent entries: the first list with such entries counts.
        at = text.index(alike[0])
        while (line := text[at : text.index("\n", at) + 1]).startswith(begins.group()):
            at += len(line)
        self._last_file.write_text(text[:at] + fragment + text[at:], encoding="utf-8")


def play(page: Path, directory: Path, shell: Shell = bash) -> list[Step]:
    """Run a page in ``directory``, set up to look like a clone, and return its steps."""
    shutil.copytree(
        ROOT / "examples" / "shop", directory / "examples" / "shop", ignore=shutil.ignore_patterns("target")
    )
    (directory / ".venv").symlink_to(Path(sys.prefix))
    return list(Tour(directory, shell).play(page.read_text(encoding="utf-8")))


def rewritten(page: str, steps: list[Step]) -> str:
    """Return the page with the real output of each command whose shown output differs."""
    for step in steps:
        if step.shown and _steady_lines(step.shown) != _steady_lines(step.output):
            before = f"$ {step.command}\n{step.shown}"
            page = page.replace(before, f"$ {step.command}\n{step.output}", 1)
    return page


def _normalised_words(text: str) -> list[str]:
    """Return the words of an output: line breaks depend on the figures in it."""
    return [word for line in _steady_lines(text) for word in line.split()]


def _steady_lines(text: str) -> list[str]:
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _environment() -> dict[str, str]:
    """Return the environment of commands. Their output goes into a pipe, so it has 80 columns."""
    own = ("PARQUETRY_", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "PYSPARK_PYTHON": sys.executable, "NO_COLOR": "1"}


def main() -> int:
    """Run the pages; return 1 if a command fails or, with --check, an output differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    failed = False
    for page in PAGES:
        with tempfile.TemporaryDirectory(prefix="parquetry-tour-") as folder:
            steps = play(page, Path(folder))
        for step in steps:
            verdict = (
                "ok"
                if step.exit_code == 0 and step.as_shown
                else "differs"
                if step.exit_code == 0
                else "fails"
            )
            failed = failed or step.exit_code != 0 or (check and not step.as_shown)
            print(f"{verdict:<8} $ {step.command.splitlines()[0]}")
            if verdict != "ok":
                print(step.output)
        if not check:
            page.write_text(rewritten(page.read_text(encoding="utf-8"), steps), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
