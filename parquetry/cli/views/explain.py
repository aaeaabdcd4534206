"""A setting with its layers, a table's settings with their origins, or an explanation of a code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from parquetry.cli.terminal.format import columns, wrapped
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.reports.explain import CodeExplanation
from parquetry.message import in_full
from parquetry.project.model.explanation import Explanation
from parquetry.project.model.resolved import Layer, Origin

_ORDER = tuple(Layer)
_ORIGIN_WIDTH = 8


class ExplanationView:
    """One setting in full, or many as a list."""

    def text(self, outcome: Explanation, paint: Paint) -> str:
        """Return the value, its meaning, and the value of each layer, the effective one first.

        Several settings are listed below the file that sets them, each with its line and column.
        """
        about = f"{outcome.table.name}.{outcome.path}" if outcome.path else outcome.table.name
        single = len(outcome.settings) == 1 and outcome.settings[0].path == outcome.path
        if not single and outcome.settings:
            return "\n".join([f"{paint.bold(about)}: {outcome.table.file}", *_by_file(outcome, paint)])
        value = _shown(outcome.settings[0].value) if single else "not set"
        lines = [f"{paint.bold(about)}: {value}", *_meaning(outcome)]
        if outcome.layers:
            lines += ["", _layers(outcome, paint)]
        return "\n".join(lines)

    def json(self, outcome: Explanation) -> Any:
        """Return the settings and layers as plain values, the weakest layer first."""
        description = outcome.description
        return {
            "table": outcome.table.name,
            "path": outcome.path,
            "meaning": description.text if description else None,
            "default": description.default if description else None,
            "hudi": (description.hudi or None) if description else None,
            "settings": [
                {"path": entry.path, "value": entry.value, **_origin(entry.origin)}
                for entry in outcome.settings
            ],
            "layers": [{"value": entry.value, **_origin(entry.origin)} for entry in outcome.layers],
        }


class CodeView:
    """An explanation of a code in a few sentences."""

    def text(self, outcome: CodeExplanation, paint: Paint) -> str:
        """Return the title, the explanation and the remedy."""
        head = f"{paint.bold(outcome.code)} ({outcome.kind}): {outcome.title}"
        return "\n".join([head, wrapped(outcome.explanation), wrapped(in_full(outcome.remedy))])

    def json(self, outcome: CodeExplanation) -> Any:
        """Return the explanation as plain values."""
        return {
            "code": outcome.code,
            "kind": outcome.kind,
            "title": outcome.title,
            "explanation": outcome.explanation,
            "remedy": outcome.remedy,
        }


def _meaning(outcome: Explanation) -> list[str]:
    described = outcome.description
    if described is None:
        return []
    lines = [wrapped(described.text, indent=2)]
    if described.default is not None:
        lines.append(wrapped(f"Default: {described.default}.", indent=2))
    if described.hudi:
        lines.append(wrapped(f"Hudi: {described.hudi}.", indent=2))
    return lines


def _by_file(outcome: Explanation, paint: Paint) -> Iterator[str]:
    """Yield the settings of each file below its name, the weakest layer first."""
    width = max(len(entry.path) for entry in outcome.settings)
    groups: dict[tuple[Layer, str | None], list[tuple[str, str, str]]] = {}
    for entry in sorted(outcome.settings, key=lambda entry: _ORDER.index(entry.origin.layer)):
        origin = entry.origin
        at = f"  {origin.line}:{origin.column}" if origin.file else ""
        row = (at.ljust(_ORIGIN_WIDTH), entry.path.ljust(width), _shown(entry.value))
        groups.setdefault((origin.layer, origin.file), []).append(row)
    for (layer, file), rows in groups.items():
        yield ""
        title = f"{layer.value}: {file or 'built in'}"
        _, _, body = columns(("", "", ""), rows, paint=paint).partition("\n")
        yield f"{paint.bold(title)}\n{body}"


def _layers(outcome: Explanation, paint: Paint) -> str:
    """Return a table with the value of each layer, the strongest first."""
    rows: list[tuple[str, str, str]] = []
    for entry in reversed(outcome.layers):
        counts = outcome.is_united or not rows
        value = _shown(entry.value) if counts else f"{_shown(entry.value)} (overridden)"
        rows.append((entry.origin.layer.value, _origin_text(entry.origin), value))
    return columns(("layer", "from", "value"), rows, paint=paint)


def _origin_text(origin: Origin) -> str:
    return str(origin) if origin.file else "built in"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _origin(origin: Origin) -> dict[str, Any]:
    written = origin.file is not None
    return {
        "layer": origin.layer.value,
        "file": origin.file,
        "line": origin.line if written else None,
        "column": origin.column if written else None,
    }
