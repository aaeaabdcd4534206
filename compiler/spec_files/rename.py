"""The command `rename`: a new name for a table or source in every file of the project with the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parquetry.compiler.spec_files.edit import with_keys, with_values
from parquetry.compiler.spec_words import flow
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError, UsageError
from parquetry.project import ResolvedTable
from parquetry.project.diagnostics.model import one_of
from parquetry.project.validation.definitions import Kind, compiled_pattern, inlined
from parquetry.project.yaml.document import Node, parse
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.project.yaml.folder import PROJECT_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """The result of a renaming: the changed files and the removed ones, relative to the project.

    ``location`` is the table's unchanged location as its spec declares it; None for a source.
    """

    former: str
    name: str
    location: str | None
    files: tuple[str, ...]
    removed: tuple[str, ...]


def rename(
    workspace: Workspace, former: str, name: str, *, replace: bool, reload: Callable[[], Workspace]
) -> Renamed:
    """Rename the table ``former``, or the source ``TABLE.SOURCE``, to ``name`` in the files of the project.

    A table keeps its location, which its spec declares from then on, and its former name is declared under
    ``moved``. No table is written; the next plan shows the change.

    Args:
        workspace: the project; all of its files are valid.
        former: the name of a table, or of a table and one of its sources with a dot between them.
        name: the new name; for a source, without the table's name.
        replace: True to take the name from a table that has it. That table's spec is removed, its rows stay.
        reload: a function that loads the project again from its files.

    Raises:
        UsageError: if there is no such table or source, or the new name is taken or malformed.
        SpecError: if the project would be invalid; then all files are restored.

    """
    table_name, dot, source = former.partition(".")
    table = next((table for table in workspace.project.tables if table.name == table_name), None)
    if table is None:
        raise UsageError(
            "there is no table {table!r}; {hint}",
            table=table_name,
            hint=one_of("table", table_name, [table.name for table in workspace.project.tables]),
        )
    files = _Files(workspace.project.root)
    location = None
    if dot:
        _rename_source(files, table, source, name)
    else:
        taken = _replaced_table(workspace, table, name, replace=replace)
        for path in (PROJECT_FILE, *(each.file for each in workspace.project.tables if each is not taken)):
            files.replace(path, dict(_references(files.root(path), table.name, name)))
        if taken is not None:
            files.put(taken.file, None)
        location = _rename_table(files, table, name, targets=workspace.project.targets)
    files.write()
    try:
        reload()
    except ParquetryError:
        files.restore()
        raise
    return Renamed(former=former, name=name, location=location, files=files.written, removed=files.removed)


def _rename_source(files: _Files, table: ResolvedTable, source: str, name: str) -> None:
    """Change the name of a source in the table's file; raise UsageError if the change is not possible."""
    names = [each.name for each in table.spec.sources]
    if source not in names:
        raise UsageError(
            "table {table} has no source {source!r}; {hint}",
            table=table.name,
            source=source,
            hint=one_of("source", source, names),
        )
    if name in names:
        raise UsageError(
            "table {table} already has a source {name!r}; choose another name", table=table.name, name=name
        )
    files.replace(table.file, {("sources", names.index(source), "name"): flow(name)})


def _replaced_table(
    workspace: Workspace, table: ResolvedTable, name: str, *, replace: bool
) -> ResolvedTable | None:
    """Return the table that loses its name, or None; raise UsageError if the name cannot be used."""
    if not compiled_pattern(inlined(Kind.TABLE)["properties"]["name"]["pattern"]).search(name):
        raise UsageError(
            "{name!r} may only have letters, digits and '_', and no digit at its start", name=name
        )
    taken = next((other for other in workspace.project.tables if other.name == name), None)
    if taken is table:
        raise UsageError("the name of the table already is {name}", name=name)
    if taken is not None and not replace:
        raise UsageError(
            "{file} declares a table {name!r}; choose another name, or take this one with --replace",
            file=taken.file,
            name=name,
        )
    return taken


