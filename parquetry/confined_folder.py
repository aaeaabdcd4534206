"""A folder that is written and read without following links: whoever filled it may be a stranger.

A checkout may hold links that were committed, such as `target/manifest.json -> ~/.ssh/authorized_keys`. Every
step of a path below the folder is opened from the one before it, so that nothing outside is opened.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parquetry.errors import UsageError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class LinkInTheWayError(UsageError):
    """A link, or what is neither a file nor a folder, where parquetry writes or reads."""


@dataclass(frozen=True, slots=True)
class ConfinedFolder:
    """A folder as its user named it: links on the way to ``root`` are the user's, those below are not.

    Paths are relative to it, or absolute and inside it. Every method may raise LinkInTheWayError, and OSError
    for what the disk refuses.
    """

    root: Path

    def write(self, path: Path | str, content: str | bytes, *, private: bool = False) -> Path:
        """Give a file this content, whole or not at all; folders are made. A file keeps its permissions.

        A ``private`` one is its owner's alone, and so is its folder if that is made.
        """
        with self._opened(path, makes=True, private=private) as (folder, name):
            there = self._status(path, name, folder)
            passing = f".{secrets.token_hex(8)}.part"
            file = os.open(
                passing,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE,
                0o600 if private else 0o666,
                dir_fd=folder,
            )
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
        with self._opened(path, makes=False) as (folder, name):
            self._status(path, name, folder)
            with os.fdopen(os.open(name, os.O_RDONLY | _FILE, dir_fd=folder), "rb") as stream:
                return stream.read()

    def names(self, path: Path | str) -> tuple[str, ...]:
        """The names of the files in a folder, in their order; none where there is no folder."""
        return self._named(path, os.DirEntry.is_file)

    def folders(self, path: Path | str) -> tuple[str, ...]:
        """The same of the folders in it."""
        return self._named(path, os.DirEntry.is_dir)

    def _named(self, path: Path | str, is_wanted: Callable[..., bool]) -> tuple[str, ...]:
        try:
            with self._folder(path, makes=False) as folder, os.scandir(folder) as entries:
                return tuple(
                    sorted(entry.name for entry in entries if is_wanted(entry, follow_symlinks=False))
                )
        except FileNotFoundError:
            return ()

    def delete(self, path: Path | str) -> None:
        """Delete a file, if there is one."""
        with suppress(FileNotFoundError), self._opened(path, makes=False) as (folder, name):
            self._status(path, name, folder)
            os.unlink(name, dir_fd=folder)

    def delete_folder(self, path: Path | str) -> None:
        """Delete a folder with all that is in it, if there is one; what links in it lead to stays."""
        with suppress(FileNotFoundError), self._opened(path, makes=False) as (folder, name):
            shutil.rmtree(name, dir_fd=folder)

    def check(self, path: Path | str) -> None:
        """Raise LinkInTheWayError where a file could not be written at the path; nothing is made."""
        with suppress(FileNotFoundError), self._opened(path, makes=False) as (folder, name):
            self._status(path, name, folder)

    @contextmanager
    def _opened(self, path: Path | str, *, makes: bool, private: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder of a file, and the file's name."""
        *folders, name = self._parts(path)
        try:
            with self._folder(Path(*folders), makes=makes, private=private) as folder:
                yield folder, name
        except OSError as error:
            error.filename, error.filename2 = str(self.root / path), None
            raise

    @contextmanager
    def _folder(self, path: Path | str, *, makes: bool, private: bool = False) -> Iterator[int]:
        folder = os.open(self.root, _FOLDER & ~os.O_NOFOLLOW)
        try:
            parts = self._parts(path)
            for number, part in enumerate(parts, 1):
                if makes:
                    with suppress(FileExistsError):
                        is_own = private and number == len(parts)
                        os.mkdir(part, 0o700 if is_own else 0o777, dir_fd=folder)
                try:
                    inner = os.open(part, _FOLDER, dir_fd=folder)
                except FileNotFoundError:
                    raise
                except OSError as error:
                    there = os.stat(part, dir_fd=folder, follow_symlinks=False)
                    if stat.S_ISDIR(there.st_mode):
                        raise
                    raise self._in_the_way(Path(*parts[:number]), there, "folder") from error
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _parts(self, path: Path | str) -> tuple[str, ...]:
        below = Path(path)
        if below.is_absolute():
            below = below.relative_to(self.root)
        if ".." in below.parts:
            raise LinkInTheWayError(f"{path} leads out of {self.root}; name a place inside")
        return below.parts

    def _status(self, path: Path | str, name: str, folder: int) -> os.stat_result | None:
        """What is there of a file; None where nothing is."""
        try:
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(there.st_mode):
            raise self._in_the_way(path, there, "file")
        return there

    def _in_the_way(self, path: Path | str, there: os.stat_result, wanted: str) -> LinkInTheWayError:
        place = str(self.root / path)
        if stat.S_ISLNK(there.st_mode):
            return LinkInTheWayError(
                f"{place!r} is a link, and parquetry follows none there: a link in a checkout may lead "
                "anywhere; remove it, and if it is committed, find out who did"
            )
        return LinkInTheWayError(f"{place!r} is in the way of a {wanted} of that name; move it away")
