"""Clustering executed on paper: what the files of a table are after a plan, without any file."""

from __future__ import annotations

import itertools
from collections import Counter

from parquetry.runtime.clustering.forecast.predicted_files import RowSizes, expected_row_groups
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import ClusteringFile, Situation
from parquetry.runtime.layout.clustering.run_budget import RunBudget, limited_to_budget
from parquetry.runtime.layout.clustering.sizes import SizeLimits
from parquetry.runtime.layout.packing import FILL_SHARE
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy

MIB = 1024 * 1024
TARGET = 120 * MIB


def maximum_for(target):
    """The least maximum under which files are filled to the target."""
    return -int(-target // FILL_SHARE)


MAXIMUM = maximum_for(TARGET)


def policy(strategy="size", *, columns=("a",), order="sort", **plan):
    execution = ExecutionPolicy(strategy=order, columns=columns) if columns else ExecutionPolicy()
    return ClusteringSpec(plan=PlanPolicy(strategy=strategy, **plan), execution=execution)


def situation(**changes):
    return Situation(**{"max_file_size_bytes": MAXIMUM, **changes})


def column(low, high, *, nulls=0, kind="bigint"):
    return ColumnStatistics(type=kind, minimum=low, maximum=high, nulls=nulls)


def file(name, size, *, partition="", instant="1", digest=None, rows=1000, **bounds):
    return ClusteringFile(
        partition=partition,
        file_id=name,
        instant=instant,
        path=f"{partition}/{name}_0-0-0_{instant}.parquet".lstrip("/"),
        size_bytes=size,
        rows=rows,
        digest=digest,
        columns={name: column(*ends) for name, ends in bounds.items()},
    )


def rewritten(files, groups, spec, around, *, instant, shrink=1.0):
    """The files after the groups were executed in one replacecommit, cut by the writer's sizer.

    ``shrink`` is how large the rows, all of one size, are afterwards. Columns are cut into ranges that touch.
    """
    gone = {member.key for group in groups for member in group.files}
    kept = [member for member in files if member.key not in gone]
    fresh = []
    for number, group in enumerate(groups):
        size = int(group.size_bytes * shrink)
        rows = sum(member.rows for member in group.files)
        counts = rows_by_file(
            spec,
            rows,
            before=group.size_bytes / rows,
            after=size / rows,
            most=around.max_file_size_bytes,
        )
        ends = [size * end // rows for end in itertools.accumulate(counts, initial=0)]
        fresh += [
            file(
                f"{instant}-{number}-{index}",
                ends[index + 1] - ends[index],
                partition=group.partition,
                instant=instant,
                digest=spec.execution.digest,
                rows=count,
                **_bounds(group, index, len(counts)),
            )
            for index, count in enumerate(counts)
        ]
    return kept + fresh


def rows_by_file(spec, rows, *, before, after, most=MAXIMUM):
    """How many of the rows, which take so many bytes each, the writer puts into each file."""
    if not after:
        return [rows]
    sizes = RowSizes(before=before, after=after)
    target = spec.plan.target_file_size_bytes
    found = Counter()
    limits = {"target_bytes": min(target, most), "most_bytes": most}
    for piece in expected_row_groups([rows], sizes, **limits, row_group_size_bytes=None):
        found[piece.file] += piece.end - piece.first
    return list(found.values())


def limits_of(spec, around):
    return SizeLimits.of(spec.plan, max_file_size_bytes=around.max_file_size_bytes)


def _bounds(group, index, outputs):
    """The first column is sorted, further ones keep their whole range."""
    names = set.intersection(*(set(member.columns) for member in group.files))
    found = {}
    for position, name in enumerate(sorted(names)):
        low = min(member.columns[name].minimum for member in group.files)
        high = max(member.columns[name].maximum for member in group.files)
        if position == 0:
            width = high - low
            low, high = low + width * index // outputs, low + width * (index + 1) // outputs
        found[name] = (low, high)
    return found


def run_until_empty(files, spec, around, *, budget=None, shrink=1.0, batches=1, most_rounds=50):
    """The files when nothing is due any more, how many plans that took, and the bytes they rewrote."""
    rewrote = 0
    for instant in itertools.count(1000):
        rounds = instant - 1000
        owed = compute_debt(spec, files, around, budget_bytes=budget)
        plan = limited_to_budget(owed, RunBudget(limit_bytes=budget), max_groups=spec.plan.max_groups)
        if not plan.groups:
            return files, rounds, rewrote
        assert rounds < most_rounds, "the plans do not come to an end"
        rewrote += plan.rewritten_bytes
        for batch in range(batches):
            part = plan.groups[batch::batches]
            files = rewritten(files, part, spec, around, instant=f"{instant}.{batch}", shrink=shrink)
    raise AssertionError
