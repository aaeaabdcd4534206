"""The project beside its commits: files that differ from them, and commits that declare an applied spec.

If a branch is squashed, amended or rebased, its commits disappear, but new commits contain its specs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from parquetry import project
from parquetry.compiler.git.repository import GitError
from parquetry.compiler.git.revisions import RevisionError, files_at
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.opened import Workspace
from parquetry.project import UndeclaredVariableError
from parquetry.project.yaml.folder import POLICIES, PROJECT_FILE, TABLES, FilesInMemory, scan
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.applied import applied_history

_LOG = logging.getLogger(__name__)

_SPECS: Final = (PROJECT_FILE, POLICIES, TABLES, "**/*.avsc")
_MAX_COMMITS: Final = 20
_MS: Final = 1000


def uncommitted_files(workspace: Workspace) -> tuple[str, ...] | None:
    """Return the paths of project files that differ from the commit or that it lacks.

    Files that only the commit has count too; line ends do not. The result is None if the difference is
    unknown: outside a repository, or if git cannot read the files of the commit.
    """
    if workspace.tree.commit is None:
        return None
    try:
        committed = files_at(workspace.project.root, workspace.tree.commit)
    except (RevisionError, GitError) as error:
        _LOG.warning("%s", error)
        return None
    folder = scan(FilesInMemory(committed))
    specs = {*folder.tables, *folder.policies, *folder.guardrails} | ({PROJECT_FILE} & committed.keys())
    read = workspace.contents
    changed = {path for path, content in read.items() if _lines(content) != _lines(committed.get(path))}
    return tuple(sorted(changed | (specs - read.keys()), key=PurePosixPath))


def _lines(content: bytes | None) -> bytes | None:
    """Return the content with the line ends that git stores."""
    return None if content is None else content.replace(b"\r\n", b"\n")


def is_declared_since(workspace: Workspace, observation: Observation) -> bool:
    """Return whether a commit of the checked-out history declares the applied spec.

    Commits must not be older than the commit of the applied record or, if that is unknown here, than the
    apply. An older commit may declare a spec that somebody reverted to. At most the newest 20 commits that
    change specs are read.
    """
    applied, spec = observation.handle.applied, observation.spec
    if applied is None or applied.git_commit is None or spec is None:
        return False
    since = workspace.tree.committed_at(applied.git_commit)
    if since is None:
        since = next(applied_history(observation.handle.store)).applied_at_ms // _MS
    commits = workspace.tree.commits_since(since, _SPECS, at_most=_MAX_COMMITS)
    return any(_declares(workspace, commit, spec) for commit in commits)


def _declares(workspace: Workspace, commit: str, spec: TableSpec) -> bool:
    """Return whether the commit declares the table with this spec. An unreadable commit declares nothing."""
    try:
        files = files_at(workspace.project.root, commit)
    except (RevisionError, GitError) as error:
        _LOG.warning("%s", error)
        return False
    return any(found == spec for found in _specs(workspace, files, spec.name))


def _specs(workspace: Workspace, files: Mapping[str, bytes], name: str) -> list[TableSpec]:
    """Return the table as the files declare it for the target, or nothing."""
    root, target = workspace.project.root, workspace.project.target.name
    try:
        loaded = project.load(root, target=target, variables=workspace.variables, files=files)
    except UndeclaredVariableError:
        return []
    tables = () if loaded.project is None else loaded.project.tables
    return [table.spec for table in tables if table.name == name]
