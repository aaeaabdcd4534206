"""Objects as files of a local, or locally mounted, file system."""

from __future__ import annotations

import errno
import os
import shutil
import stat as stat_module
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from parquetry.confined_folder import (
    NEW_FILE,
    ConfinedFolder,
    LinkInTheWayError,
    entries_of,
    identity_of,
    sync_folder,
)
from parquetry.message import Message, Value
from parquetry.runtime.allowed import NOTHING_ALLOWED, Allowed
from parquetry.runtime.errors import NotFoundError, StorageError, TooLargeError, UnknownOutcomeError
from parquetry.runtime.storage.model import ObjectInfo, Objects, ObjectStore, Paths, PutOutcome
from parquetry.runtime.storage.os_errors import WRITE_FAILURES, storage_error
from parquetry.runtime.storage.paths import checked_path, escape_glob, temporary_path
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES, check_size, read_between

_ABSENT: Final = (FileNotFoundError, NotADirectoryError)
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP})
_DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


class LocalStore(ObjectStore):
    """Objects below the absolute folder ``root``, which the first write creates.

    Links on the way to the root are its owner's. Below it, none is followed: a link can be deleted or
    replaced, and is an error where it is read, or where its folder is listed.

    Content is written under a hidden name, synced, and then renamed or hard-linked to its own
    name, and the folder is synced: what was acknowledged survives a power cut. Hadoop leaves a
    checksum file ``.<name>.crc`` beside a file; a stale one makes Hadoop readers fail, so it
    goes before its file changes.
    """

    remedy = (
        "whoever can write here may lead it anywhere; put what it leads to in its place, or mount that there"
    )

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
        self.tree = ConfinedFolder(self.root, remedy=self.remedy, durable=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r})"

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str, Allowed]]:
        # A worker may be on a machine of which the same folder is mounted in another way.
        return type(self), (str(self.root), self._allowed)

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
        with self._reporting(folder, "write in"):
            opened = self.tree.open_folder(self._place(folder))
            try:
                os.close(os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600, dir_fd=opened))
            except OSError as error:
                # Not every file system has files without a name.
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                    raise
            finally:
                os.close(opened)

    def is_folder(self, path: str) -> bool:
        """Return True if there is a folder at the path."""
        with self._reporting(path, "look at"), suppress(*_ABSENT):
            os.close(self.tree.open_folder(self._place(path, folder=True)))
            return True
        return False

    def read(self, path: str, *, most_bytes: int = MOST_RECORD_BYTES) -> bytes:
        with self._opened_file(path) as file:
            size_bytes = os.fstat(file).st_size
            check_size(Value.uri(str(self.root / path)), size_bytes, most_bytes=most_bytes)
            return read_between(file, 0, size_bytes)

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        with self._opened_file(path) as file:
            return read_between(file, start, stop)

    def open_input(self, path: str) -> pa.NativeFile:
        with self._opened_file(path) as file:
            return _arrow_file(file, "rb")

    def stat(self, path: str) -> ObjectInfo | None:
        with self._reporting(path, "look at"):
            status = self._status(self._place(path))
        return None if status is None or not stat_module.S_ISREG(status.st_mode) else info_of(path, status)

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        found = []
        folders = [checked_path(prefix, root=self.uri, folder=True)]
        while folders:
            folder = folders.pop()
            with self._entries(folder) as entries:
                for entry in entries:
                    path = below(folder, entry.name)
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if stat_module.S_ISREG(status.st_mode):
                            found.append(info_of(path, status))
                        elif stat_module.S_ISLNK(status.st_mode):
                            raise self.tree.refusal(path)
                        elif stat_module.S_ISDIR(status.st_mode) and recursive:
                            folders.append(path)
        return sorted(found, key=lambda info: info.path)

    def list_folders(self, prefix: str = "") -> Paths:
        folder = checked_path(prefix, root=self.uri, folder=True)
        found = []
        with self._entries(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise self.tree.refusal(below(folder, entry.name))
                if entry.is_dir(follow_symlinks=False):
                    found.append(below(folder, entry.name))
        return sorted(found)

    def put(self, path: str, data: bytes) -> None:
        with (
            self._opened(path, "write", makes=True) as (folder, name),
            _new_file(name, folder) as (temporary, file),
        ):
            _write(file, data)
            _replace(temporary, name, folder)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        is_mine = False
        with self._opened(path, "write", makes=True) as (folder, name):
            if not _is_there(name, folder):
                with _new_file(name, folder) as (temporary, file):
                    _write(file, data)
                    is_mine = self._link(path, temporary, name, folder)
            if is_mine:
                try:
                    sync_folder(folder)
                except OSError as error:
                    where = Value.uri(str(self.root / path))
                    raise UnknownOutcomeError(
                        Message("whether ", where, f" will last is unknown: {error.strerror}; check the disk")
                    ) from error
        return PutOutcome.WON if is_mine else self._whose(path, nonce)

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        written = False
        with ExitStack() as stack:
            with self._reporting(path, "write"):
                folder, name = stack.enter_context(self.tree.opened(self._place(path), makes=True))
                temporary, file = stack.enter_context(_new_file(name, folder))
                sink = _arrow_file(file, "wb")
            try:
                with sink:
                    yield sink
                    written = True
                os.fsync(file)
                _replace(temporary, name, folder)
            except OSError as error:
                # What else the caller's block raises is not about this file.
                if not written and error.errno not in WRITE_FAILURES:
                    raise
                raise storage_error("write", Value.uri(str(self.root / path)), error) from error

    def delete(self, path: str) -> bool:
        return self._delete(path)

    def delete_all(self, paths: Iterable[str]) -> None:
        for _, together in groupby(paths, lambda path: path.rpartition("/")[0]):
            self._delete(*together)

    def _delete(self, *paths: str) -> bool:
        """Remove the files of one folder; True if there was any."""
        is_any = False
        with (
            self._reporting(paths[0], "delete"),
            suppress(*_ABSENT),
            self.tree.opened(self._place(paths[0])) as (folder, _),
        ):
            for path in paths:
                with self._reporting(path, "delete"):
                    is_any |= _unlink(self._place(path).rpartition("/")[2], folder)
            if is_any:
                sync_folder(folder)
        return is_any

    def delete_folder(self, prefix: str) -> None:
        with self._reporting(prefix, "delete"):
            place = self._place(prefix)
            try:
                with self.tree.opened(place) as (folder, name):
                    if stat_module.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                        os.unlink(name, dir_fd=folder)
                    else:
                        shutil.rmtree(name, dir_fd=folder)
                    sync_folder(folder)
            except _ABSENT:
                # Absent, or somebody else deletes in the same folder: what is left decides.
                if self.is_folder(prefix):
                    self.delete_folder(prefix)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def spark_uri(self, path: str) -> str:
        folder = checked_path(path, root=self.uri, folder=True)
        return "file://" + escape_glob(str(self.root / folder))

    def _place(self, path: str, *, folder: bool = False) -> str:
        """The relative path by which the tree is asked for an object."""
        return checked_path(path, root=self.uri, folder=folder)

    @contextmanager
    def _opened(self, path: str, doing: str, *, makes: bool = False) -> Iterator[tuple[int, str]]:
        with self._reporting(path, doing), self.tree.opened(self._place(path), makes=makes) as opened:
            yield opened

    @contextmanager
    def _opened_file(self, path: str) -> Iterator[int]:
        with self._reporting(path, "read"):
            place = self._place(path)
            above, _, name = place.rpartition("/")
            folder = self.tree.open_folder(above)
            try:
                file = self.tree.open_file(place, name, folder)
            finally:
                os.close(folder)
            try:
                yield file
            finally:
                os.close(file)

    @contextmanager
    def _entries(self, folder: str) -> Iterator[Iterable[os.DirEntry[str]]]:
        """What is in a folder, nothing where there is none; entries are looked at within the block."""
        with self._reporting(folder, "list"), ExitStack() as stack:
            entries: Iterable[os.DirEntry[str]] = ()
            with suppress(*_ABSENT):
                opened = self.tree.open_folder(folder)
                stack.callback(os.close, opened)
                entries = stack.enter_context(entries_of(opened))
            yield sorted(entries, key=lambda entry: entry.name)

    def _status(self, place: str) -> os.stat_result | None:
        """What is there, which may be no link; None where nothing is."""
        with suppress(*_ABSENT), self.tree.opened(place) as (folder, name):
            status = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
            if stat_module.S_ISLNK(status.st_mode):
                raise self.tree.refusal(place)
            return status
        return None

    @contextmanager
    def _reporting(self, path: str, doing: str) -> Iterator[None]:
        """Turns every error of the operating system into a StorageError that says what was tried where."""
        try:
            yield
        except LinkInTheWayError as error:
            raise StorageError(error.message) from error
        except OSError as error:
            # A file in the place of a folder is in the way of what is written.
            is_above = doing == "write" and isinstance(error, NotADirectoryError)
            where = error.filename if is_above else self.root / path
            raise storage_error(doing, Value.uri(str(where)), error) from error

    def _link(self, path: str, temporary: str, name: str, folder: int) -> bool:
        """Give the file its name as well, unless that is taken; True when it has it now."""
        _remove_checksum(name, folder)
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            # A network file system may repeat a link that had succeeded.
            with suppress(FileNotFoundError):
                one, other = (
                    os.stat(each, dir_fd=folder, follow_symlinks=False) for each in (temporary, name)
                )
                return os.path.samestat(one, other)
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS or not os.access(".", os.W_OK, dir_fd=folder):
                raise
            raise StorageError(
                Message(
                    "cannot write ",
                    Value.uri(str(self.root / path)),
                    ": its file system refuses hard links, which keep two writers apart; choose a location "
                    "on a file system that has them",
                )
            ) from error
        return True

    def _whose(self, path: str, nonce: str | None) -> PutOutcome:
        if nonce is None:
            return PutOutcome.LOST
        try:
            there = self.read(path)
        except (NotFoundError, TooLargeError):
            return PutOutcome.LOST
        return PutOutcome.MINE if nonce.encode() in there else PutOutcome.LOST


def below(folder: str, name: str) -> str:
    """The path of what has this name in a folder, empty for the root."""
    return f"{folder}/{name}" if folder else name


def info_of(path: str, status: os.stat_result, *, is_link: bool = False) -> ObjectInfo:
    """The facts of a file."""
    return ObjectInfo(
        path=path,
        size_bytes=status.st_size,
        modified_ms=status.st_mtime_ns // 1_000_000,
        is_link=is_link,
        identity=identity_of(status),
    )


def _arrow_file(file: int, mode: str) -> pa.NativeFile:
    """A file of pyarrow's over what a descriptor has open, whatever has its name by now."""
    return pa.OSFile(f"{_DESCRIPTORS}/{file}", mode)


@contextmanager
def _new_file(name: str, folder: int) -> Iterator[tuple[str, int]]:
    """A hidden name beside a file, and a descriptor to write there; unless it is renamed, it is removed."""
    temporary = temporary_path(name)
    file = os.open(temporary, NEW_FILE, 0o666, dir_fd=folder)
    try:
        yield temporary, file
    finally:
        os.close(file)
        # Failing at that hides no other failure.
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)


def _replace(temporary: str, name: str, folder: int) -> None:
    _remove_checksum(name, folder)
    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    sync_folder(folder)


def _is_there(name: str, folder: int) -> bool:
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _unlink(name: str, folder: int) -> bool:
    _remove_checksum(name, folder)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
        return True
    return False


def _remove_checksum(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(f".{name}.crc", dir_fd=folder)
