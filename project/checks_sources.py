"""Checks of sources, queries and the SQL in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parquetry.project.model import Operation, Source
from parquetry.project.resolve import Resolution
from parquetry.project.sql_guard import (
    SqlProblem,
    Token,
    check_expression,
    check_select,
    column_names,
    suspicious_names,
)

_WITHOUT_KEY = (Operation.INSERT, Operation.BULK_INSERT)


def check_sources(resolution: Resolution) -> None:
    """Reports sources, queries and SQL that cannot work."""
    _check_unique(resolution, "sources", "source")
    _check_unique(resolution, "queries", "query")
    for source in resolution.table.sources:
        _check_operation(resolution, source)
    _check_sql(resolution)


def _check_unique(resolution: Resolution, section: str, noun: str) -> None:
    first: dict[str, str] = {}
    for index, entry in enumerate(resolution.file.value.get(section, ())):
        name = entry["name"]
        if (earlier := first.get(name.lower())) is not None:
            node = resolution.file.node.at((section, index, "name"))
            also = "" if earlier == name else f", also as '{earlier}'"
            resolution.report_at("PQ301", f"{noun} '{name}' is there twice{also}", node, "rename one of them")
        first.setdefault(name.lower(), name)


def _check_operation(resolution: Resolution, source: Source) -> None:
    path = f"sources.{source.name}"
    operation = f"{path}.operation"
    has_key = bool(resolution.table.record_key) or not resolution.intact("record_key")

    def no_effect(key: str, why: str) -> None:
        resolution.report("PQ701", f"{key} has no effect {why}", f"{path}.{key}", "remove it", at_key=True)

    if source.operation not in _WITHOUT_KEY and not has_key:
        summary = f"operation {source.operation} of source '{source.name}' needs a record key"
        resolution.report("PQ502", summary, operation, "declare record_key, or use operation: insert")
    if source.match and source.operation is not Operation.DELETE:
        no_effect("match", f"with operation: {source.operation}")
    if source.delete_when is not None and source.operation is not Operation.UPSERT:
        no_effect("delete_when", f"with operation: {source.operation}")
    if source.drop_duplicates and source.operation is Operation.UPSERT:
        no_effect("drop_duplicates", "with operation: upsert, which always does")
    if source.drop_duplicates and not has_key:
        resolution.report(
            "PQ502",
            "drop_duplicates needs a record key",
            f"{path}.drop_duplicates",
            "declare record_key",
            at_key=True,
        )
    if source.read == "full" and source.operation in (Operation.INSERT, Operation.BULK_INSERT):
        summary = f"read: full with operation: {source.operation} adds all rows again at every run"
        resolution.report("PQ706", summary, f"{path}.read", "use read: new or operation: upsert")
    if source.path in (resolution.table.location, resolution.table.location_declared):
        summary = f"source '{source.name}' reads the table itself, whose every commit is new to it"
        resolution.report("PQ706", summary, f"{path}.path", "name the path of another table")
    if (
        source.operation is Operation.INSERT_OVERWRITE
        and not resolution.table.partition_by
        and resolution.intact("partition_by")
    ):
        summary = "insert_overwrite replaces whole partitions, and the table has none"
        resolution.report("PQ701", summary, operation, "use insert_overwrite_table")


def _check_sql(resolution: Resolution) -> None:
    generated = {c.name.lower(): c.name for c in resolution.table.columns if c.generated is not None}
    for column in resolution.table.columns:
        if column.generated is not None:
            path = f"columns.{column.name}.generated"
            found = _guarded(resolution, check_expression, column.generated, path)
            names = column_names(found) & generated.keys()
            if names:
                # All are computed at once, so that one would see another as null.
                other = (
                    "itself" if column.name.lower() in names else f"'{generated[min(names)]}', which is too"
                )
                summary = f"column '{column.name}' is generated from {other}"
                resolution.report("PQ601", summary, path, "use columns that are not generated")
            _check_names(resolution, found, path)
    for source in resolution.table.sources:
        if source.select is not None:
            _guarded(resolution, check_select, source.select, f"sources.{source.name}.select")
        if source.delete_when is not None:
            _guarded(resolution, check_expression, source.delete_when, f"sources.{source.name}.delete_when")
    for query in resolution.table.queries:
        path = f"queries.{query.name}.where"
        _check_names(resolution, _guarded(resolution, check_expression, query.where, path), path)
    for index, entry in enumerate(resolution.layered.value.get("tests", ())):
        if "expression" in entry:
            path = f"tests.{index}.expression"
            _check_names(resolution, _guarded(resolution, check_expression, entry["expression"], path), path)


def _guarded(
    resolution: Resolution, check: Callable[[str], list[Token]], text: str, path: str
) -> Sequence[Token]:
    try:
        return check(text)
    except SqlProblem as problem:
        resolution.report(problem.code, problem.summary, path, problem.hint)
        return ()


def _check_names(resolution: Resolution, found: Sequence[Token], path: str) -> None:
    if not resolution.columns_known:
        return
    columns = [column.name for column in resolution.table.columns]
    for word, hint in suspicious_names(found, columns).items():
        resolution.report("PQ603", f"the table has no column '{word}'", path, hint)
