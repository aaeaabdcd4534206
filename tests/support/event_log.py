"""Event logs of Spark, made by hand in the shape of real ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ORDERS = "struct<order_id:bigint,city:string,amount:double,items:int,revision:bigint>"
_UI = "org.apache.spark.sql.execution.ui"


def scan(
    location: str,
    *,
    data: str = "[]",
    pushed: str | None = "[]",
    partition: str = "[]",
    schema: str = ORDERS,
    first: int | None = None,
) -> dict:
    """A scan of files as `sparkPlanInfo` has it; its sums get the numbers from ``first`` on."""
    metadata = {
        "Location": location if "[" in location else f"InMemoryFileIndex(1 paths)[{location}]",
        "ReadSchema": schema,
        "Format": "Parquet",
        "Batched": "true",
        "PartitionFilters": partition,
        "PushedFilters": pushed,
        "DataFilters": data,
    }
    names = () if first is None else ("number of output rows", "size of files read", "scan time")
    return {
        "nodeName": "Scan parquet ",
        "simpleString": "FileScan parquet",
        "children": [],
        "metadata": {name: text for name, text in metadata.items() if text is not None},
        "metrics": [_metric(name, first + at) for at, name in enumerate(names)],
    }


def above(child: dict, *names: str, rows: int | None = None) -> dict:
    """A plan of nodes above another, the outermost first; a filter counts its rows by the sum ``rows``."""
    for name in reversed(names):
        metrics = [_metric("number of output rows", rows)] if name == "Filter" and rows is not None else []
        child = {"nodeName": name, "children": [child], "metadata": {}, "metrics": metrics}
    return child


def joined(*children: dict) -> dict:
    """A join of plans."""
    return {"nodeName": "BroadcastHashJoin", "children": list(children), "metadata": {}, "metrics": []}


def _metric(name: str, number: int) -> dict:
    return {"name": name, "accumulatorId": number, "metricType": "sum"}


@dataclass
class EventLog:
    """The events of one application; `query` adds one with its plans, `sums` what it counted."""

    lines: list[str] = field(default_factory=list)
    executions: int = 0

    @classmethod
    def of(cls, *, zone: str | None = "UTC") -> EventLog:
        log = cls()
        log.event("SparkListenerLogStart", **{"Spark Version": "3.5.1"})
        spark = {} if zone is None else {"spark.sql.session.timeZone": zone}
        java = {} if zone is None else {"user.timezone": zone}
        log.event("SparkListenerEnvironmentUpdate", **{"Spark Properties": spark, "System Properties": java})
        return log

    def event(self, name: str, **fields) -> None:
        self.lines.append(json.dumps({"Event": name, **fields}))

    def query(
        self,
        *plans: dict,
        sums: dict[int, int] | None = None,
        time: int = 1_700_000_000_000,
        ends: bool = True,
    ) -> None:
        """A query with a plan and those that replace it; ``sums`` are of its driver and its stage."""
        number = self.executions
        self.executions += 1
        started, *replaced = plans
        self.event(
            f"{_UI}.SparkListenerSQLExecutionStart",
            executionId=number,
            description="collect",
            physicalPlanDescription="== Physical Plan ==",
            sparkPlanInfo=started,
            time=time,
        )
        for plan in replaced:
            self.event(
                f"{_UI}.SparkListenerSQLAdaptiveExecutionUpdate", executionId=number, sparkPlanInfo=plan
            )
        if sums:
            self.event(
                f"{_UI}.SparkListenerDriverAccumUpdates",
                executionId=number,
                accumUpdates=[[each, value] for each, value in sums.items()],
            )
            self.event("SparkListenerTaskEnd", **{"Stage ID": number, "Task Metrics": {}})
            found = [{"ID": each, "Name": "n", "Value": str(value)} for each, value in sums.items()]
            self.event("SparkListenerStageCompleted", **{"Stage Info": {"Accumulables": found}})
        if ends:
            self.event(f"{_UI}.SparkListenerSQLExecutionEnd", executionId=number, time=time + 5)

    @property
    def content(self) -> bytes:
        return "".join(f"{line}\n" for line in self.lines).encode()

    def write(self, file: Path, extra: Sequence[str] = ()) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.content + "".join(f"{line}\n" for line in extra).encode())
        return file
