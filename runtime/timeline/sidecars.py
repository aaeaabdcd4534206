"""Files below ``.hoodie/.parquetry/``: their places, and the names that readers took for data.

ClickHouse and others take every ``*.parquet`` below a table for one of its files, ``.hoodie/`` too.
So no name here ends like a data file.
"""

from __future__ import annotations

import uuid
from typing import Final

SIDECAR_FOLDER: Final = ".hoodie/.parquetry"
IDENTITY_PATH: Final = f"{SIDECAR_FOLDER}/table.json"
APPLIED_FOLDER: Final = f"{SIDECAR_FOLDER}/applied"
STATISTICS_FOLDER: Final = f"{SIDECAR_FOLDER}/stats"
LEDGER_FOLDER: Final = f"{SIDECAR_FOLDER}/sources"
CLAIMS_FOLDER: Final = f"{SIDECAR_FOLDER}/instants"
BREAKING_FOLDER: Final = f"{SIDECAR_FOLDER}/breaking"
PROBE_PREFIX: Final = f"{SIDECAR_FOLDER}/probe-"
STAGE_FOLDER: Final = f"{SIDECAR_FOLDER}/stage"
REPORTS_FOLDER: Final = f"{SIDECAR_FOLDER}/reports"
"""Where jobs leave their results for launchers, which take them away as soon as the job has ended."""

CLEAN_PROGRESS_PATH: Final = f"{SIDECAR_FOLDER}/cleaned.json"
CLUSTERING_CHECK_PATH: Final = f"{SIDECAR_FOLDER}/clustering_check.json"
ABANDONED_FOLDER: Final = f"{SIDECAR_FOLDER}/abandoned"
"""A file for each clustering, named by its instant; it stays as long as the instant is on the timeline."""

UNPUBLISHED_FOLDER: Final = f"{SIDECAR_FOLDER}/unpublished"
"""A file for each round, named by its instant; it goes when the active timeline begins behind it."""

FOLDED: Final = ".folded"
"""How the name of a ledger file ends that many entries were folded into."""

_STATISTICS: Final = ".statistics"
_SAMPLE: Final = ".sample"


def statistics_path(instant: str) -> str:
    """The statistics of the files that commit ``instant`` wrote."""
    return f"{STATISTICS_FOLDER}/{instant}{_STATISTICS}"


def sample_path(instant: str) -> str:
    """The samples of the clustering plan of that instant; the file goes when the instant is rolled back."""
    return f"{STATISTICS_FOLDER}/{instant}{_SAMPLE}"


def claim_path(instant: str) -> str:
    """Where the claim on an instant is kept."""
    return f"{CLAIMS_FOLDER}/{instant}"


def decisions_path(instant: str) -> str:
    """Why each file of the commit got its rows, where that is too much for the commit itself."""
    return f"{STATISTICS_FOLDER}/{instant}.decisions.json"


def probe_path() -> str:
    """A fresh name for an object by which the store is tried out."""
    return f"{PROBE_PREFIX}{uuid.uuid4().hex}"


def is_statistics(path: str) -> bool:
    """Whether it is the statistics of a commit."""
    return path == statistics_path(path.rpartition("/")[2].partition(".")[0])


def is_sample(path: str) -> bool:
    """Return True for the samples of a clustering plan."""
    return path.endswith(_SAMPLE)


def is_folded(path: str) -> bool:
    """Whether a file of a ledger holds folded entries."""
    return path.endswith(FOLDED)
