"""Failing keys of tests, kept in ``target/runs/<run id>/failures`` for people to look at."""

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
"""How many of each test are kept."""

_LONGEST: Final = 150


def save_keys(root: Path, run_id: str, table: str, test: str, keys: FailingKeys) -> str | None:
    """The file of the project that has them: an object a line. None where it cannot be written.

    Keys are texts, and personal ones are masked before they leave the job.
    """
    file = RUNS / run_id / "failures" / f"{_file_name(f'{table}.{test}')}.jsonl"
    lines = (json.dumps(dict(zip(keys.columns, row, strict=True)), ensure_ascii=False) for row in keys.rows)
    try:
        ConfinedFolder(root).write(root / file, "".join(f"{line}\n" for line in lines), private=True)
    except (OSError, LinkInTheWayError):
        return None
    return file.as_posix()


def _file_name(name: str) -> str:
    """The name as that of a file: names of tests may be made of columns, with any characters."""
    plain = quote(name, safe="")
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[:_LONGEST]}-{digest_of_texts([name])}"
