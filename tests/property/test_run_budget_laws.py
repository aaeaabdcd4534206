"""What holds for the budget that a run shares among its tables, and for the number of runs that is predicted."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.layout.clustering import run_budget
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import Debt, ExclusionReason, PlannedGroup
from parquetry.runtime.layout.clustering.run_budget import (
    DueGroups,
    RunBudget,
    by_last_clustering,
    limited_to_budget,
    runs_of,
)
from tests.support.clustering_model import file, policy, rewritten, situation
from tests.support.effort import examples

SPEC = policy(columns=("a",), target_file_size_bytes=100, small_file_limit_bytes=60, max_group_size_bytes=400)
AROUND = situation(max_file_size_bytes=100)


@st.composite
def tables(draw):
    """Files by table; some are larger than any group, and than most budgets."""
    sizes = st.one_of(st.integers(1, 120), st.integers(200, 2000))
    return {
        f"t{number}": [
            file(f"f{n}", size, partition=f"p={n % 3}", rows=100, a=(n, n + 5))
            for n, size in enumerate(draw(st.lists(sizes, max_size=12)))
        ]
        for number in range(draw(st.integers(1, 4)))
    }


def rest_of(owed, taken):
    done = {id(group) for group in taken.groups}
    return replace(owed, groups=tuple(group for group in owed.groups if id(group) not in done))


def take_turns(names, limit_bytes, owed_of, pay, *, most=SPEC.plan.max_groups):
    """Run until a run does nothing; the last run that did something for each table. Runs are checked."""
    clustered = dict.fromkeys(names, "")
    last = dict.fromkeys(names, 0)
    for run in range(1, 2000):
        budget = RunBudget(limit_bytes=limit_bytes)
        groups = []
        for place, name in enumerate(by_last_clustering(clustered)):
            taken = limited_to_budget(owed_of(name), budget, max_groups=most)
            if not taken.groups:
                continue
            pay(name, taken, run)
            budget = budget.left_after(taken.rewritten_bytes)
            groups += taken.groups
            clustered[name] = f"{run:05}.{place}"
            last[name] = run
        assert budget.spent_bytes <= limit_bytes or len(groups) == len(groups[0].files) == 1
        if not groups:
            return last
    raise AssertionError("the runs do not come to an end")


@given(tables(), st.integers(1, 1500), st.integers(1, 5))
def test_runs_stay_within_the_budget_and_as_many_as_predicted_pay_every_debt(files, limit_bytes, most):
    owed = {
        name: compute_debt(SPEC, of_table, AROUND, budget_bytes=limit_bytes)
        for name, of_table in files.items()
    }
    sizes = [DueGroups.of(one, max_groups=most) for one in owed.values()]
    predicted = runs_of(sizes, budget_bytes=limit_bytes)

    def pay(name, taken, _):
        owed[name] = rest_of(owed[name], taken)

    last = take_turns(files, limit_bytes, owed.__getitem__, pay, most=most)
    assert not any(one.groups for one in owed.values())
    assert list(last.values()) == predicted


def planned_anew(files, limit_bytes):
    """The number of runs that is predicted, and that of runs each of which plans what is left then."""
    files = dict(files)

    def owed_of(name):
        return compute_debt(SPEC, files[name], AROUND, budget_bytes=limit_bytes)

    def pay(name, taken, run):
        files[name] = rewritten(files[name], taken.groups, SPEC, AROUND, instant=f"{1000 + run}")

    first = [DueGroups.of(owed_of(name), max_groups=SPEC.plan.max_groups) for name in files]
    predicted = max(runs_of(first, budget_bytes=limit_bytes))
    last = take_turns(files, limit_bytes, owed_of, pay)
    digests = {member.digest for of_table in files.values() for member in of_table}
    assert digests <= {SPEC.execution.digest}
    return predicted, max(last.values())


@settings(max_examples=examples(200))
@given(tables(), st.integers(1, 1500))
def test_debts_are_paid_if_every_run_plans_anew_what_is_left(files, limit_bytes):
    planned_anew(files, limit_bytes)


def test_the_predicted_number_of_runs_is_right_in_eight_of_ten_cases_and_one_off_in_the_others():
    """A run may merge what an earlier one left small, and cut what is left into other groups."""
    rng = random.Random(20261127)
    off = Counter()
    for _ in range(40):
        files = {
            f"t{number}": [
                file(f"f{n}", rng.randint(1, 130), partition=f"p={n % 3}", rows=100, a=(n, n + 5))
                for n in range(rng.randint(1, 30))
            ]
            for number in range(rng.randint(1, 4))
        }
        predicted, executed = planned_anew(files, rng.randint(200, 1500))
        off[abs(predicted - executed)] += 1
    assert off[0] >= 32
    assert off[0] + off[1] == 40


def groups(*sizes):
    return Debt(
        groups=tuple(
            PlannedGroup(
                partition="",
                files=(file(f"f{n}", size),),
                output_files=1,
                benefit=1.0,
                reasons={f"f{n}": "new"},
            )
            for n, size in enumerate(sizes)
        )
    )


def test_a_file_larger_than_the_budget_is_the_first_and_only_one_of_a_run():
    only = limited_to_budget(groups(150), RunBudget(limit_bytes=100), max_groups=30)
    assert only.rewritten_bytes == 150
    after_others = limited_to_budget(groups(10, 150), RunBudget(limit_bytes=100), max_groups=30)
    assert after_others.rewritten_bytes == 10
    assert [entry.reason for entry in after_others.excluded] == [ExclusionReason.LARGER_THAN_BUDGET]
    alone = limited_to_budget(groups(150, 10), RunBudget(limit_bytes=100), max_groups=30)
    assert alone.rewritten_bytes == 150
    of_others = limited_to_budget(groups(150), RunBudget(limit_bytes=100, spent_bytes=1), max_groups=30)
    assert of_others.groups == ()


def test_what_was_reviewed_is_a_ceiling_for_single_files_too():
    assert (
        limited_to_budget(groups(150), RunBudget(limit_bytes=100, is_strict=True), max_groups=30).groups == ()
    )
    assert limited_to_budget(groups(100), RunBudget(limit_bytes=100, is_strict=True), max_groups=30).groups


def test_a_budget_of_nothing_pays_nothing():
    assert limited_to_budget(groups(10), RunBudget(limit_bytes=0), max_groups=30).groups == ()
    assert runs_of([DueGroups.of(groups(10), max_groups=30)], budget_bytes=0) == [0]


@pytest.mark.parametrize("budget_bytes", [10, 1_000])
def test_what_is_left_of_a_long_prediction_is_divided_by_the_limits_of_a_run(monkeypatch, budget_bytes):
    owed = DueGroups(groups=((10, 1),) * 600, max_groups=30)
    expected = runs_of([owed], budget_bytes=budget_bytes)
    monkeypatch.setattr(run_budget, "_MOST_STEPS", 100)
    assert runs_of([owed], budget_bytes=budget_bytes) == expected == [600 if budget_bytes == 10 else 20]
