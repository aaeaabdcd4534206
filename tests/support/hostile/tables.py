"""Hostile tables: timelines, properties, records of ours, base files, and what else lies in a table's folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import fastavro

from parquetry.runtime.spec.codec import digest_of
from tests.support.hostile.projects import put_instead
from tests.support.hostile.sandbox import Sandbox
from tests.support.hostile.values import NESTED_JSON, TEXTS, attempt, changed, changed_bytes, hostile

STATES = (
    "commit", "commit.requested", "inflight", "replacecommit", "replacecommit.requested", "replacecommit.inflight", "clean", "clean.requested", "clean.inflight",
    "rollback", "rollback.requested", "rollback.inflight", "savepoint", "savepoint.inflight", "restore", "restore.requested", "restore.inflight",
    "deltacommit", "compaction.requested", "indexing", "logcompaction.inflight", "unknown", "commit_20261123",
)  # fmt: skip
TIMES = (
    "20261123000000001", "20991231235959999", "00000000000000000", "99999999999999999", "20260101000100000", "2026", "20261332256161999", "x", "..", "\n", "２０２６１１２３００００００００１",
    "20261123000000000", "-0261123000000000", "202611230000000001",
)  # fmt: skip


def mutate(sandbox: Sandbox, rng: Random) -> list[str]:
    """Change one to three things of a table of the project or of a loose one; what, for the report."""
    table = rng.choice(
        [
            sandbox.warehouse / "events",
            sandbox.warehouse / "events",
            sandbox.warehouse / "events",
            sandbox.loose,
            sandbox.warehouse / "orders",
        ]
    )
    ways = (
        _json,
        _json,
        _json,
        _record,
        _record,
        _record,
        _avro,
        _avro,
        _bytes,
        _bytes,
        _properties,
        _properties,
        _instant,
        _special,
        _partition,
        _base_file,
        _sidecar,
        _lock,
    )
    said = [attempt(rng.choice(ways), table, sandbox, rng) for _ in range(rng.choice([1, 1, 2, 3]))]
    return [f"{table.name}: {line}" for line in said]


def _files(table: Path, *below: str) -> list[Path]:
    """Real files of the table, in the order of their names; a tree of links is not followed."""
    found = []
    for folder, folders, names in os.walk(table / Path(*below)):
        folders.sort()
        found += [Path(folder, name) for name in sorted(names)]
    return [
        path
        for path in found
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 10_000_000
    ]


def _parsed(paths: list[Path]) -> list[tuple[Path, Any]]:
    found = []
    for path in paths:
        try:
            found.append((path, json.loads(path.read_bytes())))
        except (ValueError, RecursionError):
            continue
    return found


def _json(table: Path, sandbox: Sandbox, rng: Random) -> str:
    """A value of any JSON in the table."""
    files = _parsed(_files(table, ".hoodie"))
    if not files:
        return "nothing"
    path, document = rng.choice(files)
    if rng.random() < 0.1:
        path.write_bytes(
            rng.choice(
                [
                    NESTED_JSON.encode(),
                    b'{"a": ' * 50_000,
                    b"[]",
                    b"null",
                    b"1" * 6_000,
                    b'"x"',
                    b"{}",
                    b"\xef\xbb\xbf{}",
                    b'{"a": 1, "a": 2}',
                ]
            )
        )
        return f"{path.name}: another document"
    new, how = changed(document, rng)
    path.write_bytes(json.dumps(new).encode())
    return f"{path.name}: {how}"


def _record(table: Path, sandbox: Sandbox, rng: Random) -> str:
    """Records of ours, with digests that fit."""
    files = _parsed(
        [*_files(table, ".hoodie", ".parquetry", "applied"), *_files(table, ".hoodie", ".parquetry")[-1:]]
    )
    if not files:
        return "nothing"
    path, document = rng.choice(files)
    how = ""
    if isinstance(document, dict) and rng.random() < 0.4:
        key = rng.choice(
            [
                "git_commit",
                "plan_id",
                "target",
                "digest",
                "applied_at_ms",
                "format",
                "parquetry",
                "forgotten",
                "nonce",
                "id",
                "project",
                "first_instant",
            ]
        )
        document[key] = hostile(rng)
        how = f"{key} {document[key]!r:.80}"
    elif isinstance(document, dict) and isinstance(document.get("spec"), dict):
        document["spec"], how = changed(document["spec"], rng)
    if isinstance(document, dict) and "spec" in document and "digest" in document and rng.random() < 0.8:
        try:
            document["digest"] = digest_of(document["spec"])
        except (ValueError, RecursionError):
            how += ", no digest"
    if path.parent.name == "applied" and rng.random() < 0.3:
        path = path.with_name(
            rng.choice(
                [
                    "00000000000000000002.json",
                    "99999999999999999999.json",
                    "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٣.json",
                    "2.json",
                    "00000000000000000000.json",
                ]
            )
        )
    path.write_bytes(json.dumps(document).encode())
    return f"{path.name}: {how}"


def _avro(table: Path, sandbox: Sandbox, rng: Random) -> str:
    """A value of an Avro record, written by its own schema."""
    files = [path for path in _files(table, ".hoodie") if path.read_bytes()[:4] == b"Obj\x01"]
    if not files:
        return "nothing"
    path = rng.choice(files)
    with path.open("rb") as source:
        try:
            reader = fastavro.reader(source)
            schema, records = reader.writer_schema, list(reader)
        except Exception:  # damaged by an earlier change
            return "nothing"
    for _ in range(20):  # most values do not fit the schema
        new, how = changed(records, rng)
        try:
            with path.open("wb") as sink:
                fastavro.writer(sink, schema, new)
        except Exception:
            continue
        return f"{path.name}: {how}"
    with path.open("wb") as sink:
        fastavro.writer(sink, schema, records * 2)
    return f"{path.name}: twice"


def _bytes(table: Path, sandbox: Sandbox, rng: Random) -> str:
    files = _files(
        table, *rng.choice([(), (".hoodie",), (".hoodie", ".parquetry", "stats"), (".hoodie", "archived")])
    )
    if not files:
        return "nothing"
    path = rng.choice(files)
    content, how = changed_bytes(path.read_bytes(), rng)
    path.write_bytes(content)
    return f"{path.name}: {how}"


def _properties(table: Path, sandbox: Sandbox, rng: Random) -> str:
    path = table / ".hoodie" / "hoodie.properties"
    if not path.is_file() or path.is_symlink() or path.stat().st_size > 10_000_000:
        return "nothing"
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    keys = [line.partition("=")[0] for line in lines if "=" in line] or ["x"]
    more = ["hoodie.table.type", "hoodie.table.base.file.format", "hoodie.archivelog.folder", "hoodie.timeline.path", "parquetry.lock.path", "hoodie.table.metadata.partitions",
            "hoodie.bootstrap.base.path", "hoodie.table.timeline.timezone", "hoodie.table.partition.fields", "hoodie.table.name", "hoodie.table.create.schema", "hoodie.timeline.layout.version"]  # fmt: skip
    key = rng.choice([*keys, *more])
    value = rng.choice(
        [
            *TEXTS,
            "MERGE_ON_READ",
            "../..",
            "../../../outside",
            str(sandbox.root / "outside"),
            "\\u0000",
            "\\uD800",
            "\\",
            "x\\",
        ]
    )
    how = rng.choice(["set", "set", "twice", "drop", "garbage", "many"])
    rest = [line for line in lines if not line.startswith(f"{key}=")]
    match how:
        case "set":
            lines = [*rest, f"{key}={value}"]
        case "twice":
            lines = [*lines, f"{key}={value}"]
        case "drop":
            lines = rest
        case "garbage":
            lines.insert(rng.randrange(len(lines) + 1), value)
        case _:
            lines += [f"k{n}=v" for n in range(100_000)]
    path.write_bytes("\n".join(lines).encode("utf-8", errors="surrogatepass"))
    return f"hoodie.properties: {how} {key}={value!r:.80}"


def _instant(table: Path, sandbox: Sandbox, rng: Random) -> str:
    """A file of the timeline under another name, or one more."""
    files = [
        path for path in _files(table, ".hoodie") if path.parent.name == ".hoodie" and path.name[:2] == "20"
    ]
    if not files:
        return "nothing"
    path = rng.choice(files)
    time, _, state = path.name.partition(".")
    name = f"{rng.choice([*TIMES, time, time])}.{rng.choice([*STATES, state])}".replace("/", "_")
    try:
        path.with_name(name).write_bytes(rng.choice([path.read_bytes(), b"", b"{}", rng.randbytes(50)]))
    except (OSError, ValueError):
        return "nothing"
    if rng.random() < 0.4:
        path.unlink()
    return f"{path.name} as {name!r}"


def _special(table: Path, sandbox: Sandbox, rng: Random) -> str:
    files = _files(table, *rng.choice([(".hoodie",), (".hoodie",), (".hoodie", ".parquetry"), ()]))
    folders = sorted({path.parent for path in files})
    if not folders:
        return "nothing"
    if rng.random() < 0.3:
        path = rng.choice(folders)
        if path in (table, table / ".hoodie"):
            return "nothing"
        path.rename(sandbox.root / f"{path.name}.away")
    else:
        path = rng.choice(files)
    if path.name.startswith(".commits_"):
        return "nothing"
    return f"{path.relative_to(table)}: {put_instead(path, sandbox, rng)}"


def _partition(table: Path, sandbox: Sandbox, rng: Random) -> str:
    """A folder with a name of its own."""
    text = rng.choice(TEXTS).replace("\0", "")[:80]
    name = rng.choice(["", "p="]) + text
    folder = Path(os.path.normpath(table / name.replace("..", "._").lstrip("/")))
    sources = [path for path in _files(table) if path.suffix == ".parquet"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        meta = rng.choice(
            [
                "commitTime=20261123000000001\npartitionDepth=1\n",
                "",
                "partitionDepth=-1\n",
                "partitionDepth=999999999\n",
                "x" * 100_000,
                "partitionDepth=٣\n",
            ]
        )
        (folder / ".hoodie_partition_metadata").write_text(meta, encoding="utf-8")
        if sources:
            source = rng.choice(sources)
            (
                folder
                / rng.choice(
                    [source.name, "x.parquet", source.name.replace("_", "\n"), f"a_b_{TIMES[0]}.parquet"]
                )
            ).write_bytes(source.read_bytes())
    except (OSError, ValueError):
        return "nothing"
    return f"partition {name!r}"


def _base_file(table: Path, sandbox: Sandbox, rng: Random) -> str:
    """The footer of a base file, and its length."""
    sources = [path for path in _files(table) if path.suffix == ".parquet"]
    if not sources:
        return "nothing"
    path = rng.choice(sources)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = bytearray(content[-8 - length : -8])
    for _ in range(rng.choice([1, 1, 3, 10])):
        if footer:
            footer[rng.randrange(len(footer))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    claimed = rng.choice([length, length, length, 0, 1, 2**31 - 1, 2**32 - 1, len(content)])
    path.write_bytes(
        content[: -8 - length]
        + bytes(footer)
        + claimed.to_bytes(4, "little")
        + rng.choice([b"PAR1", b"PAR1", b"PAR1", b"PARE"])
    )
    return f"{path.name}: footer"


def _sidecar(table: Path, sandbox: Sandbox, rng: Random) -> str:
    """More files where ours lie: under hostile names, by kinds of content that are elsewhere."""
    sidecars = _files(table, ".hoodie", ".parquetry")
    content = rng.choice(sidecars).read_bytes() if sidecars else b"{}"
    folder = rng.choice(
        [
            "instants",
            "stats",
            "sources/feed",
            "abandoned",
            "unpublished",
            "applied",
            "breaking",
            "stage",
            "sources",
            "../.aux",
            "../.temp",
            "../.heartbeat",
            "../archived",
        ]
    )
    text = rng.choice([*TEXTS, *TIMES]).replace("/", "_").replace("\0", "")[:60]
    name = f"{text}{rng.choice(['', '.json', '.statistics', '.folded', '.sample'])}"
    try:
        path = table / ".hoodie" / ".parquetry" / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            rng.choice(
                [content, b"", b"{}", b"[]", NESTED_JSON.encode(), rng.randbytes(100), b'{"format": 99}']
            )
        )
    except (OSError, ValueError):
        return "nothing"
    return f"{folder}/{name!r}"


def _lock(table: Path, sandbox: Sandbox, rng: Random) -> str:
    path = table / ".hoodie" / ".aux" / "lock"
    if path.is_dir() and not path.is_symlink():
        return "nothing"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    owner = {
        "host": hostile(rng),
        "boot": hostile(rng),
        "pid": hostile(rng),
        "start": hostile(rng),
        "nonce": hostile(rng),
        "instant": rng.choice([*TIMES, hostile(rng)]),
    }
    path.write_bytes(
        rng.choice([json.dumps(owner).encode(), b"", b"{}", NESTED_JSON.encode(), rng.randbytes(50)])
    )
    return "lock"
