"""What strangers write: projects, histories, tables and saved documents that were changed at thousands of places.

A case is repeated by its number: ``python -m tests.support.hostile --case 1234``.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES
from tests.support.hostile.corpus import CASES, LOOKS, MUTATORS, SHARES, Case
from tests.support.hostile.pool import ROOT, Result, run
from tests.support.hostile.sandbox import Sandbox, snapshot, touched
from tests.support.small_table import make_table


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A new project that is committed."""
    project = tmp_path_factory.mktemp("made") / "shop"
    CliRunner().invoke(command_line, ["init", str(project)])
    git = ["git", "-C", str(project), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "x"]):
        subprocess.run([*git, *arguments], check=True)
    return project


FEW = range(51, CASES, 241)
"""Of every kind some, and one whose commands run in processes of their own."""

PIECE = 500


def check(result: Result, cases: int) -> None:
    assert not result.faults, "\n\n".join(map(str, result.faults[:10]))
    assert result.cases == cases
    assert result.commands >= 2 * cases


def test_some_of_what_strangers_write_is_refused_and_harms_nothing():
    check(run(FEW, processes=1, commands=2), len(FEW))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, CASES, PIECE))
def test_ten_thousand_cases_are_refused_and_harm_nothing(first):
    """No answer within `patience` ends the process of a case, and is a fault when it happens again."""
    result = run(range(first, first + PIECE), processes=1, commands=4)
    print(
        f"cases {first} to {first + PIECE - 1}: {result.commands} commands, the slowest took {result.slowest:.1f} s"
    )
    check(result, PIECE)


def test_there_are_cases_of_every_kind():
    kinds = [Case(number).kind for number in FEW]
    assert {kind: kinds.count(kind) > 5 for kind in SHARES} == dict.fromkeys(MUTATORS, True)
    assert set(LOOKS) == set(MUTATORS)


def test_a_snapshot_tells_of_content_links_modes_and_what_is_new_or_gone(tmp_path):
    sandbox = Sandbox(tmp_path / "sandbox")
    sandbox.furnish()
    victim = sandbox.root / "victim.yml"
    before = snapshot(sandbox.root)
    kept = victim.stat()
    victim.write_text("x" * kept.st_size, encoding="utf-8")
    os.utime(victim, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    (sandbox.root / "home/victim.yml").chmod(0o600)
    (sandbox.root / "work/victim.yml").unlink()
    (sandbox.root / "lake/link").symlink_to("victim.yml")
    (sandbox.root / "tmp/new").mkdir()
    found = touched(before, snapshot(sandbox.root), may=["tmp"])
    assert found == ["home/victim.yml", "lake/link", "victim.yml", "work/victim.yml"]
    assert touched(before, before, may=[]) == []


WATCHED = {
    "import subprocess; subprocess.run(['true'])": "started true",
    "import subprocess; subprocess.run(['git', '--version'], stdout=-3)": None,
    "import os; os.system('true')": "os.system",
    "import os; os.posix_spawn('/bin/true', ['true'], {})": "os.posix_spawn",
    "open('elsewhere', 'w')": "open elsewhere",
    "import pathlib; pathlib.Path('elsewhere').unlink(missing_ok=True)": "os.remove elsewhere",
    "import os; os.symlink('x', 'elsewhere')": "os.symlink elsewhere",
    "import os; os.rename('nowhere', 'elsewhere')": "os.rename elsewhere",
    "import os; os.mkdir('elsewhere/a/b')": "os.mkdir elsewhere/a/b",
    "import socket; socket.create_connection(('127.0.0.1', 9))": "socket.getaddrinfo",
    "import socket; socket.socket().connect(('127.0.0.1', 9))": "socket.connect",
    "open('/dev/null', 'w'); open('allowed/x', 'w')": None,
    "open('/etc/passwd')": None,
}


@pytest.mark.parametrize("code", WATCHED)
def test_the_watch_sees_what_a_command_does(tmp_path, code):
    (tmp_path / "allowed").mkdir()
    program = (
        "import contextlib, json, pathlib, sys\n"
        "from tests.support.hostile.watch import Watch\n"
        "watch = Watch()\n"
        "watch.install()\n"
        "with watch.over(may_write=[pathlib.Path('allowed')], hosts=()) as seen:\n"
        "    with contextlib.suppress(OSError):\n"
        "        exec(sys.argv[1])\n"
        "print(json.dumps(seen))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    expected = WATCHED[code]
    assert len(seen) == (expected is not None), seen
    assert all(
        thing.startswith(str(expected).replace("elsewhere", str(tmp_path / "elsewhere"))) for thing in seen
    )


@pytest.mark.parametrize("kind", ["fifo", "socket", "link to a device", "folder", "large"])
@pytest.mark.parametrize(
    "file", [".hoodie/.parquetry/applied/00000000000000000001.json", ".hoodie/hoodie.properties"]
)
def test_what_is_no_file_of_a_table_is_refused_at_once(tmp_path, kind, file):
    """A pipe would be waited for, and a device never ends."""
    path = tmp_path / "t" / file
    make_table(tmp_path / "t")
    path.unlink()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "socket":
            os.mknod(path, 0o600 | stat.S_IFSOCK)
        case "link to a device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "large":
            with path.open("wb") as sparse:
                sparse.truncate(MOST_RECORD_BYTES + 1)
    said = {
        "large": "at most 268,435,456 are read",
        "folder": "Is a directory",
        "link to a device": "is a link",
    }
    store = open_store(tmp_path / "t")
    with pytest.raises(StorageError, match=said.get(kind, "No such device or address")):
        store.read(file)
    done = CliRunner().invoke(command_line, ["inspect", str(tmp_path / "t")])
    assert (done.exit_code in (0, 1), "Traceback" in done.output) == (True, False), done.output


@pytest.mark.parametrize(
    ("kind", "said"),
    [("fifo", "replace the pipe, socket or device there by a file"), ("link to a device", "is a link")],
)
def test_a_base_file_that_is_none_is_refused_at_once(tmp_path, kind, said):
    path = tmp_path / "t" / "x.parquet"
    path.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(StorageError, match=said):
        open_store(tmp_path / "t").open_input("x.parquet")


def test_a_location_with_a_nul_byte_is_refused():
    with pytest.raises(StorageError, match="contains a NUL byte"):
        open_store("/tmp/a\0b")


@pytest.mark.parametrize("kind", ["socket", "folder", "device"])
@pytest.mark.parametrize("arguments", [["show"], ["apply"], ["diff", "--base", "HEAD", "--state"]])
def test_a_named_file_that_cannot_be_read_is_told(project, tmp_path, arguments, kind):
    path = tmp_path / "plan.json"
    if kind == "socket":
        os.mknod(path, 0o600 | stat.S_IFSOCK)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    options = [] if arguments == ["show"] else ["--project", str(project)]
    done = CliRunner().invoke(command_line, [*arguments, str(path), *options])
    assert (done.exit_code, "Traceback" in done.output) == (2, False), done.output


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("content", [DEEP, "[" * 100_000, '{"table": ' * 50_000, "", "\ud800"])
def test_a_layout_that_nobody_can_read_is_refused(project, tmp_path, content):
    file = tmp_path / "layout.json"
    file.write_bytes(content.encode("utf-8", errors="surrogatepass"))
    done = CliRunner().invoke(
        command_line, ["diff", "--base", "HEAD", "--state", str(file), "--project", str(project)]
    )
    assert (done.exit_code, "is not a saved layout" in done.stderr) == (2, True), done.output
