"""The command `init --from-dbt`: a spec for each table of a dbt project, kept up to date.

A comment in the spec names its model, so that a spec that was written by hand is never changed. What dbt says
is set in the spec; everything else in the file stays: other keys, comments, and tests without the prefix of
those from dbt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from parquetry import project
from parquetry.compiler.errors import SpecError
from parquetry.compiler.spec_files.dbt_manifest import OURS, DbtModel, DbtModels, LeftOutModel, read_manifest
from parquetry.compiler.spec_files.edit import NotEditableError, check_document, with_document
from parquetry.compiler.spec_files.scaffold import CI, Scaffold, scaffold
from parquetry.compiler.spec_files.yaml import table_text
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import UsageError, message_of
from parquetry.message import Message, Text
from parquetry.project.diagnostics.model import Diagnostic, errors
from parquetry.project.loading.outline import outline
from parquetry.project.validation.definitions import Kind
from parquetry.project.yaml.canonical import NotCanonicalError
from parquetry.project.yaml.document import Node, decode, parse_text
from parquetry.project.yaml.folder import PROJECT_FILE, TABLES, FilesOnDisk, scan
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.types import parse_type

_MARK: Final = re.compile(r"^# dbt: (model\.[\w.]+)[ \t]*\r?$", re.ASCII | re.MULTILINE)
_NEW: Final = "# dbt: {}\n"
_KEYS_OF_DBT: Final = frozenset({"name", "type", "nullable", "description"})
"""The keys of a column that dbt says without `meta.parquetry`; a column with others is not removed."""

_SCHEMA: Final = f"schemas/{Kind.TABLE.value}.json"
_LISTS_OF_COLUMNS: Final = frozenset({"not_null", "unique"})
_KEYS_WITH_COLUMNS: Final = frozenset({"record_key", "ordering", "partition_by"})
_MODELINE: Final = f"# yaml-language-server: $schema=../{_SCHEMA}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecsFromDbt:
    """The specs of a dbt project's tables, as paths relative to the project.

    ``written`` were written, or would be if files were written. ``gone`` are specs of models that the
    manifest no longer has as tables; they stay. ``notes`` are about models that were taken. ``made`` is the
    new project, if there was none.
    """

    directory: Path
    project: str
    made: Scaffold | None = None
    written: tuple[str, ...]
    unchanged: int
    gone: tuple[str, ...]
    left_out: tuple[LeftOutModel, ...]
    notes: tuple[Text, ...]

    @property
    def is_incomplete(self) -> bool:
        """True if a model is left out that is meant to have a spec."""
        return any(model.is_declared for model in self.left_out)

    @property
    def differs(self) -> bool:
        """True if a spec does not say what dbt says."""
        return bool(self.written or self.gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    """The spec of a model: its file relative to the project, the name of its table, and the file's text.

    ``text`` is None if there is no file yet; ``tests`` are those of the file, by name.
    """

    file: str
    table: str
    text: str | None
    tests: Mapping[str, Any]


def init_from_dbt(
    manifest: Path, directory: Path, *, write: bool, installs: str | None = None, ci: CI | None = None
) -> SpecsFromDbt:
    """Write or compare the specs of the tables of a dbt project; create the project if there is none.

    Args:
        manifest: the manifest.json of dbt.
        directory: the directory of the project.
        write: write files; otherwise, only compare the specs.
        installs: see `scaffold`.
        ci: see `scaffold`.

    Raises:
        ManifestError: if the manifest cannot be read.
        ScaffoldError: if the project cannot be created.
        SpecError: if parquetry.yml has errors, or if another file would have.
        UsageError: if there is no project to compare.

    """
    models = read_manifest(manifest)
    is_new = not (directory / PROJECT_FILE).exists()
    if is_new and not write:
        raise UsageError(
            "{folder} has no {file}; run the command without --check", folder=directory, file=PROJECT_FILE
        )
    made = scaffold(directory, installs=installs, ci=ci, has_sample=False) if is_new or ci else None
    return replace(specs_from_dbt(models, directory, write=write), made=made)


def specs_from_dbt(models: DbtModels, directory: Path, *, write: bool) -> SpecsFromDbt:
    """Write or update the specs of the tables of a dbt project; without ``write``, only compare them.

    A spec is written only if the project has no error in it. Otherwise its model is left out, and the file
    stays as it is.

    Args:
        models: the models of the manifest.
        directory: the directory of the project, which exists.
        write: write the files.

    Raises:
        SpecError: if parquetry.yml has errors, or if a spec would cause an error in a file of others.

    """
    root = directory.resolve()
    files = FilesOnDisk(root)
    contents = {path: data for path in scan(files).tables if isinstance(data := files.read(path), bytes)}
    loaded = project.load(root)
    if broken := [found for found in errors(loaded.diagnostics) if found.file == PROJECT_FILE]:
        raise SpecError(tuple(broken), files=loaded.files)
    marked = {path: mark[1] for path, data in contents.items() if (mark := _mark(data))}
    spellings = _spellings(models, contents, marked)
    models = replace(models, models={each: _spelled(of, spellings) for each, of in models.models.items()})
    specs, refused = _specs(models, contents, marked)
    known = {*models.models, *(each.model for each in models.left_out)}
    # A model that is only left out keeps its table, and so the relationships to it.
    kept = {
        unique_id: _stem(path)
        for path, unique_id in marked.items()
        if unique_id in known and [*marked.values()].count(unique_id) == 1
    }
    while True:
        names = kept | {unique_id: spec.table for unique_id, spec in specs.items()}
        texts: dict[str, str] = {}
        failed: dict[str, Text] = {}
        for unique_id, spec in specs.items():
            try:
                texts[unique_id] = _text(models.models[unique_id], spec, names, known, root)
            except (NotEditableError, NotCanonicalError) as error:
                failed[unique_id] = message_of(error)
        new = {specs[unique_id].file: text.encode() for unique_id, text in texts.items()}
        found = errors(project.load(root, files={**loaded.contents, **contents, **new}).diagnostics)
        for unique_id in texts:
            spec = specs[unique_id]
            wrong = next((each for each in found if spec.file == each.file or spec.table == each.table), None)
            if wrong is not None:
                failed[unique_id] = _reason(wrong)
        if not failed:
            break
        refused |= failed
        specs = {unique_id: spec for unique_id, spec in specs.items() if unique_id not in failed}
    if others := [
        each for each in found if _without_place(each) not in map(_without_place, loaded.diagnostics)
    ]:
        raise SpecError(tuple(others), files=loaded.files)
    written = {specs[each].file: text for each, text in texts.items() if text != specs[each].text}
    if write:
        for path, text in written.items():
            # Write to the file that was read: a link may point to another file of the project.
            ConfinedFolder(root).write((root / path).resolve() if path in contents else path, text)
    left_out = [
        replace(each, is_declared=each.is_declared or each.model in marked.values())
        for each in models.left_out
    ]
    left_out += [
        LeftOutModel(model=each, reason=reason, is_declared=True) for each, reason in refused.items()
    ]
    return SpecsFromDbt(
        directory=directory,
        project=outline(root).project or "",
        written=tuple(sorted(written)),
        unchanged=len(texts) - len(written),
        gone=tuple(path for path, unique_id in marked.items() if unique_id not in known),
        left_out=tuple(sorted(left_out, key=lambda each: each.model)),
        notes=tuple(
            Message("{model}: {note}", model=each, note=note)
            for each in texts
            for note in _notes(models.models[each], specs[each], names, known)
        ),
    )


def _specs(
    models: DbtModels, contents: Mapping[str, bytes], marked: Mapping[str, str]
) -> tuple[dict[str, _Spec], dict[str, Text]]:
    """Return the spec of each model, and the reasons why the others cannot have one."""
    specs: dict[str, _Spec] = {}
    refused: dict[str, Text] = {}
    stems = {_stem(path).lower(): path for path in contents}
    for unique_id, model in models.models.items():
        own = [path for path, of in marked.items() if of == unique_id]
        taken = stems.get(model.name.lower())
        if len(own) > 1:
            refused[unique_id] = Message("{files} are both its spec; remove the comment in one", files=own)
        elif own:
            source, problem = decode(own[0], contents[own[0]])
            document = parse_text(source)
            if (
                problem
                or document.diagnostics
                or document.root is None
                or not isinstance(document.root.value, dict)
            ):
                refused[unique_id] = Message("{file} is not a valid spec; correct it first", file=own[0])
            else:
                tests = document.root.value.get("tests")
                specs[unique_id] = _Spec(
                    file=own[0],
                    table=_stem(own[0]),
                    text=source.text,
                    tests={test["name"]: test for test in _list(tests)} if _are_named(tests) else {},
                )
        elif taken is not None and taken not in contents:
            refused[unique_id] = Message(
                "another model is table {table}; write another name under meta.parquetry.name",
                table=model.name,
            )
        elif taken is not None:
            refused[unique_id] = Message(
                "{file} is not its spec: add the line {mark} to that file, or another name under "
                "meta.parquetry.name",
                file=taken,
                mark=_NEW.format(unique_id).strip(),
            )
        else:
            path = f"{TABLES}/{model.name}.yml"
            stems[model.name.lower()] = path
            specs[unique_id] = _Spec(file=path, table=model.name, text=None, tests={})
    return specs, refused


def _spellings(
    models: DbtModels, contents: Mapping[str, bytes], marked: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the columns of each model by their names in lower case, as its spec or else dbt spells them."""
    found = {
        unique_id: {column["name"].lower(): column["name"] for column in model.columns}
        for unique_id, model in models.models.items()
    }
    for path, unique_id in marked.items():
        root = parse_text(decode(path, contents[path])[0]).root
        columns = root.value.get("columns") if root and isinstance(root.value, dict) else None
        if _are_named(columns):
            names = {entry["name"].lower(): entry["name"] for entry in _list(columns)}
            found[unique_id] = found.get(unique_id, {}) | names
    return found


