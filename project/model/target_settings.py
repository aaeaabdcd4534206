"""What a target sets for jobs, setting by setting, without reading an environment."""

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
from parquetry.project.schema.spec_file import SpecFile, masked
from parquetry.project.schema.template_syntax import calls, is_template, parsed
from parquetry.project.yaml.document import Node
from parquetry.project.yaml.document import Path as DocumentPath
from parquetry.secret_names import MASK, holds_secret_alone, masked_secret, without_assigned_secrets

_CONF: Final = "spark.conf."
_PASSWORD_OF_URI: Final = re.compile(r"(://[^/:@?#\s]+):[^@/?#\s]+@")


def target_settings(
    file: SpecFile, written: Node, target: str, *, variables: Mapping[str, Any] | None
) -> TargetSettings:
    """The settings of a target and what it allows; its part of the file is valid.

    ``written`` is the file's root before templates were evaluated. A value that reads the environment is its
    template and the variables that this reads; passwords that are written out are masked.
    """
    place: DocumentPath = ("targets", target)
    reader = _Reader(file=file, written=written, variables=variables or {})
    budgets = (("defaults", "budget"), (*place, "budget"), (*place, "overrides", "budget"))
    sections = ((*place, "spark"), (*place, "storage"), (*place, "protect"), *budgets)
    found = {setting.path: setting for at in sections for setting in reader.settings(at, str(at[-1]))}
    return TargetSettings(
        origin=reader.origin(place),
        settings=tuple(found[path] for path in sorted(found) if not _is_default(found[path])),
        allow=reader.allowed((*place, "allow")),
    )


def _is_default(setting: TargetSetting) -> bool:
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
        """Every setting at or below a place; mappings are gone into, lists are values."""
        node = _node(self.written, place)
        if node is None:
            return
        if isinstance(node.value, dict) and node.value:
            for key in node.children:
                # No two settings have one path: a key with a dot is no way through mappings.
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
        """The entries of ``allow``."""
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
        """Where the last key of a place stands."""
        return Origin(Layer.DEFAULTS, self.file.source.path, *self.written.key_span(place).start)

    def _value(self, node: Node, place: DocumentPath, path: str, *, names: bool) -> Any:
        """What is recorded of a value; ``names`` puts the variables beside a template that stays."""
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
        """The variables that a template reads: what it gives hangs on them too."""
        names = sorted({name for name, _ in calls(tree, "var")} & self.variables.keys())
        values = (f"{name}={json.dumps(self.variables[name], ensure_ascii=False)}" for name in names)
        return f" with {', '.join(values)}" if names else ""


def _conf_text(value: Any) -> Any:
    """A Spark property as Spark gets it: a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _without_passwords(value: Any, path: str) -> Any:
    """The value with *** for passwords that are written out; templates, which name variables, stay."""
    if isinstance(value, dict):
        return {key: _without_passwords(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_without_passwords(item, path) for item in value]
    if is_template(value):
        return value
    name = path.removeprefix(_CONF) if path.startswith(_CONF) else path.rpartition(".")[2].strip('"')
    if value is not None and not isinstance(value, bool) and holds_secret_alone(name):
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
