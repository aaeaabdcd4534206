"""Changes of layouts drawn at random: what a plan says they cost, and what was measured when they were done."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import pyarrow as pa

from parquetry.compiler.evidence import figures as evidence_figures
from parquetry.compiler.evidence.costs import requests_of
from parquetry.compiler.evidence.figures import figures_of
from parquetry.compiler.evidence.model import TableFigures
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.work import ClusteringWork
from parquetry.runtime.clustering.plan.history import past_work
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.inserted_rows import insert_rows
from tests.support.one_process_spark import OneProcessSpark
from tests.support.predicted import KINDS, Kind, Rows, drawn_conditions
from tests.support.project_folder import PROJECT, ProjectFolder
from tests.support.small_table import FAST

NOW: Final = 1_800_000_000_000
PRICES: Final = {"currency": "EUR", "storage_gib_month": 0.02, "core_hour": 0.05, "scanned_tib": 5}
_WORDS: Final = (
    "connect",
    "timeout",
    "retry",
    "user",
    "opened",
    "closed",
    "payment",
    "failed",
    "page",
    "cache",
)


def logs(rng: np.random.Generator, count: int) -> Rows:
    """Arriving in order of time, with long texts of few words, and services by Zipf's law."""
    words = rng.integers(0, len(_WORDS), (count, 12))
    return {
        "at": pa.array(np.sort(rng.integers(0, 10**12, count))),
        "service": pa.array([f"svc-{number}" for number in np.minimum(rng.zipf(1.6, count), 200)]),
        "status": pa.array(rng.choice([200, 200, 200, 404, 500], count).astype(np.int32)),
        "message": pa.array([" ".join(_WORDS[word] for word in line) for line in words]),
    }


