"""Checks of a table's columns: their names and types, and each setting that refers to a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from parquetry.project.diagnostics.model import did_you_mean
from parquetry.project.loading.resolve import Resolution, test_entries
from parquetry.project.model.resolved import ResolvedTable
from parquetry.project.sql.checked import columns_read
from parquetry.project.sql.guard import SqlProblem, check_expression
from parquetry.runtime.spec.rules import (
    DELETE_FLAG,
    BrokenRule,
    Rule,
    broken_flag,
    broken_names,
    broken_references,
    missing_column,
    type_of,
)
from parquetry.runtime.spec.table_spec import KeyScope, Operation
from parquetry.runtime.spec.types import (
    ColumnType,
    Decimal,
    Primitive,
    Struct,
    holds_array,
)

_BY_KEY = (Operation.UPSERT, Operation.DELETE)
_UNSTABLE_FUNCTIONS = frozenset(
    {"current_date", "current_timestamp", "now", "rand", "randn", "random", "unix_timestamp", "uuid"}
)
"""The most common functions whose value changes between calls."""
_UNSTABLE_TEXTS = frozenset({"float", "double", "timestamp"})
_MOST_HINTS = 50


def check_columns(resolution: Resolution) -> None:
    """Report errors and warnings about columns and references to them."""
    _check_names(resolution)
    _check_types(resolution)
    _check_record_key(resolution)
    _check_ordering(resolution)
    _check_partitioning(resolution)
    _check_references(resolution)


def _check_names(resolution: Resolution) -> None:
    """Report columns with reserved or equal names, and a delete flag of the wrong type."""
    listed = isinstance(resolution.file.value.get("columns"), list)
    entries = resolution.file.value["columns"] if listed else ()
    names = [entry["name"] for entry in entries] or [column.name for column in resolution.table.spec.columns]
    for index, broken in broken_names(names, new=True):
        if broken.rule is Rule.TWICE:
            # Report at the second column's node: a path by name leads to the first.
            node = resolution.file.node.at(("columns", index, "name") if listed else ("columns", "file"))
            resolution.report_at("PQ301", broken.problem, node, broken.remedy)
        elif broken.rule in (Rule.RESERVED, Rule.CONTROL):
            path = f"columns.{names[index]}.name" if listed else "columns.file"
            resolution.report("PQ405", broken.problem, path, broken.remedy)
    flag = resolution.types.get(DELETE_FLAG)
    if flag is not None and (wrong := broken_flag(DELETE_FLAG, flag)):
        resolution.report("PQ404", wrong.problem, f"columns.{DELETE_FLAG}.type", wrong.remedy)


def _check_types(resolution: Resolution) -> None:
    """Warn about types that are stored as other ones or that Hudi's own merges cannot process."""
    for name, type_ in resolution.types.items():
        path = f"columns.{name}.type"
        if type_ in (Primitive(name="tinyint"), Primitive(name="smallint")):
            resolution.report(
                "PQ707", f"column '{name}' is {type_}, which is stored as int", path, "declare it as int"
            )
        if holds_array(type_):
            summary = (
                f"column '{name}' contains arrays: merges by Hudi itself fail if they have null elements"
            )
            resolution.report("PQ703", summary, path)


def _check_record_key(resolution: Resolution) -> None:
    """Report key columns that may be null or whose text depends on the writer."""
    table = resolution.table
    nullable = {column.name for column in table.spec.columns if column.nullable}
    for index, name in enumerate(table.spec.record_key):
        path = f"record_key.{index}"
        type_ = type_of(resolution.types, name)
        if type_ is None:
            continue
        if str(type_) in _UNSTABLE_TEXTS:
            summary = f"key column '{name}' is {type_}, whose text depends on the writer"
            resolution.report("PQ704", summary, path)
        if name.partition(".")[0] in nullable:
            top = name.partition(".")[0]
            hint = f"declare column '{top}' with nullable: false"
            resolution.report("PQ402", f"key column '{name}' may be null", path, hint)


def _check_ordering(resolution: Resolution) -> None:
    """Report an ordering column of a table without a record key, where it has no effect."""
    if resolution.table.spec.ordering is None:
        return
    if not resolution.table.spec.record_key and resolution.intact("record_key"):
        resolution.report(
            "PQ701", "ordering has no effect without record_key", "ordering", "remove it", at_key=True
        )


def _check_partitioning(resolution: Resolution) -> None:
    """Report partition columns of unsuitable types, and settings that need partitions without any."""
    table = resolution.table
    for index, name in enumerate(table.spec.partition_by):
        path = f"partition_by.{index}"
        type_ = type_of(resolution.types, name)
        if type_ is None:
            continue
        if isinstance(type_, Decimal) or str(type_) in _UNSTABLE_TEXTS:
            summary = f"partition column '{name}' is {type_}, whose text depends on the writer"
            resolution.report("PQ704", summary, path, "generate a date column from it")
        elif type_ == Primitive(name="string") and not table.spec.url_encode:
            summary = f"partition column '{name}' is a string and url_encode is off"
            resolution.report("PQ705", summary, path, "leave url_encode on")
    _check_moving_keys(resolution)
    if not table.spec.partition_by and resolution.intact("partition_by"):
        if resolution.was_declared("partitioning") and "partitioning" in resolution.file.value:
            resolution.report(
                "PQ701", "partitioning has no effect without partition_by", "partitioning", at_key=True
            )
        if table.spec.key_scope == "table" and "key_scope" in resolution.file.value:
            resolution.report(
                "PQ701", "key_scope: table has no effect without partition_by", "key_scope", at_key=True
            )


