"""The JSON Schemas of project, table, policy and guardrail files, as values and as text for editors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError

_TEMPLATE = r"\{[{%#]"
_END = re.compile(r"((?:^|[^\\])(?:\\\\)*)\$")


class UnwritableError(ParquetryError):
    """A requested file cannot be written."""


class Kind(StrEnum):
    """The kinds of files in a project, by what they declare."""

    PROJECT = "project"
    TABLE = "table"
    POLICY = "policy"
    GUARDRAIL = "guardrail"


@cache
def compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of JSON Schema, where ``$`` is the end of the text.

    Python's ``$`` also matches before a line end that ends the text.
    """
    return re.compile(_END.sub(r"\1\\Z", pattern))


@cache
def schema(kind: Kind) -> dict[str, Any]:
    """Return the schema as it is in the package, with references between the files."""
    text = (
        resources.files("parquetry.project.schemas")
        .joinpath(f"{kind.value}.json")
        .read_text(encoding="utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def inlined(kind: Kind) -> dict[str, Any]:
    """Return the schema with each ``$ref`` replaced by its target; no schema is recursive.

    A keyword beside a ``$ref`` wins over the same keyword of the target.
    """
    resolved: dict[str, Any] = _inline(schema(kind), kind)
    return resolved


@cache
def bundled(kind: Kind) -> dict[str, Any]:
    """Return a schema for editors that needs no other file: foreign definitions are copied to ``$defs``.

    Editors do not evaluate templates, so a text with a template is accepted beside the words of an enum.
    """
    found: dict[str, Any] = {}
    root: dict[str, Any] = _localise(schema(kind), kind, found)
    root["$id"] = f"{kind.value}.json"
    root["$defs"] = {name: found[name] for name in sorted(found)}
    return root


def write_schemas(directory: Path, schemas: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write each schema as ``NAME.json`` and return the files.

    Raises:
        UnwritableError: if the directory cannot be made or written.

    """
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in schemas.items():
            text = f"{json.dumps(content, indent=2, ensure_ascii=False)}\n"
            written.append(ConfinedFolder(directory).write(f"{name}.json", text))
    except OSError as error:
        raise UnwritableError(
            "{file} cannot be written: {reason}; name another directory",
            file=error.filename or directory,
            reason=error.strerror,
        ) from error
    return tuple(written)


def built_in(kind: Kind, *path: str) -> dict[str, Any]:
    """Return the schema's defaults of the keys below ``path``, nested as in a file."""
    node = inlined(kind)
    for step in path:
        node = node["properties"][step]
    return _defaults(node)


def _defaults(node: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, child in node.get("properties", {}).items():
        if "default" in child:
            found[name] = child["default"]
        elif child.get("type") == "object":
            below = _defaults(child)
            if below:
                found[name] = below
    return found


def _definition(reference: str, kind: Kind) -> tuple[Kind, str, dict[str, Any]]:
    file, _, name = reference.partition("#/$defs/")
    owner = Kind(file.removesuffix(".json")) if file else kind
    return owner, name, schema(owner)["$defs"][name]


def _inline(node: Any, kind: Kind) -> Any:
    if isinstance(node, list):
        return [_inline(item, kind) for item in node]
    if not isinstance(node, dict):
        return node
    own = {key: _inline(value, kind) for key, value in node.items() if key not in ("$ref", "$defs")}
    if "$ref" in node:
        owner, _, target = _definition(node["$ref"], kind)
        return _inline(target, owner) | own
    return own


def _localise(node: Any, kind: Kind, found: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_localise(item, kind, found) for item in node]
    if not isinstance(node, dict):
        return node
    local = {key: _localise(value, kind, found) for key, value in node.items() if key != "$defs"}
    if "enum" in local and "description" in local:
        words = {key: local.pop(key) for key in ("enum", "type") if key in local}
        local |= {"if": {"type": "string", "pattern": _TEMPLATE}, "then": {}, "else": words}
    if "$ref" in node:
        owner, name, target = _definition(node["$ref"], kind)
        local["$ref"] = f"#/$defs/{name}"
        if name not in found:
            found[name] = {}
            found[name] = _localise(target, owner, found)
    return local
