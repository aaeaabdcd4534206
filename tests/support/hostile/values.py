"""Hostile values, and documents with one of them somewhere."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

Place = tuple[str | int, ...]

PLANTED = "PLANTED"
"""A file of this name means that something was executed or written at a stranger's wish."""

NESTED: list[Any] = []
for _ in range(300):
    NESTED = [NESTED]
NESTED_JSON = "[" * 100_000 + "]" * 100_000

TEXTS = (
    "", " ", "\n", "x\n", "\t", "a\rb", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "\x08\x08\x08", "\x00", "\x7f", "\x85", "\ufeff",
    "a\n::error::planted", "a\n::set-output name=x::planted", "\r##[error]planted", "%0A::stop-commands::planted",
    "\u202egnp.exe", "a\u2028b", "a\u2029b", "\u2066a\u2069", "\u200b", "\U000e0041", "é", "\U0001f600", "ﬁ", "ⅷ", "İ",
    "../../victim.yml", "../../../victim.parquet", "../../outside/victim.yml", "/etc/passwd", "/dev/zero", "/dev/stdin", "..", ".", "/", "//", "~", "~/victim.yml",
    "a/../../b", "a//b", "./a", "a/", ".hoodie", ".hoodie/hoodie.properties", ".git/config", "con", "a\\b", "C:\\x", "x" * 256, "x" * 70_000, "é" * 300,
    f"--output={PLANTED}", f"--output=../../{PLANTED}", "-o", "--help", "--", "-", "@{-1}", "HEAD:parquetry.yml", "main..base", f"--exec=touch {PLANTED}",
    f"$(touch {PLANTED})", f"`touch {PLANTED}`", f"a;touch {PLANTED};#", f"| touch {PLANTED}", f"'; touch {PLANTED} #", f'"; touch {PLANTED} #', "${HOME}", "$IFS",
    "%s%n%x", "{0.__class__}", "%(x)s", "'", '"', "`", "\\", "''", "a b", "*", "?", "[a", "{a,b}", "**/" * 14 + "*.csv", "*" * 60, "[!]" * 40, "{" * 30,
    "{{ 7 * 7 }}", "{{ env_var('AWS_SECRET_ACCESS_KEY') }}", "x-{{ env_var('LAKE_PASSWORD') }}", "{{ env_var('GITHUB_TOKEN', 'x') }}", "{{ target }}",
    "{% for i in range(10 ** 9) %}x{% endfor %}", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ 'a' * 10 ** 9 }}", "{{ range(10 ** 10) | list }}",
    "{{ 9 ** 9 ** 9 }}", "{{ '%99999999d' % 1 }}", "{{ '{:>99999999}'.format(1) }}", "{{ lipsum.__globals__ }}", "{{ cycler.__init__.__globals__.os.popen('touch PLANTED') }}",
    "{{ ('x' ~ 'y') | center(999999999) }}", "{% include '/etc/passwd' %}", "{{ var('team') }}", "{{ var(var) }}", "{{", "{% raw %}", "{#", "}}",
    "s3://planted/x", "s3a://127.0.0.1:9/x", "http://127.0.0.1:9/x", "file:///etc/passwd", "hdfs://127.0.0.1:9/x", "gs://planted/x", "memory://x", "s3://u:pw@h/x", "::", "jar:file:x!/y",
    "(a+)+$", "(" * 2_000, ")" * 10, "NOT " * 3_000 + "true", "1" + " + 1" * 5_000, "a" + ".a" * 2_000, "case " * 500, "-" * 5_000 + "1",
    "id IN (SELECT 1)", "id IN (TABLE old)", "csv.`/etc/passwd`", "reflect('java.lang.Runtime', 'x')", "SELECT * FROM csv.`/etc/passwd`", "1 = 1; DROP TABLE t", "x -- y", "/* x",
    "SELECT * FROM source LATERAL VIEW explode(array(1)) t AS x", "java_method('x', 'y')", "array<" * 400 + "int" + ">" * 400, "struct<a:" * 200, "decimal(99,-1)", "map<int,int>",
    "<script>alert(1)</script>", "![x](http://planted/x.png)", "[x](javascript:alert(1))", "@everyone", "```", "~~~", "<!-- x -->", "| a | b |", "&lt;", "</details>", "# x",
    "null", "true", "1e999", "0x10", "1_000", "2013-02-30", "NaN", "Infinity", "__proto__", "__class__", "day0.csv", "events", "sha256:0", "20991231235959999", "00000000000000000", "x" * 20,
    "120MiB", "-1MiB", "99999999999999999999PiB", "1d", "-5d", "99999999999d", "0.0000000000001GiB", "auto",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 2**70, 10**400, 0.5, -0.0, 1e308, math.nan, math.inf, -math.inf,
    [], {}, [None], {"a": 1}, {"": ""}, [[[]]], ["x"] * 2_000, {f"k{n}": n for n in range(500)}, NESTED, {"environment_text": "${AWS_SECRET_ACCESS_KEY}"},
)  # fmt: skip


