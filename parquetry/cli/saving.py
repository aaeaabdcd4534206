"""Files that commands save, which never replace what somebody wrote."""

from __future__ import annotations

from pathlib import Path

import click


def save(file: Path, text: str, *, option: str) -> None:
    """Write a document to the file that ``option`` names; folders are made.

    A file that is there is replaced when it begins like the document: click.UsageError for any other,
    and for ``-``. click.FileError when it cannot be written.
    """
    if str(file) == "-":
        raise click.UsageError(f"{option} names a file; what goes to stdout is chosen with --format")
    try:
        if file.exists() and not _begins_alike(file, text):
            raise click.UsageError(
                f"{file} is there and was not saved with {option}; name another file, or remove it first"
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(str(file), f"{error.strerror}; name another file with {option}") from error


def _begins_alike(file: Path, text: str) -> bool:
    with file.open("rb") as there:
        begin = there.read(64).lstrip()
    return not begin or begin[:1] == text[:1].encode()
