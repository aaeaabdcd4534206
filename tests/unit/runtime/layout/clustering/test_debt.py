"""Which files clustering picks, how it groups them, and what it says about the rest."""

from __future__ import annotations

import random
import re
import sys
from dataclasses import replace
from decimal import Decimal
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from parquetry.runtime.clustering.plan.avro import avro_plan
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering import strategies
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.depth import depths_of, value_order
from parquetry.runtime.layout.clustering.model import DueReason, ExclusionReason, PlannedGroup
from parquetry.runtime.layout.clustering.run_budget import NO_LIMIT, RunBudget, limited_to_budget
from parquetry.runtime.layout.clustering.sizes import SizeLimits
from parquetry.runtime.spec import plug_ins
from parquetry.runtime.spec.clustering import (
    ClusteringScope,
    ClusteringSpec,
    ExecutionPolicy,
    PartitionFilter,
    PlanPolicy,
)
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.clustering_plan import RequestedReplace
from tests.support.clustering_model import MAXIMUM, MIB, column, file, policy, rewritten, situation
from tests.support.effort import each_value_once

HEALTHY = 110 * MIB
SORT = ExecutionPolicy(strategy="sort", columns=("a",))
CURVE = ExecutionPolicy(strategy="zorder", columns=("a", "b"))


def due(spec, files, **around):
    """Reasons by file id, and why the others are left."""
    owed = compute_debt(spec, files, situation(**around))
    reasons = {name: why for group in owed.groups for name, why in group.reasons.items()}
    return reasons, {entry.file.file_id: entry.reason for entry in owed.excluded}


def test_a_table_without_the_section_is_sized_as_it_is_written():
    spec = ClusteringSpec.defaults_for(SizingPolicy(max_file_size_bytes=60 * MIB, small_file_limit_bytes=0))
    assert spec.plan.target_file_size_bytes == 60 * MIB
    assert spec.plan.small_file_limit_bytes == 50 * MIB


def test_the_digest_is_of_what_the_rows_look_like():
    assert (
        SORT.digest
        == ExecutionPolicy(strategy="sort", columns=("a",), scope=ClusteringScope.PARTITION).digest
    )
    others = [
        ExecutionPolicy(),
        ExecutionPolicy(strategy="sort", columns=("b",)),
        ExecutionPolicy(strategy="hilbert", columns=("a",)),
        replace(SORT, split_by=("c",)),
        replace(SORT, then=("prune",)),
    ]
    assert len({SORT.digest, *(other.digest for other in others)}) == 6
    assert SORT.digest == "6e95b3b019f3d5b0"


@pytest.mark.parametrize(
    ("size", "files"),
    [
        (0, [0]),
        (1, [1]),
        (123, [123]),
        (150, [120, 30]),
        (199, [120, 79]),
        (201, [100.5, 100.5]),
        (362, [362 / 3] * 3),
        (390, [120, 120, 120, 30]),
        (1200, [120] * 10),
        (1250, [1250 / 11] * 11),
    ],
)
def test_no_output_is_above_the_maximum_and_one_at_most_is_small(size, files):
    plan = PlanPolicy(target_file_size_bytes=120 * MIB, small_file_limit_bytes=120 * MIB)
    limits = SizeLimits.of(plan, max_file_size_bytes=MAXIMUM)
    assert [made / MIB for made in limits.outputs(size * MIB).sizes] == pytest.approx(files)


@pytest.mark.parametrize(
    ("size", "files"), [(150, [150]), (199, [199]), (201, [100.5] * 2), (1250, [125] * 10)]
)
def test_outputs_are_nearest_to_a_target_below_the_maximum(size, files):
    plan = PlanPolicy(target_file_size_bytes=120 * MIB, small_file_limit_bytes=120 * MIB)
    limits = SizeLimits.of(plan, max_file_size_bytes=240 * MIB)
    assert [made / MIB for made in limits.outputs(size * MIB).sizes] == pytest.approx(files)


def test_small_and_oversize_files_are_picked_by_size():
    spec = policy(columns=())
    files = [file("s1", 10 * MIB), file("s2", 20 * MIB), file("ok", HEALTHY), file("big", 300 * MIB)]
    reasons, left = due(spec, files)
    assert reasons == {"s1": DueReason.SMALL, "s2": DueReason.SMALL, "big": DueReason.OVERSIZE}
    assert left == {"ok": ExclusionReason.HEALTHY}