def content_of(path: Path) -> bytes:
    """What is in a file; OSError where an earlier change left no plain file, or a large one."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > 20_000_000:
        raise FileNotFoundError(str(path))
    return path.read_bytes()


def attempt(way: Callable[..., str], *arguments: Any) -> str:
    """What a way changed; nothing where an earlier change left no room for it."""
    try:
        return way(*arguments)
    except (OSError, ValueError, RecursionError):
        return "nothing"


def hostile(rng: Random) -> Any:
    """Mostly a text."""
    return rng.choice(TEXTS) if rng.random() < 0.7 else copy.deepcopy(rng.choice(OTHERS))


def paths_of(value: Any, path: Place = ()) -> Iterator[Place]:
    """The path of every value within a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from paths_of(child, (*path, key))


def changed(document: Any, rng: Random) -> tuple[Any, str]:
    """The document with one value replaced, dropped, added, renamed or doubled, and what was done."""
    changed = copy.deepcopy(document)
    places = [path for path in paths_of(changed) if path]
    how = rng.choice(["replace", "replace", "replace", "drop", "add", "rename", "move"])
    if not places:
        return hostile(rng), "the whole replaced"
    place = rng.choice(places)
    holder = changed
    for step in place[:-1]:
        holder = holder[step]
    value = hostile(rng)
    match how:
        case "replace":
            holder[place[-1]] = value
        case "drop":
            del holder[place[-1]]
        case "rename" if isinstance(holder, dict):
            holder[value if isinstance(value, str) else "renamed"] = holder.pop(place[-1])
        case "move":
            other = changed
            for step in rng.choice(places):
                other = other[step]
            holder[place[-1]] = copy.deepcopy(other)
        case _ if isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = value
        case _:
            holder.append(value)
    return changed, f"{how} {place!r:.100} {value!r:.80}"


def changed_bytes(content: bytes, rng: Random) -> tuple[bytes, str]:
    """Some bytes flipped, cut, doubled or put in."""
    how = rng.choice(["flip", "flip", "cut", "double", "insert", "empty", "zeros", "tail"])
    start = rng.randrange(len(content) + 1)
    length = rng.choice([1, 2, 8, 64, 1024])
    match how:
        case "flip":
            flipped = bytearray(content)
            for _ in range(rng.choice([1, 1, 4, 16])):
                if flipped:
                    flipped[rng.randrange(len(flipped))] = rng.choice(
                        [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)]
                    )
            return bytes(flipped), how
        case "cut":
            return content[:start], f"cut at {start}"
        case "double":
            return content[:start] + content[start : start + length] * 3 + content[
                start:
            ], f"double at {start}"
        case "insert":
            return content[:start] + rng.randbytes(length) + content[start:], f"insert at {start}"
        case "empty":
            return b"", how
        case "zeros":
            return b"\0" * len(content), how
        case _:
            # What ends many formats: lengths of footers.
            return content[:-8] + rng.randbytes(8), how
