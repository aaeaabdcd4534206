"""Names of base files, ``<partition>/<file id>_<write token>_<instant>.parquet``, and their paths in plans.

Source: FSUtils of Hudi 0.15. Neither the id nor the token contains ``_`` or ``.``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.paths import finished_name

WRITE_TOKEN: Final = "0-0-0"  # noqa: S105 - part of a file name
SUFFIX: Final = ".parquet"

_NAME = re.compile(r"^(?P<id>[^_]+)_(?P<token>[^_.]+)_(?P<instant>[0-9]+)\.parquet\Z")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFileName:
    """The parts of the name of a base file."""

    partition: str
    file_id: str
    instant: str
    write_token: str = WRITE_TOKEN

    @property
    def name(self) -> str:
        """The name of the file without its folder."""
        return f"{self.file_id}_{self.write_token}_{self.instant}{SUFFIX}"

    @property
    def path(self) -> str:
        """The path of the file, relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """Return the parts of the path of a base file, or None for any other file."""
        partition, _, name = path.rpartition("/")
        match = _NAME.match(name)
        if match is None:
            return None
        return cls(
            partition=partition, file_id=match["id"], instant=match["instant"], write_token=match["token"]
        )


def files_of_instant(store: ObjectStore, partition: str, time: str) -> list[str]:
    """Return the paths of the base files of the instant in a partition, including unfinished ones."""
    return [info.path for info in store.list(partition) if instant_of_file(info.path) == time]


def instant_of_file(path: str) -> str | None:
    """Return the instant in the name of a base file, or in the final name of an unfinished one."""
    folder, _, _ = path.rpartition("/")
    unfinished = finished_name(path)
    base = BaseFileName.parse(path if unfinished is None else f"{folder}/{unfinished}".lstrip("/"))
    return None if base is None else base.instant


def absolute_path(store: ObjectStore, path: str) -> str:
    """Return a path of the table in the form of Hudi's rollback plans: absolute, without a scheme."""
    return f"{_root(store)}/{path}"


def relative_path(store: ObjectStore, path: str) -> str:
    """Return the path, relative to the table, of a file that a plan names with or without a scheme."""
    return _SCHEME.sub("", path).removeprefix(f"{_root(store)}/").lstrip("/")


def _root(store: ObjectStore) -> str:
    return _SCHEME.sub("", store.uri).rstrip("/")