def _spelled(model: DbtModel, spellings: Mapping[str, Mapping[str, str]]) -> DbtModel:
    """Return a model with the columns in the spelling of its spec; databases compare them without case."""
    own = spellings[model.unique_id]

    def spelled(value: Any, names: Mapping[str, str] = own) -> Any:
        if isinstance(value, list):
            return [spelled(each, names) for each in value]
        if not isinstance(value, str):
            return value
        top, dot, nested = value.partition(".")
        return f"{names.get(top.lower(), top)}{dot}{nested}"

    tests = []
    for test in model.tests:
        new = {key: spelled(value) if key in _LISTS_OF_COLUMNS else value for key, value in test.items()}
        if accepted := test.get("accepted_values"):
            new["accepted_values"] = {**accepted, "column": spelled(accepted["column"])}
        if related := test.get("relationships"):
            columns = spelled(related["columns"])
            others = spellings.get(related["to"], {})
            to_columns = spelled(related.get("to_columns", related["columns"]), others)
            new["relationships"] = {"columns": columns, "to": related["to"]}
            new["relationships"] |= {} if to_columns == columns else {"to_columns": to_columns}
        tests.append(new)
    return replace(
        model,
        keys={
            key: spelled(value) if key in _KEYS_WITH_COLUMNS else value for key, value in model.keys.items()
        },
        columns=tuple({**column, "name": spelled(column["name"])} for column in model.columns),
        tests=tuple(tests),
    )


