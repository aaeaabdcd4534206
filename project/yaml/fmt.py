"""Formatting of a project's files in canonical form, as `parquetry fmt` does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parquetry.confined_folder import ConfinedFolder
from parquetry.project.diagnostics.model import Diagnostic, diagnostic, errors, in_order
from parquetry.project.yaml.canonical import NotCanonicalError, canonical
from parquetry.project.yaml.document import decode, parse_text
from parquetry.project.yaml.folder import PROJECT_FILE, FilesOnDisk, read_project_file, scan


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatResult:
    """The files that are (or would be) rewritten, and the diagnostics of those that cannot be formatted.

    ``changed`` has paths relative to the project, in the order in which the files were read. ``files`` is the
    number of files that were read.
    """

    changed: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    files: int

    @property
    def failed(self) -> bool:
        """True if a file could not be formatted."""
        return bool(errors(self.diagnostics))


def format_project(root: Path, *, write: bool) -> FormatResult:
    """Rewrite the YAML files of a project folder in canonical form; without ``write``, only list the changes.

    A file that does not parse is reported and left as it is. Each file is replaced as a whole.
    """
    root = root.resolve()
    files = FilesOnDisk(root)
    folder = scan(files)
    changed: list[str] = []
    found: list[Diagnostic] = list(folder.diagnostics)
    paths = [PROJECT_FILE, *folder.policies, *folder.guardrails, *folder.tables]
    for path in paths:
        text = _formatted(files, path, found)
        if text is not None:
            changed.append(path)
            if write:
                # Write to the file that was read: a link may point to another file of the project.
                ConfinedFolder(root).write((root / path).resolve(), text)
    return FormatResult(changed=tuple(changed), diagnostics=in_order(found), files=len(paths))


def _formatted(files: FilesOnDisk, path: str, found: list[Diagnostic]) -> str | None:
    """Return the new text of a file, or None if the file stays; add its diagnostics to ``found``."""
    data = read_project_file(files) if path == PROJECT_FILE else files.read(path)
    if isinstance(data, Diagnostic):
        found.append(data)
        return None
    source, problem = decode(path, data)
    problems = (problem,) if problem else parse_text(source).diagnostics
    if problems:
        found += problems
        return None
    try:
        text = canonical(source)
    except NotCanonicalError as error:
        hint = "write each key as `key: value` on a line of its own"
        found.append(diagnostic("PQ016", str(error), source=source, hint=hint))
        return None
    return text if text.encode() != data else None
