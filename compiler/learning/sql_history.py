"""The statements of query histories: Trino's query events, Athena's query executions, manifests of dbt.

Trino's event listeners write a JSON object for each completed query. `aws athena batch-get-query-execution`
prints one with a list, and `dbt compile` writes one with all nodes. A file has one object on each line, or is
one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from parquetry.compiler.learning.log_files import MOST_VALUES, json_object, time_ms, values_in

LARGEST_DOCUMENT_BYTES: Final = 256 * 1024 * 1024
"""The largest object that is read: a manifest of dbt, which has all nodes, on one line or on several."""

MOST_DOCUMENT_VALUES: Final = 5_000_000
_MOST_BYTES: Final = 2**63 - 1
_DIALECTS: Final = {
    **{name: name for name in ("spark", "databricks", "trino", "athena")},
    "glue": "spark",
    "starburst": "trino",
}
"""The dialects of sqlglot by the type of a dbt adapter."""

_WITHOUT_RESULT: Final = ("FAILED", "CANCELLED")
_QUERIES_OF_DBT: Final = frozenset({"model", "analysis", "snapshot"})


class LogKind(StrEnum):
    """The program that wrote a log."""

    SPARK = "spark"
    TRINO = "trino"
    ATHENA = "athena"
    DBT = "dbt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement that an engine executed, or that dbt compiled.

    Attributes:
        query: A text that only this statement of this log has.
        sql: The text.
        dialect: The dialect of sqlglot.
        context: The catalog and the schema of names without one, as far as known.
        started_ms: The start in milliseconds since 1970; None if unknown.
        sizes: The bytes that were read of each table, by its full name; empty if unknown.
        read_bytes: The bytes that were read of all tables; None if unknown.

    """

    query: str
    sql: str
    dialect: str
    context: tuple[str, ...] = ()
    started_ms: int | None = None
    sizes: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    read_bytes: int | None = None


@dataclass(slots=True, kw_only=True)
class StatementCounts:
    """The objects of a log, the lines and objects that are not understood, and statements that failed.

    ``too_large`` says whether an object had too many bytes or values.
    """

    events: int = 0
    not_understood: int = 0
    failed: int = 0
    too_large: bool = False


def statements_of(
    lines: Iterable[bytes], kind: LogKind, counts: StatementCounts, *, log: str
) -> Iterator[Statement]:
    """Yield the statements of a log in their order.

    Args:
        lines: The lines of the log.
        kind: The program that wrote it.
        counts: The counts to add to.
        log: The name of the log.

    """
    read = {LogKind.TRINO: _of_trino, LogKind.ATHENA: _of_athena, LogKind.DBT: _of_dbt}[kind]
    most_values = MOST_DOCUMENT_VALUES if kind is LogKind.DBT else MOST_VALUES
    for number, document in enumerate(_documents(lines, counts, most_values)):
        counts.events += 1
        try:
            yield from read(document, f"{log}\n{number}", counts)
        except (KeyError, TypeError, ValueError, AttributeError):
            counts.not_understood += 1


def _documents(
    lines: Iterable[bytes], counts: StatementCounts, most_values: int
) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of lines; if the first line has none, yield the object of all lines."""
    begun: list[bytes] = []
    size = 0
    is_first = True
    for line in lines:
        if not line.strip():
            continue
        if not begun:
            found = json_object(line, most_values=most_values)
            if found is not None:
                yield found
                is_first = False
                continue
            if not is_first:
                counts.not_understood += 1
                continue
        size += len(line)
        if size > LARGEST_DOCUMENT_BYTES:
            break
        begun.append(line)
    if begun:
        text = b"\n".join(begun)
        counts.too_large = size > LARGEST_DOCUMENT_BYTES or values_in(text) > MOST_DOCUMENT_VALUES
        whole = None if counts.too_large else json_object(text, most_values=MOST_DOCUMENT_VALUES)
        if whole is None:
            counts.not_understood += 1
        else:
            yield whole


def _of_trino(event: Mapping[str, Any], query: str, counts: StatementCounts) -> Iterator[Statement]:
    """Yield the statement of a QueryCompletedEvent, unless it failed."""
    if event.get("failureInfo") is not None:
        counts.failed += 1
        return
    context, inputs = event["context"], (event.get("ioMetadata") or {}).get("inputs", ())
    sizes: dict[tuple[str, ...], int] = {}
    for each in inputs:
        read_bytes = _count(each.get("physicalInputBytes"))
        if read_bytes is not None:
            name = tuple(str(each[part]).lower() for part in ("catalogName", "schema", "table"))
            sizes[name] = sizes.get(name, 0) + read_bytes
    yield Statement(
        query=query,
        sql=_text(event["metadata"]["query"]),
        dialect="trino",
        context=_context(context.get("catalog"), context.get("schema")),
        started_ms=_started(event.get("createTime")),
        sizes=sizes,
        read_bytes=_count((event.get("statistics") or {}).get("physicalInputBytes")),
    )


def _of_athena(answer: Mapping[str, Any], query: str, counts: StatementCounts) -> Iterator[Statement]:
    """Yield the statements of an answer of Athena with one execution or several, or of an execution alone."""
    executions = answer.get("QueryExecutions") or [answer.get("QueryExecution", answer)]
    for number, each in enumerate(executions):
        try:
            status = each.get("Status") or {}
            if status.get("State") in _WITHOUT_RESULT:
                counts.failed += 1
                continue
            named = each.get("QueryExecutionContext") or {}
            yield Statement(
                query=f"{query}\n{number}",
                sql=_text(each["Query"]),
                dialect="athena",
                context=_context(named.get("Catalog"), named.get("Database")),
                started_ms=_started(status.get("SubmissionDateTime")),
                read_bytes=_count((each.get("Statistics") or {}).get("DataScannedInBytes")),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            counts.not_understood += 1


def _of_dbt(manifest: Mapping[str, Any], query: str, counts: StatementCounts) -> Iterator[Statement]:
    """Yield the compiled models, analyses and snapshots; those that are not compiled are not understood."""
    dialect = _DIALECTS[manifest["metadata"]["adapter_type"]]
    for number, node in enumerate(manifest["nodes"].values()):
        if node["resource_type"] not in _QUERIES_OF_DBT or node.get("language", "sql") != "sql":
            continue
        sql = node.get("compiled_code")
        if not isinstance(sql, str):
            counts.not_understood += 1
            continue
        context = _context(node.get("database"), node.get("schema"))
        yield Statement(query=f"{query}\n{number}", sql=sql, dialect=dialect, context=context)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _count(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _MOST_BYTES else None


def _context(catalog: Any, schema: Any) -> tuple[str, ...]:
    """Return the catalog and the schema in lower case; without a schema, a name is not complete."""
    if not isinstance(schema, str) or not schema:
        return ()
    return (catalog.lower(), schema.lower()) if isinstance(catalog, str) and catalog else (schema.lower(),)


def _started(value: Any) -> int | None:
    """Return a time in milliseconds since 1970, which the engines write as a text or as seconds."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return time_ms(int(moment.timestamp() * 1000)) if moment.tzinfo is not None else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return time_ms(int(value * 1000)) if is_number else None
    except (ValueError, OverflowError):
        return None
