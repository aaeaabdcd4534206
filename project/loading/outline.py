"""The names that a project declares, read in milliseconds, for the completion of words in shells.

Nothing is checked, rendered or reported, and unreadable parts are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from parquetry.project.model.locations import is_relative
from parquetry.project.yaml.document import parse
from parquetry.project.yaml.folder import PROJECT_FILE, TABLES, FilesOnDisk


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Sorted names of a project; ``folders`` are those with tables, relative to the project.

    ``project`` is the project's name or None. ``shared_targets`` are the targets whose warehouse is not a
    folder in the project, such as a bucket.
    """

    project: str | None
    tables: tuple[str, ...]
    targets: tuple[str, ...]
    shared_targets: tuple[str, ...]
    tags: tuple[str, ...]
    variables: tuple[str, ...]
    folders: tuple[str, ...]


def outline(root: Path) -> Outline:
    """Return the names in the files below ``root`` as they are written; all empty without a project."""
    files = FilesOnDisk(root.resolve())
    project = _mapping(files, PROJECT_FILE)
    paths = sorted(path for path in files.below(TABLES, []) if path.endswith(".yml"))
    documents = [_mapping(files, path) for path in paths]
    targets = _names(project.get("targets"))
    settings = [project.get("defaults"), *(_at(project, "targets", name, "overrides") for name in targets)]
    variables = {
        *_names(project.get("vars")),
        *(name for target in targets for name in _names(_at(project, "targets", target, "vars"))),
    }
    tags = {tag for part in (*settings, *documents) for tag in _tags(part)}
    names = {document["name"] for document in documents if isinstance(document.get("name"), str)}
    folders = {PurePosixPath(path).parent.as_posix() for path in paths}
    name = project.get("name")
    return Outline(
        project=name if isinstance(name, str) else None,
        tables=tuple(sorted(names)),
        targets=tuple(sorted(targets)),
        shared_targets=tuple(
            sorted(t for t in targets if not _is_within(_at(project, "targets", t, "warehouse")))
        ),
        tags=tuple(sorted(tags)),
        variables=tuple(sorted(variables)),
        folders=tuple(sorted(folders)),
    )


def _mapping(files: FilesOnDisk, path: str) -> Mapping[str, Any]:
    """Return the values of a YAML file; empty if it is missing or is no mapping."""
    data = files.read(path)
    if not isinstance(data, bytes):
        return {}
    root = parse(path, data).root
    return root.value if root is not None and isinstance(root.value, dict) else {}


def _at(value: Any, *path: str) -> Any:
    """Return the value at a path of keys, or None."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _is_within(warehouse: Any) -> bool:
    """Return whether a warehouse is a folder in the project; a text that begins with a template is not."""
    return not isinstance(warehouse, str) or (is_relative(warehouse) and not warehouse.startswith("{{"))


def _names(value: Any) -> list[str]:
    """Return the keys of a mapping that are strings; none for another value."""
    return [name for name in value if isinstance(name, str)] if isinstance(value, dict) else []


def _tags(value: Any) -> list[str]:
    """Return the tags of a section, without those that a template computes."""
    tags = value.get("tags") if isinstance(value, Mapping) else None
    return [t for t in tags if isinstance(t, str) and "{{" not in t] if isinstance(tags, list) else []
