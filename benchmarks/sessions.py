"""Seeded sessions as ingestion leaves them: events in order of arrival, in many small files.

Every session has a random 64-bit id as text and about twenty events within minutes, so that each file
holds ids from one end of their range to the other.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS, FILES, EVENTS = 20_000_000, 1_400, 20
DAYS = 30
MICROSECONDS = 1_000_000


def prepare(folder: Path, *, scale: float) -> dict[str, object]:
    """Make the files below ``folder/small`` once; how many rows they hold, and ids to ask for."""
    done = folder / "prepared.json"
    if done.exists():
        return json.loads(done.read_text())
    small = folder / "small"
    small.mkdir(parents=True, exist_ok=True)
    rows, files = int(ROWS * scale), max(10, round(FILES * scale))
    sessions = rows // EVENTS
    random = np.random.default_rng(20240601)
    ids = pa.array([f"{value:016x}" for value in random.integers(0, 1 << 63, sessions)])
    countries = pa.array([f"country-{number:03d}" for number in range(200)])
    pages = pa.array([f"/shop/category-{number % 40:02d}/item-{number:05d}" for number in range(5_000)])
    started = np.sort(random.integers(0, DAYS * 86_400 * MICROSECONDS, sessions))
    session = random.integers(0, sessions, rows)
    at = started[session] + (random.exponential(300, rows) * MICROSECONDS).astype("int64")
    order = np.argsort(at, kind="stable")
    session, at = session[order], at[order]
    where = random.zipf(1.3, sessions) % len(countries)
    bounds = np.linspace(0, rows, files + 1).astype(int)
    for number in range(files):
        first, last = bounds[number], bounds[number + 1]
        part = session[first:last]
        count = last - first
        key = pc.binary_join_element_wise("e", pa.array(np.arange(first, last)).cast(pa.string()), "-")
        table = pa.table(
            {
                "k": key,
                "ts": pa.array(np.full(count, 1, "int64")),
                "session_id": ids.take(pa.array(part)),
                "at": pa.array(at[first:last], pa.timestamp("us", "UTC")),
                "country": countries.take(pa.array(where[part])),
                "page": pages.take(pa.array(random.integers(0, len(pages), count))),
                "milliseconds": pa.array(random.exponential(20_000, count).astype("int32")),
            }
        )
        pq.write_table(table, small / f"{number:05d}.parquet", compression="zstd")
    asked, _ = np.unique(random.choice(session, 400), return_index=True)
    wanted = [ids[int(number)].as_py() for number in random.permutation(asked)[:20]]
    counts = {"rows": rows, "files": files, "wanted": wanted}
    done.write_text(json.dumps(counts))
    return counts
