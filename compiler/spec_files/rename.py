"""`rename`: another name for a table or a source, in every file of the project that says the old one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parquetry.compiler.spec_files.edit import with_keys, with_values
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.spec_words import flow
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError, UsageError
from parquetry.project import ResolvedTable
from parquetry.project.diagnostics.model import one_of
from parquetry.project.schema.definitions import Kind, compiled_pattern, inlined
from parquetry.project.yaml.document import Node, parse
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.project.yaml.folder import PROJECT_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """The files that say the new name, and those that are gone; all relative to the project.

    ``location`` is where the table stays, as its spec declares it; None for a source.
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

    A table keeps its location, which its spec declares from then on, and says under ``moved`` what it was
    called. No table is written to: the next plan shows the change.

    Args:
        workspace: the project; all of its files are valid.
        former: the name of a table, or of a table and one of its sources with a dot between.
        name: the new name, without that of the table.
        replace: take the name from a table that has it. Its spec is removed, its rows stay.
        reload: return the project as its files say then.

    Raises:
        UsageError: there is no such table or source, or the new name is taken or is none.
        SpecError: the project would be invalid. Then every file is as it was.

    """
    table_name, dot, source = former.partition(".")
    table = next((table for table in workspace.project.tables if table.name == table_name), None)
    if table is None:
        raise UsageError(
            f"there is no table {table_name!r}; "
            + one_of("table", table_name, [table.name for table in workspace.project.tables])
        )
    files = _Files(workspace.project.root)
    location = None
    if dot:
        _rename_source(files, table, source, name)
    else:
        taken = _taken(workspace, table, name, replace=replace)
        for path in (PROJECT_FILE, *(each.file for each in workspace.project.tables if each is not taken)):
            files.replace(path, dict(_references(files.root(path), table.name, name)))
        if taken is not None:
            files.put(taken.file, None)
        location = _rename_table(files, table, name, targets=workspace.project.targets)
    files.write()
    try:
        reload()
    except ParquetryError:
        files.undo()
        raise
    return Renamed(former=former, name=name, location=location, files=files.written, removed=files.removed)


def _rename_source(files: _Files, table: ResolvedTable, source: str, name: str) -> None:
    names = [each.name for each in table.spec.sources]
    if source not in names:
        raise UsageError(f"table {table.name} has no source {source!r}; {one_of('source', source, names)}")
    if name in names:
        raise UsageError(f"table {table.name} has a source {name!r} already; choose another name")
    files.replace(table.file, {("sources", names.index(source), "name"): flow(name)})


def _taken(workspace: Workspace, table: ResolvedTable, name: str, *, replace: bool) -> ResolvedTable | None:
    """Return the table that loses its name; UsageError where the name is none, or is not to be taken."""
    if not compiled_pattern(inlined(Kind.TABLE)["properties"]["name"]["pattern"]).search(name):
        raise UsageError(f"{name!r} is no name of letters, digits and '_'")
    taken = next((other for other in workspace.project.tables if other.name == name), None)
    if taken is table:
        raise UsageError(f"the table is called {name} already")
    if taken is not None and not replace:
        raise UsageError(
            f"{taken.file} declares a table {name!r}; choose another name, or take this one with --replace"
        )
    return taken


def _rename_table(files: _Files, table: ResolvedTable, name: str, *, targets: Sequence[str]) -> str | None:
    """Move the table's file to its new name, with its location and former name; return the location."""
    declared = files.root(table.file).value
    located = declared.get("location", table.name)
    if isinstance(located, dict) and (lacking := [each for each in targets if each not in located]):
        raise UsageError(
            f"{table.file}: location names no place for {', '.join(lacking)}, where the table lies by its "
            "name; name one for each target first"
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
    """Yield where a file names the table, with the new text: in tests, ``allow`` and ``protect``."""
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
    """Files of a project as they are to be: written together, and put back together if they are wrong."""

    def __init__(self, root: Path) -> None:
        self._place = ConfinedFolder(root)
        self._before: dict[str, bytes | None] = {}
        self._after: dict[str, str | None] = {}

    @property
    def written(self) -> tuple[str, ...]:
        """The files that are new or changed."""
        return tuple(sorted(path for path, text in self._after.items() if text is not None))

    @property
    def removed(self) -> tuple[str, ...]:
        """The files that are gone."""
        return tuple(sorted(path for path, text in self._after.items() if text is None))

    def root(self, path: str) -> Node:
        """Return the parsed file as it is to be."""
        root = parse(path, self._text(path).encode()).root
        assert root is not None, "the project is valid"
        return root

    def replace(self, path: str, values: Mapping[DocumentPath, str]) -> None:
        """Put other texts in the places of values."""
        if values:
            self.put(path, with_values(self._text(path), values, file=path))

    def add(self, path: str, entries: Mapping[str, str], *, after: str) -> None:
        """Put entries behind one of the keys of the whole file."""
        self.put(path, with_keys(self._text(path), entries, after=after, file=path))

    def move(self, path: str, new: str) -> None:
        """Give a file another path; UsageError where there is a file that does not go."""
        text = self._text(path)
        if self._after.get(new, "") is not None and self._read(new) is not None:
            raise UsageError(f"{new} is there already; remove it first")
        self.put(path, None)
        self.put(new, text)

    def put(self, path: str, text: str | None) -> None:
        """Give a file a text; None removes it."""
        self._before.setdefault(path, self._read(path))
        self._after[path] = text

    def write(self) -> None:
        """Write and remove the files."""
        self._store(self._after)

    def undo(self) -> None:
        """Put every file back as it was."""
        self._store(self._before)

    def _store(self, files: Mapping[str, str | bytes | None]) -> None:
        for path, content in files.items():
            if content is None:
                self._place.delete(path)
            else:
                self._place.write(path, content)

    def _text(self, path: str) -> str:
        text = self._after.get(path)
        return (self._read(path) or b"").decode("utf-8-sig") if text is None else text

    def _read(self, path: str) -> bytes | None:
        try:
            return self._place.read(path)
        except FileNotFoundError:
            return None
