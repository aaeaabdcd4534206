"""Where a text can be seen while a command runs and afterwards: command lines, files, what was printed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def command_lines_with(text: str) -> Iterator[set[str]]:
    """The command lines of this machine that hold the text, looked for as long as the block runs."""
    found: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            found.update(line for line in _command_lines() if text in line)
            ended.wait(0.02)

    watching = threading.Thread(target=look, daemon=True)
    watching.start()
    try:
        yield found
    finally:
        ended.set()
        watching.join()


def files_with(text: str, folders: Iterable[Path]) -> list[Path]:
    """The files below the folders whose name or content holds the text."""
    return [
        file
        for folder in folders
        for file in folder.rglob("*")
        if text in file.name or (file.is_file() and text.encode() in file.read_bytes())
    ]


def _command_lines() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
