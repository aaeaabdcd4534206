"""The declared tests of a table: their kinds, limits and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from parquetry.project.validation.units import duration_seconds, size_bytes
from parquetry.runtime.spec.table_spec import TableTest


class Unit(StrEnum):
    """The units of limits; sizes are recorded in bytes and durations in seconds."""

    COUNT = "count"
    RATIO = "ratio"
    BYTES = "bytes"
    SECONDS = "seconds"


ITSELF: Final = ""
"""The key of the limit if the test consists of a limit only, such as ``max_skew: 5``."""

LIMITS: Final[Mapping[str, Mapping[str, Unit]]] = {
    "max_small_files": {ITSELF: Unit.COUNT},
    "max_partition_files": {ITSELF: Unit.COUNT},
    "max_skew": {ITSELF: Unit.RATIO},
    "file_size": {"min": Unit.BYTES, "max": Unit.BYTES},
    "max_overlap_depth": {"value": Unit.COUNT},
    "query": {
        "max_files": Unit.COUNT,
        "max_row_groups": Unit.COUNT,
        "max_rows": Unit.COUNT,
        "max_bytes": Unit.BYTES,
    },
    "clustering_debt": {"max_bytes": Unit.BYTES, "max_age": Unit.SECONDS},
    "max_commit_age": {ITSELF: Unit.SECONDS},
    "write_amplification": {"max": Unit.RATIO},
    "max_file_versions": {ITSELF: Unit.COUNT},
    "max_orphans": {ITSELF: Unit.COUNT},
    "max_drift": {ITSELF: Unit.COUNT},
    "max_publish_lag": {ITSELF: Unit.SECONDS},
    "row_count": {
        "min": Unit.COUNT,
        "max": Unit.COUNT,
        "max_decrease": Unit.RATIO,
        "max_increase": Unit.RATIO,
    },
}
"""The limits of each kind of test that statistics and the timeline can answer, by key."""

NOT_NULL: Final = "not_null"
UNIQUE: Final = "unique"
EXPRESSION: Final = "expression"
ACCEPTED_VALUES: Final = "accepted_values"
RELATIONSHIPS: Final = "relationships"

OF_ROWS: Final = frozenset({NOT_NULL, UNIQUE, EXPRESSION, ACCEPTED_VALUES, RELATIONSHIPS})
"""The kinds of tests that count failing rows, limited by ``max_failures`` (for `not_null` by column)."""

OF_WHOLE_TABLE: Final = frozenset({"write_amplification", "max_drift", "max_publish_lag"})
"""Layout tests of the whole table, which cannot be restricted to partitions."""

LOWER_LIMITS: Final = frozenset({"min"})

WARN: Final = "warn"
ERROR: Final = "error"

_BESIDE: Final = frozenset({"name", "severity", "where", "max_failures"})
_READERS: Final[Mapping[Unit, Callable[[Any], Any]]] = {
    Unit.BYTES: size_bytes,
    Unit.SECONDS: duration_seconds,
}
_SUFFIXES: Final = {Unit.BYTES: "_bytes", Unit.SECONDS: "_seconds"}


def table_test(value: Mapping[str, Any]) -> TableTest | None:
    """Return the test of an entry of ``tests``, or None if the entry has no usable kind."""
    kinds = [key for key in value if key not in _BESIDE]
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    return TableTest(
        kind=kind,
        arguments=with_limits(kind, value[kind], _read, named=recorded_key),
        severity=value.get("severity", ERROR),
        name=value.get("name"),
        where=value.get("where"),
        max_failures=value.get("max_failures"),
    )


def recorded_key(key: str, unit: Unit) -> str:
    """Return the key under which a limit is recorded: it ends in the unit."""
    suffix = _SUFFIXES.get(unit, "")
    return key if key.endswith(suffix) else f"{key}{suffix}"


def with_limits(
    kind: str,
    arguments: Any,
    change: Callable[[Any, Unit], Any],
    *,
    named: Callable[[str, Unit], str],
) -> Any:
    """Return a test's arguments with ``change`` applied to each limit, under the key from ``named``."""
    units = LIMITS.get(kind)
    if units is None:
        return arguments
    if ITSELF in units:
        return _changed(arguments, units[ITSELF], change)
    return {
        named(key, units[key]) if key in units else key: _changed(value, units[key], change)
        if key in units
        else value
        for key, value in arguments.items()
    }


def _changed(limit: Any, unit: Unit, change: Callable[[Any, Unit], Any]) -> Any:
    if isinstance(limit, Mapping):
        return {severity: change(value, unit) for severity, value in limit.items()}
    return change(limit, unit)


def _read(value: Any, unit: Unit) -> Any:
    reader = _READERS.get(unit)
    return value if reader is None else reader(value)


def limit_of(test: TableTest, key: str) -> Mapping[str, Any]:
    """Return a test's limit under a key, as a mapping by severity; empty if there is none."""
    if test.kind in OF_ROWS:
        limit = 0 if test.max_failures is None else test.max_failures
    elif key == ITSELF:
        limit = test.arguments
    else:
        limit = test.arguments.get(recorded_key(key, LIMITS[test.kind][key]))
    if limit is None:
        return {}
    return limit if isinstance(limit, Mapping) else {test.severity: limit}


def unit_of(test: TableTest, key: str) -> Unit:
    """Return the unit of a test's limit under a key."""
    return Unit.COUNT if test.kind in OF_ROWS else LIMITS[test.kind][key]


def names_of(tests: Sequence[TableTest]) -> tuple[str, ...]:
    """Return the names of tests in their order; unnamed tests are named after kind and subject.

    Equal generated names are numbered from the second one on, such as ``max_skew_2``.
    """
    taken = {test.name for test in tests if test.name is not None}
    seen: Counter[str] = Counter()
    found = []
    for test in tests:
        if test.name is not None:
            found.append(test.name)
            continue
        plain = _plain_name(test)
        name = plain
        while name in taken:
            seen[plain] += 1
            name = f"{plain}_{seen[plain] + 1}"
        taken.add(name)
        found.append(name)
    return tuple(found)


def _plain_name(test: TableTest) -> str:
    """Return the name of an unnamed test: its kind, followed by its columns or its query."""
    match test.kind:
        case "query":
            return f"query_{test.arguments['name']}"
        case "max_overlap_depth":
            return f"max_overlap_depth_{test.arguments['column']}"
        case "not_null" | "unique":
            return "_".join([test.kind, *test.arguments])
        case "accepted_values":
            return f"accepted_values_{test.arguments['column']}"
        case "relationships":
            return "_".join([test.kind, *test.arguments["columns"]])
    return test.kind
