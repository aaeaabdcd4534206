"""What people declare: a folder of YAML files becomes a checked, resolved project.

The names below are loaded when they are first used, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parquetry.project.diagnostics.model import Diagnostic, Severity
    from parquetry.project.loading import LoadResult, load
    from parquetry.project.model import AllowEntry, Origin, ResolvedProject, ResolvedTable, Target
    from parquetry.project.project_file import UndeclaredVariableError
    from parquetry.project.schema.interpolate import Secret
    from parquetry.project.selection import SelectionError, select
    from parquetry.project.spec_fields import spec_fields

__all__ = [
    "AllowEntry",
    "Diagnostic",
    "LoadResult",
    "Origin",
    "ResolvedProject",
    "ResolvedTable",
    "Secret",
    "SelectionError",
    "Severity",
    "Target",
    "UndeclaredVariableError",
    "load",
    "select",
    "spec_fields",
]

_HOMES = {
    "AllowEntry": "model",
    "Diagnostic": "diagnostics.model",
    "LoadResult": "loading",
    "Origin": "model",
    "ResolvedProject": "model",
    "ResolvedTable": "model",
    "Secret": "schema.interpolate",
    "SelectionError": "selection",
    "Severity": "diagnostics.model",
    "Target": "model",
    "UndeclaredVariableError": "project_file",
    "load": "loading",
    "select": "selection",
    "spec_fields": "spec_fields",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