def _text(model: DbtModel, spec: _Spec, names: Mapping[str, str], known: AbstractSet[str], root: Path) -> str:
    """Return the text of a model's spec file.

    Raises:
        NotEditableError: if no text has exactly the values of the spec.
        NotCanonicalError: the same.

    """
    tests = _named(model.tests, spec, names, known)
    if spec.text is None:
        new = {"apiVersion": "parquetry/v1", "kind": "table", **model.keys, "name": spec.table}
        new |= {"columns": list(model.columns)} | ({"tests": tests} if tests else {})
        modeline = _MODELINE if os.path.lexists(root / _SCHEMA) else ""
        text = f"{modeline}{_NEW.format(model.unique_id)}{table_text(new)}"
        check_document(text, new, file=spec.file)
        return text
    node = parse_text(decode(spec.file, spec.text.encode())[0]).root
    assert node is not None, "checked before"
    wanted = _merged(node.value, model.keys)
    _check_columns(node, model, spec.file)
    wanted["columns"] = _columns(node.value.get("columns"), model.columns)
    tests = _tests(node.value.get("tests"), tests)
    wanted.pop("tests", None)
    wanted |= {"tests": tests} if tests else {}
    return with_document(spec.text, wanted, file=spec.file)


def _named(
    tests: Sequence[Mapping[str, Any]], spec: _Spec, names: Mapping[str, str], known: AbstractSet[str]
) -> list[dict[str, Any]]:
    """Return the tests with tables in place of models; without those to models that are no tables.

    A test to a model that is only left out stays as the spec has it.
    """
    found = []
    for test in tests:
        related = test.get("relationships")
        if related is None:
            found.append(dict(test))
        elif related["to"] in names:
            found.append({**test, "relationships": {**related, "to": names[related["to"]]}})
        elif related["to"] in known and test["name"] in spec.tests:
            found.append(spec.tests[test["name"]])
    return found


