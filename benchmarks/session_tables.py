"""The tables of the session experiment, small files and clustered, kept so that another call finds them.

Each format writes the small files itself, in one commit, and clusters a copy of them. What that cost and which
files are live is written beside the tables when both are there; a call with other data, settings, versions
or code makes them anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.skipping import stored_bytes

HERE = Path(__file__).resolve().parent
COLUMN = "session_id"
STATES = ("before", "after")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a format's clustering cost, and the live files of both its tables."""

    cost: dict[str, Any]
    live: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Tables:
    """The folder of the tables of all formats, made from the same inputs with the same settings."""

    folder: Path
    settings: dict[str, str]
    inputs: Path
    counts: dict[str, Any]
    target: int

    def table(self, peer: str, state: str) -> str:
        """How a peer calls a table."""
        return str(self.folder / peer / state)

    def prepared(self, name: str) -> Prepared:
        """The tables of a format; made when they are not there."""
        of, note = self._identity(name), self.folder / f"{name}.json"
        if note.exists() and (known := json.loads(note.read_text()))["of"] == of:
            return Prepared(cost=known["cost"], live=known["live"])
        note.unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        made = self._make(name)
        partial = note.with_suffix(".partial")
        partial.write_text(json.dumps({"of": of, "cost": made.cost, "live": made.live}))
        partial.rename(note)
        print(f"{name}: {made.cost}", flush=True)
        return made

    def _identity(self, name: str) -> dict[str, Any]:
        """What the tables of a format depend on."""
        code = [*sorted((HERE / "workers").glob("*.py")), HERE / "sessions.py"]
        if name == "parquetry":
            code += sorted((HERE.parent / "runtime").rglob("*.py"))
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()
        return {
            "counts": self.counts,
            "settings": self.settings,
            "target": self.target,
            "version": peers.VERSIONS[name],
            "code": digest,
        }

    def _make(self, name: str) -> Prepared:
        peer = peers.start(name, self.folder, self.settings)
        source = str(self.inputs / "small")
        rows_per_file = -(-self.counts["rows"] // self.counts["files"])
        before, after = (self.table(name, state) for state in STATES)
        _, scattered = peer.do("scatter", table=before, source=source, rows_per_file=rows_per_file)
        if name == "iceberg":  # a catalogue knows its tables by place
            peer.do("scatter", table=after, source=source, rows_per_file=rows_per_file)
        else:
            shutil.copytree(before, after)
        load = round(os.getloadavg()[0], 1)
        _, cost = peer.do("cluster", table=after, layout="sort", columns=[COLUMN], target=self.target)
        live = {}
        for state in STATES:
            answer, _ = peer.do("count", table=self.table(name, state))
            if answer["rows"] != self.counts["rows"]:
                raise SystemExit(f"{name}, {state}: {answer['rows']} rows, {self.counts['rows']} expected")
            paths, _ = peer.do("paths", table=self.table(name, state))
            live[state] = paths["paths"]
        peer.close()
        row = {
            "cpu_seconds": round(cost.cpu_seconds, 2), "wall_seconds": round(cost.wall_seconds, 2),
            "scatter_cpu_seconds": round(scattered.cpu_seconds, 2),
            "scatter_wall_seconds": round(scattered.wall_seconds, 2),
            "load": load, "peak_rss_bytes": cost.peak_rss_bytes,
            "files": {state: len(live[state]) for state in STATES},
            "bytes": {state: sum(Path(path).stat().st_size for path in live[state]) for state in STATES},
            "stored_bytes": {state: stored_bytes(live[state]) for state in STATES},
        }  # fmt: skip
        return Prepared(cost=row, live=live)
