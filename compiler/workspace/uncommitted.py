"""The files of a project that are not as the checked-out commit has them."""

from __future__ import annotations

import logging
from pathlib import PurePosixPath

from parquetry.compiler.workspace.git import GitError
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.revisions import RevisionError, files_at
from parquetry.project.yaml.folder import PROJECT_FILE, FilesInMemory, scan

_LOG = logging.getLogger(__name__)


def uncommitted_files(workspace: Workspace) -> tuple[str, ...] | None:
    """Return the paths of files that the project was read from and that the commit has otherwise, or lacks.

    Files that the commit has and the project has not count too, ends of lines do not. None where it is not
    known: outside a repository, and where git cannot read the files of the commit.
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
    """Return the content with the ends of lines that git stores."""
    return None if content is None else content.replace(b"\r\n", b"\n")
