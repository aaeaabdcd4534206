"""Stages on this machine: each names the process that owns it, and is removed after that process ends."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.stage.location import STAGE_PREFIX, LocalStage, as_storage_error

_OWNER: Final = "owner.json"
_FOLDERS: Final = ("spark-", "userFiles-", STAGE_PREFIX)
"""The prefixes of nested folders: an application's, that of its files, and those of stages in it."""


def owned_place(root: Path) -> LocalStage:
    """Create a stage that this process owns, below the folder ``root`` of the application."""
    location = LocalStage.make(str(root))
    owner = Owner.here()
    owner.finish()  # the note only needs the process
    with as_storage_error(location.folder):
        Path(location.folder, _OWNER).write_text(json.dumps(owner.to_json()), encoding="ascii")
    return location


def remove_dead_stages(root: Path) -> None:
    """Remove the stages of ended processes, of this application and of others.

    The folders of other applications are beside ``root``.
    """
    stages = [root.parent.parent]
    for prefix in _FOLDERS:
        stages = [folder for above in stages for folder in _own_folders(above, prefix)]
    for stage in stages:
        with suppress(OSError, ValueError):  # the note is missing, or the stage was removed meanwhile
            if Owner.from_json(json.loads(Path(stage, _OWNER).read_bytes())).has_process_ended:
                LocalStage(folder=str(stage)).remove()


def _own_folders(parent: Path, prefix: str) -> list[Path]:
    """Return the folders of this user whose names begin with the prefix.

    Links are not followed, because others may write here too.
    """
    found = []
    with suppress(OSError), os.scandir(parent) as entries:  # other processes add and remove entries
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        found.append(Path(entry.path))
    return found
