"""Tables as Hudi's options and as Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parquetry.cli.terminal.output import Paint
from parquetry.compiler.spec_files.exports import Export
from parquetry.runtime.spec.codec import to_json_value


class _Exports:
    def json(self, outcome: Sequence[Export]) -> Any:
        """Every table with both."""
        return [to_json_value(export) for export in outcome]


class OptionsView(_Exports):
    """Property files for Hudi writers, one after the other."""

    def text(self, outcome: Sequence[Export], _: Paint) -> str:
        """``key=value`` lines below a comment that names the table; safe to write to a file as it is."""
        return "\n\n".join(_properties(export) for export in outcome)


class DdlView(_Exports):
    """Statements for Spark SQL."""

    def text(self, outcome: Sequence[Export], _: Paint) -> str:
        """The statements with an empty line between them."""
        return "\n\n".join(export.ddl.rstrip("\n") for export in outcome)


def _properties(export: Export) -> str:
    lines = [f"# {export.table} at {export.location}"]
    lines += [f"# no counterpart in Hudi: {part}" for part in export.options.unmatched]
    pairs = ((key, value.replace("\\", "\\\\")) for key, value in export.options.options.items())
    return "\n".join([*lines, *(f"{key}={value}" for key, value in pairs)])