def _notes(model: DbtModel, spec: _Spec, names: Mapping[str, str], known: AbstractSet[str]) -> list[Text]:
    """Return the notes of a model, also on tests of relationships to models that are no tables."""
    taken = {test["name"] for test in _named(model.tests, spec, names, known)}
    lacking = [test["name"] for test in model.tests if test["name"] not in taken]
    notes = list(model.notes)
    return notes + [
        Message("test {test} is not taken: the project has no table for the other model", test=name)
        for name in lacking
    ]


def _merged(old: Any, new: Any) -> Any:
    """Return the old value with what the new one says: mappings and lists of named entries are united."""
    if isinstance(old, dict | list) and new in (None, [], {}):
        return old
    if isinstance(old, dict) and isinstance(new, Mapping):
        merged = {key: _merged(old.get(key), value) for key, value in new.items()}
        if "tags" in merged:
            merged["tags"] = list(dict.fromkeys([*_list(old.get("tags")), *_list(new["tags"])]))
        return {**old, **merged}
    if _are_named(old) and _are_named(new):
        entries = {entry["name"]: entry for entry in new}
        known = {entry["name"] for entry in old}
        return [
            *(_merged(entry, entries.get(entry["name"], {})) for entry in old),
            *(entry for entry in new if entry["name"] not in known),
        ]
    return new


def _check_columns(root: Node, model: DbtModel, file: str) -> None:
    """Raise NotEditableError if the columns of a spec cannot be replaced without a loss of its own keys."""
    node = root.children.get("columns")
    if node is None or not node.value:
        return
    if not _are_named(node.value):
        raise NotEditableError(
            "{file}, line {line}: the columns are not listed there by different names; list them",
            file=file,
            line=node.span.start.line,
        )
    listed = {column["name"] for column in model.columns}
    for number, entry in enumerate(node.value):
        lost = [key for key in entry if key not in _KEYS_OF_DBT and entry[key] is not False]
        if lost and entry["name"] not in listed:
            raise NotEditableError(
                "{file}, line {line}: the model no longer lists column {column}, and {keys} of it would be "
                "lost; if it was renamed, rename it there, otherwise remove it there",
                file=file,
                line=node.children[number].span.start.line,
                column=entry["name"],
                keys=lost,
            )


def _columns(old: Any, new: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the columns of a model with what the spec adds to them, in its order; new ones are last."""
    entries = {entry["name"]: dict(entry) for entry in new}
    before = {entry["name"]: entry for entry in old} if _are_named(old) else {}
    for name, entry in before.items():
        if name in entries and _is_same_type(entry.get("type"), entries[name]["type"]):
            entries[name]["type"] = entry["type"]
    kept = [{**entry, **entries[name]} for name, entry in before.items() if name in entries]
    return [*kept, *(entry for name, entry in entries.items() if name not in before)]


def _tests(old: Any, new: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the tests of a spec with those of dbt in place of the former ones; new ones last."""
    ours = {test["name"]: test for test in new}
    kept: list[Any] = []
    for test in _list(old):
        name = test.get("name") if isinstance(test, dict) else None
        if isinstance(name, str) and name.startswith(OURS):
            kept += [ours.pop(name)] if name in ours else []
        else:
            kept.append(test)
    return [*kept, *ours.values()]


def _is_same_type(old: Any, new: str) -> bool:
    """Return whether two texts are spellings of one type."""
    try:
        return isinstance(old, str) and parse_type(old) == parse_type(new)
    except InvalidDataError:
        return False


def _are_named(value: Any) -> bool:
    """Return whether a value is a list of mappings with different names."""
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in _list(value)]
    return bool(names) and all(isinstance(name, str) for name in names) and len({*names}) == len(names)


def _list(value: Any) -> list[Any]:
    """Return a list; any other value counts as an empty one."""
    return value if isinstance(value, list) else []


def _mark(data: bytes) -> re.Match[str] | None:
    """Return the comment that names the model of a spec."""
    return _MARK.search(data.decode("utf-8", errors="replace"))


def _stem(path: str) -> str:
    """Return the name of the table that a file declares."""
    return path.rpartition("/")[2].removesuffix(".yml")


def _without_place(found: Diagnostic) -> tuple[str, Text, str]:
    return found.code, found.summary, found.file


def _reason(wrong: Diagnostic) -> Text:
    """Return why a spec has an error, with the hint."""
    reason = Message("{code} {summary}", code=wrong.code, summary=wrong.summary)
    return reason if wrong.hint is None else Message("{reason}; {hint}", reason=reason, hint=wrong.hint)
