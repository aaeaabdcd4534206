"""Ten thousand cases, each known by its number: what is mutated, which commands then run, and what they may do.

The number decides what is changed and how; only the times and ids in the names of tables' files are of the day.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.support.hostile import documents, histories, projects, tables
from tests.support.hostile.sandbox import SECRETS, Sandbox, snapshot, touched
from tests.support.hostile.values import content_of
from tests.support.hostile.watch import Watch

CASES = 10_000
SLOWEST_SECONDS = 10
"""No answer takes longer, on a machine that does nothing else: see :func:`patience`."""

MEMORY_BYTES = 6 << 30
"""The address space of a process in which cases run."""

MUTATORS: dict[str, Callable[[Sandbox, Random], list[str]]] = {
    "project": projects.mutate,
    "history": histories.mutate,
    "table": tables.mutate,
    "document": documents.mutate,
}
SHARES = {"project": 0.42, "history": 0.16, "table": 0.34, "document": 0.08}

Command = tuple[str, ...]

LOOKS: dict[str, tuple[Command, ...]] = {
    "project": (
        ("validate",), ("validate", "--format", "json"), ("validate", "--format", "github"), ("ls",), ("ls", "--format", "json"), ("ls", "--format", "name"), ("ls", "-s", "tag:gold"),
        ("ls", "-s", "path:tables"), ("ls", "-s", "state:changed"), ("explain", "events"), ("explain", "orders.sources"), ("explain", "new", "--format", "json"), ("fmt", "--check"),
        ("diff", "--base", "base"), ("diff", "--base", "base", "--format", "json"), ("plan",), ("plan", "--format", "json"), ("plan", "--due"), ("plan", "-t", "prod"),
        ("plan", "-s", "events"), ("drift",), ("compile", "--format", "ddl"), ("compile", "--format", "hudi-options"), ("compile",), ("compile", "--format", "json"), ("fmt",),
        ("inspect", "events"), ("timeline", "events"), ("simulate", "clustering", "events"), ("simulate", "sizing", "events", "--inserts", "10"), ("unlock", "--list"), ("doctor",),
        ("schema", "table"), ("show", "plan.json"), ("apply", "plan.json", "--approved", "sha256:0"), ("plan", "--log-format", "json"), ("validate", "--log-format", "json"),
        ("simulate", "clustering", "events", "--suggest"), ("init",), ("test",), ("test", "--history"), ("test", "--sarif", "target/tests.sarif"),
        ("plan", "--untrusted", "--base", "base"), ("plan", "--untrusted", "--base", "base", "--due"), ("plan", "--untrusted", "--base", "base", "-t", "prod"),
    ),
    "history": (
        ("diff", "--base", "evil"), ("diff", "--base", "evil"), ("diff", "--base", "evil", "--format", "json"), ("diff", "--base", "base"), ("plan",), ("plan", "--format", "json"),
        ("ls", "-s", "git:evil"), ("ls", "-s", "state:changed"), ("validate",), ("diff", "--base", "--output=PLANTED"), ("plan", "--out", "new-plan.json"), ("apply", "plan.json"), ("init",),
        ("plan", "--untrusted", "--base", "evil"),
    ),
    "table": (
        ("inspect", "{}"), ("inspect", "{}", "--format", "json"), ("inspect", "{}", "--files"), ("timeline", "{}"), ("timeline", "{}", "-v"), ("timeline", "{}", "{instant}"),
        ("timeline", "{}", "--format", "json"), ("plan",), ("plan", "--due"), ("plan", "--format", "json"), ("drift",), ("simulate", "clustering", "{}"),
        ("simulate", "sizing", "{}", "--inserts", "10", "--partition", "p=x"), ("simulate", "clustering", "events", "--suggest"), ("unlock", "{}", "--list"), ("ls", "-s", "state:changed"),
        ("service", "clean", "{}"), ("service", "archive", "{}"), ("service", "savepoint", "{}"), ("service", "rollback", "{}", "{instant}", "--auto-approve"),
        ("service", "restore", "{}", "{savepoint}", "--auto-approve"), ("service", "cluster", "{}", "--plan-only"), ("service", "cluster", "{}", "--schedule"), ("unlock", "{}", "--auto-approve"),
        ("doctor", "{}", "--accept-loss", "--auto-approve"), ("apply", "--auto-approve"), ("apply", "plan.json"), ("adopt", "{path}", "--name", "adopted"), ("inspect", "{}", "--html", "page.html"),
        ("test",), ("test", "--format", "json"), ("test", "--format", "github", "--junit", "target/tests.xml"),
    ),
    "document": (
        *(("show", name, "--format", shape) for name in ("plan.json", "due.json") for shape in ("text", "json", "markdown", "html", "github")),
        ("apply", "plan.json"), ("apply", "due.json", "--approved", "{plan_id}"), ("diff", "--base", "base", "--state", "layout.json"), ("diff", "--base", "base", "--state", "layout.json", "--format", "json"),
        ("show", "layout.json"),
    ),
}  # fmt: skip
_CHANGES_TABLES = frozenset({"service", "unlock", "doctor", "apply", "adopt"})
_CODES = frozenset({0, 1, 2, 3, 4, 5, 6})
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_WORKFLOW_COMMAND = re.compile(r"^\s*(::[\w-]+[ :]|##\[)", re.MULTILINE)
_BY_SHAPE = re.compile(
    r"^::(error|warning|notice|group|endgroup|add-mask)( [^:]*)?::|^::(error|warning|notice) "
)
_PROCESS_EVERY = 97
"""Of so many cases one runs its first command in a process of its own."""


@dataclass(frozen=True)
class Fault:
    """What a command did that none may do."""

    case: int
    command: str
    what: str
    said: str

    def __str__(self) -> str:
        return f"case {self.case}, parquetry {self.command}: {self.what}\n{self.said}".rstrip()


@dataclass(frozen=True)
class Case:
    """One of the corpus."""

    number: int

    @property
    def kind(self) -> str:
        return Random(f"kind {self.number}").choices([*SHARES], [*SHARES.values()])[0]

    def mutate(self, sandbox: Sandbox) -> list[str]:
        return MUTATORS[self.kind](sandbox, Random(f"mutation {self.number}"))

    def commands(self, sandbox: Sandbox, *, at_most: int, plan_id: str) -> list[Command]:
        """Some of those of its kind, with the names of this sandbox."""
        rng = Random(f"commands {self.number}")
        chosen = rng.sample(LOOKS[self.kind], at_most)
        instants = sorted(
            {path.name.partition(".")[0] for path in (sandbox.warehouse / "events/.hoodie").glob("2*.commit")}
        )
        table = rng.choice(["events", "events", str(sandbox.loose), str(sandbox.warehouse / "events")])
        names = {
            "{}": table,
            "{path}": str(sandbox.loose),
            "{instant}": rng.choice([*instants, "20260101000200000"]),
            "{savepoint}": next(
                (
                    p.name.partition(".")[0]
                    for p in (sandbox.warehouse / "events/.hoodie").glob("*.savepoint")
                ),
                "x",
            ),
            "{plan_id}": plan_id,
        }
        return [tuple(names.get(word, word) for word in command) for command in chosen]


class Runner:
    """Runs cases in copies of one sandbox, in this process, under a watch that stays on it."""

    def __init__(self, base: Sandbox, scratch: Path) -> None:
        self.base = base
        self.scratch = scratch
        self.watch = Watch()
        self.watch.install()
        self.plan_id = json.loads((base.project / "due.json").read_bytes())["plan_id"]
        self.slowest = 0.0
        self.commands = 0

    def run(self, number: int, *, at_most: int = 4, verbose: bool = False) -> list[Fault]:
        """The faults of a case."""
        case = Case(number)
        sandbox = self.base.copy(self.scratch / f"case-{number}")
        here = Path.cwd()
        found: list[Fault] = []
        try:
            faulthandler.dump_traceback_later(60, exit=True)
            said = case.mutate(sandbox)
            faulthandler.cancel_dump_traceback_later()
            if verbose:
                print(f"case {number}, {case.kind}:", *said, sep="\n  ", file=sys.stderr)
            os.chdir(sandbox.project)
            for position, command in enumerate(case.commands(sandbox, at_most=at_most, plan_id=self.plan_id)):
                if verbose:
                    print("$ parquetry", *command, file=sys.stderr)
                # What writes may wait for other writers, in here for moments only.
                alone = position == 0 and number % _PROCESS_EVERY == 0 and command[0] not in _CHANGES_TABLES
                for what, shown in self._command(command, sandbox, alone=alone, verbose=verbose):
                    found.append(Fault(number, " ".join(command), what, f"{said}\n{shown}"))
        finally:
            os.chdir(here)
            _remove(sandbox.root)
        return found

    def _command(
        self, command: Command, sandbox: Sandbox, *, alone: bool, verbose: bool
    ) -> Iterator[tuple[str, str]]:
        may = _may_change(command)
        before = snapshot(sandbox.root)
        environment = sandbox.environment
        # Of an untrusted branch what the base names counts, and that is what every sandbox starts with.
        hosts = _declared_hosts((self.base if "--untrusted" in command else sandbox).project)
        started = time.monotonic()
        faulthandler.dump_traceback_later(patience(), exit=True)
        try:
            if alone:
                code, out, err, seen = _in_process(command, environment, sandbox.project)
            else:
                # `fmt` puts a file beside the one that it replaces; what stays is seen below.
                beside = [sandbox.project] if command[0] == "fmt" else []
                may_write = [sandbox.temporary, *beside, *(sandbox.root / path for path in may)]
                with _variables(environment), self.watch.over(may_write=may_write, hosts=hosts) as seen:
                    done = CliRunner().invoke(command_line, list(command), prog_name="parquetry")
                code, out, err = done.exit_code, done.stdout_bytes, done.stderr_bytes
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.commands += 1
        self.slowest = max(self.slowest, time.monotonic() - started)
        shown = (out[:1500] + b"\n-- stderr\n" + err[-1500:]).decode(errors="replace")
        if verbose:
            print(f"exit code {code}\n{shown}", file=sys.stderr)
        if code not in _CODES:
            reports = "".join(
                path.read_text(errors="replace")[-3000:] for path in sandbox.temporary.glob("*.traceback")
            )
            yield f"exit code {code}", shown + reports
        for thing in seen:
            yield thing, shown
        for path in touched(before, snapshot(sandbox.root), may=may):
            if not path.endswith(".traceback"):
                yield f"touched {path!r}", shown
        for what in _wrong_in(out, err, command):
            yield what, shown
        yield from ((f"the value of {name} in a file", path) for name, path in _secrets_in_files(sandbox))


def patience() -> float:
    """How long to wait for an answer: longer in proportion where more wants to run than there are cores."""
    return SLOWEST_SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _may_change(command: Command) -> Collection[str]:
    """Paths of the sandbox at or below which a command may change something."""
    project = "work/shop"
    may = [f"{project}/target"]
    if command[0] in _CHANGES_TABLES:
        may += [f"{project}/warehouse/{name}" for name in ("events", "orders", "listed", "new", "old")] + [
            "lake/loose"
        ]
        may += [f"{project}/warehouse"]
    if command[0] == "adopt":
        may += [f"{project}/tables"]
    if command[0] == "fmt" and "--check" not in command:
        may += [f"{project}/{name}" for name in ("tables", "policies", "parquetry.yml")]
    if command[0] == "init":
        may += [project, "work/.github"]
    for option in ("--out", "--html"):
        if option in command:
            may += [f"{project}/{command[command.index(option) + 1]}"]
    return may


def _declared_hosts(project: Path) -> Collection[str]:
    """Where the project itself says that connections go."""
    try:
        text = content_of(project / "parquetry.yml").decode(errors="replace")
    except OSError:
        text = ""
    hosts = {urlsplit(address).hostname for address in re.findall(r"https?://[\w.:-]+", text)}
    return {host for host in hosts if host}


def _wrong_in(out: bytes, err: bytes, command: Command) -> Iterator[str]:
    for name, content in (("stdout", out), ("stderr", err)):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            yield f"{name} is no UTF-8"
            continue
        if "Traceback (most recent call last)" in text:
            yield f"a traceback on {name}"
        if found := _CONTROL.search(text):
            yield f"{found[0]!r} on {name}: {text[max(0, found.start() - 60) : found.end() + 30]!r}"
        for secret, value in SECRETS.items():
            if value in text:
                yield f"the value of {secret} on {name}"
        for line in _WORKFLOW_COMMAND.finditer(text):
            if "github" not in command or not _BY_SHAPE.match(text[line.start() :]):
                yield f"a workflow command on {name}: {text[line.start() : line.start() + 60]!r}"
                break


def _secrets_in_files(sandbox: Sandbox) -> Iterator[tuple[str, str]]:
    for folder in (sandbox.temporary, sandbox.project / "target"):
        if folder.is_symlink():
            continue
        for path in folder.rglob("*"):
            if (
                path.is_symlink()
                or not path.is_file()
                or path.stat().st_size > 10_000_000
                or path.suffix == ".zip"
            ):
                continue
            content = path.read_bytes()
            yield from ((name, str(path)) for name, value in SECRETS.items() if value.encode() in content)


def _in_process(
    command: Command, environment: dict[str, str], project: Path
) -> tuple[int, bytes, bytes, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "parquetry", *command],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=patience(),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr, []


@contextlib.contextmanager
def _variables(environment: dict[str, str]) -> Iterator[None]:
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
        tempfile.tempdir = None


def _remove(root: Path) -> None:
    subprocess.run(["rm", "-rf", str(root)], check=True)