def test_oversize_is_above_the_larger_of_both_ceilings():
    spec = policy(columns=())
    assert due(spec, [file("big", 300 * MIB)], max_file_size_bytes=200 * MIB)[0] == {}
    assert due(spec, [file("big", 361 * MIB)], max_file_size_bytes=200 * MIB)[0] == {
        "big": DueReason.OVERSIZE
    }


def test_a_lone_small_file_has_nothing_to_be_merged_with():
    assert due(policy(columns=()), [file("s", MIB), file("ok", HEALTHY)])[1]["s"] is ExclusionReason.NO_GAIN


def test_files_that_the_policy_made_become_fewer_where_whole_ones_fit_into_one():
    """Rows of 60 MiB leave files of 60 MiB where the order does not let two be together: not again."""
    spec = policy(columns=())
    for share, fits in ((0.7, False), (0.55, False), (0.5, True), (0.2, True)):
        fresh = [file(f"f{n}", int(share * 120 * MIB)) for n in range(2)]
        made = [replace(one, digest=spec.execution.digest) for one in fresh]
        small = {"f0": DueReason.SMALL, "f1": DueReason.SMALL}
        assert due(spec, fresh)[0] == small, "one full file and a small one"
        assert due(spec, made)[0] == (small if fits else {})


@pytest.mark.parametrize(
    ("sizes", "rows", "into"),
    [
        ([300], 1, None),
        ([300], 2, 2),
        ([600], 2, None),
        ([1200], 4, None),
        ([1200], 6, 6),
        ([300, 1], 1, None),
    ],
)
def test_no_file_is_split_finer_than_into_rows(sizes, rows, into):
    files = [file(f"f{n}", size * MIB, rows=rows) for n, size in enumerate(sizes)]
    groups = compute_debt(policy(columns=()), files, situation()).groups
    assert [group.output_files for group in groups] == ([] if into is None else [into])


def test_a_single_row_is_not_rewritten_for_its_size(monkeypatch):
    files = [file("row", 300 * MIB, rows=1), file("s1", MIB, rows=1), file("s2", MIB, rows=1)]
    assert due(policy(columns=()), files) == (
        {"s1": DueReason.SMALL, "s2": DueReason.SMALL},
        {"row": ExclusionReason.NOT_PICKED},
    )
    pick_all = {"all": lambda members, _: {f.file_id: "all" for f in members}}
    monkeypatch.setattr(strategies, "BUILT_IN", pick_all)
    assert due(policy("all", columns=()), files[:2])[0] == {}


def test_another_policys_digest_makes_a_file_due_whatever_its_size():
    spec = policy()
    files = [
        file("applied", HEALTHY, digest=spec.execution.digest),
        file("older", HEALTHY, digest="other"),
        file("new", HEALTHY),
    ]
    assert due(spec, files) == (
        {"older": DueReason.POLICY, "new": DueReason.NEW},
        {"applied": ExclusionReason.HEALTHY},
    )


def test_where_rows_are_not_arranged_a_digest_does_not_matter():
    spec = policy(columns=())
    assert due(spec, [file("older", HEALTHY, digest="other"), file("new", HEALTHY)])[0] == {}


def test_keep_leaves_files_of_before_and_takes_those_born_since():
    spec = policy()
    files = [file("old", MIB, instant="1"), file("new", MIB, instant="3")]
    reasons, left = due(spec, files, kept_until="2")
    assert reasons == {"new": DueReason.SMALL}
    assert left == {"old": ExclusionReason.KEPT}


def test_reserved_files_are_left_with_the_reason():
    files = [file("s1", MIB), file("s2", MIB), file("s3", MIB)]
    owed = compute_debt(
        policy(columns=()), files, situation(reserved={("", "s2"): "the write 7 is about to change it"})
    )
    assert [(e.file.file_id, e.text) for e in owed.excluded] == [("s2", "the write 7 is about to change it")]


