"""The authority of a project: what `plan`, `run` and `test` obey and no spec of a table contains.

A change of authority decides what later changes may do, so a plan shows it and the plan id covers it. Values
of settings are digests, because a plan contains no secrets.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from posixpath import basename, dirname
from typing import Any, Final

from parquetry.compiler.git.repository import (
    DEFAULT_BRANCHES,
    fork_point,
    git,
    object_named,
    parents_of,
    prefix_of,
)
from parquetry.compiler.git.revisions import (
    FILES,
    LINK,
    SUBMODULE,
    RevisionError,
    TreeEntry,
    contents_of,
    files_at,
    tree_entries,
)
from parquetry.project.yaml.document import parse
from parquetry.project.yaml.folder import GUARDRAILS, PROJECT_FILE
from parquetry.runtime.spec.codec import digest_of

_MAIN: Final = (*DEFAULT_BRANCHES, "refs/heads/main", "refs/heads/master")
_WORKFLOWS: Final = re.compile(
    r"(.*/)?(\.github/(workflows/|actions/).*|\.gitlab/.*|[^/]*\.?gitlab-ci[^/]*\.ya?ml|action\.ya?ml|CODEOWNERS)"
)
_REQUIREMENTS: Final = re.compile(
    r"[^/]*(requirements|constraints)[^/]*\.(txt|in)|[^/]*\.lock|pylock[^/]*\.toml|pyproject\.toml|setup\.(py|cfg)"
    r"|Pipfile|(conda|environment)[^/]*\.ya?ml|\.python-version|pip\.conf|uv\.toml|(Docker|Container)file[^/]*"
)
_CODE: Final = (".py", ".pth", ".so", ".whl", ".egg", ".zip", ".jar", ".sh")
_EXECUTABLE: Final = "100755"
_SETTINGS: Final = ("allow", "applied", "tests", "prices", "default_target")
"""Keys of the project and of a target that are neither in specs nor in the settings that tables record."""


class AuthorityKind(StrEnum):
    """The kind of an entry of a project's authority."""

    ENVIRONMENT = "environment"
    """A variable whose value may be printed."""

    SETTING = "setting"
    GUARDRAIL = "guardrail"
    LINK = "link"
    SUBMODULE = "submodule"
    REQUIREMENTS = "requirements"
    WORKFLOW = "workflow"
    CODE = "code"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityChange:
    """An entry that differs from the base.

    ``old`` and ``new`` are digests or, for a link, its destination; None if there is no such entry.
    """

    kind: AuthorityKind
    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class Authority:
    """The entries by kind and name, each with its digest or, for a link, its destination."""

    entries: Mapping[tuple[AuthorityKind, str], str] = field(default_factory=dict)

    def since(self, base: Authority) -> tuple[AuthorityChange, ...]:
        """Return the entries that differ from the base, by kind and name."""
        names = sorted(self.entries.keys() | base.entries.keys())
        pairs = ((name, base.entries.get(name), self.entries.get(name)) for name in names)
        return tuple(
            AuthorityChange(kind=kind, name=name, old=old, new=new)
            for (kind, name), old, new in pairs
            if old != new
        )


def authority_at(
    directory: Path, commit: str, *, target: str, contents: Mapping[str, bytes] | None = None
) -> Authority:
    """Return the authority of the project in ``directory`` at a commit.

    Args:
        directory: The folder of the project.
        commit: The commit.
        target: The name of the target whose settings count.
        contents: The files that a project was read from, which replace those of the commit.

    Raises:
        RevisionError: If git cannot read the commit.
    """
    if contents is None:
        contents = files_at(directory, commit, among=_is_declaring)
    found: dict[tuple[AuthorityKind, str], list[str]] = {}
    for kind, name, value in _entries(directory, commit, contents, target):
        found.setdefault((kind, _text(name)), []).append(_text(value))
    return Authority({name: v[0] if len(v) == 1 else digest_of(v) for name, v in found.items()})


