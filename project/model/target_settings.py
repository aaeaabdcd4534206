"""The settings of a target that affect jobs, in the form that is recorded, without any environment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parquetry.project.model.resolved import (
    AllowedSetting,
    Launcher,
    Layer,
    Origin,
    TargetSetting,
    TargetSettings,
)
from parquetry.project.validation.spec_file import SpecFile, masked
from parquetry.project.validation.template_syntax import calls, is_template, parsed
from parquetry.project.yaml.document import Node
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.text.secret_names import MASK, is_wholly_secret, masked_secret, without_assigned_secrets

_CONF: Final = "spark.conf."
_PASSWORD_OF_URI: Final = re.compile(r"(://[^/:@?#\s]+):[^@/?#\s]+@")


def target_settings(
    file: SpecFile, written: Node, target: str, *, variables: Mapping[str, Any] | None
) -> TargetSettings:
    """Return the settings and allow entries of a target whose part of the file is valid.

    A value that reads the environment is recorded as its template and the variables that it reads. Passwords
    in the file are masked.

    Args:
        file: the project file after templates.
        written: the root node before templates.
        target: the target's name.
        variables: the values of the target's variables.

    """
    place: DocumentPath = ("targets", target)
    reader = _Reader(file=file, written=written, variables=variables or {})
    budgets = (("defaults", "budget"), (*place, "budget"), (*place, "overrides", "budget"))
    keys = ("spark", "storage", "catalogs", "metrics", "lineage", "operations", "protect")
    sections = (*((*place, key) for key in keys), *budgets)
    found = {setting.path: setting for at in sections for setting in reader.settings(at, str(at[-1]))}
    return TargetSettings(
        origin=reader.origin(place),
        settings=tuple(found[path] for path in sorted(found) if not _is_default(found[path])),
        allow=reader.allowed((*place, "allow")),
    )


def _is_default(setting: TargetSetting) -> bool:
    """Return whether a setting has the value that it has when it is absent."""
    return setting.value in (None, [], {}) or (setting.path, setting.value) == (
        "spark.launcher",
        str(Launcher.IN_PROCESS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    file: SpecFile
    written: Node
    variables: Mapping[str, Any]

    def settings(self, place: DocumentPath, path: str) -> Iterator[TargetSetting]:
        """Yield each setting at or below a path; mappings are nested settings, and a list is one value."""
        node = _node(self.written, place)
        if node is None:
            return
        if isinstance(node.value, dict) and node.value:
            for key in node.children:
                # A key with a dot is quoted, so that no two settings have the same path.
                is_plain = path == "spark.conf" or re.fullmatch(r"[\w-]+", str(key))
                named = str(key) if is_plain else json.dumps(key)
                yield from self.settings((*place, key), f"{path}.{named}")
            return
        exact = self._value(node, place, path, names=True)
        yield TargetSetting(
            path=path,
            value=_without_passwords(exact, path),
            written=_without_passwords(self._value(node, place, path, names=False), path),
            exact=exact,
            origin=self.origin(place),
        )

    def allowed(self, place: DocumentPath) -> tuple[AllowedSetting, ...]:
        """Return the entries of ``allow``."""
        entries = []
        written = _node(self.written, place)
        for index, node in written.children.items() if written else ():
            value = node.children["value"]
            setting = node.value["setting"]
            entries.append(
                AllowedSetting(
                    setting=setting,
                    value=_without_passwords(
                        self._value(value, (*place, index, "value"), setting, names=True), setting
                    ),
                    reason=node.value["reason"],
                    origin=self.origin((*place, index)),
                )
            )
        return tuple(entries)

    def origin(self, place: DocumentPath) -> Origin:
        """Return the position of the last key of a path."""
        return Origin(Layer.DEFAULTS, self.file.source.path, *self.written.key_span(place).start)

    def _value(self, node: Node, place: DocumentPath, path: str, *, names: bool) -> Any:
        """Return the recorded form of a value; ``names`` appends the variables to a template that stays."""
        value, items = node.value, node.children.items()
        if isinstance(value, dict):
            return {str(key): self._value(n, (*place, key), f"{path}.{key}", names=names) for key, n in items}
        if isinstance(value, list):
            return [self._value(n, (*place, key), path, names=names) for key, n in items]
        if isinstance(value, str) and is_template(value):
            tree = parsed(value)
            if calls(tree, "env_var"):
                return value + (self._read(tree) if names else "")
            value = masked(self.file.node.at(place).value)
        return _conf_text(value) if path.startswith(_CONF) else value

    def _read(self, tree: Any) -> str:
        """Return the variables that a template reads with their values, as its result depends on them."""
        names = sorted({name for name, _ in calls(tree, "var")} & self.variables.keys())
        values = (f"{name}={json.dumps(self.variables[name], ensure_ascii=False)}" for name in names)
        return f" with {', '.join(values)}" if names else ""


def _conf_text(value: Any) -> Any:
    """Return a Spark property in the form that Spark gets: a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _without_passwords(value: Any, path: str) -> Any:
    """Return the value with *** for passwords; templates stay, as they only name variables."""
    if isinstance(value, dict):
        return {key: _without_passwords(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_without_passwords(item, path) for item in value]
    if is_template(value):
        return value
    name = path.removeprefix(_CONF) if path.startswith(_CONF) else path.rpartition(".")[2].strip('"')
    if value is not None and not isinstance(value, bool) and is_wholly_secret(name):
        return masked_secret(name, value)
    if not isinstance(value, str):
        return value
    return without_assigned_secrets(_PASSWORD_OF_URI.sub(rf"\1:{MASK}@", value))


def _node(root: Node, place: DocumentPath) -> Node | None:
    for step in place:
        if step not in root.children:
            return None
        root = root.children[step]
    return root
