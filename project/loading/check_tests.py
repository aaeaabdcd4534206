"""Checks of a table's tests: order of limits, existing queries, settings that have an effect."""

from __future__ import annotations

from collections.abc import Collection

from parquetry.project.diagnostics.model import one_of
from parquetry.project.loading.resolve import Resolution, test_entries
from parquetry.project.model.table_tests import (
    ERROR,
    ITSELF,
    LIMITS,
    LOWER_LIMITS,
    OF_ROWS,
    OF_WHOLE_TABLE,
    RELATIONSHIPS,
    WARN,
    Unit,
    limit_of,
    table_test,
)
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.table_spec import TableTest


def check_tests(resolution: Resolution) -> None:
    """Report tests that cannot fail, cannot be measured, or contradict themselves."""
    for path, entry in test_entries(resolution):
        test = table_test(entry)
        if test is None:
            continue
        _check_effect(resolution, test, path)
        _check_query(resolution, test, path)
        _check_order(resolution, test, path)
        _check_columns_in_pairs(resolution, test, path)


def check_relationships(resolution: Resolution, tables: Collection[str]) -> None:
    """Report relationships to a table that is not in ``tables``, the names of the project's tables."""
    for path, entry in test_entries(resolution):
        to = entry.get(RELATIONSHIPS, {}).get("to")
        if to is not None and to not in tables:
            summary, hint = f"the project has no table '{to}'", one_of("table", to, sorted(tables))
            resolution.report("PQ311", summary, f"{path}.{RELATIONSHIPS}.to", hint)


def check_tests_in_file(resolution: Resolution) -> None:
    """Run the checks of tests that need no policy and no column, for a file of tests."""
    for path, entry in test_entries(resolution):
        test = table_test(entry)
        if test is not None:
            _check_where(resolution, test, path)
            _check_query(resolution, test, path)
            _check_order(resolution, test, path)
            _check_columns_in_pairs(resolution, test, path)
            _check_location(resolution, test, path)


def _check_columns_in_pairs(resolution: Resolution, test: TableTest, path: str) -> None:
    """Report a relationship whose two lists of columns differ in length."""
    if test.kind != RELATIONSHIPS:
        return
    own, other = test.arguments["columns"], test.arguments.get("to_columns")
    if other is not None and len(other) != len(own):
        summary = f"columns has {len(own)} entries and to_columns {len(other)}"
        hint = "name a column of the other table for each of this one"
        resolution.report("PQ502", summary, f"{path}.{RELATIONSHIPS}.to_columns", hint, at_key=True)


def _check_location(resolution: Resolution, test: TableTest, path: str) -> None:
    """Report a relationship to a table by name, as a file of tests does not know a project."""
    if test.kind == RELATIONSHIPS and "/" not in test.arguments["to"]:
        summary = (
            f"'{test.arguments['to']}' is not a path or URI; a file of tests cannot refer to a table by name"
        )
        hint = f"write ./{test.arguments['to']} for a folder"
        resolution.report("PQ311", summary, f"{path}.{RELATIONSHIPS}.to", hint)


def _check_effect(resolution: Resolution, test: TableTest, path: str) -> None:
    """Report a test that cannot fail under the settings of the table."""
    spec = resolution.table.spec
    if test.kind == "max_small_files" and spec.sizing.small_file_limit_bytes == 0:
        summary = "no file is small with small_file_limit: 0"
        resolution.report("PQ701", summary, f"{path}.{test.kind}", at_key=True)
    if test.kind == "clustering_debt" and spec.clustering.trigger is Trigger.OFF:
        summary = "there is no debt with clustering.trigger: off"
        resolution.report("PQ701", summary, f"{path}.{test.kind}", at_key=True)
    _check_where(resolution, test, path)


def _check_where(resolution: Resolution, test: TableTest, path: str) -> None:
    """Report ``where`` and ``max_failures`` on a test that ignores them."""
    if test.where is not None and test.kind in OF_WHOLE_TABLE:
        summary = f"where has no effect on {test.kind}"
        resolution.report("PQ701", summary, f"{path}.where", "remove it", at_key=True)
    if test.max_failures is not None and test.kind not in OF_ROWS:
        summary, hint = f"max_failures has no effect on {test.kind}", f"write the limit under {test.kind}"
        resolution.report("PQ701", summary, f"{path}.max_failures", hint, at_key=True)


def _check_query(resolution: Resolution, test: TableTest, path: str) -> None:
    """Report a test of a query that the table does not declare."""
    if test.kind != "query" or not resolution.intact("queries"):
        return
    names = [query.name for query in resolution.table.spec.extra.queries]
    if test.arguments["name"] not in names:
        summary = f"the table declares no query '{test.arguments['name']}'"
        hint = one_of("query", test.arguments["name"], names)
        resolution.report("PQ311", summary, f"{path}.query.name", hint)


def _check_order(resolution: Resolution, test: TableTest, path: str) -> None:
    """Report limits of a test that contradict each other."""
    units = LIMITS.get(test.kind, {ITSELF: Unit.COUNT})
    for key in units:
        limit = limit_of(test, key)
        if WARN in limit and ERROR in limit:
            low, high = (ERROR, WARN) if key in LOWER_LIMITS else (WARN, ERROR)
            if limit[low] > limit[high]:
                place = f"{path}.{test.kind}.{key}" if key else f"{path}.{test.kind}"
                if test.kind in OF_ROWS:
                    place = f"{path}.max_failures"
                summary = f"{low} is above {high}, so {WARN} never has an effect"
                resolution.report("PQ501", summary, place, "swap them", at_key=True)
    if test.kind in ("file_size", "row_count"):
        least, most = limit_of(test, "min").values(), limit_of(test, "max").values()
        if least and most and max(least) > min(most):
            resolution.report("PQ501", "min is above max", f"{path}.{test.kind}", "swap them", at_key=True)
