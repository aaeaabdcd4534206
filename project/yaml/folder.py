"""The files of a project folder that are read, and diagnostics for the others."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from parquetry.message import phrase
from parquetry.project.diagnostics.model import Diagnostic, diagnostic
from parquetry.project.diagnostics.source import SourceText
from parquetry.project.yaml.document import MAX_BYTES
from parquetry.text import shell

PROJECT_FILE = "parquetry.yml"
TABLES = "tables"
POLICIES = "policies"
GUARDRAILS = "guardrails"
_PERMIT = "give this user the permission to read it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The files of a project by kind, as paths relative to the project, sorted."""

    tables: tuple[str, ...]
    policies: tuple[str, ...]
    guardrails: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


class ProjectFiles(Protocol):
    """Access to the files of a project. Paths are relative to the project and '/'-separated."""

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """Return the files below the folder ``top``, without hidden ones; add diagnostics to ``found``."""
        ...

    def has(self, path: str) -> bool:
        """Return whether there is a file at this path."""
        ...

    def read(self, path: str) -> bytes | Diagnostic:
        """Return the bytes of a file, or a diagnostic that says why it cannot be read.

        The bytes end one byte after the size limit, so that the caller notices a file that is too large.
        """
        ...

    def missing_project_file(self) -> Diagnostic | None:
        """Return a diagnostic if the project file is missing, or None if something has its name."""
        ...


@dataclass(frozen=True, slots=True)
class FilesOnDisk:
    """The files below a folder; links that leave the folder are not followed. ``root`` is a real path."""

    root: Path

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """Yield the files below the folder ``top`` in sorted order; add diagnostics to ``found``."""
        return _walk(self.root / top, top, found)

    def has(self, path: str) -> bool:
        """Return whether there is a file at this path."""
        return (self.root / path).is_file()

    def read(self, path: str) -> bytes | Diagnostic:
        """Return the bytes of a file; or a diagnostic if it is unreadable or links out of the project."""
        source = SourceText(path=path, text="")
        full = self.root / path
        try:
            if not full.resolve(strict=True).is_relative_to(self.root):
                return diagnostic(
                    "PQ011",
                    f"'{path}' is a link to a file outside of the project",
                    source=source,
                    hint="copy the file",
                )
            if not full.is_file():
                return diagnostic("PQ013", f"'{path}' is not a file", source=source, hint="remove it")
            with full.open("rb") as stream:
                return stream.read(MAX_BYTES + 1)
        except (OSError, RuntimeError, ValueError) as error:
            reason, hint = getattr(error, "strerror", None) or str(error), _PERMIT
            if full.is_symlink() and not full.exists():
                reason, hint = "the target of the link does not exist", "remove the link"
            return diagnostic("PQ013", f"'{path}' cannot be read: {reason}", source=source, hint=hint)

    def missing_project_file(self) -> Diagnostic | None:
        """Return a diagnostic if the project file is missing, or None.

        The hint names the nearest parent folder that has a project file.
        """
        file = self.root / PROJECT_FILE
        if file.exists() or file.is_symlink():
            return None
        is_folder = self.root.is_dir()
        summary = (
            f"there is no {PROJECT_FILE} in {self.root}" if is_folder else f"there is no folder {self.root}"
        )
        above = next((folder for folder in self.root.parents if (folder / PROJECT_FILE).is_file()), None)
        hint = (
            phrase("name the project's folder with --project", called="give its folder to parquetry.load()")
            if above is None
            else phrase(f"give {shell.line('--project', str(above))}", called=f"load {above}")
        )
        return diagnostic("PQ001", summary, source=SourceText(path=PROJECT_FILE, text=""), hint=hint)


@dataclass(frozen=True, slots=True)
class RecordingFiles:
    """Files of another source, whose contents are kept in ``contents`` by path when they are read."""

    files: ProjectFiles
    contents: dict[str, bytes] = field(default_factory=dict)

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """Return the files below the folder ``top`` of the wrapped source. Nothing is recorded."""
        return self.files.below(top, found)

    def has(self, path: str) -> bool:
        """Return whether the wrapped source has a file at this path. Nothing is recorded."""
        return self.files.has(path)

    def read(self, path: str) -> bytes | Diagnostic:
        """Return the bytes of a file and keep them, or return the diagnostic of the wrapped source."""
        content = self.files.read(path)
        if isinstance(content, bytes):
            self.contents[path] = content
        return content

    def missing_project_file(self) -> Diagnostic | None:
        """Return the wrapped source's diagnostic for a missing project file, or None."""
        return self.files.missing_project_file()


