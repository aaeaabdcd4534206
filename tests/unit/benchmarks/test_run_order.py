"""A small lake under the order of runs: the gain against the bound, the budget, and the longest wait."""

from __future__ import annotations

import pytest

from benchmarks.run_order import ROWS, WANTED, best_in_hindsight, generated, in_turns, simulate


@pytest.mark.parametrize(("share", "max_delay"), ROWS)
def test_nights_reach_most_of_the_best_gain_within_their_budget(share, max_delay):
    lake = generated(60, 14)
    budget_bytes, budget_seconds = lake.nightly_bytes * share, lake.nightly_seconds * share
    found = simulate(lake, budget_bytes=budget_bytes, budget_seconds=budget_seconds, max_delay_days=max_delay)
    best = best_in_hindsight(lake, budget_bytes=budget_bytes, budget_seconds=budget_seconds)
    assert WANTED * best <= found.gain <= best
    assert found.gain > in_turns(lake, budget_bytes=budget_bytes)
    assert found.excess_groups <= 1
    assert found.rewritten <= budget_bytes * lake.days + found.over_bytes * lake.days
    assert found.longest_wait_days <= max_delay + 1
    assert found.longest_wait_days <= found.longest_group_wait_days
    assert found.deferrals.keys() <= {"budget", "time"}


def test_a_budget_smaller_than_a_group_is_exceeded_by_one_group():
    lake = generated(20, 5)
    found = simulate(lake, budget_bytes=1000, budget_seconds=lake.nightly_seconds, max_delay_days=7)
    assert found.over_bytes > 0
    assert found.excess_groups == 1


def test_without_limits_everything_is_rewritten_on_its_day():
    lake = generated(20, 5)
    found = simulate(lake, budget_bytes=1e18, budget_seconds=1e12, max_delay_days=7)
    assert found.gain == pytest.approx(best_in_hindsight(lake, budget_bytes=1e18, budget_seconds=1e12))
    assert found.rewritten == pytest.approx(lake.nightly_bytes * lake.days)
    assert found.longest_wait_days == 0
