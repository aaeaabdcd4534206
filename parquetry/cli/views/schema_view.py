"""A JSON Schema on stdout, or which schemas were written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parquetry.cli.terminal.output import Paint


class SchemaView:
    """The schema itself, the same in both shapes."""

    def text(self, outcome: Mapping[str, Any], paint: Paint) -> str:  # noqa: ARG002  # a file's content
        """Indented JSON."""
        return json.dumps(outcome, indent=2, ensure_ascii=False)

    def json(self, outcome: Mapping[str, Any]) -> Any:
        """The schema."""
        return outcome


class WrittenSchemasView:
    """The files that were written."""

    def text(self, outcome: Sequence[Path], paint: Paint) -> str:
        """One line per file."""
        return "\n".join(f"{paint.good('wrote')}  {path}" for path in outcome)

    def json(self, outcome: Sequence[Path]) -> Any:
        """Their paths."""
        return {"written": [str(path) for path in outcome]}