def metrics(rng: np.random.Generator, count: int) -> Rows:
    """Sensors one after the other in every second, each with values near those before."""
    return {
        "second": pa.array(np.arange(count) // 50),
        "sensor": pa.array(np.arange(count) % 50),
        "value": pa.array(np.round(np.cumsum(rng.normal(0, 0.1, count)), 3)),
        "quality": pa.array((rng.random(count) < 0.01).astype(np.int32)),
    }


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A kind of table, and the layouts that its changes are between."""

    rows: Any
    columns: Mapping[str, str]
    layouts: tuple[tuple[str, tuple[str, ...]], ...]
    asked: tuple[str, ...]


def _known(kind: Kind, *layouts: tuple[str, tuple[str, ...]]) -> _Table:
    return _Table(
        rows=kind.rows, columns={c.name: c.type for c in kind.columns}, layouts=layouts, asked=kind.asked
    )


_SESSIONS, _FLIGHTS, _LINEITEM = KINDS
_TABLES: Final = (
    _known(
        _SESSIONS,
        ("sort", ("session_id",)),
        ("sort", ("user", "started_at")),
        ("zorder", ("user", "started_at")),
        ("sort", ("country",)),
    ),
    _known(
        _FLIGHTS,
        ("sort", ("dest",)),
        ("hilbert", ("departed_at", "distance")),
        ("zorder", ("distance", "delay")),
        ("sort", ("origin", "dest")),
    ),
    _known(
        _LINEITEM,
        ("zorder", ("l_partkey", "l_suppkey")),
        ("sort", ("l_shipdate",)),
        ("sort", ("l_partkey",)),
        ("hilbert", ("l_shipdate", "l_quantity")),
    ),
    _Table(
        rows=logs,
        columns={"at": "bigint", "service": "string", "status": "int", "message": "string"},
        layouts=(("sort", ("service", "at")), ("sort", ("message",)), ("zorder", ("at", "status"))),
        asked=("at", "service", "status"),
    ),
    _Table(
        rows=metrics,
        columns={"second": "bigint", "sensor": "bigint", "value": "double", "quality": "int"},
        layouts=(("sort", ("sensor", "second")), ("zorder", ("sensor", "value")), ("sort", ("value",))),
        asked=("second", "sensor", "value"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Held:
    """A range that a plan predicted, and what was measured."""

    what: str
    predicted: PredictionInterval
    measured: int

    @property
    def is_within(self) -> bool:
        return self.measured in self.predicted


@dataclass(frozen=True, kw_only=True)
class CostedChange:
    """One change: its name, whether rows were sampled, how many clusterings came before, and all ranges."""

    name: str
    sampled: bool
    history: int
    read_bytes: int
    predicted_bytes: int
    held: tuple[Held, ...]
    work: tuple[ClusteringWork, ...]
    figures: TableFigures
    after: TableFigures


def costed_change(seed: int, folder: Path, *, sampled: bool) -> CostedChange:
    """The change of that number: a table written in small files, perhaps clustered some times, then changed."""
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    table = draw.choice(_TABLES)
    rows, files = draw.choice((20_000, 60_000, 120_000)), draw.choice((4, 8, 16))
    history, size = draw.choice((0, 0, 1, 3)), draw.choice(("256KiB", "512KiB", "1MiB"))
    arriving = pa.table(dict(table.rows(rng, rows * (history + 1))))
    asked = [(f"q{n}", where) for n, where in enumerate(drawn_conditions(rng, arriving, table.asked, 3))]
    spec = {
        "apiVersion": "parquetry/v1",
        "kind": "table",
        "name": "changed",
        "columns": [{"name": name, "type": kind} for name, kind in table.columns.items()],
        "sizing": {"max_file_size": size, "small_file_limit": "0B"},
        "files": {
            "row_group_size": draw.choice(("64KiB", "128KiB", "256KiB")),
            "compression": draw.choice(("zstd", "zstd", "snappy")),
        },
        "queries": [{"name": name, "where": where, "runs_per_day": 10} for name, where in asked],
    }
    old = draw.choice((("stitch", ()), *table.layouts))
    new = draw.choice([layout for layout in (*table.layouts, ("stitch", ())) if layout != old])
    project = _project(folder, spec)
    store = open_store(project.root / "warehouse/changed")
    parts = _parts(arriving, files, history + 1)
    for _ in range(history):
        _fill(store, next(parts))
        _declare(project, spec, old, size)
        _cluster(store)
    _fill(store, next(parts))
    return _changed(
        project, store, spec, new, size, sampled=sampled, name=f"{seed}: {old[0]} to {new}", history=history
    )


def _changed(
    project: ProjectFolder,
    store: ObjectStore,
    spec: Mapping[str, Any],
    layout: tuple[str, tuple[str, ...]],
    size: str,
    *,
    sampled: bool,
    name: str,
    history: int,
) -> CostedChange:
    project.write("tables/changed.yml", dict(spec) | {"clustering": _clustering(layout, size)})
    with nullcontext() if sampled else mock.patch.object(evidence_figures, "predict", return_value={}):
        plan = plan_workspace(project.workspace(), now_ms=NOW)
    figures = plan.evidence.figures["changed"]
    assert figures.costs is not None
    assert apply_plan(plan, project.workspace()).failure is None
    handle = open_table(store)
    before = len(past_work(handle, handle.timeline()))
    while _cluster(store):
        pass
    handle = open_table(store)
    work = past_work(handle, handle.timeline())[before:]
    assert handle.spec is not None
    after = figures_of(handle, handle.spec, handle.spec, budget_bytes=2**40).figures
    forecast = figures.costs.forecast
    held = [
        Held(
            what="bytes",
            predicted=forecast.work.written_bytes,
            measured=sum(one.written_bytes for one in work),
        ),
        Held(
            what="time",
            predicted=forecast.work.core_milliseconds,
            measured=sum(one.core_milliseconds for one in work),
        ),
    ]
    now = {query.query: query.now for query in after.queries}
    for query in forecast.queries:
        read = now[query.query]
        held.append(Held(what="scans", predicted=query.expected_bytes, measured=read.data_bytes))
        held.append(Held(what="requests", predicted=query.expected_requests, measured=requests_of(read)))
    return CostedChange(
        name=name,
        sampled=sampled,
        history=history,
        read_bytes=sum(one.read_bytes for one in work),
        predicted_bytes=forecast.work.read_bytes,
        held=tuple(held),
        work=work,
        figures=figures,
        after=after,
    )


def _project(root: Path, spec: Mapping[str, Any]) -> ProjectFolder:
    folder = ProjectFolder.create(root)
    (root / "tables/orders.yml").unlink()
    folder.project(targets={"dev": PROJECT["targets"]["dev"] | {"prices": PRICES}})
    folder.write("tables/changed.yml", dict(spec))
    _apply(folder)
    return folder


def _declare(
    folder: ProjectFolder, spec: Mapping[str, Any], layout: tuple[str, tuple[str, ...]], size: str
) -> None:
    folder.write("tables/changed.yml", dict(spec) | {"clustering": _clustering(layout, size)})
    _apply(folder)


def _clustering(layout: tuple[str, tuple[str, ...]], size: str) -> dict[str, Any]:
    strategy, columns = layout
    execution = {"strategy": strategy} | ({"columns": list(columns)} if columns else {})
    return {
        "trigger": "async",
        "plan": {"target_file_size": size, "small_file_limit": size},
        "execution": execution,
    }


def _apply(folder: ProjectFolder) -> None:
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None


def _parts(arriving: pa.Table, files: int, rounds: int) -> Iterator[list[pa.Table]]:
    each = arriving.num_rows // rounds // files
    for number in range(rounds):
        yield [arriving.slice((number * files + file) * each, each) for file in range(files)]


def _fill(store: ObjectStore, parts: list[pa.Table]) -> None:
    for part in parts:
        insert_rows(store, part)


def _cluster(store: ObjectStore) -> bool:
    return bool(cluster(OneProcessSpark(), open_table(store), timing=FAST).instants)
