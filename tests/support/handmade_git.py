"""Git objects that no git command makes: trees with whatever names and modes."""

from __future__ import annotations

import subprocess
from pathlib import Path

_IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(root: Path, *words: str, entered: bytes = b"") -> str:
    """What git prints; CalledProcessError when it fails."""
    command = ["git", "-C", str(root), *_IDENTITY, *words]
    done = subprocess.run(command, input=entered, check=True, capture_output=True)
    return done.stdout.decode().strip()


def committed(root: Path) -> None:
    """Make the folder a repository with a first commit of all that is in it."""
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")


def commit_all(root: Path, message: str) -> str:
    """Commit all that is in the folder, if only the message, and return the commit."""
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


def blob(root: Path, content: bytes) -> str:
    return git(root, "hash-object", "-w", "--stdin", entered=content)


def tree(root: Path, *entries: tuple[str, str, str]) -> str:
    """The tree of entries (mode, name, object), in their order and unchecked."""
    content = b"".join(
        f"{mode} {name}".encode("utf-8", "surrogateescape") + b"\0" + bytes.fromhex(named)
        for mode, name, named in entries
    )
    return git(root, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", entered=content)


def nested(root: Path, path: str, named: str, *, mode: str = "100644", tree_of=tree) -> tuple[str, str, str]:
    """The entry of a path's first part, with trees for the others in between."""
    first, *rest = path.split("/")
    if not rest:
        return mode, first, named
    inner = nested(root, "/".join(rest), named, mode=mode)
    return "40000", first, tree_of(root, inner)


def commit(root: Path, named: str, branch: str) -> str:
    """A commit of the tree behind the checked-out one, as a branch."""
    made = git(root, "commit-tree", named, "-p", "HEAD", "-m", "by hand")
    git(root, "update-ref", f"refs/heads/{branch}", made)
    return made
