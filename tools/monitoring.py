"""The Grafana dashboard and the alert rules of Prometheus: ``python -m tools.monitoring``.

Both are written from the tables of metrics and of health checks. A test checks that they are current, and that every
metric in them is one that `parquetry metrics` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import yaml

from parquetry.compiler.reports.health import HEALTH_CHECKS
from parquetry.compiler.reports.metrics import METRICS, PREFIX, Metric

FOLDER: Final = Path(__file__).parents[1] / "docs" / "how-to" / "monitoring"
DASHBOARD: Final = FOLDER / "dashboard.json"
ALERTS: Final = FOLDER / "alerts.yml"

ROWS: Final[Mapping[str, tuple[str, ...]]] = {
    "Layout": ("files", "small_files", "size", "rows", "file_size", "partitions", "skew"),
    "Queries": ("query_read", "query_read_expected", "forecast_error"),
    "Debt": (
        *("clustering_debt", "oldest_due_file_timestamp", "file_versions", "expired_files", "expired"),
        *("orphans", "write_amplification"),
    ),
    "Services and runs": (
        *("last_commit_timestamp", "oldest_pending_write_timestamp", "last_clean_timestamp"),
        *("last_archive_timestamp", "last_clustering_timestamp", "timeline_commits"),
        *("commits_since_clean", "savepoints"),
        *("publish_lag", "last_run_timestamp", "last_run_success", "measured_timestamp", "readable"),
    ),
}
"""The rows of the dashboard with the metrics of their panels; those of the first row are written out."""

_LABELS: Final = ("project", "target", "table")
_CHOSEN: Final = ", ".join(f'{label}=~"${label}"' for label in _LABELS)
_UNITS: Final = {"bytes": "decbytes", "seconds": "s", "ratio": "none", "": "short"}
_WIDTH: Final = 24
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> dict[str, Any]:
    """Return the dashboard, for Grafana 10 and newer."""
    return {
        "uid": "parquetry-lake",
        "title": "parquetry: lake",
        "description": "The tables of a lake, from `parquetry metrics`.",
        "tags": ["parquetry"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "5m",
        "time": {"from": "now-7d", "to": "now"},
        "templating": {"list": [*_variables()]},
        "panels": [*_panels()],
    }


def _variables() -> Iterator[dict[str, Any]]:
    """Yield the choices of the data source and of each label; the choice of a label follows those before it."""
    yield {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"}
    for number, label in enumerate(_LABELS):
        chosen = ", ".join(f'{before}=~"${before}"' for before in _LABELS[:number])
        query = f"label_values({PREFIX}readable{{{chosen}}}, {label})"
        yield {
            "name": label,
            "type": "query",
            "datasource": _DATASOURCE,
            "definition": query,
            "query": {"query": query, "refId": label},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _panels() -> Iterator[dict[str, Any]]:
    ids, y = count(1), 0
    for place, panel in enumerate(_overview()):
        yield {"id": next(ids), "gridPos": _place(place, y, across=4), **panel}
    y += _HEIGHT
    metrics = {metric.name: metric for metric in METRICS}
    for title, names in ROWS.items():
        yield {
            "id": next(ids),
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"h": 1, "w": _WIDTH, "x": 0, "y": y},
        }
        y += 1
        for place, name in enumerate(names):
            yield {"id": next(ids), "gridPos": _place(place, y, across=3), **_panel(metrics[name])}
        y += _HEIGHT * -(-len(names) // 3)


def _place(number: int, y: int, *, across: int) -> dict[str, int]:
    width = _WIDTH // across
    return {"h": _HEIGHT, "w": width, "x": number % across * width, "y": y + number // across * _HEIGHT}


def _overview() -> Iterator[dict[str, Any]]:
    """Yield the panels of the first row: which tables need attention."""
    yield {
        **_base("Tables that cannot be read", "stat", unit="short"),
        "targets": [_target(f"count({unreadable(_CHOSEN)}) or vector(0)", "tables")],
    }
    yield {
        **_base("Tables by health check", "bargauge", unit="short"),
        "targets": [_target(f"sum by (check) ({PREFIX}unhealthy{{{_CHOSEN}}})", "{{check}}", instant=True)],
    }
    yield {
        **_base("Bytes that queries read too much", "bargauge", unit="decbytes"),
        "targets": [
            _target(
                f"topk(10, sum by ({', '.join(_LABELS)}) ({PREFIX}query_read_bytes{{{_CHOSEN}}} - "
                f"{PREFIX}query_read_expected_bytes{{{_CHOSEN}}}))",
                "{{table}}",
                instant=True,
            )
        ],
    }
    yield {
        **_base("Bytes due for clustering", "bargauge", unit="decbytes"),
        "targets": [
            _target(f"topk(10, {PREFIX}clustering_debt_bytes{{{_CHOSEN}}})", "{{table}}", instant=True)
        ],
    }


def _panel(metric: Metric) -> dict[str, Any]:
    """Return the panel of a metric; timestamps are shown as ages."""
    selected = f"{metric.full_name}{{{_CHOSEN}}}"
    is_time = metric.name.endswith("_timestamp")
    legend = " ".join(f"{{{{{label}}}}}" for label in ("table", *metric.labels))
    text = metric.help.removesuffix(".")
    return {
        **_base(
            f"Age: {text[0].lower()}{text[1:]}" if is_time else text, "timeseries", unit=_UNITS[metric.unit]
        ),
        "targets": [_target(f"time() - {selected}" if is_time else selected, legend)],
    }


def _base(title: str, kind: str, *, unit: str) -> dict[str, Any]:
    return {
        "type": kind,
        "title": title,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {},
    }


def _target(expression: str, legend: str, *, instant: bool = False) -> dict[str, Any]:
    return {
        "refId": "A",
        "datasource": _DATASOURCE,
        "expr": expression,
        "legendFormat": legend,
        "instant": instant,
        "range": not instant,
    }


def unreadable(chosen: str = "") -> str:
    """Return the expression for tables that cannot be read, without those that are only not applied."""
    labels = f"{{{chosen}}}" if chosen else ""
    new = ", ".join(['reason="not_applied"', *([chosen] if chosen else [])])
    on = ", ".join(_LABELS)
    return f"{PREFIX}readable{labels} == 0 unless on ({on}) {PREFIX}unreadable{{{new}}}"


def alerts() -> dict[str, Any]:
    """Return the alert rules: one for each health check, and those of tables and runs as a whole."""
    return {"groups": [{"name": "parquetry", "rules": [*_rules()]}]}


def _rules() -> Iterator[dict[str, Any]]:
    where = "{{ $labels.table }} ({{ $labels.project }} at {{ $labels.target }})"
    yield _rule(
        "ParquetryTableUnreadable",
        unreadable(),
        wait="1h",
        severity="critical",
        summary=f"{where} cannot be read",
        command="parquetry doctor --select {{ $labels.table }}",
    )
    yield _rule(
        "ParquetryRunFailed",
        f"{PREFIX}last_run_success == 0",
        wait="0m",
        severity="critical",
        summary=f"The last run of {where} failed",
        command="parquetry runs",
    )
    yield _rule(
        "ParquetryMetricsStale",
        f"time() - {PREFIX}measured_timestamp_seconds > 86400",
        wait="0m",
        severity="critical",
        summary=f"{where} was not measured for a day",
        command="parquetry metrics",
    )
    for check in HEALTH_CHECKS:
        if check.name == "last_run":
            continue  # ParquetryRunFailed also fires for tables that cannot be read
        yield _rule(
            f"ParquetryTable{check.name.title().replace('_', '')}",
            f'{PREFIX}unhealthy{{check="{check.name}"}} == 1',
            wait="1h",
            severity="warning",
            summary=f"{where} has {check.limit}",
            command="parquetry health {{ $labels.table }}",
        )


def _rule(
    name: str, expression: str, *, wait: str, severity: str, summary: str, command: str
) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": severity},
        "annotations": {
            "summary": summary,
            "command": f"{command} --target {{{{ $labels.target }}}}",
        },
    }


def dashboard_text() -> str:
    """Return the text of the dashboard's file."""
    return json.dumps(dashboard(), indent=2) + "\n"


def alerts_text() -> str:
    """Return the text of the alert rules' file."""
    return yaml.safe_dump(alerts(), sort_keys=False, width=120)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    DASHBOARD.write_text(dashboard_text(), encoding="utf-8")
    ALERTS.write_text(alerts_text(), encoding="utf-8")
