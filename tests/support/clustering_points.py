"""Clustering executed on rows in memory: files are points that are put in order and cut by the writer's sizer."""

from __future__ import annotations

import itertools
import random

import numpy as np

from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.run_budget import RunBudget, limited_to_budget
from parquetry.runtime.layout.curves import hilbert_index, z_index
from tests.support.clustering_model import file, rows_by_file

BITS = 16
ROWS_OF_A_TARGET = 40


def points_by_file(seed, files, *, spread, sizes=(0.92, 1.6)):
    """So many lists of points in two columns; each lies within a share of the values that ``spread`` has."""
    rng = random.Random(seed)
    found = []
    for _ in range(files):
        width = max(int(rng.choice(spread) * 2**BITS), 2)
        low = rng.randrange(2**BITS - width + 1)
        rows = int(rng.uniform(*sizes) * ROWS_OF_A_TARGET)
        found.append([(low + rng.randrange(width), rng.randrange(2**BITS)) for _ in range(rows)])
    return found


def put_in_order(points, strategy):
    if strategy == "sort":
        return sorted(points)
    index = z_index if strategy == "zorder" else hilbert_index
    columns = [np.array(column, np.uint64) for column in zip(*points, strict=True)]
    return [points[place] for place in np.argsort(index(columns, bits=BITS), kind="stable")]


def cluster_points(content, spec, around, *, budget):
    """Plans and executes until nothing is due: the instants it took, bytes rewritten and bytes there are."""
    row_bytes = spec.plan.target_file_size_bytes // ROWS_OF_A_TARGET
    points = {}

    def made(name, rows, instant, digest):
        points[name] = rows
        a, b = zip(*rows, strict=True)
        ends = {"a": (min(a), max(a)), "b": (min(b), max(b))}
        size = len(rows) * row_bytes
        return file(name, size, rows=len(rows), instant=instant, digest=digest, **ends)

    files = [made(f"f{number}", rows, "1", None) for number, rows in enumerate(content)]
    total = sum(member.size_bytes for member in files)
    rewrote = 0
    for instant in itertools.count(1000):
        owed = compute_debt(spec, files, around, budget_bytes=budget)
        plan = limited_to_budget(owed, RunBudget(limit_bytes=budget), max_groups=spec.plan.max_groups)
        if not plan.groups:
            return instant - 1000, rewrote, total
        rewrote += plan.rewritten_bytes
        assert rewrote < 50 * total, "the plans do not come to an end"
        gone = {member.key for group in plan.groups for member in group.files}
        files = [member for member in files if member.key not in gone]
        for number, group in enumerate(plan.groups):
            rows = [point for member in group.files for point in points.pop(member.file_id)]
            rest = iter(put_in_order(rows, spec.execution.strategy))
            for index, count in enumerate(rows_by_file(spec, len(rows), before=row_bytes, after=row_bytes)):
                name = f"{instant}-{number}-{index}"
                part = list(itertools.islice(rest, count))
                files.append(made(name, part, str(instant), spec.execution.digest))
    raise AssertionError
