"""The scans of Spark's event logs: what each query asked of the files of a table, and how much it read.

An event is a line of JSON. Only the events of queries and the sums of stages are parsed. While a query runs,
adaptive execution replaces its plan, so a query is judged by its last plan. The memory that a log takes grows
with the queries that run at the same time, not with its length.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from parquetry.compiler.learning.log_files import json_object, time_ms
from parquetry.compiler.learning.spark_filters import LogSession, ScanFilters

_Node: TypeAlias = Mapping[str, Any]

_OPEN: Final = 10_000
"""The most queries without an end that are kept; a killed application leaves some."""

_ENDED: Final = 100
"""The most queries that are kept after their end, as the sums of their last stages may follow it."""

_KEPT_BYTES: Final = 256 * 1024 * 1024
"""About the most bytes that these queries take."""

_LARGEST_NUMBER: Final = 2**63 - 1
_KNOWN_SCANS: Final = 1_000_000
_MOST_NODES: Final = 100_000
_NAME_OF_EVENT: Final = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:[\w$]+\.)*([\w$]+)"')
_STARTED: Final = "SparkListenerSQLExecutionStart"
_REPLANNED: Final = "SparkListenerSQLAdaptiveExecutionUpdate"
_FINISHED: Final = "SparkListenerSQLExecutionEnd"
_DRIVER_SUMS: Final = "SparkListenerDriverAccumUpdates"
_STAGE: Final = "SparkListenerStageCompleted"
_ENVIRONMENT: Final = "SparkListenerEnvironmentUpdate"
_EVENTS: Final = frozenset({_STARTED, _REPLANNED, _FINISHED, _DRIVER_SUMS, _STAGE, _ENVIRONMENT})
_IN_LINE: Final = tuple(name.encode() for name in sorted(_EVENTS))

_SCAN: Final = re.compile(r"(?:Gpu|Photon)?(?:File|Batch)?(?:Gpu)?Scan\b")
_FILTERS: Final = frozenset({"Filter", "PhotonFilter", "GpuFilter"})
_ROWS_PASS: Final = re.compile(
    r"(?:Gpu|Photon)?(?:ColumnarToRow|RowToColumnar|Project|CoalesceBatches|InputAdapter|ResultStage)\b.*"
    r"|WholeStageCodegen.*|InputAdapter"
)
"""The nodes that return the rows that they get."""

_CUT_OFF: Final = "..."
_DESCRIBED: Final = re.compile(
    r"\b(DataFilters|Location|PartitionFilters|PushedFilters|ReadSchema): (.*?)(?=, [A-Z][A-Za-z]+: |$)"
)
_LOCATION: Final = re.compile(r"[\w.$]*(?:\((\d+) paths?\))?\[(.*)\]", re.DOTALL)
_ROWS: Final = ("number of output rows", "output rows")
_BYTES: Final = "size of files read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedScan:
    """A scan of files by a query.

    Attributes:
        query: A text that only this scan of this log has, for samples.
        location: The first path; None if the log does not have it.
        read_schema: The columns that were read, as Spark prints a struct; empty if unknown.
        filters: The filters as they are printed.
        session: The settings of the application.
        started_ms: The start of the query in milliseconds since 1970; None if unknown.
        read_bytes: The size of the files that were opened; None if unknown.
        rows: The number of rows that the scan returned; None if unknown.
        passed: The number of rows that the filter above the scan returned; None without one.

    """

    query: str
    location: str | None
    read_schema: str
    filters: ScanFilters
    session: LogSession
    started_ms: int | None
    read_bytes: int | None
    rows: int | None
    passed: int | None


@dataclass(slots=True, kw_only=True)
class EventCounts:
    """The events of a log, and those that are not understood: not JSON, or JSON of another form."""

    events: int = 0
    queries: int = 0
    not_understood: int = 0


@dataclass(slots=True)
class _Scan:
    location: str | None
    read_schema: str
    filters: ScanFilters
    metrics: Mapping[str, int]
    filter_rows: int | None

    @property
    def sums(self) -> tuple[int, ...]:
        """The numbers of its sums and of that of the filter above it."""
        return (*self.metrics.values(), *(() if self.filter_rows is None else (self.filter_rows,)))

    @property
    def size(self) -> int:
        """About the bytes that it takes in memory."""
        filters = (self.filters.data, self.filters.partition, self.filters.pushed)
        return 1_000 + sum(len(text or "") for text in (self.location, self.read_schema, *filters))


@dataclass(slots=True)
class _Execution:
    number: int
    started_ms: int | None
    scans: list[_Scan] = field(default_factory=list)
    sums: dict[int, int] = field(default_factory=dict)


def scans_of(lines: Iterable[bytes], counts: EventCounts, *, log: str) -> Iterator[RecordedScan]:
    """Yield the scans of an application in the order in which their queries ended.

    Args:
        lines: The lines of its log.
        counts: The counts to add to.
        log: The name of the log.

    """
    application = _Application(log, counts)
    for line in lines:
        name = _event_name(line)
        if name is None:
            if line.strip():
                counts.not_understood += 1
            continue
        counts.events += 1
        if name in _EVENTS:
            event = json_object(line)
            if event is None:
                counts.not_understood += 1
                continue
            try:
                yield from application.take(name, event)
            except (KeyError, TypeError, ValueError, AttributeError):
                counts.not_understood += 1
    yield from application.rest()


def _event_name(line: bytes) -> str | None:
    """Return the name of the event in a line without its package, or None if there is none."""
    if not line[-100:].rstrip().endswith(b"}"):
        return None
    found = _NAME_OF_EVENT.match(line)
    if found is not None:
        return found[1].decode()
    # Other programs may write the keys in another order.
    if line.lstrip()[:1] != b"{" or b'"Event"' not in line:
        return None
    if not any(name in line for name in _IN_LINE):
        return ""
    event = json_object(line)
    name = None if event is None else event.get("Event")
    return name.rpartition(".")[2] if isinstance(name, str) else None


class _Application:
    """The queries of one application that are not finished, or were finished a moment ago."""

    def __init__(self, log: str, counts: EventCounts) -> None:
        self._log = log
        self._counts = counts
        self._session = LogSession()
        self._open: OrderedDict[int, _Execution] = OrderedDict()
        self._ended: OrderedDict[int, _Execution] = OrderedDict()
        self._by_sum: dict[int, _Execution] = {}
        self._known: set[int] = set()
        self._kept_bytes = 0

    def take(self, name: str, event: _Node) -> Iterator[RecordedScan]:
        match name:
            case "SparkListenerEnvironmentUpdate":
                self._session = _session(event)
            case "SparkListenerSQLExecutionStart" | "SparkListenerSQLAdaptiveExecutionUpdate":
                yield from self._plan(event, is_new=name == _STARTED)
            case "SparkListenerDriverAccumUpdates":
                for number, value in event["accumUpdates"]:
                    self._sum(number, value)
            case "SparkListenerStageCompleted":
                for entry in event["Stage Info"].get("Accumulables", ()):
                    self._sum(entry["ID"], entry.get("Value"))
            case "SparkListenerSQLExecutionEnd":
                ended = self._open.pop(event["executionId"], None)
                if ended is not None:
                    self._ended[ended.number] = ended
                    if len(self._ended) > _ENDED:
                        yield from self._scans(self._ended.popitem(last=False)[1])

    def rest(self) -> Iterator[RecordedScan]:
        """Yield the scans of the queries that are left at the end of the log."""
        for kept in (self._ended, self._open):
            while kept:
                yield from self._scans(kept.popitem(last=False)[1])

    def _plan(self, event: _Node, *, is_new: bool) -> Iterator[RecordedScan]:
        number = _number(event["executionId"])
        scans = [*_scans(event["sparkPlanInfo"])]
        execution = self._open.get(number) or self._ended.get(number)
        if execution is None:
            execution = _Execution(number, time_ms(event.get("time")))
            self._counts.queries += is_new
        self._forget(execution)
        execution.scans = scans
        self._kept_bytes += sum(scan.size for scan in scans)
        self._open.setdefault(number, execution) if number not in self._ended else None
        for scan in scans:
            for sum_number in scan.sums:
                self._by_sum[sum_number] = execution
        while len(self._open) > _OPEN or self._kept_bytes > _KEPT_BYTES:
            kept = self._open if len(self._open) > _OPEN or not self._ended else self._ended
            yield from self._scans(kept.popitem(last=False)[1])

    def _sum(self, number: Any, value: Any) -> None:
        """Keep the newest value of a sum of an open query; sums only grow."""
        execution = self._by_sum.get(number)
        if execution is None:
            return
        total = int(value) if isinstance(value, int | str) else 0
        if total > _LARGEST_NUMBER:
            raise ValueError
        execution.sums[number] = max(total, execution.sums.get(number, 0))

    def _scans(self, execution: _Execution) -> Iterator[RecordedScan]:
        """Yield the scans of a complete query, except those that an earlier one made for the cache."""
        for at, scan in enumerate(execution.scans):
            first = min(scan.metrics.values(), default=None)
            if first is not None:
                if first in self._known:
                    continue
                if len(self._known) < _KNOWN_SCANS:
                    self._known.add(first)
            sums = execution.sums
            rows = next((scan.metrics[name] for name in _ROWS if name in scan.metrics), None)
            yield RecordedScan(
                query=f"{self._log}\n{execution.number}\n{at}",
                location=scan.location,
                read_schema=scan.read_schema,
                filters=scan.filters,
                session=self._session,
                started_ms=execution.started_ms,
                read_bytes=sums.get(scan.metrics.get(_BYTES, -1)),
                rows=None if rows is None else sums.get(rows),
                passed=None if scan.filter_rows is None else sums.get(scan.filter_rows),
            )
        self._forget(execution)

    def _forget(self, execution: _Execution) -> None:
        """Forget the sums of a query and the bytes of its scans."""
        self._kept_bytes -= sum(scan.size for scan in execution.scans)
        for scan in execution.scans:
            for number in scan.sums:
                if self._by_sum.get(number) is execution:
                    del self._by_sum[number]


def _session(event: _Node) -> LogSession:
    spark = _properties(event.get("Spark Properties"))
    java = _properties(event.get("System Properties"))
    machine = java.get("user.timezone")
    return LogSession(
        zone=_zone(spark.get("spark.sql.session.timeZone") or machine), machine_zone=_zone(machine)
    )


def _properties(found: Any) -> Mapping[str, str]:
    """Return properties, which the log has as a mapping or as pairs."""
    return dict(found.items() if isinstance(found, Mapping) else found or ())


def _zone(name: str | None) -> tzinfo | None:
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z][\w+\-/]{0,63}", name, re.ASCII) is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _scans(plan: _Node) -> Iterator[_Scan]:
    """Yield the scans of a plan, each with the filter above it that gets all of its rows and no others."""
    todo: list[tuple[_Node, int | None]] = [(plan, None)]
    visited = 0
    while todo:
        node, filter_rows = todo.pop()
        visited += 1
        if visited > _MOST_NODES:
            raise ValueError(visited)
        name = node["nodeName"]
        children = node.get("children", ())
        if name.startswith("Reused"):
            # Another node of the plan has it, and it was read once.
            continue
        if _SCAN.match(name):
            scan = _scan(node, filter_rows)
            if scan is not None:
                yield scan
        if name in _FILTERS:
            filter_rows = _metrics(node).get(_ROWS[0], _metrics(node).get(_ROWS[1]))
        elif len(children) != 1 or _ROWS_PASS.fullmatch(name) is None:
            filter_rows = None
        todo.extend((child, filter_rows) for child in reversed(children))


def _scan(node: _Node, filter_rows: int | None) -> _Scan | None:
    """Return a scan of files, or None for another kind of scan."""
    described = node.get("metadata") or dict(_DESCRIBED.findall(node.get("simpleString") or ""))
    if "ReadSchema" not in described and "Location" not in described:
        return None
    values = {name: str(value) for name, value in described.items()}
    return _Scan(
        location=_first_path(values.get("Location", "")),
        read_schema=values.get("ReadSchema", ""),
        filters=ScanFilters(
            data=values.get("DataFilters"),
            partition=values.get("PartitionFilters"),
            pushed=values.get("PushedFilters"),
        ),
        metrics=_metrics(node),
        filter_rows=filter_rows,
    )


def _metrics(node: _Node) -> Mapping[str, int]:
    return {
        entry["name"]: _number(entry["accumulatorId"])
        for entry in node.get("metrics", ())
        if entry["name"] in (*_ROWS, _BYTES)
    }


def _number(value: Any) -> int:
    """Return a number of a query or a sum; raise TypeError for another value."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _first_path(location: str) -> str | None:
    found = _LOCATION.fullmatch(location)
    if found is None or not found[2]:
        return None
    path: str = found[2] if found[1] == "1" else found[2].partition(", ")[0]
    return None if path.endswith(_CUT_OFF) else path
