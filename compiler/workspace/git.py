"""What git knows of a project's folder: the one place that starts git.

The folder may be a stranger's checkout, its history anybody's, and a commit may come from a table. So
revisions and paths stand behind the end of git's options. Git starts no program (hooks, file system
monitors, pagers, signature checks, helpers of transports), fetches nothing, and takes no bare repository
that somebody committed for the one that the project lies in.
"""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parquetry.errors import UsageError
from parquetry.message import phrase
from parquetry.runtime.spec.git_commit import commit_named

_LOG = logging.getLogger(__name__)

_MOST_BYTES: Final = 256 << 20
"""Of an answer: of the paths of about two million files. A tree that names itself a few times has no end."""

_SETTINGS: Final = (
    "core.alternateRefsCommand=",
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "diff.external=",
    "log.showSignature=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
)
_ENVIRONMENT: Final = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_CONFIGURES: Final = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_CONFIG_GLOBAL")
_KEPT: Final = (
    *_CONFIGURES,
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_EXEC_",
)
"""Variables that say how git is set up here; others say which repository it is, which the folder does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAnswer:
    """What git printed, and what it said of a failure; ``code`` is None where git cannot be started."""

    code: int | None
    output: bytes
    complaint: str

    @property
    def line(self) -> str | None:
        """The output as one text; None where git failed or has nothing to say."""
        text = self.output.decode(errors="surrogateescape").strip("\n")
        return text if self.code == 0 and text else None


class GitError(UsageError):
    """A folder that git, or its answer that nobody, should work with."""


def git(
    directory: Path,
    *command: str,
    revisions: Iterable[str] = (),
    paths: Iterable[str] = (),
    entered: bytes = b"",
) -> GitAnswer:
    """What git answers to ``command``, which is ours; revisions and paths may be anybody's.

    ``paths`` are patterns in which ``*`` means what it means in a shell. GitError for an answer without end.
    """
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    named = [*revisions]
    ended = ["--end-of-options", *named] if named else []
    below = ["--", *paths] if paths else []
    options = ("-C", str(directory), "--no-pager", "--glob-pathspecs" if below else "--literal-pathspecs")
    words = ["git", *options, *settings, *command, *ended, *below]
    kept = {name: value for name, value in os.environ.items() if _is_kept(name)}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as complaints:
        given.write(entered)
        given.seek(0)
        try:
            child = subprocess.Popen(
                words,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=kept | _ENVIRONMENT,
            )
        except OSError as error:
            return GitAnswer(code=None, output=b"", complaint=f"git cannot be started: {error.strerror}")
        with child:
            assert child.stdout is not None, "it is a pipe"
            output = child.stdout.read(_MOST_BYTES + 1)
            if len(output) > _MOST_BYTES:
                child.kill()
        if len(output) > _MOST_BYTES:
            raise GitError(
                f"git {command[0]} in {directory.resolve()} answers with more than {_MOST_BYTES >> 20} MiB: "
                "no project has that many files; name another revision"
            )
        complaints.seek(0)
        complaint = complaints.read(_LONGEST).decode(errors="replace").strip()
    return GitAnswer(code=child.returncode, output=output, complaint=complaint)


_LONGEST: Final = 2000
_LOCAL: Final = "refs/heads/"
_ORIGIN: Final = "refs/remotes/origin/"
DEFAULT_BRANCHES: Final = tuple(f"{_ORIGIN}{name}" for name in ("HEAD", "main", "master"))
"""Where the branch that others merge into may stand in a clone, the likeliest first."""


def _is_kept(name: str) -> bool:
    return not name.startswith("GIT_") or name.startswith(_KEPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWorkTree:
    """A project directory as git sees it; ``commit`` None outside a repository."""

    directory: Path
    commit: str | None

    def contains(self, commit: str) -> bool:
        """Whether ``commit`` is the checked-out commit or one of its ancestors."""
        if self.commit is None or commit == self.commit:
            return True
        asked = git(self.directory, "merge-base", "--is-ancestor", revisions=(commit, self.commit))
        return asked.code == 0

    @property
    def user(self) -> str | None:
        """The name and the address that git gives to commits made here, ``Ann <ann@example.com>``.

        None outside a repository, and where neither is set.
        """
        if self.commit is None:
            return None
        said = git(self.directory, "config", "--null", "--get-regexp", r"^user\.(name|email)$").line or ""
        found = dict(entry.split("\n", 1) for entry in said.split("\0") if "\n" in entry)
        name, address = found.get("user.name", ""), found.get("user.email", "")
        return " ".join(filter(None, (name, f"<{address}>" if address else ""))) or None

    @property
    def is_shallow(self) -> bool:
        """Whether the clone lacks a part of its history, as those of continuous integration often do."""
        return git(self.directory, "rev-parse", "--is-shallow-repository").line == "true"

    def committed_at(self, commit: str) -> int | None:
        """When a commit was made, in seconds since 1970; None where it is not known here."""
        said = git(self.directory, "rev-list", "--timestamp", "--max-count=1", revisions=(commit,)).line
        return int(said.split()[0]) if said else None

    def commits_since(self, seconds: int, paths: Iterable[str], *, at_most: int) -> tuple[str, ...]:
        """Commits of the checked-out history that touch the paths, none older than that; newest first."""
        listing = ("rev-list", "--timestamp", f"--max-count={at_most}")
        said = git(self.directory, *listing, revisions=("HEAD",), paths=paths).line or ""
        found = (line.split() for line in said.splitlines())
        return tuple(commit for made, commit in found if int(made) >= seconds)


def work_tree(directory: Path) -> GitWorkTree:
    """The work tree that holds ``directory``; without a commit when there is no git or repository.

    GitError where the folder is made up as a repository of its own inside another one.
    """
    head = object_named(directory, "HEAD")
    if "safe.bareRepository" in head.complaint:
        raise GitError(
            f"{directory.resolve()} has the files of a bare git repository (HEAD, objects, refs), whose "
            "settings git would follow; remove them, or "
            + phrase("name another folder with --project", called="give another folder to parquetry.load()")
        )
    if "dubious ownership" in head.complaint:
        _LOG.warning(
            "git does not read %s, as it belongs to another user: no commit is recorded, and nothing says "
            "whether the checked-out one contains what is applied; `git config --global --add "
            "safe.directory FOLDER` trusts it",
            directory.resolve(),
        )
    return GitWorkTree(directory=directory, commit=commit_named(head.line))


def object_named(directory: Path, revision: str) -> GitAnswer:
    """The object that a revision means; code 1 where there is none of that name."""
    return git(directory, "rev-parse", "--verify", "--quiet", revisions=(revision,))


def repository_root(directory: Path) -> Path | None:
    """The root of the work tree that ``directory``, which need not exist yet, lies in; None outside one."""
    there = next(folder for folder in (directory, *directory.parents) if folder.is_dir())
    said = git(there, "rev-parse", "--show-toplevel").line
    return Path(said) if said else None


def prefix_of(directory: Path) -> str:
    """The path of a folder in its repository, with a slash at its end; empty for the root."""
    return git(directory, "rev-parse", "--show-prefix").line or ""


def parents_of(directory: Path, commit: str) -> tuple[str, ...]:
    """The parents of a commit; none of the first in a history or a clone, and of one that is not here."""
    said = git(directory, "rev-list", "--parents", "--max-count=1", revisions=(commit,)).line or ""
    return tuple(said.split()[1:])


def fork_point(directory: Path, one: str, other: str) -> str | None:
    """The newest commit that two commits have in common; None where there is none, or it is not here."""
    return git(directory, "merge-base", revisions=(one, other)).line


def main_branch(directory: Path) -> str | None:
    """The branch that others merge into: origin's default one, else ``main``, else the checked-out one.

    None outside a repository. ``directory`` need not exist yet.
    """
    there = next(folder for folder in (directory, *directory.parents) if folder.is_dir())
    default = git(there, "symbolic-ref", "--quiet", f"{_ORIGIN}HEAD").line
    if default is not None and default.startswith(_ORIGIN):
        return default.removeprefix(_ORIGIN)
    if git(there, "for-each-ref", "--count=1", f"{_LOCAL}main", f"{_ORIGIN}main").line:
        return "main"
    current = git(there, "symbolic-ref", "--quiet", "HEAD").line
    return None if current is None else current.removeprefix(_LOCAL)


def published_at(directory: Path) -> tuple[str, str] | None:
    """Address and commit under which others find what is checked out in ``directory``; None if nowhere."""
    address = git(directory, "remote", "get-url", "origin").line
    commit = object_named(directory, "HEAD").line
    pushed = git(directory, "for-each-ref", "--count=1", "--contains=HEAD", "refs/remotes").line
    return (address, commit) if address and commit and pushed else None
