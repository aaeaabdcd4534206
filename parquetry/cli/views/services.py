"""What a table service did."""

from __future__ import annotations

from typing import Any

from parquetry.cli.terminal.output import Paint
from parquetry.runtime.spec.codec import to_json_value


class ServiceView:
    """The fields of any service's result."""

    def text(self, outcome: object, paint: Paint) -> str:
        """One line per field."""
        document: dict[str, Any] = to_json_value(outcome)
        width = max(len(key) for key in document)
        return "\n".join(
            f"{paint.bold(key.replace('_', ' ').ljust(width))}  {_shown(value)}"
            for key, value in document.items()
        )

    def json(self, outcome: object) -> Any:
        """The same fields."""
        return to_json_value(outcome)


def _shown(value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