def _entries(
    directory: Path, commit: str, contents: Mapping[str, bytes], target: str
) -> Iterator[tuple[AuthorityKind, str, str]]:
    """Yield the kind, name and value of each entry.

    Files outside the project have a path from the root of the repository, after a slash.
    """
    yield from _of_settings(contents.get(PROJECT_FILE), target)
    for path, content in contents.items():
        if path.startswith(f"{GUARDRAILS}/"):
            yield AuthorityKind.GUARDRAIL, path, _digest(content.replace(b"\r\n", b"\n"))
    prefix = prefix_of(directory)
    links = []
    for entry in tree_entries(directory, f"{commit}^{{tree}}", commit):
        is_inside = entry.path.startswith(prefix)
        path = entry.path.removeprefix(prefix) if is_inside else f"/{entry.path}"
        if is_inside and entry.mode == LINK:
            links.append(entry._replace(path=path))
        elif is_inside and entry.mode == SUBMODULE:
            yield AuthorityKind.SUBMODULE, path, entry.object
        elif is_inside and (entry.mode == _EXECUTABLE or (path.endswith(_CODE) and entry.mode in FILES)):
            yield AuthorityKind.CODE, path, entry.object
        if entry.mode in (*FILES, LINK) and (kind := _kind(entry, prefix)) is not None:
            yield kind, path, entry.object
    for path, content in contents_of(directory, links, commit):
        yield AuthorityKind.LINK, path, content.decode(errors="surrogateescape")


def _text(text: str) -> str:
    """Return a name or link from git as text; bytes that are not printable text are escaped."""
    return text if text.isprintable() else repr(os.fsencode(text))


def compared_with(directory: Path, commit: str, base: str | None) -> str:
    """Return the commit whose authority is in force for ``commit``: the point where it forked from ``base``.

    Without a base, the default branch of origin or the local main branch is used. In a repository without
    branches of this kind and without a remote, it is the commit itself.

    Raises:
        RevisionError: If the clone lacks the base or the fork point.
    """
    if base is None:
        found = (object_named(directory, f"{name}^{{commit}}").line for name in _MAIN)
        base = next(filter(None, found), None)
    if base is None and git(directory, "remote").line:
        raise RevisionError(
            "the clone has no default branch of origin, so the changes of the project's authority are "
            "unknown; fetch that branch, and set it (git remote set-head origin --auto)"
        )
    base = base or commit
    fork = fork_point(directory, base, commit)
    if fork is None and _is_shallow(directory):
        raise _missing_commit(f"where {commit[:12]} forked from {base[:12]}")
    return fork or base


def before_merge(directory: Path, commit: str) -> str | None:
    """Return the commit that ``commit`` was merged onto, or None for the first commit of a history.

    Raises:
        RevisionError: If the clone lacks that commit.
    """
    if parents := parents_of(directory, commit):
        return parents[0]
    if _is_shallow(directory):
        raise _missing_commit(f"before {commit[:12]}")
    return None


def _is_shallow(directory: Path) -> bool:
    return git(directory, "rev-parse", "--is-shallow-repository").line != "false"


def _missing_commit(which: str) -> RevisionError:
    return RevisionError(
        "the clone does not have the commit {commit}, whose authority was in force; fetch the whole "
        "history, as with fetch-depth: 0 or GIT_DEPTH: 0",
        commit=which,
    )


def _is_declaring(path: str) -> bool:
    return path == PROJECT_FILE or path.startswith(f"{GUARDRAILS}/")


def _of_settings(data: bytes | None, target: str) -> Iterator[tuple[AuthorityKind, str, str]]:
    """Yield the entries that the project file declares, even if the file is not valid."""
    root = None if data is None else parse(PROJECT_FILE, data).root
    project = _mapping(None if root is None else root.value)
    for name in _listed(project.get("environment")):
        yield AuthorityKind.ENVIRONMENT, str(name), "declared"
    of_target = _mapping(_mapping(project.get("targets")).get(target))
    variables = repr([layer.get("vars") for layer in (project, of_target)])
    for place, layer in (("", project), (f"targets.{target}.", of_target)):
        for key in _SETTINGS:
            for entry in _listed(layer.get(key)):
                value = repr(entry)
                value += variables if "{{" in value else ""  # a template, whose result they may change
                digest = _digest(value.encode(errors="backslashreplace"))
                yield AuthorityKind.SETTING, f"{place}{key}{_named_parts(entry)}", digest


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _named_parts(entry: Any) -> str:
    """Return the setting, code, guardrail and table of an entry of `allow`, each after a space."""
    words = (str(_mapping(entry).get(key, "")) for key in ("setting", "code", "guardrail", "table"))
    return "".join(f" {word}" for word in words if word)


def _kind(entry: TreeEntry, prefix: str) -> AuthorityKind | None:
    """Return the kind of a repository file by its name, or None."""
    if _WORKFLOWS.fullmatch(entry.path):
        return AuthorityKind.WORKFLOW
    folder = dirname(entry.path)
    is_near = entry.path.startswith(prefix) or prefix.startswith(f"{folder}/" if folder else "")
    is_named = _REQUIREMENTS.fullmatch(basename(entry.path)) or (
        basename(folder) == "requirements" and entry.path.endswith(".txt")
    )
    return AuthorityKind.REQUIREMENTS if is_near and is_named else None


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
