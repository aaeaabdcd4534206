"""The project's spec files at a git revision, read from git's objects without a checkout.

A tree object may be malicious. Its paths are checked before anything is read, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any, ClassVar, Final, NamedTuple

from parquetry import project
from parquetry.compiler.git.repository import GitAnswer, git, object_named
from parquetry.errors import ParquetryError
from parquetry.project import LoadResult, UndeclaredVariableError
from parquetry.project.yaml.document import MAX_BYTES
from parquetry.project.yaml.folder import GUARDRAILS, POLICIES, PROJECT_FILE, TABLES
from parquetry.runtime.spec.git_commit import commit_named

FILES: Final = frozenset({"100644", "100664", "100755"})
_FOLDER: Final = "040000"
LINK: Final = "120000"
SUBMODULE: Final = "160000"
_SPECS: Final = frozenset({TABLES, POLICIES, GUARDRAILS})
_MAX_FILES: Final = 100_000
_MAX_BYTES: Final = 512 << 20
_REMEDY: Final = (
    "name another revision, and find out where this one comes from: git itself does not check it out"
)
_FETCH: Final = "fetch it with `git fetch --refetch --no-filter`, or clone without --filter"


class RevisionError(ParquetryError):
    """The files of a git revision cannot be read."""

    exit_code: ClassVar[int] = 2


class TreeEntry(NamedTuple):
    """One entry of a tree. ``path`` is its path in the project."""

    mode: str
    object: str
    path: str


def files_at(
    directory: Path, revision: str, *, among: Callable[[str], bool] = lambda _: True
) -> dict[str, bytes]:
    """Return the project's specs, policies and Avro schemas at a revision, by their paths in the project.

    Only committed files are returned. A link is followed if it leads to a file of the project. The result is
    empty if the project did not exist.

    Args:
        directory: The folder of the project.
        revision: The git revision.
        among: Returns whether a path is wanted.

    Raises:
        RevisionError: If git, the repository or the revision is missing, or if the revision has entries that
            no project may have.
    """
    tree = _tree_at(directory, _resolved(directory, revision), revision)
    if tree is None:
        return {}
    entries = [e for e in _specs(tree_entries(directory, tree, revision), revision) if among(e.path)]
    if len(entries) > _MAX_FILES:
        raise _unreadable(revision, None, f"it has {len(entries):,} specs; at most {_MAX_FILES:,} are read")
    entries = _followed(directory, tree, entries, revision)
    sizes = _sizes(directory, entries, revision)
    if sum(sizes) > _MAX_BYTES:
        raise _unreadable(
            revision, None, f"its specs have {sum(sizes):,} bytes, at most {_MAX_BYTES:,} are read"
        )
    return dict(_contents(directory, entries, revision))


def load_known(
    directory: Path,
    *,
    target: str | None,
    variables: Mapping[str, Any],
    files: Mapping[str, bytes] | None = None,
) -> tuple[LoadResult, Mapping[str, UndeclaredVariableError]]:
    """Return the project loaded with those variables that it declares, and errors for the others by name.

    The environment is not read. Each of two revisions of a project may declare variables that the other does
    not.

    Args:
        directory: The folder of the project.
        target: The name of the target, None for the default one.
        variables: The variables given by the user.
        files: The files of the project, None for those in the folder.
    """
    unknown: dict[str, UndeclaredVariableError] = {}
    while True:
        known = {name: value for name, value in variables.items() if name not in unknown}
        try:
            return project.load(directory, target=target, variables=known, files=files), unknown
        except UndeclaredVariableError as undeclared:
            unknown[undeclared.name] = undeclared


def load_before(
    directory: Path, files: Mapping[str, bytes], *, target: str, variables: Mapping[str, Any]
) -> tuple[LoadResult | None, Collection[str]]:
    """Return the project as a revision had it in ``files``, and the variables that it does not declare.

    The project is None if the revision had no project or not the target.

    Args:
        directory: The folder of the project.
        files: The files of the revision.
        target: The name of the target.
        variables: The variables given by the user.
    """
    if PROJECT_FILE not in files:
        return None, variables
    result, unknown = load_known(directory, target=target, variables=variables, files=files)
    return (None if result.lacks(target) else result), unknown


def _resolved(directory: Path, revision: str) -> str:
    """Return the commit of a revision."""
    found = object_named(directory, f"{revision}^{{commit}}") if "\0" not in revision else None
    if found is not None and found.code is None:
        raise RevisionError("{reason}; install it", reason=found.error_text)
    commit = commit_named(found.line) if found is not None else None
    if commit is None:
        why = f" ({found.error_text})" if found is not None and found.error_text else ""
        raise RevisionError(
            "there is no git revision {revision!r} in {directory}{reason}; fetch it, or name a commit, a "
            "branch or a tag",
            revision=revision,
            directory=directory.resolve(),
            reason=why,
        )
    return commit


def _tree_at(directory: Path, commit: str, revision: str) -> str | None:
    """Return the tree of the project's folder, or None if the commit has no such folder."""
    found = object_named(directory, f"{commit}:./")
    if "promisor" in found.error_text:
        _check(found, directory, revision)
    return found.line


