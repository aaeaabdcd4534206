"""Check of the alert rules and the dashboard's queries by promtool: ``python -m tools.check_monitoring``.

The queries are checked as recording rules, with a value for each variable of the dashboard.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.monitoring import ALERTS, DASHBOARD

_VARIABLES = {"$__range": "7d", "$__interval": "5m", "$__rate_interval": "5m"}


def queries() -> Iterator[str]:
    """Yield each query of the dashboard, for all projects, targets and tables."""
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    names = [variable["name"] for variable in document["templating"]["list"]]
    values = _VARIABLES | {f"${name}": ".*" for name in names}
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in values.items():
                query = query.replace(name, value)
            yield query


def main() -> int:
    """Check all of them, and return the exit code."""
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not installed; install Debian's package prometheus, or Prometheus itself")
        return 1
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries())]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "queries.yml")
        file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
        return subprocess.run([promtool, "check", "rules", ALERTS, file], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