@dataclass(frozen=True, slots=True)
class FilesInMemory:
    """Files given as a mapping of path to content, such as those of a git revision."""

    content: Mapping[str, bytes]

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """Yield the paths below the folder ``top`` in sorted order; add unprintable names to ``found``."""
        for path in sorted(self.content):
            first, *parts = path.split("/")
            if first != top or not parts or any(part.startswith(".") for part in parts):
                continue
            if path.isprintable():
                yield path
            else:
                found.append(_unread(ascii(path), "its name cannot be printed", "rename it"))

    def has(self, path: str) -> bool:
        """Return whether the mapping has this path."""
        return path in self.content

    def read(self, path: str) -> bytes | Diagnostic:
        """Return the content of a path, or the diagnostic for a missing file."""
        if path in self.content:
            return self.content[path]
        summary = f"'{path}' cannot be read: {os.strerror(errno.ENOENT)}"
        return diagnostic("PQ013", summary, source=SourceText(path=path, text=""), hint=_PERMIT)

    def missing_project_file(self) -> Diagnostic | None:
        """Return a diagnostic if the mapping has no project file, or None."""
        if self.has(PROJECT_FILE):
            return None
        source = SourceText(path=PROJECT_FILE, text="")
        return diagnostic("PQ001", f"there is no {PROJECT_FILE}", source=source, hint="name another revision")


def scan(files: ProjectFiles) -> Folder:
    """Find the tables, policies and guardrails of a project folder; report files that are not read.

    Hidden files and folders are ignored.
    """
    found: list[Diagnostic] = []
    tables = _specs(files.below(TABLES, found), found)
    policies = _specs(files.below(POLICIES, found), found)
    guardrails = _specs(files.below(GUARDRAILS, found), found)
    found += [
        _unread(path, f"{top} lie directly in {top}/", f"move it to {top}/{Path(path).name}")
        for top, paths in ((POLICIES, policies), (GUARDRAILS, guardrails))
        for path in paths
        if path.count("/") > 1
    ]
    policies, guardrails = ([p for p in paths if p.count("/") == 1] for paths in (policies, guardrails))
    is_there = files.missing_project_file() is None
    for name in ("parquetry.yaml",) if is_there else ("parquetry.yaml", "project.yml", "project.yaml"):
        if files.has(name):
            hint = "remove it" if is_there else f"rename it to {PROJECT_FILE}"
            found.append(_unread(name, f"the project file is {PROJECT_FILE}", hint))
    return Folder(
        tables=tuple(tables),
        policies=tuple(policies),
        guardrails=tuple(guardrails),
        diagnostics=tuple(found),
    )


def read_project_file(files: ProjectFiles) -> bytes | Diagnostic:
    """Return the bytes of the project file, or a diagnostic if it is missing or cannot be read."""
    return files.missing_project_file() or files.read(PROJECT_FILE)


def _specs(paths: Iterable[str], found: list[Diagnostic]) -> list[str]:
    """Return the sorted files that end in ``.yml``; report those with a similar ending."""
    specs = []
    for path in paths:
        if path.endswith(".yml"):
            specs.append(path)
        elif path.lower().endswith((".yml", ".yaml")):
            rename = f"rename it to {path.rpartition('.')[0]}.yml"
            found.append(_unread(path, "specs end in .yml", rename))
    return sorted(specs)


def _walk(folder: Path, path: str, found: list[Diagnostic]) -> Iterator[str]:
    """Yield the files at any depth of a folder; report links to folders and what cannot be read."""
    source = SourceText(path=path, text="")
    if folder.is_symlink():
        found.append(
            diagnostic("PQ011", f"'{path}' is a link to a folder", source=source, hint="copy the folder")
        )
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        found.append(
            diagnostic("PQ013", f"'{path}' cannot be read: {error.strerror}", source=source, hint=_PERMIT)
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
            yield below


def _unread(path: str, why: str, hint: str) -> Diagnostic:
    """Return the diagnostic of a file that is not read."""
    return diagnostic(
        "PQ012", f"'{path}' is not read: {why}", source=SourceText(path=path, text=""), hint=hint
    )
