"""A local folder in which other programs leave files; links are followed only within the folder."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parquetry.confined_folder import FileIdentity, identity_of
from parquetry.runtime.storage.local import LocalStore, child_path, info_of
from parquetry.runtime.storage.model import Objects, ObjectStore, Paths
from parquetry.runtime.storage.open import open_store


def open_landing(uri: str, options: Mapping[str, Any] | None = None) -> ObjectStore:
    """Return the store that contains the files of a source."""
    store = open_store(uri, options)
    return LandingFolder(str(store.root)) if isinstance(store, LocalStore) else store


def is_hidden(path: str) -> bool:
    """Return whether the file is left out, as in Spark.

    Its name, or that of a folder above it, begins with ``_`` or ``.``, or ends in ``._COPYING_``.
    """
    # The suffix marks a file that Hadoop's shell is still writing.
    return any(part.startswith(("_", ".")) or part.endswith("._COPYING_") for part in path.split("/"))


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a folder: its ``path``, and the ``target`` to which the links in it lead."""

    path: str
    target: str
    status: os.stat_result
    is_link: bool = False


class LandingFolder(LocalStore):
    """A folder with files to ingest. A link that leads out of the folder raises an error."""

    remedy = (
        "a link could expose any file of this machine; replace it by a copy of the file, or declare its "
        "target as a source"
    )

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        """Return the files, without hidden names and without links to folders that are listed by name."""
        found, seen = [], set[FileIdentity]()
        folders, links = [*self._top(prefix)], deque[_Entry]()
        while folders or links:
            folder = folders.pop() if folders else links.popleft()
            if identity_of(folder.status) in seen:
                continue
            seen.add(identity_of(folder.status))
            for entry in self._visible(folder):
                if stat.S_ISREG(entry.status.st_mode):
                    found.append(info_of(entry.path, entry.status, is_link=entry.is_link))
                elif recursive and stat.S_ISDIR(entry.status.st_mode):
                    (links if entry.is_link else folders).append(entry)
        return sorted(found, key=lambda info: info.path)

    def list_folders(self, prefix: str = "") -> Paths:
        """Return the folders and the links to folders."""
        return sorted(
            entry.path
            for top in self._top(prefix)
            for entry in self._visible(top)
            if stat.S_ISDIR(entry.status.st_mode)
        )

    def _top(self, prefix: str) -> Iterator[_Entry]:
        with self._reporting(prefix, "list"):
            target = self._checked(prefix, folder=True)
            status = self._status(target)
        if status is not None and stat.S_ISDIR(status.st_mode):
            yield _Entry(prefix, target, status)

    def _visible(self, folder: _Entry) -> Iterator[_Entry]:
        """Yield the entries of a folder that are not hidden, with links followed."""
        with self._entries(folder.target) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                path, target = child_path(folder.path, entry.name), child_path(folder.target, entry.name)
                with self._reporting(path, "check"):
                    is_link = entry.is_symlink()
                    target = self.tree.without_links(target) if is_link else target
                    status = self._status(target)
                if status is not None:
                    yield _Entry(path, target, status, is_link)

    def _checked(self, path: str, *, folder: bool = False) -> str:
        return self.tree.without_links(super()._checked(path, folder=folder))
