"""The spec of an applied record as the YAML file of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from parquetry import project
from parquetry.compiler.errors import SpecError
from parquetry.compiler.spec_files.adopt import declared_location
from parquetry.compiler.spec_files.yaml import LAYERED, missing_settings, structure, table_text, with_settings
from parquetry.compiler.workspace.opened import Workspace
from parquetry.errors import UsageError
from parquetry.message import command
from parquetry.project.model.locations import LocationProblem, normalised
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.applied import applied_record, check_owned, read_identity, record_signature_of
from parquetry.runtime.table.signing import check_signed

_ROUNDS: Final = 3


def recorded_text(
    workspace: Workspace,
    number: int,
    *,
    environment: Mapping[str, str] | None,
    name: str | None = None,
    location: str = "",
) -> str:
    """Return the YAML of the spec in a table's applied record.

    Args:
        workspace: the project.
        number: the number of the record.
        environment: the environment variables for loading the project, or None.
        name: the table's name.
        location: the table's location (an absolute path or a URI) if there is no ``name``.

    Raises:
        UsageError: if there is no such record, or the location is malformed.
        CorruptTableError: if the record must not be used.
        ForeignTableError: if the table belongs to another project.

    """
    try:
        found_at = normalised(location) if name is None else workspace.table(name).location
    except LocationProblem as problem:
        raise UsageError("{reason}; {hint}", reason=problem.summary, hint=problem.hint) from problem
    store = workspace.store_at(found_at)
    check_owned(store, workspace.owner)
    record = applied_record(store, number)
    if record is None:
        raise UsageError(
            "the table at {table} has no applied record {number}; {command} lists them",
            table=store.uri,
            number=number,
            command=command("history", name or location),
        )
    if record.fault is not None:
        raise record.fault.error()
    record_signature = record_signature_of(store, read_identity(store), record)
    check_signed(store.uri, record_signature, workspace.signing_keys, signs=True)
    named = name or record.spec.name
    document = structure(
        replace(record.spec, name=named), location=declared_location(workspace, found_at, named)
    )
    if named != record.spec.name:
        document["moved"] = {"from": record.spec.name}
    return settled_text(workspace, record.spec, document, environment=environment)


def settled_text(
    workspace: Workspace, spec: TableSpec, document: dict[str, Any], *, environment: Mapping[str, str] | None
) -> str:
    """Return the YAML of the document, with the settings that make the project resolve it to ``spec``.

    The project is resolved in memory, with the text in place of that table's file. Settings depend on each
    other, so missing settings are added in several rounds.

    Raises:
        SpecError: if the project has errors with this text.

    """
    name = document["name"]
    file = next((t.file for t in workspace.project.tables if t.name == name), f"tables/{name}.yml")
    text = table_text(document)
    for _ in range(_ROUNDS):
        loaded = project.load(
            workspace.project.root,
            target=workspace.project.target.name,
            variables=workspace.variables,
            environment=environment,
            files={**workspace.contents, file: text.encode()},
        )
        table = next((table for table in loaded.tables if table.name == name), None)
        if table is None:
            raise SpecError(loaded.diagnostics, files=loaded.files)
        missing = missing_settings(spec, table.spec, sections=LAYERED)
        if not missing:
            break
        document = with_settings(document, missing)
        text = table_text(document)
    return text
