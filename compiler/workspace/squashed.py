"""Whether what somebody applied reached the checked-out history by another commit.

A branch that is squashed, amended or rebased leaves its commits behind, and its specs stand in new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from parquetry import project
from parquetry.compiler.workspace.git import GitError
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.revisions import RevisionError, files_at
from parquetry.project import UndeclaredVariableError
from parquetry.project.yaml.folder import POLICIES, PROJECT_FILE, TABLES
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.applied import applied_history

_LOG = logging.getLogger(__name__)

_SPECS: Final = (PROJECT_FILE, POLICIES, TABLES, "**/*.avsc")
_LOOKED_AT: Final = 20
_MS: Final = 1000


def is_declared_since(workspace: Workspace, observation: Observation) -> bool:
    """Whether a commit of the checked-out history declares what is applied to the table.

    Only commits count that are no older than the one that it was applied from, or, where that is not
    known here, than the apply: an older one may be what somebody went back to since. At most the newest
    20 that touch specs are looked at.
    """
    applied, spec = observation.handle.applied, observation.spec
    if applied is None or applied.git_commit is None or spec is None:
        return False
    since = workspace.tree.committed_at(applied.git_commit)
    if since is None:
        since = next(applied_history(observation.handle.store)).applied_at_ms // _MS
    commits = workspace.tree.commits_since(since, _SPECS, at_most=_LOOKED_AT)
    return any(_declares(workspace, commit, spec) for commit in commits)


def _declares(workspace: Workspace, commit: str, spec: TableSpec) -> bool:
    """Whether the commit declares the table so; one that cannot be read declares nothing."""
    try:
        files = files_at(workspace.project.root, commit)
    except (RevisionError, GitError) as error:
        _LOG.warning("%s", error)
        return False
    return any(found == spec for found in _specs(workspace, files, spec.name))


def _specs(workspace: Workspace, files: Mapping[str, bytes], name: str) -> list[TableSpec]:
    """The table of that name as the files declare it for the target; none where they do not."""
    root, target = workspace.project.root, workspace.project.target.name
    try:
        loaded = project.load(root, target=target, variables=workspace.variables, files=files)
    except UndeclaredVariableError:
        return []
    tables = () if loaded.project is None else loaded.project.tables
    return [table.spec for table in tables if table.name == name]
