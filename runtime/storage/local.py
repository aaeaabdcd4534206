"""Objects as files of a local, or locally mounted, file system."""

from __future__ import annotations

import errno
import os
import shutil
import stat as stat_module
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from parquetry.message import Message, Value
from parquetry.runtime.allowed import NOTHING_ALLOWED, Allowed
from parquetry.runtime.errors import NotFoundError, StorageError, UnknownOutcomeError
from parquetry.runtime.storage.model import ObjectInfo, Objects, ObjectStore, Paths, PutOutcome
from parquetry.runtime.storage.os_errors import WRITE_FAILURES, storage_error
from parquetry.runtime.storage.paths import checked_path, escape_glob, temporary_path
from parquetry.runtime.storage.regular_file import check_regular, read_regular

Entries = list[os.DirEntry[str]]
Identity = tuple[int, int]

_NO_LINKS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP})


class LocalStore(ObjectStore):
    """Objects below the absolute folder ``root``, which the first write creates.

    Content is written under a hidden name, synced, and then renamed or hard-linked to its own
    name, and the folder is synced: what was acknowledged survives a power cut. Hadoop leaves a
    checksum file ``.<name>.crc`` beside a file; a stale one makes Hadoop readers fail, so it
    goes before its file changes.
    """

    def __init__(self, root: str, allowed: Allowed = NOTHING_ALLOWED) -> None:
        if "\0" in root:
            raise StorageError(f"the location {root!r} holds a NUL byte; choose another one")
        encoding = sys.getfilesystemencoding()
        if encoding != "utf-8":
            raise StorageError(
                f"this Python spells names of files in {encoding}, and tables have theirs in UTF-8; "
                "start it with PYTHONUTF8=1 in the environment"
            )
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links
        self._allowed = allowed

    def __repr__(self) -> str:
        return f"LocalStore({str(self.root)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and other.root == self.root

    def __hash__(self) -> int:
        return hash(self.root)

    @property
    def uri(self) -> str:
        return f"file://{self.root}".rstrip("/")

    @property
    def allowed(self) -> Allowed:
        return self._allowed

    def check_writable(self, folder: str) -> None:
        """StorageError if no file can be created in a folder that is there; none is left by the look."""
        path = self._file(folder)
        with _reporting("write in", path):
            try:
                os.close(os.open(path, os.O_TMPFILE | os.O_WRONLY, 0o600))
            except OSError as error:
                # Not every file system has files without a name.
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                    raise

    def read(self, path: str) -> bytes:
        file_path = self._file(path)
        with _reporting("read", file_path):
            return read_regular(file_path)

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        with self.open_input(path) as file, _reporting("read", self._file(path)):
            return bytes(file.read_at(stop - start, start))

    def open_input(self, path: str) -> pa.NativeFile:
        file_path = self._file(path)
        with _reporting("read", file_path):
            check_regular(file_path.stat(), file_path)
            return pa.OSFile(str(file_path), "rb")

    def stat(self, path: str) -> ObjectInfo | None:
        file_path = self._file(path)
        with _reporting("look at", file_path):
            try:
                status = file_path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
        return _info(path, status) if stat_module.S_ISREG(status.st_mode) else None

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        found: list[ObjectInfo] = []
        top = checked_path(prefix, root=self.uri, folder=True)
        folders = [top]
        links, hidden = deque[tuple[str, Identity]](), deque[tuple[str, Identity]]()
        seen: set[Identity | None] = {self.identity(top)} if recursive else set()
        while folders or links or hidden:
            if folders:
                folder = folders.pop()
            else:
                # Last, so that a file that a folder holds has the same name with and without links to it;
                # but a link that readers follow comes before the folder that they pass over.
                folder, identity = (links or hidden).popleft()
                if identity in seen:
                    continue
                seen.add(identity)
            for entry in self._entries(folder):
                path = f"{folder}/{entry.name}" if folder else entry.name
                status = _status(entry)
                if status is not None and stat_module.S_ISREG(status.st_mode):
                    found.append(_info(path, status, is_link=entry.is_symlink()))
                elif status is not None and recursive:
                    identity = (status.st_dev, status.st_ino)
                    if entry.name.startswith(("_", ".")):
                        hidden.append((path, identity))
                    elif entry.is_symlink():
                        links.append((path, identity))
                    elif identity not in seen:
                        seen.add(identity)
                        folders.append(path)
        return sorted(found, key=lambda info: info.path)

    def list_folders(self, prefix: str = "") -> Paths:
        folder = checked_path(prefix, root=self.uri, folder=True)
        names = [entry.name for entry in self._entries(folder) if _is_folder(entry)]
        return sorted(f"{folder}/{name}" if folder else name for name in names)

    def put(self, path: str, data: bytes) -> None:
        file_path = self._writable(path)
        temporary = self._write_temporary(path, file_path, data)
        try:
            with _reporting("write", file_path):
                self._replace(temporary, file_path)
        except StorageError:
            _discard(temporary)
            raise

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        file_path = self._writable(path)
        if os.path.lexists(file_path):
            return self._whose(path, nonce)
        temporary = self._write_temporary(path, file_path, data)
        try:
            with _reporting("write", file_path):
                is_mine = _link(temporary, file_path)
            if not is_mine:
                return self._whose(path, nonce)
        finally:
            _discard(temporary)
        try:
            _sync_folder(file_path.parent)
        except OSError as error:
            where = Value.uri(str(file_path))
            raise UnknownOutcomeError(
                Message("whether ", where, f" will last is unknown: {error.strerror}; check the disk")
            ) from error
        return PutOutcome.WON

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        file_path = self._writable(path)
        temporary = self.root / temporary_path(path)
        with _reporting("write", file_path):
            sink = pa.OSFile(str(temporary), "wb")
        written = False
        try:
            with sink:
                yield sink
                written = True
            _sync_file(temporary)
            self._replace(temporary, file_path)
        except OSError as error:
            # What else the caller's block raises is not about this file.
            if not written and error.errno not in WRITE_FAILURES:
                raise
            raise storage_error("write", Value.uri(str(file_path)), error) from error
        finally:
            _discard(temporary)

    def delete(self, path: str) -> bool:
        file_path = self._writable(path, parents=False)
        with _reporting("delete", file_path):
            if not self._unlink(file_path):
                return False
            self._sync_folders([file_path.parent])
        return True

    def delete_all(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in paths:
            file_path = self._writable(path, parents=False)
            with _reporting("delete", file_path):
                if self._unlink(file_path):
                    folders.add(file_path.parent)
        for folder in sorted(folders):
            with _reporting("delete files of", folder):
                self._sync_folders([folder])

    def delete_folder(self, prefix: str) -> None:
        folder = self._writable(checked_path(prefix, root=self.uri), parents=False)
        with _reporting("delete", folder):
            try:
                if folder.is_symlink():
                    folder.unlink()
                else:
                    shutil.rmtree(folder)
            except (FileNotFoundError, NotADirectoryError):
                # Absent, or somebody else deletes in the same folder: what is left decides.
                if folder.is_dir():
                    self.delete_folder(prefix)
                return
            self._sync_folders([folder.parent])

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def spark_uri(self, path: str) -> str:
        folder = checked_path(path, root=self.uri, folder=True)
        return "file://" + escape_glob(str(self.root / folder))

    def _file(self, path: str) -> Path:
        return self.root / checked_path(path, root=self.uri)

    def _writable(self, path: str, *, parents: bool = True) -> Path:
        """The absolute path, whose folder exists and, links followed, lies below the root."""
        file_path = self._file(path)
        folder = file_path.parent
        with _reporting("look at", folder):
            real = folder.resolve()
            is_inside = real.is_relative_to(self.root.resolve())
        if not is_inside:
            raise StorageError(
                Message(
                    "the path ",
                    Value.file(path, quoted=True),
                    f" leads out of {self.uri} to ",
                    Value.uri(str(real)),
                    " through a symbolic link; replace the link by a folder",
                )
            )
        if parents:
            with _reporting("create the folder", folder):
                _make_folders(folder)
        return file_path

    def _entries(self, folder: str) -> Entries:
        absolute = self.root / folder
        with _reporting("list", absolute):
            try:
                with os.scandir(absolute) as entries:
                    return sorted(entries, key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                return []

    def identity(self, path: str) -> Identity | None:
        """What file or folder a path leads to, the same for all its names; None when it is not there."""
        try:
            status = (self.root / path).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _write_temporary(self, path: str, file_path: Path, data: bytes) -> Path:
        temporary = self.root / temporary_path(path)
        try:
            with _reporting("write", file_path), temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except StorageError:
            _discard(temporary)
            raise
        return temporary

    def _replace(self, temporary: Path, file_path: Path) -> None:
        _remove(_checksum_path(file_path))
        temporary.replace(file_path)
        _sync_folder(file_path.parent)

    def _whose(self, path: str, nonce: str | None) -> PutOutcome:
        if nonce is None:
            return PutOutcome.LOST
        try:
            there = self.read(path)
        except NotFoundError:
            return PutOutcome.LOST
        return PutOutcome.MINE if nonce.encode() in there else PutOutcome.LOST

    def _unlink(self, file_path: Path) -> bool:
        try:
            _remove(_checksum_path(file_path))
            file_path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _sync_folders(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            # The folder may have been deleted meanwhile, and the entries with it.
            with suppress(FileNotFoundError, NotADirectoryError):
                _sync_folder(folder)


@contextmanager
def _reporting(doing: str, where: object) -> Iterator[None]:
    """Turns every error of the operating system into a StorageError that says what was tried where."""
    try:
        yield
    except OSError as error:
        raise storage_error(doing, Value.uri(str(where)), error) from error


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """What the entry is, links followed; None when it, or what it leads to, is not there (any more)."""
    with _reporting("look at", entry.path):
        try:
            return entry.stat()
        except FileNotFoundError:
            return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with _reporting("look at", entry.path):
        return entry.is_dir()


def _info(path: str, status: os.stat_result, *, is_link: bool = False) -> ObjectInfo:
    modified_ms = status.st_mtime_ns // 1_000_000
    return ObjectInfo(path=path, size_bytes=status.st_size, modified_ms=modified_ms, is_link=is_link)


def _checksum_path(file_path: Path) -> Path:
    return file_path.with_name(f".{file_path.name}.crc")


def _remove(file_path: Path) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        file_path.unlink()


def _link(temporary: Path, file_path: Path) -> bool:
    """Give the file its name as well, unless that is taken; True when it has it now."""
    _remove(_checksum_path(file_path))
    try:
        os.link(temporary, file_path)
    except FileExistsError:
        # A network file system may repeat a link that had succeeded.
        with suppress(FileNotFoundError):
            return temporary.samefile(file_path)
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS or not os.access(file_path.parent, os.W_OK):
            raise
        raise StorageError(
            Message(
                "cannot write ",
                Value.uri(str(file_path)),
                ": its file system refuses hard links, which keep two writers apart; choose a location on a "
                "file system that has them",
            )
        ) from error
    return True


def _discard(file_path: Path) -> None:
    """Remove what is left of a temporary file; failing at that hides no other failure."""
    with suppress(OSError):
        file_path.unlink()


def _make_folders(folder: Path) -> None:
    """Create the folder and its parents, each entry synced, whoever else creates them too."""
    if folder.is_dir():
        return
    parent = folder.parent
    if parent != folder:
        _make_folders(parent)
    with suppress(FileExistsError):
        folder.mkdir()
        _sync_folder(parent)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _sync_file(file_path: Path) -> None:
    descriptor = os.open(file_path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