def _rename_table(files: _Files, table: ResolvedTable, name: str, *, targets: Sequence[str]) -> str | None:
    """Write the table's file under its new name, with location and former name; return the location."""
    declared = files.root(table.file).value
    located = declared.get("location", table.name)
    if isinstance(located, dict) and (lacking := [each for each in targets if each not in located]):
        raise UsageError(
            "{file}: location has no entry for {targets}, where the table's name is its location; add one "
            "for each target first",
            file=table.file,
            targets=lacking,
        )
    moved = f"{{from: {flow(table.name)}}}"
    values: dict[DocumentPath, str] = {("name",): flow(name)}
    files.replace(table.file, values | ({("moved",): moved} if "moved" in declared else {}))
    entries = {"location": flow(located), "moved": moved}
    files.add(table.file, {key: value for key, value in entries.items() if key not in declared}, after="name")
    folder, slash, file = table.file.rpartition("/")
    files.move(table.file, f"{folder}{slash}{name}.{file.rpartition('.')[2]}")
    return located if isinstance(located, str) else None


def _references(root: Node, former: str, name: str) -> Iterator[tuple[DocumentPath, str]]:
    """Yield the position of each mention of the table in a file, with the text that replaces it.

    Tests, ``allow`` and ``protect`` can name tables.
    """
    value = root.value
    for number, test in enumerate(value.get("tests", ())):
        if isinstance(test.get("relationships"), dict) and test["relationships"].get("to") == former:
            yield ("tests", number, "relationships", "to"), flow(name)
    for number, entry in enumerate(value.get("allow", ())):
        if entry.get("table") == former:
            yield ("allow", number, "table"), flow(name)
    for target, settings in value.get("targets", {}).items():
        for number, pattern in enumerate(settings.get("protect", ())):
            if pattern == former:
                yield ("targets", target, "protect", number), flow(name)


class _Files:
    """Pending changes of a project's files, which are written together and can be restored together."""

    def __init__(self, root: Path) -> None:
        self._place = ConfinedFolder(root)
        self._before: dict[str, bytes | None] = {}
        self._after: dict[str, str | None] = {}

    @property
    def written(self) -> tuple[str, ...]:
        """The new and changed files."""
        return tuple(sorted(path for path, text in self._after.items() if text is not None))

    @property
    def removed(self) -> tuple[str, ...]:
        """The removed files."""
        return tuple(sorted(path for path, text in self._after.items() if text is None))

    def root(self, path: str) -> Node:
        """Return the root node of a file, with its pending changes."""
        root = parse(path, self._text(path).encode()).root
        assert root is not None, "the project is valid"
        return root

    def replace(self, path: str, values: Mapping[DocumentPath, str]) -> None:
        """Replace the values at these paths of a file."""
        if values:
            self.put(path, with_values(self._text(path), values, file=path))

    def add(self, path: str, entries: Mapping[str, str], *, after: str) -> None:
        """Add entries after one of the top-level keys of a file."""
        self.put(path, with_keys(self._text(path), entries, after=after, file=path))

    def move(self, path: str, new: str) -> None:
        """Move a file to another path; raise UsageError if a file that stays has that path."""
        text = self._text(path)
        if self._after.get(new, "") is not None and self._read(new) is not None:
            raise UsageError("{file} already exists; remove it first", file=new)
        self.put(path, None)
        self.put(new, text)

    def put(self, path: str, text: str | None) -> None:
        """Set the text of a file; None removes the file."""
        self._before.setdefault(path, self._read(path))
        self._after[path] = text

    def write(self) -> None:
        """Write and remove the files on disk."""
        self._store(self._after)

    def restore(self) -> None:
        """Restore every file."""
        self._store(self._before)

    def _store(self, files: Mapping[str, str | bytes | None]) -> None:
        """Write these contents to disk; None deletes a file."""
        for path, content in files.items():
            if content is None:
                self._place.delete(path)
            else:
                self._place.write(path, content)

    def _text(self, path: str) -> str:
        """Return the text that a file will have: its changed one, or else that on disk."""
        text = self._after.get(path)
        return (self._read(path) or b"").decode("utf-8-sig") if text is None else text

    def _read(self, path: str) -> bytes | None:
        """Return the bytes of a file on disk, or None."""
        try:
            return self._place.read(path)
        except FileNotFoundError:
            return None