def tree_entries(directory: Path, tree: str, revision: str, *paths: str) -> Iterator[TreeEntry]:
    """Yield the entries of a tree and its subtrees, or only those of ``paths``.

    Raises:
        RevisionError: If git cannot read the tree, or if it contains an unsafe or repeated path.
    """
    # Folders are listed too, so that the size limit also stops nested trees that contain no files.
    listing = ("ls-tree", "--full-tree", "-z") if paths else ("ls-tree", "--full-tree", "-r", "-t", "-z")
    answer = git(directory, *listing, revisions=(tree, *paths))
    _check(answer, directory, revision)
    seen: set[str] = set()
    for line in answer.output.split(b"\0"):
        if not line:
            continue
        fields, _, name = line.decode("utf-8", "surrogateescape").partition("\t")
        mode, _, object_name = fields.split()
        parts = name.split("/")
        if not {"", ".", ".."}.isdisjoint(parts) or any(part.lower() == ".git" for part in parts):
            raise _unreadable(revision, name, "is not a path inside the project")
        if name in seen:
            raise _unreadable(revision, name, "appears twice")
        seen.add(name)
        yield TreeEntry(mode, object_name, name)


def _specs(entries: Iterable[TreeEntry], revision: str) -> Iterator[TreeEntry]:
    """Yield the entries that a project is read from.

    Raises:
        RevisionError: If one of them is neither a file nor a link.
    """
    for entry in entries:
        top, _, below = entry.path.partition("/")
        if entry.mode == _FOLDER:
            continue
        hidden = any(part.startswith(".") for part in entry.path.split("/"))
        is_in_spec_folder = top in _SPECS and not hidden
        is_spec = entry.path == PROJECT_FILE or (is_in_spec_folder and below.endswith((".yml", ".yaml")))
        if is_in_spec_folder and entry.mode == SUBMODULE:
            raise _unreadable(revision, entry.path, "is a submodule: its files are in another repository")
        if is_in_spec_folder and not below:
            raise _unreadable(revision, entry.path, "is not a folder")
        is_schema = entry.path.endswith(".avsc") and entry.mode in FILES
        if is_schema or (is_spec and (entry.mode in FILES or entry.mode == LINK)):
            yield entry
        elif is_spec:
            raise _unreadable(revision, entry.path, f"is not a file (mode {entry.mode})")


def _followed(directory: Path, tree: str, entries: list[TreeEntry], revision: str) -> list[TreeEntry]:
    """Return the entries with links replaced by their files.

    Raises:
        RevisionError: If a link does not lead to a file of the project.
    """
    links = [entry for entry in entries if entry.mode == LINK]
    if not links:
        return entries
    link_targets = {}
    for path, content in contents_of(directory, links, revision):
        target_path = normpath(join(dirname(path), content.decode("utf-8", "surrogateescape")))
        if target_path.startswith(("/", "..")) or "\0" in target_path:
            raise _unreadable(revision, path, "is a link that leads out of the project", "copy the file")
        link_targets[path] = target_path
    found = {
        e.path: e for e in tree_entries(directory, tree, revision, *link_targets.values()) if e.mode in FILES
    }
    for path, target_path in link_targets.items():
        if target_path not in found:
            raise _unreadable(revision, path, "is a link to a file that does not exist", "copy the file")
    return [
        entry if entry.mode != LINK else found[link_targets[entry.path]]._replace(path=entry.path)
        for entry in entries
    ]


def _sizes(directory: Path, entries: list[TreeEntry], revision: str) -> list[int]:
    """Return the bytes of each entry.

    Raises:
        RevisionError: If one is too large, not a file, or not in the clone.
    """
    if not entries:
        return []
    answer = git(directory, "cat-file", "--batch-check", stdin=_object_names(entries))
    lines = answer.output.decode().splitlines()
    if "promisor" not in answer.error_text:
        _check(answer, directory, revision)
    missing_lines = ["? missing"] * (len(entries) - len(lines))
    sizes = []
    for entry, line in zip(entries, (*lines, *missing_lines), strict=True):
        _, kind, *size = line.split()
        if kind == "missing":
            raise _unreadable(revision, entry.path, "has content that is not in this clone", _FETCH)
        if kind != "blob":
            raise _unreadable(revision, entry.path, f"is a {kind} instead of a file")
        sizes.append(int(size[0]))
        if sizes[-1] > MAX_BYTES:
            raise _unreadable(
                revision,
                entry.path,
                f"has {sizes[-1]:,} bytes; at most {MAX_BYTES:,} are read",
                "name a revision in which it is smaller",
            )
    return sizes


def contents_of(directory: Path, entries: list[TreeEntry], revision: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of entries.

    Raises:
        RevisionError: If an entry is too large, not a file, or not in the clone.
    """
    _sizes(directory, entries, revision)
    yield from _contents(directory, entries, revision)


def _contents(directory: Path, entries: list[TreeEntry], revision: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of entries whose sizes were checked."""
    if not entries:
        return
    answer = git(directory, "cat-file", "--batch", stdin=_object_names(entries))
    _check(answer, directory, revision)
    rest, position = answer.output, 0
    for entry in entries:
        end = rest.index(b"\n", position)
        size = int(rest[position:end].split()[2])
        yield entry.path, rest[end + 1 : end + 1 + size]
        position = end + size + 2


def _object_names(entries: list[TreeEntry]) -> bytes:
    return "".join(f"{entry.object}\n" for entry in entries).encode()


def _check(answer: GitAnswer, directory: Path, revision: str) -> None:
    if answer.code != 0:
        reason = ascii(answer.error_text or f"it ended with {answer.code}")
        remedy = _FETCH if "promisor" in answer.error_text else "name another revision, or try `git fsck`"
        raise RevisionError(
            "git cannot read revision {revision!r} in {directory}: {reason}; {remedy}",
            revision=revision,
            directory=directory.resolve(),
            reason=reason,
            remedy=remedy,
        )


def _unreadable(revision: str, path: str | None, why: str, remedy: str = _REMEDY) -> RevisionError:
    entry = f"revision {revision!r} cannot be read: " + ("" if path is None else f"its entry {path!a} ")
    return RevisionError("{entry}{reason}; {remedy}", entry=entry, reason=why, remedy=remedy)
