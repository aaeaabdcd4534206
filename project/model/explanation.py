"""Explanations of a table's settings: value, meaning, and the file and line that it comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from parquetry.errors import ParquetryError
from parquetry.project.diagnostics.model import nearest, some
from parquetry.project.model.resolved import LayerValue, Origin, ResolvedTable
from parquetry.project.validation.definitions import Kind, inlined

_UNITED = "tags"
_DESCRIPTION = re.compile(
    r"^(?P<text>.*?)(?: Default: (?P<default>.*?)\.)?"
    r"(?: Hudi: (?P<hudi>.*?)\.|(?P<no_hudi> Hudi has no such setting\.))?$",
    re.DOTALL,
)
"""The parts of a key's description in a schema: its text, its default and its Hudi settings."""


class UnknownSettingError(ParquetryError):
    """The table has no setting of that name."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The parts of a description; ``default`` and ``hudi`` are None if the description has no such part.

    ``hudi`` is empty if Hudi has no setting that corresponds to the key.
    """

    text: str
    default: str | None
    hudi: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSetting:
    """A value as written, its path in the table, and its origin."""

    path: str
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A table, or a section or setting of it.

    ``path`` is empty for the whole table. ``settings`` are the values at and below the path, in the order of
    the spec. For a single setting, ``layers`` has the value of each layer, the weakest first, and
    ``is_united`` is True if all of them count. ``description`` is that of the key.
    """

    table: ResolvedTable
    path: str
    settings: tuple[ExplainedSetting, ...]
    layers: tuple[LayerValue, ...]
    is_united: bool
    description: Description | None


def explain_table(table: ResolvedTable, path: str = "") -> Explanation:
    """Explain the setting or section at a dotted path of a table, such as ``sizing.max_file_size``.

    Entries of lists are addressed by name (``columns.distance.type``), or by index if they have no name.

    Raises:
        UnknownSettingError: if tables have no such key, or this table has no such entry.

    """
    steps = _steps(path)
    dotted = ".".join(steps)
    below = tuple(
        ExplainedSetting(path=name, value=value, origin=table.origin(name))
        for name, value in table.settings.items()
        if not dotted or name == dotted or name.startswith(f"{dotted}.")
    )
    key = _key(inlined(Kind.TABLE), steps)
    if not below and (key is None or "[]" in key[1]):
        raise UnknownSettingError(
            "table {table} has no setting '{setting}'; {hint}",
            table=table.name,
            setting=path,
            hint=_hint(table, steps),
        )
    return Explanation(
        table=table,
        path=dotted,
        settings=below,
        layers=table.history().get(dotted, ()),
        is_united=dotted == _UNITED,
        description=described(key[0]) if key and dotted else None,
    )


def _steps(path: str) -> tuple[str, ...]:
    """Return the steps of a path; ``columns[2]`` means ``columns.2``."""
    return tuple(step for step in re.sub(r"\[(\w+)\]", r".\1", path).split(".") if step)


def _key(schema: Mapping[str, Any], steps: tuple[str, ...]) -> tuple[Mapping[str, Any], str] | None:
    """Return the schema of the key at a path, and the path with ``[]`` for list entries; None without one."""
    node, schema_path = schema, ""
    for step in steps:
        if step in node.get("properties", {}):
            node = node["properties"][step]
        elif "properties" in node.get("items", {}) and not schema_path.endswith("[]"):
            node, step = node["items"], "[]"  # noqa: PLW2901 - the entry's own name leads nowhere
        elif isinstance(node.get("additionalProperties"), Mapping):
            node = node["additionalProperties"]
        else:
            return None
        schema_path += f".{step}"
    return (node, schema_path) if "description" in node else None


def _hint(table: ResolvedTable, steps: tuple[str, ...]) -> str:
    """Return a hint for an unknown path: the nearest existing path, or the keys that could follow."""
    known = {name[: len(name) if at < 0 else at] for name in table.settings for at in _ends(name)}
    depth = next(at for at in range(len(steps) - 1, -1, -1) if _is_known(steps[:at], known))
    above = "".join(f"{step}." for step in steps[:depth])
    below = {name.removeprefix(above) for name in known if name.startswith(above)}
    children = {name.partition(".")[0] for name in below} | _keys(steps[:depth])
    near = nearest(steps[depth], children)
    if near is None and depth == len(steps) - 1:
        near = nearest(steps[depth], below)
    if near is not None:
        return f"did you mean '{above}{near}'?"
    if not children:
        return f"'{above[:-1]}' has no settings below it"
    return f"'{above[:-1]}' has {some(children)}" if above else f"keys are {some(children)}"


def _is_known(steps: tuple[str, ...], known: set[str]) -> bool:
    """Return whether the steps lead to a setting, a section or a key, or to an existing list entry."""
    if not steps or ".".join(steps) in known:
        return True
    key = _key(inlined(Kind.TABLE), steps)
    return key is not None and "[]" not in key[1]


def _keys(steps: tuple[str, ...]) -> set[str]:
    """Return the keys that a table may have below the steps; none for lists and their entries."""
    if not steps:
        return set(inlined(Kind.TABLE)["properties"])
    key = _key(inlined(Kind.TABLE), steps)
    if key is None or "[]" in key[1] or "items" in key[0]:
        return set()
    return set(key[0].get("properties", ()))


def _ends(path: str) -> list[int]:
    return [*(match.start() for match in re.finditer(r"\.", path)), -1]


def described(schema: Mapping[str, Any]) -> Description:
    """Split the description of a key's schema into its parts."""
    parts = _DESCRIPTION.match(schema["description"])
    assert parts is not None, "every description matches"
    hudi = "" if parts["no_hudi"] else parts["hudi"]
    return Description(text=parts["text"], default=parts["default"], hudi=hudi)
