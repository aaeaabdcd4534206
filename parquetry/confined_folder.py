"""A folder that is written and read without following links: whoever filled it may be a stranger.

A checkout may hold links that were committed, such as `target/manifest.json -> ~/.ssh/authorized_keys`.
Whoever can write to a table may exchange one of its folders for a link while a command works there. So every
step of a path below the folder is opened from the one before it, and nothing outside is opened.
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
from parquetry.message import Message, Value

FileIdentity: TypeAlias = tuple[int, int]
"""Device and inode: the same for all names of a file or folder."""

NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# No pipe is waited for.
_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
# As a path does, a step needs no permission to read. O_PATH is Linux's.
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT: Final = _FOLDER & ~os.O_NOFOLLOW
_TOP: Final = Path("/")
_EXCHANGED: Final = "it was exchanged after it had been opened; find out who did, and run again"
# Linux's bounds for a path and for the links in it.
_MOST_CHARACTERS: Final = 4_096
_MOST_LINKS: Final = 40


class LinkInTheWayError(UsageError):
    """A link, or what is neither a file nor a folder, where parquetry writes or reads."""


@dataclass(slots=True)
class ConfinedFolder:
    """A folder as its user named it: links on the way to ``root`` are the user's, those below are not.

    It stays the folder that the links on the way lead to when it is first opened: one that is exchanged for a
    link later is refused, and one that is deleted and made again is opened again.

    Paths are relative to it, or absolute and inside it. Every method may raise LinkInTheWayError, and OSError
    for what the disk refuses. ``remedy`` says what to do about a link. A ``durable`` folder is made when the
    first file is, and each folder that is made is synced.
    """

    root: Path
    remedy: str = (
        "a link in a checkout may lead anywhere; remove it, and if it is committed, find out who did"
    )
    durable: bool = False
    _place: str = field(default="", init=False, compare=False, repr=False)
    _identity: FileIdentity | None = field(default=None, init=False, compare=False, repr=False)

    def write(self, path: Path | str, content: str | bytes, *, private: bool = False) -> Path:
        """Give a file this content, whole or not at all; folders are made. A file keeps its permissions.

        A ``private`` one is its owner's alone, and so is its folder if that is made.
        """
        with self._opened(path, makes=True, private=private) as (folder, name):
            there = self._status(path, name, folder)
            passing = f".{secrets.token_hex(8)}.part"
            file = os.open(passing, NEW_FILE, 0o600 if private else 0o666, dir_fd=folder)
            try:
                with os.fdopen(file, "wb") as stream:
                    if there is not None and not private:
                        os.fchmod(stream.fileno(), stat.S_IMODE(there.st_mode))
                    stream.write(content.encode() if isinstance(content, str) else content)
                os.replace(passing, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(passing, dir_fd=folder)
                raise
        return self.root / path

    def append(self, path: Path | str, *, private: bool = False) -> int:
        """A descriptor that writes to the end of a file; the file and its folders are made, as by `write`."""
        with self._opened(path, makes=True, private=private) as (folder, name):
            self._status(path, name, folder)
            how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _FILE
            file = os.open(name, how, 0o600 if private else 0o666, dir_fd=folder)
            if private:
                os.fchmod(file, 0o600)
            return file

    def read(self, path: Path | str) -> bytes:
        """The content of a file; FileNotFoundError where there is none."""
        with self._opened(path) as (folder, name):
            self._status(path, name, folder)
            with os.fdopen(self.open_file(path, name, folder), "rb") as stream:
                return stream.read()

    def names(self, path: Path | str) -> tuple[str, ...]:
        """The names of the files in a folder, in their order; none where there is no folder."""
        return self._named(path, os.DirEntry.is_file)

    def folders(self, path: Path | str) -> tuple[str, ...]:
        """The same of the folders in it."""
        return self._named(path, os.DirEntry.is_dir)

    def _named(self, path: Path | str, is_wanted: Callable[..., bool]) -> tuple[str, ...]:
        try:
            with self._opened(Path(path, "any")) as (folder, _), entries_of(folder) as entries:
                return tuple(
                    sorted(entry.name for entry in entries if is_wanted(entry, follow_symlinks=False))
                )
        except FileNotFoundError:
            return ()

    def delete(self, path: Path | str) -> None:
        """Delete a file, if there is one."""
        with suppress(FileNotFoundError), self._opened(path) as (folder, name):
            self._status(path, name, folder)
            os.unlink(name, dir_fd=folder)

    def delete_folder(self, path: Path | str) -> None:
        """Delete a folder with all that is in it, if there is one; what links in it lead to stays."""
        with suppress(FileNotFoundError), self._opened(path) as (folder, name):
            shutil.rmtree(name, dir_fd=folder)

    def check(self, path: Path | str) -> None:
        """Raise LinkInTheWayError where a file could not be written at the path; nothing is made."""
        with suppress(FileNotFoundError), self._opened(path) as (folder, name):
            self._status(path, name, folder)

    @contextmanager
    def _opened(
        self, path: Path | str, *, makes: bool = False, private: bool = False
    ) -> Iterator[tuple[int, str]]:
        """See `opened`; errors name the file, and what is no folder is in the way."""
        below = Path(path)
        if below.is_absolute():
            below = below.relative_to(self.root)
        if ".." in below.parts:
            raise LinkInTheWayError(f"{path} leads out of {self.root}; name a place inside")
        try:
            with self.opened(str(below), makes=makes, private=private) as at:
                yield at
        except NotADirectoryError as error:
            raise _in_the_way(error.filename, "folder") from error
        except OSError as error:
            error.filename, error.filename2 = str(self.root / path), None
            raise

    def _status(self, path: Path | str, name: str, folder: int) -> os.stat_result | None:
        """What is there of a file; None where nothing is."""
        try:
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(there.st_mode):
            raise self.refusal(path)
        if not stat.S_ISREG(there.st_mode):
            raise _in_the_way(str(self.root / path), "file")
        return there

    @contextmanager
    def opened(self, path: str, *, makes: bool = False, private: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder of a file, and the file's name: for calls of the system that take ``dir_fd``."""
        above, _, name = path.rpartition("/")
        folder = self.open_folder(above, makes=makes, private=private)
        try:
            yield folder, name
        finally:
            os.close(folder)

    def open_folder(self, path: str, *, makes: bool = False, private: bool = False) -> int:
        """A descriptor of the folder at a relative path, empty for the root.

        NotADirectoryError, with the path, where anything but a folder or a link is in its place.
        """
        if len(path) >= _MOST_CHARACTERS:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(self.root / path))
        folder = self._open_root(makes=makes and self.durable)
        steps = path.split("/") if path else []
        for number, step in enumerate(steps, 1):
            above = folder
            try:
                folder = os.open(step, _FOLDER, dir_fd=above)
            except FileNotFoundError:
                if not makes:
                    raise
                mode = 0o700 if private and number == len(steps) else 0o777
                folder = self._make(steps[:number], above, mode)
            except OSError as error:
                self._refuse(steps[:number], above, error)
            finally:
                os.close(above)
        return folder

    def _make(self, steps: list[str], above: int, mode: int) -> int:
        """A descriptor of the folder that these steps lead to, made unless somebody else is faster."""
        with suppress(FileExistsError):
            os.mkdir(steps[-1], mode, dir_fd=above)
            if self.durable:
                sync_folder(above)
        try:
            return os.open(steps[-1], _FOLDER, dir_fd=above)
        except OSError as error:
            self._refuse(steps, above, error)

    def _refuse(self, steps: list[str], above: int, error: OSError) -> NoReturn:
        """Raise the error of opening the folder that these steps lead to; that it is a link, if it is one."""
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise error
        there = os.stat(steps[-1], dir_fd=above, follow_symlinks=False).st_mode
        # A folder that is there now was a link a moment ago.
        if stat.S_ISLNK(there) or stat.S_ISDIR(there):
            raise self.refusal("/".join(steps)) from error
        place = str(self.root.joinpath(*steps))
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place) from error

    def open_file(self, path: Path | str, name: str, folder: int) -> int:
        """A descriptor to read the regular file of this name in its open folder: see `open_regular`."""
        try:
            return open_regular(name, folder=folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise self.refusal(path) from error

    def _open_root(self, *, makes: bool) -> int:
        try:
            folder = os.open(self.root, _ROOT)
        except FileNotFoundError:
            if not makes:
                raise
            folder = ConfinedFolder(_TOP, durable=True).open_folder(_real(self.root), makes=True)
        identity = identity_of(os.fstat(folder))
        if identity == self._identity or self.root == _TOP:
            return folder
        # It is opened for the first time, or has been made again, or exchanged.
        os.close(folder)
        place = self._place or _real(self.root)
        folder = ConfinedFolder(_TOP, remedy=_EXCHANGED).open_folder(place)
        if identity_of(os.fstat(folder)) != identity:
            os.close(folder)
            raise LinkInTheWayError(
                Message(Value.uri(str(self.root), quoted=True), f" is another: {_EXCHANGED}")
            )
        self._place, self._identity = place, identity
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
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self.root / path))
            if target.startswith("/"):
                tops = (f"{place.rstrip('/')}/" for place in (str(self.root.absolute()), f"/{self._place}"))
                top = next((top for top in tops if f"{target}/".startswith(top)), None)
                if top is None:
                    raise self.refusal(path, outside=True)
                target, done = target[len(top) :], []
            ahead += target.split("/")[::-1]
        return "/".join(done)

    def _target(self, path: str) -> str | None:
        """Where a link leads; None for what is no link, or not there."""
        try:
            with self.opened(path) as (folder, name):
                return os.readlink(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise
            return None

    def refusal(self, path: Path | str, *, outside: bool = False) -> LinkInTheWayError:
        """The error for a link that is not followed: none is, or it leads ``outside``."""
        why = f"leads out of {self.root}" if outside else "parquetry follows none there"
        where = Value.uri(str(self.root / path), quoted=True)
        return LinkInTheWayError(Message(where, f" is a link, and {why}: {self.remedy}"))


def open_regular(path: Path | str, *, folder: int | None = None, follows: bool = False) -> int:
    """A descriptor to read a regular file, whose name may be a link if that ``follows`` links.

    OSError for what may never end: EISDIR for a folder, ENXIO for the rest; ELOOP for a link.
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
    """What is in an open folder; entries are looked at within the block, without following links."""
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
    """The file or folder that a status is of."""
    return status.st_dev, status.st_ino


def _in_the_way(place: str, wanted: str) -> LinkInTheWayError:
    return LinkInTheWayError(f"{place!r} is in the way of a {wanted} of that name; move it away")


def _real(folder: Path) -> str:
    """The path from the top to a folder, links followed."""
    return os.path.realpath(folder).lstrip("/")
