"""The git commit a plan is made from, and whether it contains another one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWorkTree:
    """A project directory as git sees it; ``commit`` None outside a repository."""

    directory: Path
    commit: str | None

    def contains(self, commit: str) -> bool:
        """Whether ``commit`` is the checked-out commit or one of its ancestors."""
        if self.commit is None or commit == self.commit:
            return True
        return _git(self.directory, "merge-base", "--is-ancestor", commit, self.commit) is not None

    @property
    def is_shallow(self) -> bool:
        """Whether the clone lacks a part of its history, as those of continuous integration often do."""
        return (_git(self.directory, "rev-parse", "--is-shallow-repository") or "").strip() == "true"

    def committed_at(self, commit: str) -> int | None:
        """When a commit was made, in seconds since 1970; None where it is not known here."""
        said = _git(self.directory, "log", "-1", "--no-show-signature", "--format=%ct", commit)
        return int(said) if said else None

    def commits_since(self, seconds: int, paths: Iterable[str], *, at_most: int) -> tuple[str, ...]:
        """Commits of the checked-out history that touch the paths, none older than that; newest first."""
        options = (f"-{at_most}", "--no-show-signature", "--format=%H %ct")
        said = _git(self.directory, "log", *options, "--", *paths) or ""
        found = (line.split() for line in said.splitlines())
        return tuple(commit for commit, made in found if int(made) >= seconds)

    def has_file(self, commit: str, file: str) -> bool:
        """Whether ``file``, a path below the directory, was there at ``commit``."""
        return _git(self.directory, "cat-file", "-e", f"{commit}:./{file}") is not None


def work_tree(directory: Path) -> GitWorkTree:
    """The work tree that holds ``directory``; without a commit when there is no git or repository."""
    output = _git(directory, "rev-parse", "--verify", "--quiet", "HEAD")
    return GitWorkTree(directory=directory, commit=output.strip() if output else None)


def repository_root(directory: Path) -> Path | None:
    """The root of the work tree that ``directory``, which need not exist yet, lies in; None outside one."""
    there = next(folder for folder in (directory, *directory.parents) if folder.is_dir())
    said = _git(there, "rev-parse", "--show-toplevel")
    return Path(said.rstrip("\n")) if said and said.strip() else None


def published_at(directory: Path) -> tuple[str, str] | None:
    """Address and commit under which others find what is checked out in ``directory``; None if nowhere."""
    address = (_git(directory, "remote", "get-url", "origin") or "").strip()
    commit = (_git(directory, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()
    is_pushed = bool((_git(directory, "branch", "--remotes", "--contains", "HEAD") or "").strip())
    return (address, commit) if address and commit and is_pushed else None


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
