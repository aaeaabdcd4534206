"""The files of a project folder: which are read, and what is wrong with the others."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from parquetry import shell
from parquetry.message import phrase
from parquetry.project.diagnostics.model import Diagnostic, diagnostic
from parquetry.project.diagnostics.source import SourceText
from parquetry.project.yaml.document import MAX_BYTES

PROJECT_FILE = "parquetry.yml"
TABLES = "tables"
POLICIES = "policies"
GUARDRAILS = "guardrails"
_PERMIT = "give this user the permission to read it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Paths relative to the project, each kind in the order of its names."""

    tables: tuple[str, ...]
    policies: tuple[str, ...]
    guardrails: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


class ProjectFiles(Protocol):
    """Where the files of a project are read from. Paths are relative to the project and '/'-separated."""

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """The files in a folder at the top and those in it; no hidden ones. ``found`` takes findings."""
        ...

    def has(self, path: str) -> bool:
        """Whether there is a file of that path."""
        ...

    def read(self, path: str) -> bytes | Diagnostic:
        """The bytes of a file, at most one more than is accepted; or why not."""
        ...

    def absence(self) -> Diagnostic | None:
        """That there is no project file; None where there is one, whatever it is."""
        ...


@dataclass(frozen=True, slots=True)
class FilesOnDisk:
    """The files below a folder, which links do not leave. ``root`` is its real path."""

    root: Path

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """See :class:`ProjectFiles`."""
        return _walk(self.root / top, top, found)

    def has(self, path: str) -> bool:
        """See :class:`ProjectFiles`."""
        return (self.root / path).is_file()

    def read(self, path: str) -> bytes | Diagnostic:
        """See :class:`ProjectFiles`."""
        place = SourceText(path=path, text="")
        full = self.root / path
        try:
            if not full.resolve(strict=True).is_relative_to(self.root):
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

    def absence(self) -> Diagnostic | None:
        """See :class:`ProjectFiles`."""
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
class FilesAsRead:
    """Files of which ``contents`` keeps what was read, by path."""

    files: ProjectFiles
    contents: dict[str, bytes] = field(default_factory=dict)

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """See :class:`ProjectFiles`."""
        return self.files.below(top, found)

    def has(self, path: str) -> bool:
        """See :class:`ProjectFiles`."""
        return self.files.has(path)

    def read(self, path: str) -> bytes | Diagnostic:
        """See :class:`ProjectFiles`."""
        content = self.files.read(path)
        if isinstance(content, bytes):
            self.contents[path] = content
        return content

    def absence(self) -> Diagnostic | None:
        """See :class:`ProjectFiles`."""
        return self.files.absence()


@dataclass(frozen=True, slots=True)
class FilesInMemory:
    """Files that are known by path and content, as those of a git revision are."""

    content: Mapping[str, bytes]

    def below(self, top: str, found: list[Diagnostic]) -> Iterable[str]:
        """See :class:`ProjectFiles`."""
        for path in sorted(self.content):
            first, *parts = path.split("/")
            if first != top or not parts or any(part.startswith(".") for part in parts):
                continue
            if path.isprintable():
                yield path
            else:
                found.append(_unread(ascii(path), "its name cannot be printed", "rename it"))

    def has(self, path: str) -> bool:
        """See :class:`ProjectFiles`."""
        return path in self.content

    def read(self, path: str) -> bytes | Diagnostic:
        """See :class:`ProjectFiles`."""
        if path in self.content:
            return self.content[path]
        summary = f"'{path}' cannot be read: {os.strerror(errno.ENOENT)}"
        return diagnostic("PQ013", summary, source=SourceText(path=path, text=""), hint=_PERMIT)

    def absence(self) -> Diagnostic | None:
        """See :class:`ProjectFiles`."""
        if self.has(PROJECT_FILE):
            return None
        place = SourceText(path=PROJECT_FILE, text="")
        return diagnostic("PQ001", f"there is no {PROJECT_FILE}", source=place, hint="name another revision")


def scan(files: ProjectFiles) -> Folder:
    """What lies in a project folder. Hidden files and folders are left alone."""
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
    is_there = files.absence() is None
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
    """The bytes of the project file; or that there is none."""
    return files.absence() or files.read(PROJECT_FILE)


def _specs(paths: Iterable[str], found: list[Diagnostic]) -> list[str]:
    specs = []
    for path in paths:
        if path.endswith(".yml"):
            specs.append(path)
        elif path.lower().endswith((".yml", ".yaml")):
            rename = f"rename it to {path.rpartition('.')[0]}.yml"
            found.append(_unread(path, "specs end in .yml", rename))
    return sorted(specs)


def _walk(folder: Path, path: str, found: list[Diagnostic]) -> Iterator[str]:
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
            yield below


def _unread(path: str, why: str, hint: str) -> Diagnostic:
    return diagnostic(
        "PQ012", f"'{path}' is not read: {why}", source=SourceText(path=path, text=""), hint=hint
    )
