"""The files of a project that differ from the checked-out commit."""

from __future__ import annotations

import logging
from pathlib import PurePosixPath

from parquetry.compiler.git.repository import GitError
from parquetry.compiler.git.revisions import RevisionError, files_at
from parquetry.compiler.workspace.opened import Workspace
from parquetry.project.yaml.folder import PROJECT_FILE, FilesInMemory, scan

_LOG = logging.getLogger(__name__)


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
