"""Checks of a table's tests: limits in order, queries that exist, settings that have an effect."""

from __future__ import annotations

from parquetry.project.diagnostics.model import one_of
from parquetry.project.loading.resolve import Resolution, test_entries
from parquetry.project.model.table_tests import (
    ERROR,
    LIMITS,
    LOWER_LIMITS,
    MEASURED,
    OF_WHOLE_TABLE,
    WARN,
    limit_of,
    table_test,
)
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.table_spec import TableTest


def check_tests(resolution: Resolution) -> None:
    """Reports tests that cannot fail, cannot be measured, or contradict themselves."""
    idle: dict[str, None] = {}
    for path, entry in test_entries(resolution):
        test = table_test(entry)
        if test is None:
            continue
        if test.kind not in MEASURED:
            idle[test.kind] = None
        _check_effect(resolution, test, path)
        _check_query(resolution, test, path)
        _check_order(resolution, test, path)
    if idle:
        summary = f"no command executes tests of rows yet: {', '.join(idle)}"
        hint = "check the rows at their source, or accept the warning with an allow entry"
        resolution.report("PQ709", summary, "tests", hint, at_key=True)


def check_tests_in_file(resolution: Resolution) -> None:
    """The same of a file for any table, as far as no policy and no column of a table is asked for."""
    for path, entry in test_entries(resolution):
        test = table_test(entry)
        if test is not None:
            _check_where(resolution, test, path)
            _check_query(resolution, test, path)
            _check_order(resolution, test, path)


def _check_effect(resolution: Resolution, test: TableTest, path: str) -> None:
    spec = resolution.table.spec
    if test.kind == "max_small_files" and spec.sizing.small_file_limit_bytes == 0:
        summary = "no file is small with small_file_limit: 0"
        resolution.report("PQ701", summary, f"{path}.{test.kind}", at_key=True)
    if test.kind == "clustering_debt" and spec.clustering.trigger is Trigger.OFF:
        summary = "there is no debt with clustering.trigger: off"
        resolution.report("PQ701", summary, f"{path}.{test.kind}", at_key=True)
    _check_where(resolution, test, path)


def _check_where(resolution: Resolution, test: TableTest, path: str) -> None:
    if test.where is not None and (test.kind in OF_WHOLE_TABLE or test.kind not in MEASURED):
        summary = f"where has no effect on {test.kind}"
        resolution.report("PQ701", summary, f"{path}.where", "remove it", at_key=True)


def _check_query(resolution: Resolution, test: TableTest, path: str) -> None:
    if test.kind != "query" or not resolution.intact("queries"):
        return
    names = [query.name for query in resolution.table.spec.extra.queries]
    if test.arguments["name"] not in names:
        summary = f"the table declares no query '{test.arguments['name']}'"
        hint = one_of("query", test.arguments["name"], names)
        resolution.report("PQ311", summary, f"{path}.query.name", hint)


def _check_order(resolution: Resolution, test: TableTest, path: str) -> None:
    units = LIMITS.get(test.kind, {})
    for key in units:
        limit = limit_of(test, key)
        if WARN in limit and ERROR in limit:
            low, high = (ERROR, WARN) if key in LOWER_LIMITS else (WARN, ERROR)
            if limit[low] > limit[high]:
                place = f"{path}.{test.kind}.{key}" if key else f"{path}.{test.kind}"
                summary = f"{low} is above {high}, so {WARN} is never alone"
                resolution.report("PQ501", summary, place, "swap them", at_key=True)
    if test.kind == "file_size":
        least, most = limit_of(test, "min").values(), limit_of(test, "max").values()
        if least and most and max(least) > min(most):
            resolution.report("PQ501", "min is above max", f"{path}.file_size", "swap them", at_key=True)
