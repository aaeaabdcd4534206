"""The work on one table as plain values, for events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from parquetry.runtime.spec.source_paths import join_base, normalised_path
from parquetry.runtime.spec.table_spec import Source, TableSpec

_BUCKET: Final = re.compile(r"(?P<namespace>[a-z][a-z0-9+.-]*://[^/]+)/?(?P<name>.*)", re.IGNORECASE)
_WILDCARD: Final = re.compile(r"[*?\[{]")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetName:
    """The name of a folder by OpenLineage's rules: ``s3://bucket`` and a key, or ``file`` and a path."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWork:
    """A job or an action on one table; ``job`` is its name within the table.

    ``location`` and ``directory`` are those of a job. ``source`` is what an ingestion reads. ``reads`` and
    ``writes`` say whether the rows or files of the table itself are read and written. ``steps`` are those of
    a plan's action. ``dirty`` means that the project had changes that are not in ``git_commit``.
    """

    table: str
    job: str
    location: str
    directory: str
    spec: TableSpec
    source: Source | None = None
    reads: bool = False
    writes: bool = True
    plan_id: str | None = None
    steps: tuple[str, ...] = ()
    git_commit: str | None = None
    dirty: bool | None = None

    @property
    def dataset(self) -> DatasetName:
        """The name of the table's folder."""
        return _dataset_name(self.directory, self.location)

    @property
    def source_dataset(self) -> DatasetName | None:
        """The name of the source's folder, above the first wildcard; None without a source."""
        return None if self.source is None else _dataset_name(self.directory, self.source.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResult:
    """The result of a job or an action, in which None is not known.

    ``change`` is CREATE or ALTER, if the table changed. ``counts`` are figures of a commit or a clustering by
    their names in the facet.
    """

    instants: tuple[str, ...] = ()
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None
    files_read: int | None = None
    change: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


def _dataset_name(directory: str, path: str) -> DatasetName:
    """Return the name of the folder at a path that may be relative and have wildcards."""
    joined = join_base(directory, path)
    wildcard = _WILDCARD.search(joined)
    if wildcard is not None:
        joined = joined[: wildcard.start()].rpartition("/")[0]
    joined = normalised_path(joined, directory)
    bucket = _BUCKET.fullmatch(joined)
    if bucket is None:
        return DatasetName(namespace="file", name=joined)
    return DatasetName(namespace=bucket["namespace"], name=bucket["name"].rstrip("/") or "/")
