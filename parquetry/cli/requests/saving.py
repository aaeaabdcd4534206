"""Files that commands save, which never replace a file that somebody wrote by hand."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click

from parquetry.compiler.git.repository import repository_root
from parquetry.confined_folder import ConfinedFolder
from parquetry.project.yaml.folder import PROJECT_FILE


def save(file: Path, text: str, *, option: str, project: Path, at_once: bool = False) -> None:
    """Write a document to the file that ``option`` names, and create its folders.

    Links are followed where the user chose the path, but not in the project and its repository, where others
    may have put them. An existing file is replaced if it begins as such documents do.

    Args:
        file: The file.
        text: The document.
        option: The option that names the file, for errors.
        project: The project's directory.
        at_once: Replace a file outside of the project by a complete new one, also in the eyes of a program
            that reads it meanwhile. A link is then not followed but refused, and so is a special file.

    Raises:
        LinkInTheWayError: A link is on the way to a file in the project or its repository. click.UsageError:
            The file has another content, or it or its link is another user's, as in a shared /tmp; or it is
            ``-``. click.FileError: The file cannot be written.

    """
    if str(file) == "-":
        raise click.UsageError(
            f"{option} needs the name of a file; --format chooses what is printed to stdout"
        )
    path = Path(os.path.normpath(file.absolute()))
    own = _own_folder(path, project)
    try:
        if own is not None:
            own.check(path)
        flags = 0 if own is not None else _flags(file, option)
        if file.exists() and not _begins_alike(file, text):
            raise click.UsageError(
                f"{file} exists and was not saved with {option}; name another file, or remove it first"
            )
        if own is not None:
            own.write(path, text)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        if at_once:
            ConfinedFolder(file.parent.resolve()).write(file.name, text)
            return
        with os.fdopen(os.open(file, flags, 0o666), "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise click.FileError(str(file), f"{error.strerror}; name another file with {option}") from error


def project_around(file: Path) -> Path:
    """Return the folder of the project that contains the file, else the current folder."""
    return next((folder for folder in file.resolve().parents if (folder / PROJECT_FILE).is_file()), Path())


def _own_folder(path: Path, project: Path) -> ConfinedFolder | None:
    """Return the project or its repository if the file is inside; others may have put links there."""
    folder = project.parent if project.name == PROJECT_FILE else project
    repository = repository_root(folder.resolve())
    roots = (
        *([repository] if repository else []),
        Path(os.path.normpath(folder.absolute())),
        folder.resolve(),
    )
    return next((ConfinedFolder(root) for root in roots if path.is_relative_to(root)), None)


def _flags(file: Path, option: str) -> int:
    """Return the flags to open the file with, so that it is still the file that was checked.

    Raises:
        click.UsageError: The file or link is another user's.

    """
    try:
        status = file.lstat()
    except FileNotFoundError:
        return os.O_WRONLY | os.O_CREAT | os.O_EXCL
    if status.st_uid not in (0, os.geteuid()):
        raise click.UsageError(f"{file} belongs to another user; name another file with {option}")
    if stat.S_ISLNK(status.st_mode):
        return os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    return os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW


def _begins_alike(file: Path, text: str) -> bool:
    """Return whether a file is empty or begins with the first character of the text.

    Scripts and YAML begin with # as well, so metrics replace a file only if it begins as metrics do.
    """
    with file.open("rb") as stream:
        begin = stream.read(64).lstrip()
    if not begin or not text.startswith("#"):
        return not begin or begin[:1] == text[:1].encode()
    from parquetry.compiler.reports.metrics import PREFIX

    return begin.startswith((f"# HELP {PREFIX}".encode(), b"# EOF"))
