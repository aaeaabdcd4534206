"""Failing keys of tests, kept in ``target/runs/<run id>/failures`` for people to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

from parquetry.compiler.testing.passes import digest_of_texts
from parquetry.compiler.workspace.run_results import RUNS
from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.runtime.spec.row_tests import FailingKeys

MOST_KEYS: Final = 100
"""The number of keys that are kept per test."""

_LONGEST: Final = 150


def save_keys(root: Path, run_id: str, table: str, test: str, keys: FailingKeys) -> str | None:
    """Write failing keys to a file, one JSON object per line; return its path, or None if that fails.

    Keys are strings, and the job has already masked personal ones.
    """
    file = RUNS / run_id / "failures" / f"{_file_name(f'{table}.{test}')}.jsonl"
    lines = (json.dumps(dict(zip(keys.columns, row, strict=True)), ensure_ascii=False) for row in keys.rows)
    try:
        ConfinedFolder(root).write(root / file, "".join(f"{line}\n" for line in lines), private=True)
    except (OSError, LinkInTheWayError):
        return None
    return file.as_posix()


def _file_name(name: str) -> str:
    """Return a name as a file name: test names may contain column names with any characters."""
    plain = quote(name, safe="")
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[:_LONGEST]}-{digest_of_texts([name])}"
