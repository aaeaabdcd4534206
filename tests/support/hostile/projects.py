"""Hostile projects: their YAML, their other files, and what lies there instead of files."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.support.hostile.sandbox import Sandbox
from tests.support.hostile.values import (
    NESTED_JSON,
    PLANTED,
    TEXTS,
    attempt,
    changed,
    changed_bytes,
    content_of,
)

SPECS = (
    "parquetry.yml",
    "policies/standard.yml",
    "tables/events.yml",
    "tables/orders.yml",
    "tables/new.yml",
    "tables/listed.yml",
)
OTHER_FILES = (
    "schemas/listed.avsc",
    "landing/day0.csv",
    "target/locations.json",
    "target/manifest.json",
    "target/jobs/orders/clean.json",
)
FOLDERS = (
    "tables", "policies", "schemas", "landing", "target", "target/jobs", "target/jobs/orders", "target/jobs/new", "target/runs", "warehouse",
    "warehouse/events", "warehouse/new", "warehouse/events/.hoodie",
)  # fmt: skip

SNIPPETS = (
    f"!!python/object/apply:os.system ['touch {PLANTED}']", f"!!python/object/new:subprocess.Popen [['touch', '{PLANTED}']]", "!!python/name:os.system", "!!binary aGk=",
    "!!set {a, b}", "!!omap [a: 1]", "!!timestamp 2013-01-01", "!!float x", "!<tag:yaml.org,2002:str> x", "!x y", "&a [*a]", "&a {b: *a}", "*nowhere", "<<: *a", "? {a: 1} : b",
    "9999999-99-99", "0o17", "0b11", "1:60:60", "1e400", "9" * 5_000, "[" * 5_000, "{a: " * 5_000, "- " * 3_000, "\x00", "\x1b[2J", "\ufeff", "\x85", "\u2028", "%YAML 9.9\n---\n",
    "---\n", "...\n", "\t", "|\n  x", ">-\n", "# x\x1b[0m\n", "a: 1\na: 2\n", "null: x\n", "1: 2\n", "? \n", "[a]: b\n", "{}: b\n", '"\\ud800"', '"\\x1b[31m"', '"\\0"',
    '"\\L"', "'a\n\n\nb'", "&" + "a" * 5_000 + " x",
)  # fmt: skip
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def mutate(sandbox: Sandbox, rng: Random) -> list[str]:
    """Change one to three things of the project; what was changed, for the report."""
    ways = (
        _values,
        _values,
        _values,
        _text,
        _text,
        _whole,
        _special,
        _special,
        _strange_name,
        _folder,
        _other,
    )
    return [attempt(rng.choice(ways), sandbox, rng) for _ in range(rng.choice([1, 1, 2, 3]))]


def _values(sandbox: Sandbox, rng: Random) -> str:
    name = rng.choice(SPECS)
    path = sandbox.project / name
    try:
        document = yaml.safe_load(content_of(path))
        new, how = changed(document, rng)
        text = yaml.safe_dump(new, sort_keys=False, allow_unicode=rng.random() < 0.5)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return f"{name}: nothing"  # an earlier change left no document there
    _write(path, text.encode("utf-8", errors="surrogatepass"))
    return f"{name}: {how}"


def _text(sandbox: Sandbox, rng: Random) -> str:
    name = rng.choice(SPECS)
    path = sandbox.project / name
    try:
        text = content_of(path).decode()
    except (OSError, ValueError):
        return f"{name}: nothing"
    at = rng.choice([0, len(text), *(n + 1 for n, letter in enumerate(text) if letter in ":\n")])
    snippet = rng.choice(SNIPPETS) if rng.random() < 0.7 else rng.choice(TEXTS)
    end = at + rng.choice([0, 0, 1, 20])
    _write(path, (text[:at] + snippet + text[end:]).encode("utf-8", errors="surrogatepass"))
    return f"{name}: text at {at} {snippet!r:.80}"


def _whole(sandbox: Sandbox, rng: Random) -> str:
    name = rng.choice(SPECS)
    path = sandbox.project / name
    try:
        content = content_of(path)
    except OSError:
        return f"{name}: nothing"
    new: bytes
    match rng.choice(["bytes", "bytes", "bomb", "nested", "utf16", "large", "latin", "lines", "key"]):
        case "bytes":
            new, how = changed_bytes(content, rng)
        case "bomb":
            new, how = content + BOMB.encode(), "bomb"
        case "nested":
            new, how = content + b"\nx: " + NESTED_JSON.encode(), "nested"
        case "utf16":
            new, how = content.decode(errors="replace").encode("utf-16"), "utf16"
        case "large":
            new, how = content + b"\n# " + b"x" * 8_000_000, "large"
        case "latin":
            new, how = content + "\nñ: ñ".encode("latin-1"), "latin"
        case "key":
            new, how = content + b"\n? " + b"k" * 200_000 + b"\n: x\n", "long key"
        case _:
            new, how = content + b"\n" * 100_000, "lines"
    _write(path, new)
    return f"{name}: {how}"


def _special(sandbox: Sandbox, rng: Random) -> str:
    """Something else where a file is expected."""
    name = rng.choice(
        (
            *SPECS,
            *SPECS,
            *OTHER_FILES,
            "tables/more.yml",
            "tables/a/b.yml",
            "policies/more.yml",
            ".gitignore",
            "landing/more.csv",
        )
    )
    path = sandbox.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"{name}: {put_instead(path, sandbox, rng)}"


KINDS = ("link", "link", "link", "fifo", "fifo", "folder", "socket", "sparse", "loop", "hard link")


def put_instead(path: Path, sandbox: Sandbox, rng: Random, *, kinds: Sequence[str] = KINDS) -> str:
    """Put a link, a pipe, a socket, a folder or a file of many bytes in the place of a file."""
    _away(path)
    kind = rng.choice(kinds)
    match kind:
        case "link":
            to = rng.choice(
                [str(sandbox.root / "victim.yml"), os.path.relpath(sandbox.root / "victim.yml", path.parent), "/dev/zero", "/dev/stdin", "/etc/passwd", "/proc/self/environ",
                 "/proc/self/fd/0", "nowhere", str(sandbox.root / "outside"), ".", "..", "/dev/full", str(sandbox.root / "outside" / PLANTED)]
            )  # fmt: skip
            path.symlink_to(to)
            return f"link to {to}"
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                here = os.getcwd()
                os.chdir(path.parent)  # the path of a socket may have 107 letters
                try:
                    listener.bind(path.name)
                finally:
                    os.chdir(here)
        case "sparse":
            with path.open("wb") as file:
                file.truncate(20 << 30)
        case "loop":
            path.symlink_to(path.name)
        case "hard link":
            os.link(sandbox.root / "outside" / "victim.yml", path)
    return kind


def _strange_name(sandbox: Sandbox, rng: Random) -> str:
    text = rng.choice(TEXTS)
    name = os.fsencode(
        text.replace("/", "_")[:60] + rng.choice([".yml", ".yml", ".yaml", ".avsc", ""])
    ).replace(b"\0", b"")
    if rng.random() < 0.1:
        name = b"\xff\xfe.yml"
    folder = rng.choice(["tables", "tables", "policies", "landing", "tables/sub"])
    parent = sandbox.project / folder
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if rng.random() < 0.3:
            parent = Path(os.fsdecode(os.fsencode(parent) + b"/" + name))
            parent.mkdir(parents=True)
            name = b"more.yml"
        content = content_of(sandbox.project / "tables" / "new.yml")
        with open(os.fsencode(parent) + b"/" + name, "wb") as file:
            file.write(content.replace(b"name: new", b"name: more"))
    except (OSError, ValueError):
        return f"{folder}: nothing"
    return f"{folder}: {name!r}"


def _folder(sandbox: Sandbox, rng: Random) -> str:
    name = rng.choice(FOLDERS)
    path = sandbox.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    _away(path)
    kind = rng.choice(
        ["link outside", "link outside", "link to itself", "a file", "fifo", "link to /", "nothing"]
    )
    match kind:
        case "link outside":
            path.symlink_to(sandbox.root / "outside")
        case "link to itself":
            path.symlink_to(path.name)
        case "a file":
            path.write_text("x", encoding="utf-8")
        case "fifo":
            os.mkfifo(path)
        case "link to /":
            path.symlink_to("/proc/self")
    return f"{name}: {kind}"


def _other(sandbox: Sandbox, rng: Random) -> str:
    name = rng.choice(OTHER_FILES)
    path = sandbox.project / name
    try:
        content, how = changed_bytes(content_of(path), rng)
    except OSError:
        return f"{name}: nothing"
    _write(path, content)
    return f"{name}: {how}"


def _write(path: Path, content: bytes) -> None:
    """Replace the file itself, not what it is a link to."""
    _away(path)
    path.write_bytes(content)


def _away(path: Any) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        path.rename(path.with_name(f"{path.name}.away"))
