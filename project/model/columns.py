"""The columns of a table, from the list in its spec or from an Avro schema file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parquetry.message import in_full
from parquetry.project.diagnostics.model import Diagnostic, diagnostic, did_you_mean
from parquetry.project.model import settings
from parquetry.project.model.locations import LocationProblem, is_relative, joined
from parquetry.project.validation.errors import is_cut_off
from parquetry.project.validation.invisible import all_texts, refused_character
from parquetry.project.validation.spec_file import SpecFile
from parquetry.project.yaml.document import parse
from parquetry.runtime.spec.avro import AvroSchemaError, columns_declared_in_avro
from parquetry.runtime.spec.rules import broken_type
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import TYPE_NAMES, ColumnType, TypeSyntaxError, parse_type

Read = Callable[[str], bytes | Diagnostic]
"""A function that returns the bytes of a project's file, or a diagnostic."""

_IN_QUOTES = 'put the whole type in quotes, such as "decimal(10,2)"'


def declared_columns(
    file: SpecFile, read: Read, found: list[Diagnostic]
) -> tuple[tuple[Column, ...], Mapping[str, ColumnType], bool]:
    """Return the columns of a table's file, their types by name, and whether these are all columns.

    Diagnostics are added to ``found``.
    """
    declared = file.value.get("columns")
    known = not any(path[:1] == ("columns",) for path in file.incomplete)
    if isinstance(declared, dict):
        declared = _from_file(file, read, found)
        known = known and declared is not None
    columns: list[Column] = []
    types: dict[str, ColumnType] = {}
    for index, entry in enumerate(declared or ()):
        type_ = _type_of(entry["type"])
        if isinstance(type_, _Refused):
            known = False
            span = file.node.at(("columns", index, "type")).span
            summary = f"type of column '{entry['name']}': {type_.problem}"
            found.append(diagnostic("PQ403", summary, source=file.source, span=span, hint=type_.remedy))
            continue
        types.setdefault(entry["name"], type_)
        columns.append(settings.column(entry, type_text=str(type_)))
    return tuple(columns), types, known


@dataclass(frozen=True, slots=True)
class _Refused:
    problem: str
    remedy: str


def _type_of(text: str) -> ColumnType | _Refused:
    """Return a type that a table can hold, or the reason why the text is refused."""
    try:
        type_ = parse_type(text)
    except TypeSyntaxError as error:
        near = did_you_mean(error.unknown, TYPE_NAMES) if error.unknown else None
        return _Refused(error.problem, _IN_QUOTES if is_cut_off(text) else near or error.remedy)
    broken = broken_type(type_)
    return _Refused(broken.problem, broken.remedy) if broken else type_


def _from_file(file: SpecFile, read: Read, found: list[Diagnostic]) -> list[dict[str, Any]] | None:
    """Return the columns of the Avro schema file that a table names, or None after a diagnostic."""
    node = file.node.at(("columns", "file"))
    if not isinstance(node.value, str):
        return None
    try:
        inside = _inside(node.value)
        return [
            {"name": one.name, "type": one.type, "nullable": one.nullable, "description": one.description}
            for one in columns_declared_in_avro(_schema(inside, read))
        ]
    except LocationProblem as problem:
        code, summary, hint = "PQ011", problem.summary, "keep the schema inside the project"
    except AvroSchemaError as problem:
        code, summary, hint = (
            "PQ307",
            f"Avro schema '{node.value}': {problem}",
            "correct it, or list the columns",
        )
    found.append(diagnostic(code, summary, source=file.source, span=node.span, hint=hint))
    return None


def _inside(path: str) -> str:
    """Return a path in the project; raise LocationProblem for one outside."""
    inside = joined("", path)
    if not is_relative(inside):
        raise LocationProblem("PQ011", f"'{path}' is outside the project", "name it relative to the project")
    return inside


def _schema(path: str, read: Read) -> Any:
    """Return the JSON of an Avro schema file; raise AvroSchemaError if it cannot be read or is invalid."""
    data = read(path)
    if isinstance(data, Diagnostic):
        raise AvroSchemaError(in_full(data.summary).partition("' ")[2])
    # JSON is YAML, so the size limits and the check for duplicate keys apply to schemas too.
    document = parse(path, data)
    if document.root is None or document.diagnostics:
        first = document.diagnostics[0]
        summary = in_full(first.summary).replace("not YAML", "not JSON", 1)
        raise AvroSchemaError(f"line {first.line}: {summary}")
    for key_path, text, _ in all_texts(document.root.value, ()):
        what = {"name": "name", "doc": "description"}.get(str(key_path[-1:] and key_path[-1]))
        if what and (wrong := refused_character(text, (what,))):
            raise AvroSchemaError(f"a {what} contains the invisible character U+{ord(wrong):04X}")
    return document.root.value
