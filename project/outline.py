"""What a project declares by name, read in milliseconds: for shells that complete words.

Nothing is checked, rendered or reported. What cannot be read is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from parquetry.project.document import MAX_BYTES

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Names in alphabetical order; ``folders`` are those of tables, relative to the project."""

    tables: tuple[str, ...]
    targets: tuple[str, ...]
    tags: tuple[str, ...]
    variables: tuple[str, ...]
    folders: tuple[str, ...]


def outline(root: Path) -> Outline:
    """The names that the files below ``root`` declare as they are written; none where there is no project."""
    project = _mapping(root / "parquetry.yml")
    files = sorted(_files(root / "tables"))
    documents = [(path, _mapping(path)) for path in files]
    targets = _names(project.get("targets"))
    settings = [project.get("defaults"), *(_at(project, "targets", name, "overrides") for name in targets)]
    variables = {
        *_names(project.get("vars")),
        *(name for target in targets for name in _names(_at(project, "targets", target, "vars"))),
    }
    tags = {tag for part in (*settings, *(document for _, document in documents)) for tag in _tags(part)}
    names = {document["name"] for _, document in documents if isinstance(document.get("name"), str)}
    folders = {path.parent.relative_to(root).as_posix() for path in files}
    return Outline(
        tables=tuple(sorted(names)),
        targets=tuple(sorted(targets)),
        tags=tuple(sorted(tags)),
        variables=tuple(sorted(variables)),
        folders=tuple(sorted(folders)),
    )


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(".yml") and not name.startswith("."))


def _mapping(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as stream:
            document = yaml.load(stream.read(MAX_BYTES), Loader=_LOADER)  # noqa: S506  # a safe loader
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return document if isinstance(document, dict) else {}


def _at(value: Any, *path: str) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, dict) else []


def _tags(value: Any) -> list[str]:
    """The tags of a section; those that a template computes are not known."""
    tags = value.get("tags") if isinstance(value, Mapping) else None
    return [t for t in tags if isinstance(t, str) and "{{" not in t] if isinstance(tags, list) else []