def test_partitions_that_are_not_chosen_are_left():
    spec = replace(policy(), plan=PlanPolicy(partitions=PartitionFilter(regex="p=1")))
    reasons, left = due(spec, [file("x", MIB, partition="p=1"), file("y", MIB, partition="p=2")])
    assert reasons == {"x": DueReason.SMALL}
    assert left == {"y": ExclusionReason.PARTITION}


def spread(count, *, width=None, **settings):
    """Files of good size over [0, 1000): disjoint neighbours, or each over all with ``width``."""
    ranges = [(0, width) if width else (10 * n, 10 * n + 10) for n in range(count)]
    return [file(f"f{n}", HEALTHY, a=ends, b=(0, 9), **settings) for n, ends in enumerate(ranges)]


def test_overlap_picks_a_table_of_good_sizes_that_is_not_sorted():
    reasons, _ = due(policy("overlap"), spread(6, width=1000))
    assert reasons == dict.fromkeys([f"f{n}" for n in range(6)], DueReason.OVERLAP)


def test_overlap_leaves_a_sorted_table_whoever_sorted_it():
    spec = policy("overlap")
    assert due(spec, spread(6))[0] == {}
    assert due(spec, spread(6, digest=spec.execution.digest))[0] == {}


def test_overlap_picks_files_of_an_older_policy_though_they_lie_in_order():
    reasons, _ = due(policy("overlap"), spread(3, digest="other"))
    assert set(reasons.values()) == {DueReason.POLICY}


def test_overlap_counts_what_one_clustering_wrote_as_one_run():
    spec = policy("overlap")
    digest = spec.execution.digest
    runs = [file(f"r{n}", HEALTHY, instant=str(n), digest=digest, a=(0, 100), b=(0, 1)) for n in range(5)]
    assert set(due(spec, runs)[0].values()) == {DueReason.OVERLAP}
    assert due(spec, runs[:4])[0] == {}
    assert due(spec, [replace(run, instant="1") for run in runs])[0] == {}


def test_files_in_order_are_not_merged_where_too_few_of_a_group_cover_the_same():
    """Wide ones over a row of narrow ones: all of it would be written again to spare each reader some files."""
    spec = policy("overlap", max_group_size_bytes=10**12)
    narrow = spread(40, instant="1", digest=spec.execution.digest)
    wide = [
        file(f"w{n}", HEALTHY, instant=f"2{n}", digest=spec.execution.digest, a=(0, 400), b=(0, 9))
        for n in range(5)
    ]
    assert set(due(spec, [*narrow, *wide])[0].values()) == {DueReason.OVERLAP}
    in_groups = replace(spec, plan=replace(spec.plan, max_group_size_bytes=4 * 120 * MIB))
    assert due(in_groups, [*narrow, *wide])[0] == {}


def test_files_in_order_are_not_rewritten_for_the_sake_of_new_ones():
    spec = policy("overlap")
    runs = [file(f"r{n}", HEALTHY, instant=str(n), digest=spec.execution.digest, a=(0, 9)) for n in range(4)]
    new = [file(f"n{n}", HEALTHY, instant="8", a=(0, 9)) for n in range(2)]
    assert due(spec, [*runs, *new])[0] == {"n0": DueReason.OVERLAP, "n1": DueReason.OVERLAP}


def test_overlap_of_constant_columns_is_none():
    files = [file(f"f{n}", HEALTHY, a=(7, 7), b=(7, 7)) for n in range(8)]
    for execution in (SORT, CURVE):
        assert set(depths_of(files, execution).values()) == {1}


def test_files_that_touch_do_not_cover_each_other():
    assert set(depths_of(spread(10), SORT).values()) == {1}
    assert set(depths_of(spread(10, width=50), SORT).values()) == {10}


def test_the_second_column_counts_where_the_first_has_one_value():
    both = replace(SORT, columns=("a", "b"))
    sorted_files = [file(f"f{n}", 1, a=(5, 5), b=(n, n + 1)) for n in range(4)]
    mixed = [file(f"f{n}", 1, a=(5, 5), b=(0, 9)) for n in range(4)]
    assert set(depths_of(sorted_files, both).values()) == {1}
    assert set(depths_of(mixed, both).values()) == {4}
    assert set(depths_of(mixed, SORT).values()) == {1}


