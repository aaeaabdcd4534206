"""Where tables were when they were applied from this directory: tells a moved table from a new one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_FILE = Path("target") / "locations.json"


def former_locations(root: Path, target: str, table: str) -> tuple[str, ...]:
    """The last known location of a table, as it was declared; empty where nothing is remembered."""
    known = _read(root).get(target, {}).get(table)
    return () if known is None else (known,)


def remember(root: Path, target: str, locations: Mapping[str, str]) -> None:
    """Note where tables are now; what is known of others stays."""
    known = _read(root)
    known[target] = known.get(target, {}) | dict(locations)
    path = root / _FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _read(root: Path) -> dict[str, dict[str, str]]:
    try:
        document = json.loads((root / _FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
