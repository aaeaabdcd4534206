"""Applied records and identities of tables, edited by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parquetry.runtime.table.applied import record_digest
from parquetry.runtime.timeline.sidecars import APPLIED_FOLDER

RECORD = f"{APPLIED_FOLDER}/{1:020d}.json"


def edit(file: Path, change: Callable[[dict[str, Any]], object], *, sealed: bool = True) -> None:
    """Change what a record says; it gets the digest of that unless it is not ``sealed``."""
    document = json.loads(file.read_text())
    change(document)
    if sealed:
        document["digest"] = record_digest(document)
    file.write_text(json.dumps(document))