def test_depth_is_the_deepest_point_of_each_file():
    files = [
        file("wide", 1, a=(0, 100)),
        file("x", 1, a=(0, 10)),
        file("y", 1, a=(50, 60)),
        file("z", 1, a=(55, 70)),
    ]
    assert depths_of(files, SORT) == {"wide": 3, "x": 2, "y": 3, "z": 3}


def test_depth_by_a_sweep_is_that_of_counting_at_every_point():
    rng = random.Random(5)
    for _ in range(50):
        files = [
            file(f"f{n}", 1, a=tuple(sorted(rng.choices(range(20), k=2)))) for n in range(rng.randint(1, 15))
        ]
        found = depths_of(files, SORT)
        ends = {f.file_id: (f.columns["a"].minimum, f.columns["a"].maximum) for f in files}
        for name, (low, high) in ends.items():
            points = [step / 2 for step in range(2 * low + 1, 2 * high)]
            counts = [sum(begin < point < end for begin, end in ends.values()) for point in points]
            assert found[name] == max(counts, default=1)


def test_along_a_curve_a_point_has_all_columns():
    quarters = [(0, 10), (10, 20)]
    grid = [file(f"{a}{b}", 1, a=a, b=b) for a in quarters for b in quarters]
    assert set(depths_of(grid, CURVE).values()) == {1}
    assert set(depths_of([replace(f, columns={**grid[0].columns}) for f in grid], CURVE).values()) == {4}


def test_along_a_curve_any_two_of_a_few_files_that_share_a_point_are_found():
    rng = random.Random(11)
    for _ in range(200):
        ends = [[sorted(rng.choices(range(12), k=2)) for _ in range(2)] for _ in range(rng.randint(2, 7))]
        files = [file(f"f{n}", 1, a=tuple(a), b=tuple(b)) for n, (a, b) in enumerate(ends)]
        for n, depth in enumerate(depths_of(files, CURVE).values()):
            others = [other for m, other in enumerate(ends) if m != n]
            assert (depth > 1) == any(share(ends[n], other) for other in others)


def share(one, other):
    """Whether there are points within both boxes; an edge is not within."""
    if any(all(low == high for low, high in box) for box in (one, other)):
        return False
    for (low, high), (begin, end) in zip(one, other, strict=True):
        if low == high:
            if not (begin < low < end or begin == low == end):
                return False
        elif begin == end:
            if not low < begin < high:
                return False
        elif max(low, begin) >= min(high, end):
            return False
    return True


def test_texts_that_were_cut_do_not_count_as_covering_the_same():
    prefix = "x" * 32
    bounds = {"a": column(prefix, "x" * 31 + "y", kind="string")}
    files = [replace(file(f"f{n}", HEALTHY), columns=bounds) for n in range(9)]
    assert set(depths_of(files, SORT).values()) == {1}
    short = {"a": column("a", "z", kind="string")}
    assert set(depths_of([replace(f, columns=short) for f in files], SORT).values()) == {9}


def test_unknown_bounds_are_no_depth():
    known = file("known", 1, a=(0, 5))
    without = replace(file("none", 1), columns={"a": column(None, None)})
    assert depths_of([known, file("x", 1), without], SORT) == {"known": 1}
    text = replace(file("text", 1), columns={"a": column("a", "b", kind="string")})
    assert depths_of([known, text], SORT) == {}


def test_numbers_of_several_types_compare():
    mixed = [(1, 2.5), (Decimal("2.0"), 3), (2.5, 9)]
    files = [file(f"f{n}", 1, a=ends) for n, ends in enumerate(mixed)]
    assert depths_of(files, SORT) == {"f0": 2, "f1": 2, "f2": 2}


def test_groups_hold_what_lies_together():
    spec = policy(max_group_size_bytes=1200 * MIB)
    files = spread(40)
    random.Random(3).shuffle(files)
    for group in compute_debt(spec, files, situation()).groups:
        lows = sorted(member.columns["a"].minimum for member in group.files)
        assert lows == list(range(lows[0], lows[0] + 10 * len(lows), 10))
        assert abs(group.size_bytes / group.output_files / (120 * MIB) - 1) <= 0.1


def test_the_order_along_a_curve_is_that_of_both_columns():
    cells = [file(f"{a}-{b}", 1, a=(a, a + 1), b=(b, b + 1)) for a in range(4) for b in range(4)]
    names = [f.file_id for f in value_order(cells, CURVE)]
    assert set(names[:4]) == {"0-0", "0-1", "1-0", "1-1"}


