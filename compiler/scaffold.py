"""A new project: specs, sample data, schemas for editors and a workflow for pull requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from parquetry.compiler.templating import environment
from parquetry.errors import ParquetryError
from parquetry.project.scalar import scalar
from parquetry.project.schema import Kind, bundled, write_schemas
from parquetry.version import VERSION

SCHEMAS = "schemas"
_FILES = {
    "parquetry.yml": "parquetry.yml.j2",
    "policies/small-data.yml": "policies/small-data.yml.j2",
    "tables/orders.yml": "tables/orders.yml.j2",
    "landing/2026-01.csv": "landing/2026-01.csv.j2",
    ".gitignore": "gitignore.j2",
    ".github/workflows/parquetry.yml": "workflow.yml.j2",
}
_FALLBACK = "lake"
_LONGEST = 128


class ScaffoldError(ParquetryError):
    """A project cannot be made in a directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaffoldContext:
    """Everything the templates of a new project may say."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaffold:
    """A project that was made; ``files`` are relative to its directory."""

    directory: Path
    name: str
    files: tuple[str, ...]


def scaffold(directory: Path) -> Scaffold:
    """Make a project in ``directory``, which may exist; it is named after the directory.

    Nothing that is there is replaced: one file in the way, and nothing is written.

    Raises:
        ScaffoldError: a file is in the way, or the directory cannot be written.

    """
    name = project_name(directory)
    context = ScaffoldContext(name=name, version=VERSION)
    templates = environment()
    texts = {
        path: templates.get_template(f"scaffold/{template}").render(scaffold=context)
        for path, template in _FILES.items()
    }
    in_the_way = [path for path in (*texts, SCHEMAS) if (directory / path).exists()]
    if in_the_way:
        raise ScaffoldError(f"{directory / in_the_way[0]} is there already; name an empty directory")
    try:
        for path, text in texts.items():
            file = directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        schemas = write_schemas(directory / SCHEMAS, {kind.value: bundled(kind) for kind in Kind})
    except OSError as error:
        raise ScaffoldError(
            f"{error.filename} cannot be written: {error.strerror}; name another directory"
        ) from error
    written = (*texts, *(f"{SCHEMAS}/{schema.name}" for schema in schemas))
    return Scaffold(directory=directory, name=name, files=written)


def project_name(directory: Path) -> str:
    """A valid project name that resembles the directory's."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", directory.resolve().name).strip("-")[:_LONGEST]
    if not name:
        return _FALLBACK
    is_text = re.match("[A-Za-z_]", name) and isinstance(scalar(name), str)
    return name if is_text else f"_{name}"[:_LONGEST]
