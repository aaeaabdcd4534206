"""The declared side of parquetry: a folder of YAML files becomes a checked, resolved project.

The names below are imported when they are first used, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parquetry.project.diagnostics.model import Diagnostic, Severity
    from parquetry.project.loading.load import LoadResult, load
    from parquetry.project.loading.project_file import UndeclaredVariableError
    from parquetry.project.model.resolved import AllowEntry, Origin, ResolvedProject, ResolvedTable, Target
    from parquetry.project.model.selection import SelectionError, select
    from parquetry.project.validation.interpolate import Secret

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
]

_HOMES = {
    "AllowEntry": "model.resolved",
    "Diagnostic": "diagnostics.model",
    "LoadResult": "loading.load",
    "Origin": "model.resolved",
    "ResolvedProject": "model.resolved",
    "ResolvedTable": "model.resolved",
    "Secret": "validation.interpolate",
    "SelectionError": "model.selection",
    "Severity": "diagnostics.model",
    "Target": "model.resolved",
    "UndeclaredVariableError": "loading.project_file",
    "load": "loading.load",
    "select": "model.selection",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