def test_values_that_may_not_be_mixed_are_grouped_apart():
    execution = ExecutionPolicy(strategy="stitch", split_by=("s",))
    spec = ClusteringSpec(execution=execution)

    def of(name, low, high=None, **settings):
        return file(name, MIB, digest=execution.digest, s=(low, high or low), **settings)

    files = [of("x1", 1), of("x2", 1), of("y1", 2), of("y2", 2), of("z", 3)]
    owed = compute_debt(spec, files, situation())
    assert {frozenset(group.reasons) for group in owed.groups} == {
        frozenset({"x1", "x2"}),
        frozenset({"y1", "y2"}),
    }
    assert [(e.file.file_id, e.reason) for e in owed.excluded] == [("z", ExclusionReason.NO_GAIN)]
    # Which value these have cannot be seen.
    text = {"s": column("v" * 32, "v" * 32, kind="string")}
    assert not compute_debt(spec, [replace(f, columns=text) for f in files], situation()).groups


def test_all_files_without_a_value_go_together():
    execution = ExecutionPolicy(strategy="stitch", split_by=("s",))
    nulls = {"s": column(None, None, nulls=1000)}
    files = [replace(file(f"f{n}", MIB, digest=execution.digest), columns=nulls) for n in range(2)]
    assert len(compute_debt(ClusteringSpec(execution=execution), files, situation()).groups) == 1


def test_commits_takes_what_was_written_since_and_late_partitions_too():
    spec = policy("commits")
    first = [
        file("x", HEALTHY, partition="p=1", instant="1"),
        file("y", HEALTHY, partition="p=2", instant="1"),
    ]
    owed = compute_debt(spec, first, situation())
    clustered = rewritten(first, owed.groups, spec, situation(), instant="5")
    small = file("merged before", MIB, partition="p=1", instant="5", digest=spec.execution.digest)
    late = [file("late", MIB, partition="p=1", instant="4"), file("new", MIB, partition="p=3", instant="6")]
    reasons, left = due(spec, [*clustered, small, *late])
    assert reasons == {"late": DueReason.NEW, "new": DueReason.NEW}
    assert left.pop("merged before") is ExclusionReason.NOT_PICKED
    assert set(left.values()) == {ExclusionReason.HEALTHY}


def test_commits_without_an_order_mends_the_size_of_what_is_new():
    spec = policy("commits", columns=())
    old = [file(f"o{n}", MIB, digest=spec.execution.digest) for n in range(3)]
    new = [file("n1", MIB), file("n2", MIB), file("ok", HEALTHY)]
    assert due(spec, [*old, *new])[0] == {"n1": DueReason.SMALL, "n2": DueReason.SMALL}


def test_a_strategy_of_another_package_is_an_entry_point(monkeypatch):
    def odd_ones(files, context, /):
        return {f.file_id: "odd" for f in files if f.file_id != "f0"}

    class Point(EntryPoint):
        def load(self):
            return odd_ones

    point = Point(name="odd", value="x:y", group=plug_ins.PLAN_STRATEGIES.name)
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [point] if group == point.group else [])
    spec = policy("odd")
    files = spread(6, width=1000, digest=spec.execution.digest)
    files = [replace(f, instant=f.file_id) for f in files]
    assert due(spec, files)[0] == {f"f{n}": "odd" for n in range(1, 6)}
    known = ", ".join([*strategies.BUILT_IN, "odd"])
    with pytest.raises(InvalidDataError, match=f"no strategy 'even' is installed here, only {known}"):
        compute_debt(policy("even"), files, situation())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "returned NoneType, not a mapping"),
        (["f1"], "returned list"),
        ({"f1": 7}, "returned 7 for 'f1', not a text"),
        ({"elsewhere": "odd"}, "returned 'odd' for 'elsewhere'"),
        (KeyError("v"), "failed: KeyError: 'v'"),
    ],
)
def test_a_strategy_of_another_package_that_answers_wrongly_is_named(monkeypatch, answer, said):
    def wrong(files, context, /):
        if isinstance(answer, Exception):
            raise answer
        return answer

    point = SimpleNamespace(name="wrong", load=lambda: wrong)
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [point])
    spec = policy("wrong")
    with pytest.raises(InvalidDataError, match=f"^clustering.plan.strategy: 'wrong' {re.escape(said)}"):
        compute_debt(spec, spread(5, digest=spec.execution.digest), situation())


