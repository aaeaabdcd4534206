"""Objects as files of a local or locally mounted file system."""

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
from parquetry.message import Value
from parquetry.runtime.allowed import NOTHING_ALLOWED, Allowed
from parquetry.runtime.errors import NotFoundError, StorageError, TooLargeError, UnknownOutcomeError
from parquetry.runtime.storage.model import ObjectInfo, Objects, ObjectStore, Paths, PutOutcome
from parquetry.runtime.storage.os_errors import WRITE_FAILURES, storage_error
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.paths import checked_path, escape_glob, temporary_path
from parquetry.runtime.storage.regular_file import MOST_RECORD_BYTES, check_size, read_between

_ABSENT: Final = (FileNotFoundError, NotADirectoryError)
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP})
_NO_RENAME: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EACCES})
"""Error numbers of a rename to another file system, and of a new time for the file of another user."""

_COPIED_BYTES: Final = 1 << 20
_DESCRIPTORS: Final = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"


class LocalStore(ObjectStore):
    """Objects below the absolute folder ``root``, which the first write creates.

    Symbolic links in the path of the root belong to its owner and are followed. Links below the root are
    never followed: they can be deleted or replaced, and raise an error if they are read or their folder is
    listed.

    Content is written under a hidden name and synced. The file is then renamed or hard-linked to its own
    name, and the folder is synced, so an acknowledged write survives a power failure. Hadoop leaves a
    checksum file ``.<name>.crc`` beside a file. A stale checksum makes Hadoop's readers fail, so it is
    deleted before its file changes.
    """

    remedy = "anyone who can write here can redirect it; replace it by what it points to, or mount that there"

    def __init__(self, root: str, allowed: Allowed = NOTHING_ALLOWED) -> None:
        if "\0" in root:
            raise StorageError(
                "the location {location!r} contains a NUL byte; choose another one", location=root
            )
        encoding = sys.getfilesystemencoding()
        if encoding != "utf-8":
            raise StorageError(
                "this Python encodes file names as {encoding}, but tables need UTF-8; start it with "
                "PYTHONUTF8=1 in the environment",
                encoding=encoding,
            )
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links
        self._allowed = allowed
        self.tree = ConfinedFolder(self.root, remedy=self.remedy, durable=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r})"

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str, Allowed]]:
        # On the machine of a worker, the same folder may be another mount.
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
        """Raise StorageError if no file can be created in the existing folder. No file is left behind."""
        with self._reporting(folder, "write in"):
            opened = self.tree.open_folder(self._checked(folder))
            try:
                os.close(os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600, dir_fd=opened))
            except OSError as error:
                # Not every file system supports unnamed temporary files (O_TMPFILE).
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                    raise
            finally:
                os.close(opened)

    def is_folder(self, path: str) -> bool:
        """Return whether there is a folder at the path."""
        with self._reporting(path, "check"), suppress(*_ABSENT):
            os.close(self.tree.open_folder(self._checked(path, folder=True)))
            return True
        return False

    def read(
        self, path: str, *, most_bytes: int = MOST_RECORD_BYTES, listed: ObjectInfo | None = None
    ) -> bytes:
        del listed
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
        with self._reporting(path, "check"):
            status = self._status(self._checked(path))
        return None if status is None or not stat_module.S_ISREG(status.st_mode) else info_of(path, status)

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        objects = []
        folders = [checked_path(prefix, root=self.uri, folder=True)]
        while folders:
            folder = folders.pop()
            with self._entries(folder) as entries:
                for entry in entries:
                    path = child_path(folder, entry.name)
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if stat_module.S_ISREG(status.st_mode):
                            objects.append(info_of(path, status))
                        elif stat_module.S_ISLNK(status.st_mode):
                            raise self.tree.refusal(path)
                        elif stat_module.S_ISDIR(status.st_mode) and recursive:
                            folders.append(path)
        return sorted(objects, key=lambda info: info.path)

    def list_each(self, prefixes: Iterable[str]) -> dict[str, Objects]:
        paths = list(prefixes)
        return dict(zip(paths, map_each(paths, self.list), strict=True))

    def list_folders(self, prefix: str = "") -> Paths:
        folder = checked_path(prefix, root=self.uri, folder=True)
        paths = []
        with self._entries(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise self.tree.refusal(child_path(folder, entry.name))
                if entry.is_dir(follow_symlinks=False):
                    paths.append(child_path(folder, entry.name))
        return sorted(paths)

    def put(self, path: str, data: bytes) -> None:
        with (
            self._opened(path, "write", create_parents=True) as (folder, name),
            _new_file(name, folder) as (temporary, file),
        ):
            _write(file, data)
            _replace(temporary, name, folder)

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        is_mine = False
        with self._opened(path, "write", create_parents=True) as (folder, name):
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
                        "{uri} was written, but may not survive a power failure: {reason}; check the disk",
                        uri=where,
                        reason=error.strerror,
                    ) from error
        return PutOutcome.WON if is_mine else self._outcome_for_existing(path, nonce)

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        written = False
        with ExitStack() as stack:
            with self._reporting(path, "write"):
                folder, name = stack.enter_context(
                    self.tree.open_parent(self._checked(path), create_parents=True)
                )
                temporary, file = stack.enter_context(_new_file(name, folder))
                sink = _arrow_file(file, "wb")
            try:
                with sink:
                    yield sink
                    written = True
                os.fsync(file)
                _replace(temporary, name, folder)
            except OSError as error:
                # Other errors of the caller's block do not concern this file.
                if not written and error.errno not in WRITE_FAILURES:
                    raise
                raise storage_error("write", Value.uri(str(self.root / path)), error) from error

    def move(self, path: str, to: str) -> None:
        if self.stat(path) is None:
            return
        with (
            self._opened(to, "write", create_parents=True) as (folder, name),
            self._reporting(path, "move"),
            suppress(*_ABSENT),
            self.tree.open_parent(self._checked(path)) as (above, old),
        ):
            _remove_checksum(name, folder)
            try:
                os.utime(old, dir_fd=above, follow_symlinks=False)
                os.rename(old, name, src_dir_fd=above, dst_dir_fd=folder)
            except OSError as error:
                if error.errno not in _NO_RENAME:
                    raise
                self._copy(path, name, folder)
                os.unlink(old, dir_fd=above)
            sync_folder(folder)
            _remove_checksum(old, above)
            sync_folder(above)

    def _copy(self, path: str, name: str, folder: int) -> None:
        """Copy a file to a name in an open folder, durably."""
        with self._opened_file(path) as source, _new_file(name, folder) as (temporary, file):
            with os.fdopen(source, "rb", closefd=False) as read, os.fdopen(file, "wb", closefd=False) as sink:
                shutil.copyfileobj(read, sink, _COPIED_BYTES)
            os.fsync(file)
            _replace(temporary, name, folder)

    def delete(self, path: str) -> None:
        self._delete(path)

    def delete_all(self, paths: Iterable[str]) -> None:
        for _, together in groupby(paths, lambda path: path.rpartition("/")[0]):
            self._delete(*together)

    def _delete(self, *paths: str) -> None:
        """Delete files of one folder."""
        is_any = False
        with (
            self._reporting(paths[0], "delete"),
            suppress(*_ABSENT),
            self.tree.open_parent(self._checked(paths[0])) as (folder, _),
        ):
            for path in paths:
                with self._reporting(path, "delete"):
                    is_any |= _unlink(self._checked(path).rpartition("/")[2], folder)
            if is_any:
                sync_folder(folder)

    def delete_folder(
        self,
        prefix: str,
        *,
        objects: Iterable[str] | None = None,  # noqa: ARG002 - a folder is removed as a whole
    ) -> None:
        with self._reporting(prefix, "delete"):
            checked = self._checked(prefix)
            try:
                with self.tree.open_parent(checked) as (folder, name):
                    if stat_module.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                        os.unlink(name, dir_fd=folder)
                    else:
                        shutil.rmtree(name, dir_fd=folder)
                    sync_folder(folder)
            except _ABSENT:
                # The folder is absent, or another process deletes it too: try again if it still exists.
                if self.is_folder(prefix):
                    self.delete_folder(prefix)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def spark_uri(self, path: str) -> str:
        folder = checked_path(path, root=self.uri, folder=True)
        return "file://" + escape_glob(str(self.root / folder))

    def _checked(self, path: str, *, folder: bool = False) -> str:
        """Return the relative path of an object in ``tree``, or raise StorageError if it leaves the root."""
        return checked_path(path, root=self.uri, folder=folder)

    @contextmanager
    def _opened(
        self, path: str, operation: str, *, create_parents: bool = False
    ) -> Iterator[tuple[int, str]]:
        with (
            self._reporting(path, operation),
            self.tree.open_parent(self._checked(path), create_parents=create_parents) as opened,
        ):
            yield opened

    @contextmanager
    def _opened_file(self, path: str) -> Iterator[int]:
        with self._reporting(path, "read"):
            checked = self._checked(path)
            parent, _, name = checked.rpartition("/")
            folder = self.tree.open_folder(parent)
            try:
                file = self.tree.open_file(checked, name, folder)
            finally:
                os.close(folder)
            try:
                yield file
            finally:
                os.close(file)

    @contextmanager
    def _entries(self, folder: str) -> Iterator[Iterable[os.DirEntry[str]]]:
        """Yield the sorted entries of a folder, or none if it is absent. They are valid within the block."""
        with self._reporting(folder, "list"), ExitStack() as stack:
            entries: Iterable[os.DirEntry[str]] = ()
            with suppress(*_ABSENT):
                opened = self.tree.open_folder(folder)
                stack.callback(os.close, opened)
                entries = stack.enter_context(entries_of(opened))
            yield sorted(entries, key=lambda entry: entry.name)

    def _status(self, checked: str) -> os.stat_result | None:
        """Return the status of a file or folder, or None if it is absent. A symbolic link raises an error."""
        with suppress(*_ABSENT), self.tree.open_parent(checked) as (folder, name):
            status = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
            if stat_module.S_ISLNK(status.st_mode):
                raise self.tree.refusal(checked)
            return status
        return None

    @contextmanager
    def _reporting(self, path: str, operation: str) -> Iterator[None]:
        """Yield, and turn errors of the operating system into StorageErrors with the operation and path."""
        try:
            yield
        except LinkInTheWayError as error:
            raise StorageError(error.message) from error
        except OSError as error:
            # The write needs a folder where there is a file: name that file.
            is_above = operation == "write" and isinstance(error, NotADirectoryError)
            where = error.filename if is_above else self.root / path
            raise storage_error(operation, Value.uri(str(where)), error) from error

    def _link(self, path: str, temporary: str, name: str, folder: int) -> bool:
        """Hard-link a temporary file to its final name; return False if another file has that name."""
        _remove_checksum(name, folder)
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            # A network file system may repeat a link request that had succeeded.
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
                "cannot write {uri}: its file system does not support hard links, which keep two "
                "writers apart; choose a location on a file system that does",
                uri=Value.uri(str(self.root / path)),
            ) from error
        return True

    def _outcome_for_existing(self, path: str, nonce: str | None) -> PutOutcome:
        """Return MINE if the existing file contains the nonce, and LOST if not."""
        if nonce is None:
            return PutOutcome.LOST
        try:
            existing = self.read(path)
        except (NotFoundError, TooLargeError):
            return PutOutcome.LOST
        return PutOutcome.MINE if nonce.encode() in existing else PutOutcome.LOST


def child_path(folder: str, name: str) -> str:
    """Return the path of an entry of a folder. The root is the empty path."""
    return f"{folder}/{name}" if folder else name


def info_of(path: str, status: os.stat_result, *, is_link: bool = False) -> ObjectInfo:
    """Return the metadata of a file from its status."""
    return ObjectInfo(
        path=path,
        size_bytes=status.st_size,
        modified_ms=status.st_mtime_ns // 1_000_000,
        is_link=is_link,
        identity=identity_of(status),
    )


def _arrow_file(file: int, mode: str) -> pa.NativeFile:
    """Open an open file with pyarrow by its descriptor, because another file may have its name by now."""
    return pa.OSFile(f"{_DESCRIPTORS}/{file}", mode)


@contextmanager
def _new_file(name: str, folder: int) -> Iterator[tuple[str, int]]:
    """Yield the hidden name and the descriptor of a new file, and delete it unless the caller renames it."""
    temporary = temporary_path(name)
    file = os.open(temporary, NEW_FILE, 0o666, dir_fd=folder)
    try:
        yield temporary, file
    finally:
        os.close(file)
        # A failure here must not hide an earlier one.
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