def _check_moving_keys(resolution: Resolution) -> None:
    """Warn if a key can come with another partition value and a write looks keys up by partition."""
    table = resolution.table
    is_key_needed = not table.spec.sources or any(
        source.operation in _BY_KEY for source in table.spec.sources
    )
    if table.spec.key_scope is not KeyScope.PARTITION or not table.spec.record_key or not is_key_needed:
        return
    if not resolution.columns_known or not resolution.intact("record_key", "partition_by", "sources"):
        return
    known = [name for name in table.spec.partition_by if type_of(resolution.types, name) is not None]
    loose = [name for name in known if not _follows_from_key(table, name)]
    if loose and all(type_of(resolution.types, name) is not None for name in table.spec.record_key):
        shown = " and ".join(f"'{name}'" for name in loose)
        summary = f"a key with another value of {shown}, which is not part of the key, becomes a second row"
        hint = "set key_scope: table, add it to the record key, or accept it with an allow entry"
        resolution.report("PQ710", summary, "record_key", hint, at_key=True)


def _follows_from_key(table: ResolvedTable, name: str) -> bool:
    """Return whether a key determines the column: it is part of the key, or is generated from it."""
    if name in table.spec.record_key:
        return True
    generated = next((c.generated for c in table.spec.columns if c.name == name), None)
    if generated is None:
        return False
    try:
        sql = check_expression(generated)
    except SqlProblem:
        return True  # check_sources reports it
    if any(token.text.lower() in _UNSTABLE_FUNCTIONS for token in sql.tokens):
        return False
    read = columns_read(sql, {column.name.lower() for column in table.spec.columns})
    return bool(read) and read <= {field.lower() for field in table.spec.record_key}


def _check_references(resolution: Resolution) -> None:
    """Report settings that name a missing column or one of an unsuitable type."""
    spec = resolution.table.spec
    for path, name, broken in broken_references(spec, resolution.types):
        if broken.rule is Rule.MISSING:
            _report_missing(resolution, broken, path, name)
        else:
            resolution.report("PQ404", broken.problem, path, broken.remedy)
    for index, name in enumerate(spec.clustering.execution.columns):
        if name in spec.partition_by:
            path = f"clustering.execution.columns.{index}"
            resolution.report(
                "PQ406", f"'{name}' is a partition column, so sorting by it has no effect", path, "remove it"
            )
    for source in spec.sources:
        for index, name in enumerate(source.match):
            path, setting = f"sources.{source.name}.match.{index}", f"match of source '{source.name}'"
            _check_known(resolution, name, path, setting)
    for path, name in _tested(resolution):
        _check_known(resolution, name, path, "tests")


def _tested(resolution: Resolution) -> Iterator[tuple[str, str]]:
    """Yield the path and name of each column that a test names."""
    for path, entry in test_entries(resolution):
        for kind in ("not_null", "unique"):
            names: Sequence[str] = entry.get(kind, ())
            for position, name in enumerate(names):
                yield f"{path}.{kind}.{position}", name
        for position, name in enumerate(entry.get("relationships", {}).get("columns", ())):
            yield f"{path}.relationships.columns.{position}", name
        if "accepted_values" in entry:
            yield f"{path}.accepted_values.column", entry["accepted_values"]["column"]
        overlap = entry.get("max_overlap_depth")
        if overlap:
            yield f"{path}.max_overlap_depth.column", overlap["column"]


def _check_known(resolution: Resolution, name: str, path: str, setting: str) -> None:
    """Report a setting that names a missing column."""
    if type_of(resolution.types, name) is None:
        _report_missing(resolution, missing_column(setting, name), path, name)


def _report_missing(resolution: Resolution, broken: BrokenRule, path: str, name: str) -> None:
    """Report a missing column, with the nearest known name, if the columns are known."""
    if resolution.columns_known:
        near = did_you_mean(name, _names(resolution)) if len(resolution.found) < _MOST_HINTS else None
        resolution.report("PQ401", broken.problem, path, near or broken.remedy)


def _names(resolution: Resolution) -> list[str]:
    """Return the names of all columns and, with dots, of all fields of structs."""
    found = []
    pending: list[tuple[str, ColumnType]] = list(resolution.types.items())
    while pending:
        name, type_ = pending.pop()
        found.append(name)
        fields = type_.fields if isinstance(type_, Struct) else ()
        pending.extend((f"{name}.{field.name}", field.type) for field in fields)
    return found
