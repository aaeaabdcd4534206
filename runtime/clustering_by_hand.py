"""Clustering by hand, in a Spark session that is started for it."""

from __future__ import annotations

from pathlib import Path

from parquetry.runtime.clustering.plan.execution import ClusteringResult
from parquetry.runtime.clustering.plan.schedule import check_waiting
from parquetry.runtime.redaction import secrets_of
from parquetry.runtime.spark_log import LogRules
from parquetry.runtime.spec.job import SparkSettings
from parquetry.runtime.spec.masking import failures_masked, has_personal_columns
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timing import DEFAULT_TIMING


def cluster_by_hand(
    table: TableHandle,
    settings: SparkSettings,
    *,
    instant: str | None,
    budget_bytes: int,
    log: Path | None = None,
) -> ClusteringResult:
    """What was done: what is due within the budget, or the pending plan of ``instant``.

    What Spark says goes into ``log``.
    Errors are those of :func:`parquetry.runtime.spark.cluster.cluster` and ``execute``.
    """
    if instant is not None:
        check_waiting(table, instant, DEFAULT_TIMING)
    from parquetry.runtime.spark.cluster import cluster, execute  # noqa: PLC0415 - heavy
    from parquetry.runtime.spark.session.start import start_session  # noqa: PLC0415 - heavy

    rules = LogRules(secrets=secrets_of(settings.conf), personal=has_personal_columns(table.spec))
    with failures_masked(table.spec, location=table.store.uri):
        name = f"parquetry {table.config.name} cluster"
        spark = start_session(settings, name=name, log=log, rules=rules)
        if instant is not None:
            return execute(spark, table, instant)
        return cluster(spark, table, budget_bytes=budget_bytes)
