"""Where the words of Spark, its JVM and its workers go: into a file of the run, not onto the terminal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

NAME = "spark.log"

_kept: list[Path] = []


def keep_log(file: Path) -> Path | None:
    """The file, made with its folder, for whatever Spark says in this process from now on.

    None where the disk refuses: Spark then talks on stderr.
    """
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("ab").close()
        _kept[:] = [file]
        return file
    return None


def forget_log() -> None:
    """Name that file no more: another command of this process begins."""
    _kept.clear()


def kept_log() -> Path | None:
    """The newest such file, None where there is none or nothing is in it."""
    with suppress(OSError):
        for file in _kept:
            if file.stat().st_size:
                return file
    return None


def see_log() -> str:
    """The end of a message: where Spark's own words are."""
    file = kept_log()
    return "its own words above say why" if file is None else f"{file} has its own words"
