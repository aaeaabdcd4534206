"""Stages on this machine: each has a note of the process that it belongs to, and goes when that is gone."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.stage.place import STAGE_PREFIX, LocalPlace, as_storage_error

_OWNER: Final = "owner.json"
_FOLDERS: Final = ("spark-", "userFiles-", STAGE_PREFIX)
"""How the names of folders begin: an application's, that of its files, that of a stage among them."""


def owned_place(root: Path) -> LocalPlace:
    """A new stage of this process below the application's folder ``root``."""
    place = LocalPlace.make(str(root))
    owner = Owner.here()
    owner.finish()  # only the process counts
    with as_storage_error(place.folder):
        Path(place.folder, _OWNER).write_text(json.dumps(owner.to_json()), encoding="ascii")
    return place


def remove_dead_stages(root: Path) -> None:
    """Remove the stages that processes which are gone have left beside this application's folder ``root``."""
    stages = [root.parent.parent]
    for prefix in _FOLDERS:
        stages = [folder for above in stages for folder in _own_folders(above, prefix)]
    for stage in stages:
        with suppress(OSError, ValueError):  # without a note, or gone by now
            if Owner.from_json(json.loads(Path(stage, _OWNER).read_bytes())).is_process_gone:
                LocalPlace(folder=str(stage)).remove()


def _own_folders(parent: Path, prefix: str) -> list[Path]:
    """Folders of this user with such a name, through no link: others may put anything beside them."""
    found = []
    with suppress(OSError), os.scandir(parent) as entries:  # others come and go
        for entry in entries:
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        found.append(Path(entry.path))
    return found
