"""The built-in names of each group of plug-ins are those that the runtime has."""

from __future__ import annotations

from parquetry.runtime.clustering.rewrite import strategies as execution
from parquetry.runtime.layout.clustering import strategies as plan
from parquetry.runtime.parquet import key_management
from parquetry.runtime.spec.clustering import STITCH
from parquetry.runtime.spec.plug_ins import EXECUTION_STRATEGIES, KMS_CLIENTS, PLAN_STRATEGIES


def test_plan_strategies():
    assert set(PLAN_STRATEGIES.built_in) == set(plan.BUILT_IN)


def test_execution_strategies():
    assert set(EXECUTION_STRATEGIES.built_in) == {STITCH, *execution.BUILT_IN}


def test_key_clients():
    assert set(KMS_CLIENTS.built_in) == set(key_management.BUILT_IN)
