"""Clustering right after a write, if the applied policy contains ``trigger: inline``."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from parquetry.errors import ParquetryError, message_of
from parquetry.message import Message, Text
from parquetry.runtime.clustering.plan.due import is_clustering_due, record_check, trigger_of
from parquetry.runtime.clustering.plan.execution import PartlyClusteredError
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.layout.clustering.run_budget import RunBudget
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.storage.os_errors import LATE_FAILURES
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timing import Timing

_LOG = logging.getLogger(__name__)


def cluster_inline(
    spark: SparkSession,
    table: TableHandle,
    result: CommitResult,
    *,
    budget_bytes: int | None = None,
    timing: Timing,
) -> CommitResult:
    """Run the clustering that is due after a write, and return the write's result with it.

    Clustering never fails the write: the commit stays, and a failure becomes a warning of the result.

    Args:
        spark: The session.
        table: The table.
        result: The result of the write. Without an instant, nothing is clustered.
        budget_bytes: The limit of the bytes that the clustering may rewrite; None for no limit.
        timing: The periods of the commit protocol.

    """
    if result.instant is None:
        return result
    partial_warnings: tuple[Text, ...] = ()
    try:
        if trigger_of(table) is not Trigger.INLINE:
            # The spec answers this without a request to the store.
            return result
        now = table.reopen()
        if not is_clustering_due(now, Trigger.INLINE):
            return result
        done = cluster(spark, now, budget=RunBudget(limit_bytes=budget_bytes), timing=timing)
        if not done.instants:
            record_check(now)
    except PartlyClusteredError as partly:
        done, partial_warnings = partly.result, (_logged_warning(table, partly),)
    except Exception as failure:  # noqa: BLE001 - a plug-in may raise anything, and the commit stays
        with suppress(*LATE_FAILURES):
            record_check(table)
        return replace(result, warnings=(*result.warnings, _logged_warning(table, failure)))
    return replace(
        result,
        files_clustered=done.files_before,
        warnings=(*result.warnings, *done.warnings, *partial_warnings),
    )


def _logged_warning(table: TableHandle, failure: Exception) -> Message:
    """Log a failed clustering and return the warning for it, with the class name of an unexpected failure."""
    reason = message_of(failure)
    if not isinstance(failure, (ParquetryError, PySparkException, Py4JJavaError)):
        reason = Message("{error_class}: {reason}", error_class=type(failure).__name__, reason=reason)
    what = "clustering after the write failed; the commit is not affected"
    log_failure(_LOG, what, reason, table.shown_by, location=table.store.uri)
    return Message("clustering: {reason}", reason=reason)
