"""A folder in which reads and writes follow no links, as an untrusted user may have filled it.

A checkout may hold links that were committed, such as `target/manifest.json -> ~/.ssh/authorized_keys`. A
user who can write to a table may exchange one of its folders for a link while a command works there.
Therefore every step of a path below the folder is opened relative to the step before it, and nothing outside
the folder is opened.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from parquetry.errors import UsageError
from parquetry.message import Value

FileIdentity: TypeAlias = tuple[int, int]
"""Device and inode. All names of a file or folder share them."""

NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe must not wait for its other end.
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# Passing through a folder needs no permission to read it: O_PATH asks for none. Only Linux has it.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT: Final = _FOLDER & ~os.O_NOFOLLOW
_TOP: Final = Path("/")
_REPLACED_REMEDY: Final = "it was replaced after it was opened; find out by whom, and run again"
# Linux's limits for the length of a path and for the number of links in it.
_MAX_CHARACTERS: Final = 4_096
_MAX_LINKS: Final = 40


class LinkInTheWayError(UsageError):
    """A path that parquetry writes or reads has a link, or something that is neither file nor folder."""


@dataclass(slots=True)
class ConfinedFolder:
    """A folder whose user trusts the links on the way to ``root``, but no link below it.

    The links on the way are resolved when the folder is first opened. If a link later replaces the folder, it
    is refused. If the folder is deleted and created again, it is opened again.

    Paths are relative to the root, or absolute and inside it. Every method may raise LinkInTheWayError, and
    OSError if the operating system refuses a call. ``remedy`` tells the user what to do about a link. A
    ``durable`` folder is created together with its first file, and each created folder is synced.
    """

    root: Path
    remedy: str = (
        "a link in a checkout may lead anywhere; remove it, and if it was committed, find out by whom"
    )
    durable: bool = False
    _real_root: str = field(default="", init=False, compare=False, repr=False)
    _identity: FileIdentity | None = field(default=None, init=False, compare=False, repr=False)

    def write(self, path: Path | str, content: str | bytes, *, private: bool = False) -> Path:
        """Write the whole content to a file atomically, and create missing folders.

        An existing file keeps its permissions.

        Args:
            path: The path of the file.
            content: The new content; text is encoded as UTF-8.
            private: Let only the owner read the file, and its folder if that is created.

        Returns:
            The path below the root.

        """
        with self._open_parent_reporting(path, create_parents=True, private=private) as (folder, name):
            status = self._status(path, name, folder)
            temporary = f".{secrets.token_hex(8)}.part"
            file = os.open(temporary, NEW_FILE, 0o600 if private else 0o666, dir_fd=folder)
            try:
                with os.fdopen(file, "wb") as stream:
                    if status is not None and not private:
                        os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
                    stream.write(content.encode() if isinstance(content, str) else content)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
        return self.root / path

    def append(self, path: Path | str, *, private: bool = False) -> int:
        """Return a descriptor that appends to a file, and create the file and its folders as `write` does."""
        with self._open_parent_reporting(path, create_parents=True, private=private) as (folder, name):
            self._status(path, name, folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _FILE
            file = os.open(name, flags, 0o600 if private else 0o666, dir_fd=folder)
            if private:
                os.fchmod(file, 0o600)
            return file

    def read(self, path: Path | str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: There is no such file.

        """
        with self._open_parent_reporting(path) as (folder, name):
            self._status(path, name, folder)
            with os.fdopen(self.open_file(path, name, folder), "rb") as stream:
                return stream.read()

    def names(self, path: Path | str) -> tuple[str, ...]:
        """Return the names of the files in a folder, sorted; an empty tuple if there is no folder."""
        return self._entry_names(path, os.DirEntry.is_file)

    def folders(self, path: Path | str) -> tuple[str, ...]:
        """Return the names of the folders in a folder, sorted; an empty tuple if there is no folder."""
        return self._entry_names(path, os.DirEntry.is_dir)

    def _entry_names(self, path: Path | str, is_wanted: Callable[..., bool]) -> tuple[str, ...]:
        try:
            with self._open_parent_reporting(Path(path, "any")) as (folder, _), entries_of(folder) as entries:
                return tuple(
                    sorted(entry.name for entry in entries if is_wanted(entry, follow_symlinks=False))
                )
        except FileNotFoundError:
            return ()

    def delete(self, path: Path | str) -> None:
        """Delete a file if it exists."""
        with suppress(FileNotFoundError), self._open_parent_reporting(path) as (folder, name):
            self._status(path, name, folder)
            os.unlink(name, dir_fd=folder)

    def delete_folder(self, path: Path | str) -> None:
        """Delete a folder with its content if it exists, but not the targets of links in it."""
        with suppress(FileNotFoundError), self._open_parent_reporting(path) as (folder, name):
            shutil.rmtree(name, dir_fd=folder)

    def check(self, path: Path | str) -> None:
        """Raise LinkInTheWayError if a file could not be written at the path, and create nothing."""
        with suppress(FileNotFoundError), self._open_parent_reporting(path) as (folder, name):
            self._status(path, name, folder)

    @contextmanager
    def _open_parent_reporting(
        self, path: Path | str, *, create_parents: bool = False, private: bool = False
    ) -> Iterator[tuple[int, str]]:
        """Yield what `open_parent` yields; errors become LinkInTheWayError, or name the file."""
        below = Path(path)
        if below.is_absolute():
            below = below.relative_to(self.root)
        if ".." in below.parts:
            raise LinkInTheWayError(
                "{path} leads out of {folder}; name a path inside", path=path, folder=self.root
            )
        try:
            with self.open_parent(str(below), create_parents=create_parents, private=private) as at:
                yield at
        except NotADirectoryError as error:
            raise _in_the_way(error.filename, "folder") from error
        except OSError as error:
            error.filename, error.filename2 = str(self.root / path), None
            raise

    def _status(self, path: Path | str, name: str, folder: int) -> os.stat_result | None:
        """Return the status of a regular file, or None if nothing is there.

        Raises:
            LinkInTheWayError: Something else has the file's name.

        """
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            raise self.refusal(path)
        if not stat.S_ISREG(status.st_mode):
            raise _in_the_way(str(self.root / path), "file")
        return status

    @contextmanager
    def open_parent(
        self, path: str, *, create_parents: bool = False, private: bool = False
    ) -> Iterator[tuple[int, str]]:
        """Yield a descriptor of a file's folder and the file's name, for calls that take ``dir_fd``."""
        above, _, name = path.rpartition("/")
        folder = self.open_folder(above, create_parents=create_parents, private=private)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def open_folder(self, path: str, *, create_parents: bool = False, private: bool = False) -> int:
        """Return a descriptor of the folder at a relative path; an empty path is the root.

        Args:
            path: The path, with `/` between its steps and without `..`.
            create_parents: Create the folders that do not exist.
            private: Let only the owner use the last folder, if it is created.

        Raises:
            NotADirectoryError: A step is neither a folder nor a link; the error names its path.
            LinkInTheWayError: A step is a link.
            FileNotFoundError: A folder does not exist and ``create_parents`` is False.

        """
        if len(path) >= _MAX_CHARACTERS:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(self.root / path))
        folder = self._open_root(create_parents=create_parents and self.durable)
        steps = path.split("/") if path else []
        for number, step in enumerate(steps, 1):
            above = folder
            try:
                folder = os.open(step, _FOLDER, dir_fd=above)
            except FileNotFoundError:
                if not create_parents:
                    raise
                mode = 0o700 if private and number == len(steps) else 0o777
                folder = self._create_folder(steps[:number], above, mode)
            except OSError as error:
                self._raise_open_error(steps[:number], above, error)
            finally:
                os.close(above)
        return folder

    def _create_folder(self, steps: list[str], above: int, mode: int) -> int:
        """Create a folder unless another process creates it first, and return its descriptor."""
        with suppress(FileExistsError):
            os.mkdir(steps[-1], mode, dir_fd=above)
            if self.durable:
                sync_folder(above)
        try:
            return os.open(steps[-1], _FOLDER, dir_fd=above)
        except OSError as error:
            self._raise_open_error(steps, above, error)

    def _raise_open_error(self, steps: list[str], above: int, error: OSError) -> NoReturn:
        """Raise LinkInTheWayError if the last step is a link, else the error of opening it."""
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise error
        status = os.stat(steps[-1], dir_fd=above, follow_symlinks=False).st_mode
        # If it is a folder now, it was a link a moment ago.
        if stat.S_ISLNK(status) or stat.S_ISDIR(status):
            raise self.refusal("/".join(steps)) from error
        path = str(self.root.joinpath(*steps))
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error

    def open_file(self, path: Path | str, name: str, folder: int) -> int:
        """Return a descriptor to read a regular file in its open folder, see `open_regular`.

        Args:
            path: The path of the file, for the error.
            name: The name of the file in the folder.
            folder: The descriptor of the folder.

        Raises:
            LinkInTheWayError: The file is a link.

        """
        try:
            return open_regular(name, folder=folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise self.refusal(path) from error

    def _open_root(self, *, create_parents: bool) -> int:
        try:
            folder = os.open(self.root, _ROOT)
        except FileNotFoundError:
            if not create_parents:
                raise
            folder = ConfinedFolder(_TOP, durable=True).open_folder(
                _real_path(self.root), create_parents=True
            )
        identity = identity_of(os.fstat(folder))
        if identity == self._identity or self.root == _TOP:
            return folder
        # The folder is opened for the first time, was created again, or was exchanged.
        os.close(folder)
        real_root = self._real_root or _real_path(self.root)
        folder = ConfinedFolder(_TOP, remedy=_REPLACED_REMEDY).open_folder(real_root)
        if identity_of(os.fstat(folder)) != identity:
            os.close(folder)
            raise LinkInTheWayError(
                "{folder} is another folder: {remedy}",
                folder=Value.uri(str(self.root), quoted=True),
                remedy=_REPLACED_REMEDY,
            )
        self._real_root, self._identity = real_root, identity
        return folder

    def without_links(self, path: str) -> str:
        """Return the path without the links in it; raise LinkInTheWayError if they lead out of the folder."""
        ahead, done, links = path.split("/")[::-1], list[str](), 0
        while ahead:
            step = ahead.pop()
            if step in ("", "."):
                continue
            if step == "..":
                if not done:
                    raise self.refusal(path, outside=True)
                done.pop()
                continue
            target = self._target("/".join((*done, step)))
            if target is None:
                done.append(step)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.root / path))
            if target.startswith("/"):
                names = (str(self.root.absolute()), f"/{self._real_root}")
                roots = (f"{name.rstrip('/')}/" for name in names)
                root = next((root for root in roots if f"{target}/".startswith(root)), None)
                if root is None:
                    raise self.refusal(path, outside=True)
                target, done = target[len(root) :], []
            ahead += target.split("/")[::-1]
        return "/".join(done)

    def _target(self, path: str) -> str | None:
        """Return the target of a link, or None if the path is not a link or does not exist."""
        try:
            with self.open_parent(path) as (folder, name):
                return os.readlink(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise
            return None

    def refusal(self, path: Path | str, *, outside: bool = False) -> LinkInTheWayError:
        """Return the error for a link that is not followed, or whose target is ``outside`` the folder."""
        why = f"leads out of {self.root}" if outside else "parquetry follows no links there"
        where = Value.uri(str(self.root / path), quoted=True)
        return LinkInTheWayError(
            "{path} is a link, and {reason}: {remedy}", path=where, reason=why, remedy=self.remedy
        )


def open_regular(path: Path | str, *, folder: int | None = None, follows: bool = False) -> int:
    """Return a descriptor to read a regular file, without waiting for a pipe or device.

    Args:
        path: The path of the file, or its name in ``folder``.
        folder: The descriptor of the folder that a relative path starts from; None for the current folder.
        follows: Follow the path if it is a link.

    Raises:
        OSError: EISDIR for a folder, ELOOP for a link that is not followed, ENXIO for anything else that is
            not a regular file, as reading it may never end.

    """
    file = os.open(path, os.O_RDONLY | (_FILE & ~os.O_NOFOLLOW if follows else _FILE), dir_fd=folder)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
    raise OSError(code, os.strerror(code), str(path))


@contextmanager
def entries_of(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Yield the entries of an open folder, for use within the block; links are not followed."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(readable) as entries:
            yield entries
    finally:
        os.close(readable)


def sync_folder(folder: int) -> None:
    """Sync the entries of an open folder."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(readable)
    finally:
        os.close(readable)


def identity_of(status: os.stat_result) -> FileIdentity:
    """Return the identity of the file or folder that a status describes."""
    return status.st_dev, status.st_ino


def _in_the_way(path: str, wanted: str) -> LinkInTheWayError:
    return LinkInTheWayError("{path!r} is not a {expected}; move it away", path=path, expected=wanted)


def _real_path(folder: Path) -> str:
    """Return the path of a folder without the leading `/`, with all links resolved."""
    return os.path.realpath(folder).lstrip("/")
