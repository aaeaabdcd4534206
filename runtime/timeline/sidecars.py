"""Files below ``.hoodie/.parquetry/``: their places, and the names that readers took for data.

ClickHouse and others take every ``*.parquet`` below a table for one of its files, ``.hoodie/`` too.
So no name here ends like a data file. Statistics, samples and folded ledgers were once called
``*.parquet``: they are found under both names, and the next write gives them the present one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final

from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import for_each

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
CLUSTERING_LOOK_PATH: Final = f"{SIDECAR_FOLDER}/clustering_look.json"
GIVEN_UP_FOLDER: Final = f"{SIDECAR_FOLDER}/given_up"
"""A file for each clustering, named by its instant; it stays as long as the instant is on the timeline."""

LOST_FOLDER: Final = f"{SIDECAR_FOLDER}/lost"
"""A file for each round, named by its instant; it goes when the active timeline begins behind it."""

FOLDED: Final = ".folded"
"""How the name of a ledger file ends that many entries were folded into."""

_STATISTICS: Final = ".statistics"
_SAMPLE: Final = ".sample"
_FORMER: Final = ".parquet"


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
    """Whether it is the statistics of a commit, under either name."""
    return _present(path) == statistics_path(path.rpartition("/")[2].partition(".")[0])


def is_folded(path: str) -> bool:
    """Whether a file of a ledger holds folded entries, under either name."""
    return path.endswith((FOLDED, f"{FOLDED}{_FORMER}"))


def read_sidecar(store: ObjectStore, path: str) -> bytes:
    """A file by its present path, also where it has its former name; NotFoundError when there is neither."""
    try:
        return store.read(path)
    except NotFoundError:
        return store.read(_former(path))


def open_sidecar(store: ObjectStore, path: str) -> Any:
    """The same as a seekable file, for a path of either name."""
    try:
        return store.open_input(_present(path))
    except NotFoundError:
        return store.open_input(_former(path))


def rename_former(store: ObjectStore, paths: Iterable[str] | None = None) -> None:
    """Give sidecars with former names their present ones: of those ``paths``, else of all, by one listing.

    Each is copied before it goes, so whoever is stopped leaves one of the two. A reader that looks for
    both while they change places may find neither: what it wanted is derived, or listed again. What
    another writer has taken away is passed over.
    """
    listed = {info.path for info in store.list(SIDECAR_FOLDER, recursive=True)} if paths is None else {*paths}
    former = {path: present for path in listed if (present := _present(path)) != path}

    def copy(path: str) -> None:
        try:
            store.put(former[path], store.read(path))
        except NotFoundError:
            return

    if former:
        for_each([path for path, present in former.items() if present not in listed], copy)
        store.delete_all(sorted(former))


def _present(path: str) -> str:
    """The present name of a sidecar; the path itself where that is no former name."""
    if not (path.startswith((f"{STATISTICS_FOLDER}/", f"{LEDGER_FOLDER}/")) and path.endswith(_FORMER)):
        return path
    stem = path.removesuffix(_FORMER)
    return stem if stem.endswith((_SAMPLE, FOLDED)) else f"{stem}{_STATISTICS}"


def _former(path: str) -> str:
    """The former name of a sidecar."""
    return f"{_present(path).removesuffix(_STATISTICS)}{_FORMER}"
