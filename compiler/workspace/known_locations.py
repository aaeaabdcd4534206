"""Where tables were when they were applied from this directory: tells a moved table from a new one."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.runtime.spec.codec import parsed_json

_LOG = logging.getLogger(__name__)

_FILE = Path("target") / "locations.json"


def former_locations(root: Path, target: str, table: str) -> tuple[str, ...]:
    """The last known location of a table, as it was declared; empty where nothing is remembered."""
    known = _read(root).get(target, {}).get(table)
    return () if known is None else (known,)


def known_locations(root: Path, target: str) -> Mapping[str, str]:
    """The last known location of every table that was applied from here, as it was declared."""
    return _read(root).get(target, {})


def remember(root: Path, target: str, locations: Mapping[str, str | None]) -> None:
    """Note where tables are now, None for one that was forgotten; what is known of others stays.

    It follows what was done to the tables: where the note cannot be written, a warning is logged.
    """
    known = _read(root)
    merged = known.get(target, {}) | dict(locations)
    known[target] = {table: place for table, place in merged.items() if place is not None}
    try:
        ConfinedFolder(root).write(_FILE, json.dumps(known, indent=2, sort_keys=True) + "\n")
    except (OSError, LinkInTheWayError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        _LOG.warning(
            "cannot note in %s where the tables are: %s; the tables are not affected", root / _FILE, why
        )


def _read(root: Path) -> dict[str, dict[str, str]]:
    """What was noted; what no parquetry notes is left out."""
    try:
        document = parsed_json(ConfinedFolder(root).read(_FILE))
    except (FileNotFoundError, ValueError):
        return {}
    targets = document if isinstance(document, dict) else {}
    return {
        target: {table: place for table, place in known.items() if isinstance(place, str)}
        for target, known in targets.items()
        if isinstance(known, dict)
    }
