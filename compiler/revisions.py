"""The project's spec files as they were at a git revision, in a folder of their own."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from parquetry import project
from parquetry.errors import ParquetryError
from parquetry.project import LoadResult, UndeclaredVariableError
from parquetry.project.folder import PROJECT_FILE

_LINK = "120000"
_SPECS = frozenset({"tables", "policies"})


class RevisionError(ParquetryError):
    """A git revision whose files cannot be had."""

    exit_code: ClassVar[int] = 2


@contextmanager
def project_at(directory: Path, revision: str) -> Iterator[Path]:
    """A temporary folder with the project's specs, policies and Avro schemas at ``revision``.

    Committed files only, without links. The folder is empty where the project did not exist.

    Raises:
        RevisionError: there is no git, no repository, or no such revision.

    """
    listed = _listed(directory, _resolved(directory, revision))
    with tempfile.TemporaryDirectory(prefix="parquetry-revision-") as folder:
        for path, content in _contents(directory, listed):
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        yield Path(folder)


def load_known(
    directory: Path, *, target: str | None, variables: Mapping[str, Any]
) -> tuple[LoadResult, Mapping[str, UndeclaredVariableError]]:
    """The project with those variables that it declares, and what to say of the others, by name.

    No environment is read. Of two revisions of a project each may declare what the other does not.
    """
    unknown: dict[str, UndeclaredVariableError] = {}
    while True:
        known = {name: value for name, value in variables.items() if name not in unknown}
        try:
            return project.load(directory, target=target, variables=known), unknown
        except UndeclaredVariableError as undeclared:
            unknown[undeclared.name] = undeclared


def load_before(
    folder: Path, *, target: str, variables: Mapping[str, Any]
) -> tuple[LoadResult | None, Collection[str]]:
    """The project as a revision had it in ``folder``, and the variables that it does not declare.

    None where there was no project yet, or it did not have the target.
    """
    if not (folder / PROJECT_FILE).exists():
        return None, variables
    result, unknown = load_known(folder, target=target, variables=variables)
    return (None if result.lacks(target) else result), unknown


def _resolved(directory: Path, revision: str) -> str:
    """The commit that a revision names."""
    found = _git(
        directory,
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
        fails=True,
    )
    if not found.strip():
        message = f"there is no git revision {revision!r} in {directory.resolve()}"
        raise RevisionError(f"{message}; fetch it, or name a commit, a branch or a tag")
    return found.decode().strip()


def _listed(directory: Path, commit: str) -> list[tuple[str, str]]:
    """Path, relative to the project, and object of every file that a spec can consist of."""
    found = []
    for line in _git(directory, "ls-tree", "-r", "-z", commit).decode("utf-8", "surrogateescape").split("\0"):
        if not line:
            continue
        facts, _, path = line.partition("\t")
        mode, _, name = facts.split()
        parts = PurePosixPath(path).parts
        is_spec = path == "parquetry.yml" or (parts[0] in _SPECS and path.endswith((".yml", ".yaml")))
        if mode != _LINK and (is_spec or path.endswith(".avsc")):
            found.append((path, name))
    return found


def _contents(directory: Path, listed: list[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
    if not listed:
        return
    names = "".join(f"{name}\n" for _, name in listed)
    rest = _git(directory, "cat-file", "--batch", entered=names.encode())
    for path, _ in listed:
        header, _, rest = rest.partition(b"\n")
        size = int(header.split()[2])
        yield path, rest[:size]
        rest = rest[size + 1 :]


def _git(directory: Path, *arguments: str, entered: bytes = b"", fails: bool = False) -> bytes:
    """What git says; with ``fails`` nothing when it fails."""
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, input=entered, capture_output=True, check=False)
    except OSError as error:
        raise RevisionError(f"git cannot be started: {error.strerror}; install it") from error
    if done.returncode and not fails:
        said = done.stderr.decode(errors="replace").strip()
        raise RevisionError(f"git {arguments[0]} failed in {directory.resolve()}: {said}")
    return b"" if done.returncode else done.stdout
