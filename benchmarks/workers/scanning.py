"""What a query gave, and how many rows its scans handed on: Spark's own metric of the executed plan."""

from __future__ import annotations

from typing import Any


def collected(frame: Any) -> dict[str, int]:
    """Run a query without a shuffle to its end; the rows it gave and the rows that its scans read."""
    rows = len(frame.collect())
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()  # noqa: SLF001 - PySpark has no other way
    scanned = 0
    for number in range(leaves.size()):
        metric = leaves.apply(number).metrics().get("numOutputRows")
        scanned += metric.get().value() if metric.isDefined() else 0
    return {"rows": rows, "scanned": scanned}
