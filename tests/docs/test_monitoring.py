"""The dashboard and the alert rules are current, and name metrics and labels that `parquetry metrics` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from parquetry.compiler.reports.health import HEALTH_CHECKS
from parquetry.compiler.reports.metrics import METRICS
from tools.monitoring import ALERTS, DASHBOARD, ROWS, alerts_text, dashboard_text

LABELS = {metric.full_name: {"project", "target", "table", *metric.labels} for metric in METRICS}
PANELS = json.loads(dashboard_text())["panels"]
RULES = yaml.safe_load(alerts_text())["groups"][0]["rules"]
IN_OVERVIEW = {"unreadable", "unhealthy"}
"""Metrics without a panel of their own, as the first row shows them."""


def expressions() -> Iterator[tuple[str, str]]:
    yield from ((panel["title"], target["expr"]) for panel in PANELS for target in panel.get("targets", ()))
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)


def test_the_files_are_current():
    message = "run: python -m tools.monitoring"
    assert DASHBOARD.read_text(encoding="utf-8") == dashboard_text(), message
    assert ALERTS.read_text(encoding="utf-8") == alerts_text(), message


@pytest.mark.parametrize(("name", "expression"), [*expressions()])
def test_an_expression_names_metrics_and_labels_that_are_written(name, expression):
    found = re.findall(r"\b(parquetry_\w+)(?:\{([^}]*)\})?", expression)
    assert found
    for metric, matchers in found:
        assert metric in LABELS
        assert {*re.findall(r"(\w+)=~?\"", matchers)} <= LABELS[metric]
    for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert {*names.split(", ")} <= set.union(*(LABELS[metric] for metric, _ in found))


def test_every_metric_is_on_the_dashboard():
    names = [name for names in ROWS.values() for name in names]
    assert sorted([*names, *IN_OVERVIEW]) == sorted(metric.name for metric in METRICS)
    shown = " ".join(expression for _, expression in expressions())
    assert all(re.search(rf"\b{metric.full_name}\b", shown) for metric in METRICS)


def test_only_timestamps_are_shown_as_ages():
    for title, expression in expressions():
        for metric in re.findall(r"time\(\) - (parquetry_\w+)", expression):
            assert metric.endswith("_timestamp_seconds"), title
    shown = " ".join(expression for _, expression in expressions())
    assert set(re.findall(r"parquetry_\w+_timestamp_seconds", shown)) == set(
        re.findall(r"time\(\) - (parquetry_\w+_timestamp_seconds)", shown)
    )


def test_legends_name_labels_of_their_metrics():
    for panel in PANELS:
        for target in panel.get("targets", ()):
            labels = {*re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])}
            found = re.findall(r"\bparquetry_\w+", target["expr"])
            assert labels <= set.union(*(LABELS[metric] for metric in found)), panel["title"]


def test_panels_do_not_overlap():
    ids = [panel["id"] for panel in PANELS]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in PANELS
        for place in (panel["gridPos"],)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_each_health_check_has_an_alert():
    watched = [check for rule in RULES for check in re.findall(r'check="(\w+)"', rule["expr"])]
    assert ["last_run", *watched] == [check.name for check in HEALTH_CHECKS], (
        "ParquetryRunFailed is its alert"
    )
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
