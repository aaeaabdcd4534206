"""Which files were written anew, and which could not be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.project.diagnostics.model import render_json, render_text
from parquetry.project.yaml.fmt import FormatResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatView:
    """The files that changed, or would with ``check``, after what stands against the others."""

    check: bool

    def text(self, outcome: FormatResult, paint: Paint) -> str:
        """Findings as `validate` shows them, one line per file, then a count."""
        found = render_text(outcome.diagnostics, files=outcome.files).rstrip("\n")
        verb = "would change" if self.check else "formatted"
        lines = [f"{paint.warn(verb)}  {path}" for path in outcome.changed]
        total = count(outcome.files, "file")
        if outcome.changed:
            lines.append(f"{len(outcome.changed)} of {total} {verb}")
        elif not outcome.failed:
            lines.append(f"{total} in canonical form")
        return "\n".join([found, *lines] if found else lines)

    def json(self, outcome: FormatResult) -> Any:
        """The same as plain values."""
        return {"changed": list(outcome.changed), **render_json(outcome.diagnostics, files=outcome.files)}
