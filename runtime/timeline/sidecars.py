"""Paths of the sidecars below ``.hoodie/.parquetry/``.

ClickHouse and other readers take every ``*.parquet`` below a table for a data file, also in ``.hoodie/``. So
no name of a sidecar ends like that of a data file.
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
"""The results of jobs for their launchers, which delete them when the job has ended."""

QUARANTINE_FOLDER: Final = f"{SIDECAR_FOLDER}/quarantine"
"""Orphans that were moved aside, in folders like those of their partitions."""

CLEAN_PROGRESS_PATH: Final = f"{SIDECAR_FOLDER}/cleaned.json"
VERSION_CHANGE_PATH: Final = f"{SIDECAR_FOLDER}/changing_version"
METADATA_DROP_PATH: Final = f"{SIDECAR_FOLDER}/dropping_metadata_table"
"""Exists while the metadata table is being dropped. After a crash, the next apply or clean finishes that."""

CLUSTERING_CHECK_PATH: Final = f"{SIDECAR_FOLDER}/clustering_check.json"
CLUSTERING_BEGUN_PATH: Final = f"{SIDECAR_FOLDER}/clustering_begun.json"
"""The time at which a job last began to cluster the table. It is written before anything is rewritten."""

ARCHIVED_CLUSTERING_PATH: Final = f"{SIDECAR_FOLDER}/archived_clustering.json"
"""The instant of the newest clustering that was archived."""

ABANDONED_FOLDER: Final = f"{SIDECAR_FOLDER}/abandoned"
"""One file for each clustering, named by its instant. It exists as long as the instant is on the timeline."""

UNPUBLISHED_FOLDER: Final = f"{SIDECAR_FOLDER}/unpublished"
"""One file for each clustering that could publish none of its file groups, named by its instant.

It is deleted once the active timeline starts after that instant.
"""

FOLDED: Final = ".folded"
"""The suffix of a ledger file that combines many entries."""

_ORPHAN: Final = ".orphan"
_STATISTICS: Final = ".statistics"
_SAMPLE: Final = ".sample"


def statistics_path(instant: str) -> str:
    """Return the path of the statistics of the files that the commit ``instant`` wrote."""
    return f"{STATISTICS_FOLDER}/{instant}{_STATISTICS}"


def sample_path(instant: str) -> str:
    """Return the path of the samples of the clustering plan ``instant``. Its rollback deletes the file."""
    return f"{STATISTICS_FOLDER}/{instant}{_SAMPLE}"


def quarantine_path(path: str) -> str:
    """Return the path in the quarantine of the data file at a path.

    The name spells the dots of the file's name as ``%2E``: Hudi takes every file whose name contains
    ``.parquet`` for a base file.
    """
    folder, _, name = path.rpartition("/")
    spelled = name.replace("%", "%25").replace(".", "%2E")
    return "/".join(filter(None, (QUARANTINE_FOLDER, folder, f"{spelled}{_ORPHAN}")))


def quarantined_file(path: str) -> str | None:
    """Return the former path of a file in the quarantine, or None if the path is not one there."""
    if not path.startswith(f"{QUARANTINE_FOLDER}/") or not path.endswith(_ORPHAN):
        return None
    folder, _, name = path.removeprefix(f"{QUARANTINE_FOLDER}/").rpartition("/")
    former = name.removesuffix(_ORPHAN).replace("%2E", ".").replace("%25", "%")
    return f"{folder}/{former}" if folder else former


def claim_path(instant: str) -> str:
    """Return the path of the claim on an instant."""
    return f"{CLAIMS_FOLDER}/{instant}"


def decisions_path(instant: str) -> str:
    """Return the path of a commit's sizing decisions: the reasons for the row counts of its files.

    The file exists only if the decisions are too large for the commit metadata.
    """
    return f"{STATISTICS_FOLDER}/{instant}.decisions.json"


def probe_path() -> str:
    """Return a new path for an object with which the store is tested."""
    return f"{PROBE_PREFIX}{uuid.uuid4().hex}"


def is_statistics(path: str) -> bool:
    """Return whether the path is that of the statistics of a commit."""
    return path == statistics_path(path.rpartition("/")[2].partition(".")[0])


def is_sample(path: str) -> bool:
    """Return whether the path is that of the samples of a clustering plan."""
    return path.endswith(_SAMPLE)


def is_folded(path: str) -> bool:
    """Return whether the path is that of a ledger file with combined entries."""
    return path.endswith(FOLDED)
