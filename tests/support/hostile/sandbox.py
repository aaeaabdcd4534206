"""A folder that holds everything a command may see, and what a command changed of it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

State = tuple[int, ...]
Snapshot = dict[str, State]

VICTIM = "a file that belongs to somebody else\n"
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-cloud",
    "AWS_SESSION_TOKEN": "t0ken-of-the-session",
    "GITHUB_TOKEN": "ghp-of-the-workflow",
    "LAKE_PASSWORD": "passw0rd-of-the-lake",
}
"""Variables of the environment whose values nobody may print or write."""


@dataclass(frozen=True)
class Sandbox:
    """``project`` is a clone in ``work``; beside it lie files that no command has to touch."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "work" / "shop"

    @property
    def warehouse(self) -> Path:
        return self.project / "warehouse"

    @property
    def loose(self) -> Path:
        """A table of no project."""
        return self.root / "lake" / "loose"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def environment(self) -> dict[str, str]:
        """All variables of a command that runs in here."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.temporary),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "AWS_EC2_METADATA_DISABLED": "true",
            **SECRETS,
        }

    def furnish(self) -> None:
        """The folders around the project, each with a file of somebody else's."""
        for folder in ("home", "tmp", "work", "lake", "outside/jobs"):
            (self.root / folder).mkdir(parents=True)
        for folder in ("", "home", "work", "lake", "outside", "outside/jobs"):
            for name in ("victim.yml", "victim.parquet", "manifest.json", "orders.json"):
                (self.root / folder / name).write_text(VICTIM, encoding="utf-8")

    def copy(self, root: Path) -> Sandbox:
        """The same sandbox somewhere else."""
        shutil.copytree(self.root, root, symlinks=True)
        return Sandbox(root)

    def remove(self) -> None:
        shutil.rmtree(self.root)


def snapshot(root: Path) -> Snapshot:
    """What is below a folder. The times of changes tell of new content too, and nobody can set them back."""
    return dict(_states(str(root), len(str(root)) + 1))


def _states(folder: str, cut: int) -> Iterator[tuple[str, State]]:
    for entry in os.scandir(folder):
        status = entry.stat(follow_symlinks=False)
        is_folder = stat.S_ISDIR(status.st_mode)
        # What is put into a folder is seen itself.
        content = () if is_folder else (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        yield entry.path[cut:], (status.st_mode, status.st_ino, *content)
        if is_folder:
            yield from _states(entry.path, cut)


def touched(before: Snapshot, after: Snapshot, *, may: Collection[str]) -> list[str]:
    """The paths that were made, removed or changed, without those at or below ``may``."""
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    return sorted(path for path in changed if not any(_is_below(path, top) for top in may))


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")
