"""All calls of git, with which commands learn about a project's folder.

The folder may be an untrusted checkout, any author may have written its history, and a commit id may come
from a table. Therefore revisions and paths follow the end of git's options. Git starts no other program
(hooks, file system monitors, pagers, signature checks, transport helpers), fetches nothing, and does not
accept a committed bare repository as the repository of the project.
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

_MAX_BYTES: Final = 256 << 20
"""The largest answer: the paths of about two million files. A tree that contains itself has no end."""

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
"""Variables that configure git on this machine. Others choose a repository, but the folder decides that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAnswer:
    """The output of git and its error text. ``code`` is None if git cannot be started."""

    code: int | None
    output: bytes
    error_text: str

    @property
    def line(self) -> str | None:
        """The output as text; None if git failed or printed nothing."""
        text = self.output.decode(errors="surrogateescape").strip("\n")
        return text if self.code == 0 and text else None


class GitError(UsageError):
    """A folder or an answer of git that is not safe to work with."""


def git(
    directory: Path,
    *command: str,
    revisions: Iterable[str] = (),
    paths: Iterable[str] = (),
    stdin: bytes = b"",
) -> GitAnswer:
    """Return the answer of git to a command.

    Args:
        directory: The folder in which git runs.
        command: The command, which must not contain untrusted words.
        revisions: Revisions, which may be untrusted.
        paths: Path patterns, which may be untrusted; ``*`` has the meaning that it has in a shell.
        stdin: The standard input of git.

    Raises:
        GitError: If the answer is larger than 256 MiB.
    """
    settings = [argument for setting in _SETTINGS for argument in ("-c", setting)]
    names = [*revisions]
    revision_arguments = ["--end-of-options", *names] if names else []
    path_arguments = ["--", *paths] if paths else []
    options = (
        "-C",
        str(directory),
        "--no-pager",
        "--glob-pathspecs" if path_arguments else "--literal-pathspecs",
    )
    arguments = ["git", *options, *settings, *command, *revision_arguments, *path_arguments]
    environment = {name: value for name, value in os.environ.items() if _is_kept(name)}
    with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as error_file:
        input_file.write(stdin)
        input_file.seek(0)
        try:
            child = subprocess.Popen(
                arguments,
                stdin=input_file,
                stdout=subprocess.PIPE,
                stderr=error_file,
                env=environment | _ENVIRONMENT,
            )
        except OSError as error:
            return GitAnswer(code=None, output=b"", error_text=f"git cannot be started: {error.strerror}")
        with child:
            assert child.stdout is not None, "it is a pipe"
            output = child.stdout.read(_MAX_BYTES + 1)
            if len(output) > _MAX_BYTES:
                child.kill()
        if len(output) > _MAX_BYTES:
            raise GitError(
                "the output of git {command} in {directory} exceeds {limit_mib} MiB: no project has that "
                "many files; name another revision",
                command=command[0],
                directory=directory.resolve(),
                limit_mib=_MAX_BYTES >> 20,
            )
        error_file.seek(0)
        error_text = error_file.read(_MAX_ERROR_BYTES).decode(errors="replace").strip()
    return GitAnswer(code=child.returncode, output=output, error_text=error_text)


_MAX_ERROR_BYTES: Final = 2000
_LOCAL: Final = "refs/heads/"
_ORIGIN: Final = "refs/remotes/origin/"
DEFAULT_BRANCHES: Final = tuple(f"{_ORIGIN}{name}" for name in ("HEAD", "main", "master"))
"""The references that may hold the default branch of origin in a clone, the likeliest first."""