def test_a_plug_in_cannot_have_the_same_run_rewritten_again_and_again(monkeypatch):
    monkeypatch.setattr(strategies, "BUILT_IN", {"all": lambda files, _: {f.file_id: "all" for f in files}})
    spec = policy("all")
    run = spread(10, digest=spec.execution.digest)
    assert due(spec, run)[0] == {}
    # Of several runs, too: in order they are, and what statistics do not say is no reason.
    several = [replace(f, instant=f.file_id) for f in run]
    assert set(due(spec, several)[1].values()) == {ExclusionReason.NO_GAIN}
    assert due(spec, [replace(f, columns={}) for f in several])[0] == {}


def test_merging_the_smallest_files_comes_first_and_a_run_stays_in_its_budget():
    spec = policy(columns=())
    files = [file(f"small{n}", MIB, partition="p=1") for n in range(50)]
    files += [file(f"large{n}", 90 * MIB, partition="p=2") for n in range(5)]
    owed = compute_debt(spec, files, situation())
    assert [group.partition for group in owed.groups] == ["p=1", "p=2"]
    one = limited_to_budget(owed, RunBudget(limit_bytes=460 * MIB), max_groups=30)
    assert [group.partition for group in one.groups] == ["p=1"]
    assert {entry.reason for entry in one.excluded} == {ExclusionReason.BUDGET}
    assert {entry.reason for entry in limited_to_budget(owed, NO_LIMIT, max_groups=1).excluded} == {
        ExclusionReason.GROUPS
    }
    few = limited_to_budget(owed, NO_LIMIT, max_groups=30, max_files=50)
    assert {entry.reason for entry in few.excluded} == {ExclusionReason.FILES}


def test_groups_are_made_small_enough_for_the_budget():
    spec = policy()
    files = [file(f"f{n}", HEALTHY) for n in range(40)]
    owed = compute_debt(spec, files, situation(), budget_bytes=500 * MIB)
    assert max(group.size_bytes for group in owed.groups) <= 500 * MIB
    assert len(limited_to_budget(owed, RunBudget(limit_bytes=500 * MIB), max_groups=30).groups) == 1


@pytest.mark.parametrize(
    ("strategy", "execution"),
    each_value_once(list(strategies.BUILT_IN), [ExecutionPolicy(), SORT, CURVE]),
    ids=lambda value: value if isinstance(value, str) else value.strategy,
)
def test_work_grows_with_the_files_and_not_faster(execution, strategy):
    """Function calls are counted; the logarithm of sorting adds an eighth when files are doubled."""
    spec = ClusteringSpec(plan=PlanPolicy(strategy=strategy), execution=execution)
    fewer, more = many(2_000), many(4_000)
    before = calls_of(lambda: compute_debt(spec, fewer, situation()))
    after = calls_of(lambda: compute_debt(spec, more, situation()))
    assert after <= 2.3 * before


def many(count):
    rng = random.Random(count)

    def ends():
        low = rng.randrange(10**6)
        return low, low + rng.randrange(10**5)

    return [file(f"f{n}", rng.randrange(60 * MIB), a=ends(), b=ends()) for n in range(count)]


def calls_of(action):
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def test_a_plan_of_ten_thousand_files_is_below_four_megabytes(tmp_path):
    name = "3f2504e0-4f89-11d3-9a0c-0305e82c3301-0"
    files = tuple(
        file(name, MIB, partition="departure_date=2013-06-01/origin=EWR", instant="2" * 17)
        for _ in range(10_000)
    )
    groups = [
        PlannedGroup(
            partition=files[0].partition, files=files[n : n + 100], output_files=1, benefit=1, reasons={}
        )
        for n in range(0, 10_000, 100)
    ]
    store = open_store(tmp_path / "warehouse-of-the-airport" / "flights")
    plan = avro_plan(store, groups, policy())
    assert len(RequestedReplace(operation="CLUSTER", plan=plan).encode()) < 4 * MIB
