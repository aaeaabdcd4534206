"""YAML diffs of changed tables and settings, for reviewers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from parquetry.compiler.plan.model import Blocked, Change, Step, TableAction
from parquetry.compiler.security.masking import masked
from parquetry.compiler.spec_words import document, flatten, is_default, scalar
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.table_spec import TableSpec

DiffLine = tuple[str, str]
"""``+``, ``-`` or a space, and the line of YAML."""


def yaml_diff(entry: TableAction | Blocked) -> tuple[DiffLine, ...]:
    """Return the changed fields as a YAML diff in the order of their paths; for a new table, its spec."""
    if isinstance(entry, TableAction) and Step.CREATE in entry.steps:
        return tuple(_nested(_declared_fields(masked(entry.spec)), parents="+"))
    if isinstance(entry, Blocked) and entry.blocks_target:
        return settings_diff(entry.changes)
    ordered = sorted(entry.changes, key=lambda change: change.path.split("."))
    return tuple(_nested((_pair(change) for change in ordered), parents=" "))


def settings_diff(changes: Iterable[Change]) -> tuple[DiffLine, ...]:
    """Return the changed settings of a target as a diff, each with its path."""
    return tuple(
        (sign, f"{change.path}: {scalar(value)}")
        for change in changes
        for sign, value in (("-", change.old), ("+", change.new))
        if value is not None
    )


def _declared_fields(spec: TableSpec) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields of a new table's spec that differ from the defaults."""
    default = flatten(document(TableSpec(name=spec.name, columns=())))
    for path, value in flatten(document(spec)).items():
        is_omitted = is_default(path, value) or default.get(path) == value
        if path.startswith("clustering."):
            is_omitted = is_omitted or not _clusters(spec)
        if not is_omitted:
            yield path, None, value


def _clusters(spec: TableSpec) -> bool:
    """Return whether a table of this spec is clustered at all."""
    return spec.clustering.trigger is not Trigger.OFF


def _pair(change: Change) -> tuple[str, Any, Any]:
    """Return the path of a change with its old and new value."""
    return change.path, change.old, change.new


def _nested(fields: Iterable[tuple[str, Any, Any]], *, parents: str) -> Iterator[DiffLine]:
    """Yield the diff lines of fields by dotted path; a parent mapping gets one line with sign ``parents``."""
    open_path: tuple[str, ...] = ()
    for path, old, new in fields:
        *above, name = path.split(".")
        shared = 0
        while shared < min(len(open_path), len(above)) and open_path[shared] == above[shared]:
            shared += 1
        for depth in range(shared, len(above)):
            yield parents, f"{'  ' * depth}{above[depth]}:"
        open_path = tuple(above)
        indent = "  " * len(above)
        if old is not None:
            yield "-", f"{indent}{name}: {scalar(old)}"
        if new is not None:
            yield "+", f"{indent}{name}: {scalar(new)}"
