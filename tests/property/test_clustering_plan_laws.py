"""What holds for every clustering plan."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.layout.clustering.debt import compute_debt, in_batches
from parquetry.runtime.layout.clustering.depth import DEEP
from parquetry.runtime.layout.clustering.groups import divide_into_bins
from parquetry.runtime.layout.clustering.run_budget import RunBudget, limited_to_budget
from parquetry.runtime.layout.clustering.strategies import BUILT_IN
from parquetry.runtime.layout.packing import LAST_ROWS_SHARE, first_fit_decreasing, outputs_of
from tests.support.clustering_model import (
    MAXIMUM,
    MIB,
    TARGET,
    file,
    limits_of,
    policy,
    rewritten,
    rows_by_file,
    run_until_empty,
    situation,
)
from tests.support.clustering_points import cluster_points, points_by_file
from tests.support.effort import examples

STRATEGIES = tuple(BUILT_IN)
SEEDS = st.integers(0, 2**32)


@st.composite
def policies(draw, strategies=STRATEGIES):
    columns = draw(st.sampled_from([(), ("a",), ("a", "b")]))
    target = draw(st.integers(8, 200)) * MIB
    return policy(
        draw(st.sampled_from(strategies)),
        columns=columns,
        order=draw(st.sampled_from(["sort", "zorder", "hilbert"])) if len(columns) > 1 else "sort",
        target_file_size_bytes=target,
        small_file_limit_bytes=draw(st.integers(1, target)),
        max_group_size_bytes=draw(st.integers(target, 20 * target)),
        max_groups=10_000,
    )


def table(seed, spec, *, digests=None):
    rng = random.Random(seed)
    digests = digests or [None, None, "of an older policy", spec.execution.digest]
    largest = rng.choice([0.05, 0.5, 1, 3]) * spec.plan.target_file_size_bytes
    widest = rng.choice([3, 100, 1000])
    return [
        file(
            f"f{number}",
            rng.randint(0, int(largest)),
            rows=rng.choice([1, 2, 9, 1000]),
            partition=rng.choice(["p=1", "p=2"]),
            instant=str(rng.randint(1, 4)),
            digest=rng.choice(digests),
            a=tuple(sorted(rng.choices(range(widest), k=2))),
            b=tuple(sorted(rng.choices(range(widest), k=2))),
        )
        for number in range(rng.choice([0, 1, 3, 10, 60]))
    ]


@st.composite
def cases(draw):
    spec = draw(policies())
    around = situation(max_file_size_bytes=draw(st.sampled_from([TARGET, spec.plan.target_file_size_bytes])))
    return spec, table(draw(SEEDS), spec), around


@given(cases())
def test_every_file_is_in_one_group_or_has_one_reason(case):
    spec, files, around = case
    owed = compute_debt(spec, files, around)
    grouped = [member.key for group in owed.groups for member in group.files]
    left = [entry.file.key for entry in owed.excluded]
    assert Counter(grouped + left) == Counter(member.key for member in files)
    assert all(entry.text for entry in owed.excluded)
    assert all(group.reasons.keys() == {m.file_id for m in group.files} for group in owed.groups)


@given(cases())
def test_no_group_exceeds_the_cap_but_for_one_file_that_does(case):
    spec, files, around = case
    for group in compute_debt(spec, files, around).groups:
        assert group.size_bytes <= spec.plan.max_group_size_bytes or len(group.files) == 1
        assert {member.partition for member in group.files} == {group.partition}


@given(cases(), st.integers(0, 2000), st.integers(1, 5), st.integers(1, 30))
def test_what_a_run_takes_on_is_within_its_limits_and_the_rest_has_a_reason(case, budget, most, most_files):
    spec, files, around = case
    owed = compute_debt(spec, files, around, budget_bytes=budget * MIB)
    taken = limited_to_budget(
        owed, RunBudget(limit_bytes=budget * MIB), max_groups=most, max_files=most_files
    )
    is_one_large_file = bool(budget) and len(taken.groups) == taken.files_before == 1
    assert taken.rewritten_bytes <= budget * MIB or is_one_large_file
    assert len(taken.groups) <= most
    assert taken.files_before <= most_files
    assert taken.files_before + len(taken.excluded) == len(files)


@given(cases())
def test_the_oldest_file_comes_first_and_then_the_best_benefit_per_byte(case):
    spec, files, around = case
    groups = compute_debt(spec, files, around).groups
    rates = [group.benefit / max(group.size_bytes, 1) for group in groups]
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert all(rate > 0 for rate in rates)
    if groups:
        oldest = min(file.instant for group in groups for file in group.files)
        assert oldest in {file.instant for file in groups[0].files}
        also_oldest = [n for n, group in enumerate(groups) if group.oldest_instant == oldest]
        assert rates[0] == max(rates[n] for n in also_oldest)


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_matter(case, rng):
    spec, files, around = case
    shuffled = list(files)
    rng.shuffle(shuffled)
    assert compute_debt(spec, shuffled, around).groups == compute_debt(spec, files, around).groups


@settings(max_examples=examples(200))
@given(cases())
def test_a_table_whose_plan_was_carried_out_owes_nothing(case):
    """Merged runs may come to lie over runs that nothing covered before: overlap may look again."""
    spec, files, around = case
    _, rounds, rewrote = run_until_empty(files, spec, around)
    assert rounds <= (3 if spec.plan.strategy == "overlap" else 1)
    assert rewrote <= rounds * sum(member.size_bytes for member in files)


@given(cases(), st.floats(0.3, 1.3), st.integers(20, 400), st.integers(1, 4))
def test_runs_inside_a_budget_end_whatever_the_rows_shrink_to(case, shrink, share, batches):
    spec, files, around = case
    budget = spec.plan.target_file_size_bytes * share // 20
    spec = replace(spec, plan=replace(spec.plan, max_groups=7))
    after, _, _ = run_until_empty(
        files, spec, around, budget=budget, shrink=shrink, batches=batches, most_rounds=50 + len(files)
    )
    if spec.execution.arranges_rows and spec.plan.strategy != "overlap":
        assert {member.digest for member in after} <= {spec.execution.digest}


@settings(max_examples=examples(30))
@given(
    st.sampled_from(["sort", "zorder", "hilbert"]),
    st.sampled_from(["overlap", *STRATEGIES]),
    st.integers(1, 30),
    st.integers(1, 12),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([(1.0,), (1.0, 0.1, 0.01), (0.1, 0.01)]),
    SEEDS,
)
def test_a_budget_rewrites_a_table_a_logarithm_of_times(order, strategy, count, cap, groups, spread, seed):
    """Rows, not bounds alone: what is merged lies where more than DEEP runs did, so a pass divides by more."""
    spec = policy(strategy, columns=("a",) if order == "sort" else ("a", "b"), order=order)
    spec = replace(spec, plan=replace(spec.plan, max_group_size_bytes=cap * TARGET))
    budget = None if groups is None else groups * cap * TARGET
    content = points_by_file(seed, count, spread=spread)
    _, rewrote, total = cluster_points(content, spec, situation(), budget=budget)
    assert rewrote <= (1 + math.log(count, DEEP + 1)) * total


@pytest.mark.parametrize(("files", "cap", "budget"), [(24, 4, 4), (48, 8, 8), (60, 3, 15)])
@pytest.mark.parametrize("order", ["sort", "zorder"])
def test_files_that_all_cover_the_same_are_rewritten_a_few_times(order, files, cap, budget):
    spec = policy("overlap", columns=("a",) if order == "sort" else ("a", "b"), order=order)
    spec = replace(spec, plan=replace(spec.plan, max_group_size_bytes=cap * TARGET))
    content = points_by_file(files, files, spread=(1.0,))
    _, rewrote, total = cluster_points(content, spec, situation(), budget=budget * TARGET)
    assert total <= rewrote <= (1 + math.log(files, DEEP + 1)) * total


def test_the_plan_counts_files_as_the_writer_does_and_one_at_most_is_small():
    spec = policy(columns=(), small_file_limit_bytes=TARGET, target_file_size_bytes=TARGET)
    limits = limits_of(spec, situation())
    rows = 100_000
    for percent in range(1, 1300, 7):
        size = TARGET * percent // 100
        written = rows_by_file(spec, rows, before=size / rows, after=size / rows)
        made = [round(count * size / rows) for count in written]
        assert len(made) == limits.outputs(size, rows=rows).files
        assert sum(map(limits.is_off_size, made)) <= 1
        assert max(made) <= MAXIMUM


@given(policies(), SEEDS)
def test_changed_columns_reach_every_byte_in_scope(spec, seed):
    spec = replace(spec, execution=policy(columns=("a",)).execution)
    files = table(seed, spec, digests=["of an older policy"])
    after, rounds, _ = run_until_empty(files, spec, situation())
    assert {member.digest for member in after} <= {spec.execution.digest}
    assert rounds <= 1


@given(policies(), st.integers(0, 200))
def test_a_lone_small_file_is_rewritten_at_most_once(spec, size):
    files = [file("lone", size * MIB, a=(1, 5), b=(1, 5))]
    around = situation(max_file_size_bytes=spec.plan.target_file_size_bytes)
    after, rounds, _ = run_until_empty(files, spec, around)
    is_oversize = limits_of(spec, around).is_oversize(size * MIB)
    assert rounds <= (1 if spec.execution.arranges_rows or is_oversize else 0)
    assert sum(member.size_bytes for member in after) == size * MIB


@given(policies(["size"]), st.lists(st.integers(1, 130), max_size=30))
def test_what_is_not_to_be_ordered_is_only_rewritten_for_its_size(spec, sizes):
    spec = replace(spec, execution=policy(columns=()).execution)
    files = [file(f"f{n}", size * MIB) for n, size in enumerate(sizes)]
    around = situation()
    limits = limits_of(spec, around)

    def ill(members):
        return sum(limits.is_small(m.size_bytes) or limits.is_oversize(m.size_bytes) for m in members)

    owed = compute_debt(spec, files, around)
    assert ill(member for group in owed.groups for member in group.files) == owed.files_before
    after = rewritten(files, owed.groups, spec, around, instant="1000")
    assert ill(after) < ill(files) or not owed.groups


def test_packing_is_within_eleven_ninths_of_the_optimum_on_ten_thousand_instances():
    """Bins are cut into pieces, so that the optimum is known: it is their number."""
    rng = random.Random(20261121)
    for _ in range(10_000):
        capacity = rng.choice([10, 100, 997, 10**9])
        bins = rng.randint(1, 12)
        sizes = [piece for _ in range(bins) for piece in pieces(rng, capacity)]
        rng.shuffle(sizes)
        packed = first_fit_decreasing(sizes, capacity=capacity)
        assert sorted(p for members in packed for p in members) == list(range(len(sizes)))
        assert all(sum(sizes[p] for p in members) <= capacity for members in packed)
        assert len(packed) <= 11 / 9 * bins + 1


def pieces(rng, capacity):
    ends = sorted(rng.sample(range(1, capacity), rng.randint(0, min(capacity - 1, 9))))
    return [high - low for low, high in zip([0, *ends], [*ends, capacity], strict=True)]


def test_groups_are_within_eleven_ninths_of_the_optimum_on_ten_thousand_instances():
    rng = random.Random(7)
    for _ in range(10_000):
        target = rng.choice([20, 120])
        capacity = target * rng.randint(1, 20)
        bins = rng.randint(1, 5)
        sizes = [piece for _ in range(bins) for piece in pieces(rng, capacity)]
        rng.shuffle(sizes)
        members = [file(str(n), size) for n, size in enumerate(sizes)]
        groups = divide_into_bins(members, target_bytes=target, most_bytes=target, capacity_bytes=capacity)
        assert sorted(m.file_id for g in groups for m in g) == sorted(m.file_id for m in members)
        assert all(sum(m.size_bytes for m in g) <= capacity for g in groups)
        assert len(groups) <= 11 / 9 * bins + 1


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 60), st.integers(1, 5))
def test_packing_respects_caps_of_bytes_and_things(sizes, capacity, most):
    packed = first_fit_decreasing(sizes, capacity=capacity, most=most)
    assert sorted(p for members in packed for p in members) == list(range(len(sizes)))
    for members in packed:
        assert len(members) <= most
        assert sum(sizes[p] for p in members) <= capacity or len(members) == 1


@given(cases(), st.integers(1, 6))
def test_batches_hold_all_groups_in_their_order(case, most):
    spec, files, around = case
    groups = compute_debt(spec, files, around).groups
    batches = in_batches(groups, most)
    assert [group for batch in batches for group in batch] == list(groups)
    assert len(batches) <= most
    assert all(batches)


@given(st.floats(0.01, 60), st.floats(0.5, 3))
def test_files_share_the_bytes_below_the_maximum_and_one_at_most_is_small(targets, most):
    total, floor = targets * TARGET, 5 / 6 * min(most, 1) * TARGET
    outputs = outputs_of(total, target_bytes=TARGET, most_bytes=int(most * TARGET))
    sizes = list(outputs.sizes)
    assert len(sizes) == outputs.files
    assert abs(sum(sizes) - total) < 2
    assert all(0 < size <= LAST_ROWS_SHARE * most * TARGET + 1 for size in sizes)
    assert sum(size < floor - 1 for size in sizes) <= 1
    if total > 5 * min(most, 1) * TARGET:
        assert min(sizes) >= floor - 1, "from five targets on nothing is left over"


@given(st.floats(0.01, 60))
def test_where_the_maximum_is_far_files_come_as_near_to_the_target_as_can_be(targets):
    total = targets * TARGET
    outputs = outputs_of(total, target_bytes=TARGET, most_bytes=9 * TARGET)
    allowed = [n for n in range(1, 70) if n == 1 or total / n >= 5 / 6 * TARGET - 1]
    assert outputs.each_bytes == outputs.last_bytes == total / outputs.files
    assert abs(outputs.each_bytes - TARGET) <= min(abs(total / n - TARGET) for n in allowed) + 2


@given(
    st.lists(st.integers(TARGET // 100, TARGET // 20), min_size=1, max_size=400),
    st.integers(1, 12),
)
def test_groups_of_small_files_make_files_within_a_tenth_of_the_target_where_that_can_be(sizes, cap):
    """Half of one of the small files is what a cut may be off."""
    capacity = cap * TARGET
    members = [file(f"{n:03}", size) for n, size in enumerate(sizes)]
    total = sum(sizes)
    groups = divide_into_bins(members, target_bytes=TARGET, most_bytes=TARGET, capacity_bytes=capacity)
    assert sorted(m.file_id for g in groups for m in g) == [m.file_id for m in members]
    made = [sum(m.size_bytes for m in g) for g in groups]
    assert all(size <= capacity for size in made)
    each = [
        size for total in made for size in outputs_of(total, target_bytes=TARGET, most_bytes=TARGET).sizes
    ]
    # A number of files, all of one size near the target, so many of which fit into as many groups.
    possible = any(
        0.93 * TARGET <= total / outputs <= 0.97 * TARGET
        and -(-outputs // max(int((capacity - TARGET // 20) // (total / outputs)), 1)) == len(groups)
        for outputs in (total // TARGET, total // TARGET + 1)
        if outputs
    )
    if possible:
        assert all(0.89 * TARGET <= size <= 1.11 * TARGET for size in each), [s / TARGET for s in each]