def _is_kept(name: str) -> bool:
    return not name.startswith("GIT_") or name.startswith(_KEPT)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWorkTree:
    """A project's folder as git sees it. ``commit`` is None outside a repository."""

    directory: Path
    commit: str | None

    def contains(self, commit: str) -> bool:
        """Return whether ``commit`` is the checked-out commit or one of its ancestors.

        Outside a repository, every commit counts as contained.
        """
        if self.commit is None or commit == self.commit:
            return True
        answer = git(self.directory, "merge-base", "--is-ancestor", revisions=(commit, self.commit))
        return answer.code == 0

    @property
    def user(self) -> str | None:
        """The name and address that git records in commits made here, such as ``Ann <ann@example.com>``.

        None outside a repository, and if neither is set.
        """
        if self.commit is None:
            return None
        output = git(self.directory, "config", "--null", "--get-regexp", r"^user\.(name|email)$").line or ""
        found = dict(entry.split("\n", 1) for entry in output.split("\0") if "\n" in entry)
        name, address = found.get("user.name", ""), found.get("user.email", "")
        return " ".join(filter(None, (name, f"<{address}>" if address else ""))) or None

    @property
    def is_shallow(self) -> bool:
        """True if the clone lacks a part of its history, as in many continuous integration jobs."""
        return git(self.directory, "rev-parse", "--is-shallow-repository").line == "true"

    def committed_at(self, commit: str) -> int | None:
        """Return the time of a commit in seconds since 1970, or None if the commit is unknown here."""
        output = git(self.directory, "rev-list", "--timestamp", "--max-count=1", revisions=(commit,)).line
        return int(output.split()[0]) if output else None

    def commits_since(self, seconds: int, paths: Iterable[str], *, at_most: int) -> tuple[str, ...]:
        """Return commits of the checked-out history that change the paths, newest first.

        Args:
            seconds: The earliest time of a commit, in seconds since 1970.
            paths: Path patterns.
            at_most: The number of newest commits that are examined.
        """
        listing = ("rev-list", "--timestamp", f"--max-count={at_most}")
        output = git(self.directory, *listing, revisions=("HEAD",), paths=paths).line or ""
        found = (line.split() for line in output.splitlines())
        return tuple(commit for made, commit in found if int(made) >= seconds)


def work_tree(directory: Path) -> GitWorkTree:
    """Return the work tree that contains ``directory``, without a commit if git or a repository is missing.

    Raises:
        GitError: If the folder itself is disguised as a bare repository inside another one.
    """
    head = object_named(directory, "HEAD")
    if "safe.bareRepository" in head.error_text:
        raise GitError(
            "{directory} has the files of a bare git repository (HEAD, objects, refs), whose settings git "
            "would follow; remove them, or {remedy}",
            directory=directory.resolve(),
            remedy=phrase(
                "name another folder with --project", called="give another folder to parquetry.load()"
            ),
        )
    if "dubious ownership" in head.error_text:
        _LOG.warning(
            "git does not read %s, because it belongs to another user: no commit is recorded, and it is "
            "unknown whether the checked-out commit contains what is applied; to trust the folder, run `git "
            "config --global --add safe.directory FOLDER`",
            directory.resolve(),
        )
    return GitWorkTree(directory=directory, commit=commit_named(head.line))


def object_named(directory: Path, revision: str) -> GitAnswer:
    """Return git's answer with the object of a revision; its code is 1 if there is none of that name."""
    return git(directory, "rev-parse", "--verify", "--quiet", revisions=(revision,))


def repository_root(directory: Path) -> Path | None:
    """Return the root of the work tree that contains ``directory``, or None outside one.

    ``directory`` need not exist.
    """
    existing = next(folder for folder in (directory, *directory.parents) if folder.is_dir())
    output = git(existing, "rev-parse", "--show-toplevel").line
    return Path(output) if output else None


def prefix_of(directory: Path) -> str:
    """Return the path of a folder in its repository with a final slash, empty for the root."""
    return git(directory, "rev-parse", "--show-prefix").line or ""


def parents_of(directory: Path, commit: str) -> tuple[str, ...]:
    """Return the parents of a commit.

    The result is empty for the first commit of a history or a clone, and for a commit that is unknown here.
    """
    output = git(directory, "rev-list", "--parents", "--max-count=1", revisions=(commit,)).line or ""
    return tuple(output.split()[1:])


def fork_point(directory: Path, one: str, other: str) -> str | None:
    """Return the newest common ancestor of two commits, or None if there is none in this clone."""
    return git(directory, "merge-base", revisions=(one, other)).line


def main_branch(directory: Path) -> str | None:
    """Return the main branch: the default one of origin, else ``main``, else the checked-out branch.

    The result is None outside a repository. ``directory`` need not exist.
    """
    existing = next(folder for folder in (directory, *directory.parents) if folder.is_dir())
    default = git(existing, "symbolic-ref", "--quiet", f"{_ORIGIN}HEAD").line
    if default is not None and default.startswith(_ORIGIN):
        return default.removeprefix(_ORIGIN)
    if git(existing, "for-each-ref", "--count=1", f"{_LOCAL}main", f"{_ORIGIN}main").line:
        return "main"
    current = git(existing, "symbolic-ref", "--quiet", "HEAD").line
    return None if current is None else current.removeprefix(_LOCAL)


def published_at(directory: Path) -> tuple[str, str] | None:
    """Return the address of origin and the checked-out commit, or None if that commit was not pushed."""
    address = git(directory, "remote", "get-url", "origin").line
    commit = object_named(directory, "HEAD").line
    pushed = git(directory, "for-each-ref", "--count=1", "--contains=HEAD", "refs/remotes").line
    return (address, commit) if address and commit and pushed else None
