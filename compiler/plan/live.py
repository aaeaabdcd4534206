"""The live state of a table's fields, and changes that restore it although the spec did not change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from parquetry.compiler.plan.drift import RESTORE, Drift
from parquetry.compiler.plan.model import Change, ChangeClass
from parquetry.compiler.workspace.observation import Observation
from parquetry.runtime.apply.properties import differing_properties
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.types import Array, ColumnType, Map, Struct, parse_type
from parquetry.runtime.table.config import TableConfig


def with_live_values(
    changes: tuple[Change, ...], *, columns: Sequence[Column], config: TableConfig
) -> tuple[Change, ...]:
    """Return the changes with the values in the newest schema and hoodie.properties, None if absent."""
    return tuple(replace(change, live=_live_value(change, columns, config)) for change in changes)


def restored_properties(observation: Observation) -> tuple[Change, ...]:
    """Return changes that restore the properties that no longer match the applied spec."""
    if observation.spec is None or not observation.is_applied:
        return ()
    handle = observation.handle
    found = differing_properties(
        handle.config.raw, observation.spec, made_with=observation.made_with, place=handle.store.uri
    )
    return tuple(
        Change(
            path=f"properties.{drift.key}",
            old=drift.live,
            new=drift.applied,
            code="SC102",
            change_class=ChangeClass.METADATA,
        )
        for drift in found
    )


def changed_target(observation: Observation, target: str) -> tuple[Change, ...]:
    """Return a change that records the new name of the target if the applied record has another one."""
    applied = observation.handle.applied
    if applied is None or applied.forgotten or applied.target in (None, target):
        return ()
    change_class = ChangeClass.METADATA
    return (Change(path="target", old=applied.target, new=target, code="SC101", change_class=change_class),)


def restored_columns(
    drifts: Iterable[Drift], *, applied: TableSpec, declared: TableSpec
) -> tuple[Change, ...]:
    """Return changes that restore columns which another program or a restore dropped or narrowed.

    Only columns whose declared type is the applied one are restored. For others the declared change counts.
    """
    wanted = {column.name: column.type for column in declared.columns}
    before = {column.name: column.type for column in applied.columns}
    found = []
    for drift in drifts:
        section, _, rest = drift.path.partition(".")
        name = rest.removesuffix(".type")
        if section == "columns" and drift.restorable and wanted.get(name) == before[name]:
            cause = "dropped" if drift.live is None else "narrowed"
            found.append(
                Change(
                    path=drift.path,
                    old=drift.live,
                    new=drift.applied,
                    code="SC305",
                    change_class=ChangeClass.EVOLVE,
                    reason=f"{_author(drift)} {cause} it; put back",
                )
            )
    return tuple(found)


def _author(drift: Drift) -> str:
    writer = drift.writer or ""
    if writer == RESTORE:
        return RESTORE
    # Writes of parquetry drop no columns, so if its commit is the newest, a rollback removed a later schema.
    return "a rollback" if writer.startswith("parquetry ") else "another program"


def _live_value(change: Change, columns: Sequence[Column], config: TableConfig) -> Any:
    path = change.path
    if path == "columns":
        return [column.name for column in columns]
    if path.startswith("columns."):
        found = _column_value(path.removeprefix("columns."), columns)
        if isinstance(found, Struct) and isinstance(change.old, list):
            return [field.name for field in found.fields]
        return found if found is None or isinstance(found, bool) else str(found)
    if path.startswith("properties."):
        return config.raw.get(path.removeprefix("properties."))
    live_values = {
        "record_key": list(config.record_key),
        "partition_by": list(config.partition_by),
        "ordering": config.ordering,
        "partitioning.hive_style": config.hive_style,
        "partitioning.url_encode": config.url_encode,
    }
    return live_values.get(path)


def _column_value(path: str, columns: Sequence[Column]) -> ColumnType | bool | None:
    name, _, rest = path.partition(".")
    column = next((column for column in columns if column.name == name), None)
    if column is None or rest in ("description", "generated", "pii"):
        return None
    if rest == "nullable":
        return column.nullable
    return _type_at(parse_type(column.type), rest.removesuffix("type").rstrip("."))


def _type_at(kind: ColumnType, path: str) -> ColumnType | None:
    """Return the type at a dotted path within a type, or None if the path leads to no type."""
    if not path:
        return kind
    step, _, rest = path.partition(".")
    match kind:
        case Struct():
            field = next((field for field in kind.fields if field.name == step), None)
            return None if field is None else _type_at(field.type, rest)
        case Array() if step == "element":
            return _type_at(kind.element, rest)
        case Map() if step == "value":
            return _type_at(kind.value, rest)
    return None
