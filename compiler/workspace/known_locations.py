"""The locations of tables when they were last applied from this directory.

They distinguish a moved table from a new one.
"""

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
    """Return the last known location of a table as it was declared, or nothing if none was recorded."""
    known = _read(root).get(target, {}).get(table)
    return () if known is None else (known,)


def known_locations(root: Path, target: str) -> Mapping[str, str]:
    """Return the last known declared location of every table that was applied from this directory."""
    return _read(root).get(target, {})


def remember(root: Path, target: str, locations: Mapping[str, str | None]) -> None:
    """Record the locations of tables, with None for a forgotten one, and keep those of other tables.

    The tables are already changed at this point, so if the file cannot be written, only a warning is logged.
    """
    known = _read(root)
    merged = known.get(target, {}) | dict(locations)
    known[target] = {table: place for table, place in merged.items() if place is not None}
    try:
        ConfinedFolder(root).write(_FILE, json.dumps(known, indent=2, sort_keys=True) + "\n")
    except (OSError, LinkInTheWayError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        _LOG.warning(
            "cannot record the locations of tables in %s: %s; the tables are not affected", root / _FILE, why
        )


def _read(root: Path) -> dict[str, dict[str, str]]:
    """Return the recorded locations by target and table, without entries that have an unknown form."""
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
