"""The files of a project folder: which are read, and what is wrong with the others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parquetry.project.diagnostics import Diagnostic, diagnostic
from parquetry.project.document import MAX_BYTES
from parquetry.project.source import SourceText

PROJECT_FILE = "parquetry.yml"
TABLES = "tables"
_POLICIES = "policies"
_PERMIT = "give this user the permission to read it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Paths relative to ``root``, each kind in the order of its names."""

    root: Path
    tables: tuple[str, ...]
    policies: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def scan(root: Path) -> Folder:
    """What lies in a project folder. Hidden files and folders are left alone."""
    found: list[Diagnostic] = []
    tables = _specs(root, TABLES, found)
    policies = _specs(root, _POLICIES, found)
    found += [
        _unread(path, "policies lie directly in policies/", f"move it to policies/{Path(path).name}")
        for path in policies
        if path.count("/") > 1
    ]
    policies = [path for path in policies if path.count("/") == 1]
    is_there = (root / PROJECT_FILE).exists()
    for name in ("parquetry.yaml",) if is_there else ("parquetry.yaml", "project.yml", "project.yaml"):
        if (root / name).is_file():
            hint = "remove it" if is_there else f"rename it to {PROJECT_FILE}"
            found.append(_unread(name, f"the project file is {PROJECT_FILE}", hint))
    return Folder(root=root, tables=tuple(tables), policies=tuple(policies), diagnostics=tuple(found))


def read(root: Path, path: str) -> bytes | Diagnostic:
    """The bytes of a file below ``root``, at most one more than is accepted; or why not."""
    place = SourceText(path=path, text="")
    full = root / path
    try:
        if not full.resolve(strict=True).is_relative_to(root):
            return diagnostic(
                "PQ011",
                f"'{path}' is a link that leads out of the project",
                source=place,
                hint="copy the file",
            )
        if not full.is_file():
            return diagnostic("PQ013", f"'{path}' is not a file", source=place, hint="remove it")
        with full.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, RuntimeError, ValueError) as error:
        reason, hint = getattr(error, "strerror", None) or str(error), _PERMIT
        if full.is_symlink() and not full.exists():
            reason, hint = "it is a link that leads nowhere", "remove the link"
        return diagnostic("PQ013", f"'{path}' cannot be read: {reason}", source=place, hint=hint)


def read_project_file(root: Path) -> bytes | Diagnostic:
    """The bytes of the project file; or that there is none."""
    if not (root / PROJECT_FILE).exists() and not (root / PROJECT_FILE).is_symlink():
        place = SourceText(path=PROJECT_FILE, text="")
        summary = f"there is no {PROJECT_FILE} in {root}" if root.is_dir() else f"there is no folder {root}"
        above = next((folder for folder in root.parents if (folder / PROJECT_FILE).is_file()), None)
        hint = "name the project's folder with --project" if above is None else f"give --project {above}"
        return diagnostic("PQ001", summary, source=place, hint=hint)
    return read(root, PROJECT_FILE)


def _specs(root: Path, top: str, found: list[Diagnostic]) -> list[str]:
    specs = []
    for path, entry in _walk(root / top, top, found):
        if entry.name.endswith(".yml"):
            specs.append(path)
        elif entry.name.lower().endswith((".yml", ".yaml")):
            rename = f"rename it to {path.rpartition('.')[0]}.yml"
            found.append(_unread(path, "specs end in .yml", rename))
    return sorted(specs)


def _walk(folder: Path, path: str, found: list[Diagnostic]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    place = SourceText(path=path, text="")
    if folder.is_symlink():
        found.append(
            diagnostic("PQ011", f"'{path}' is a link to a folder", source=place, hint="copy the folder")
        )
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        found.append(
            diagnostic("PQ013", f"'{path}' cannot be read: {error.strerror}", source=place, hint=_PERMIT)
        )
        return
    for entry in entries:
        below = f"{path}/{entry.name}"
        if entry.name.startswith("."):
            continue
        if not entry.name.isprintable():
            found.append(_unread(f"{path}/{entry.name!a}", "its name cannot be printed", "rename it"))
            continue
        if os.path.isdir(entry.path):  # noqa: PTH112 - Path.is_dir raises where a link cannot be followed
            yield from _walk(folder / entry.name, below, found)
        else:
            yield below, entry


def _unread(path: str, why: str, hint: str) -> Diagnostic:
    return diagnostic(
        "PQ012", f"'{path}' is not read: {why}", source=SourceText(path=path, text=""), hint=hint
    )
