"""Specs may name the strategies that the runtime has, and no others."""

from __future__ import annotations

from parquetry.project.loading.check_settings import EXECUTION_STRATEGIES, PLAN_STRATEGIES
from parquetry.runtime.clustering.rewrite import strategies as execution
from parquetry.runtime.layout.clustering import strategies as plan
from parquetry.runtime.spec.clustering import STITCH


def test_plan_strategies():
    assert set(PLAN_STRATEGIES) == set(plan.BUILT_IN)


def test_execution_strategies():
    assert set(EXECUTION_STRATEGIES) == {STITCH, *execution.BUILT_IN}
