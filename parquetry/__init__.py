"""The file layout of lake tables, as reviewed code.

>>> table = parquetry.open("warehouse/flights")
>>> table.upsert(rows)

Names are imported when they are first used: ``import parquetry`` needs nothing but Python.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parquetry.errors import ParquetryError
from parquetry.version import VERSION

if TYPE_CHECKING:
    from parquetry.compiler.errors import SpecError
    from parquetry.declared import Plan, Project, load
    from parquetry.runtime.layout.model import SizingPolicy
    from parquetry.runtime.outcome import CommitResult
    from parquetry.runtime.spec import Column, FilesPolicy, KeyScope, RetentionPolicy, TableSpec
    from parquetry.table import Table, create, open  # noqa: A004 - parquetry.open

__version__ = VERSION

__all__ = [
    "Column",
    "CommitResult",
    "FilesPolicy",
    "KeyScope",
    "ParquetryError",
    "Plan",
    "Project",
    "RetentionPolicy",
    "SizingPolicy",
    "SpecError",
    "Table",
    "TableSpec",
    "__version__",
    "create",
    "load",
    "open",
]

_HOMES = {
    "Column": "parquetry.runtime.spec",
    "CommitResult": "parquetry.runtime.outcome",
    "FilesPolicy": "parquetry.runtime.spec",
    "KeyScope": "parquetry.runtime.spec",
    "Plan": "parquetry.declared",
    "Project": "parquetry.declared",
    "RetentionPolicy": "parquetry.runtime.spec",
    "SizingPolicy": "parquetry.runtime.layout.model",
    "SpecError": "parquetry.compiler.errors",
    "Table": "parquetry.table",
    "TableSpec": "parquetry.runtime.spec",
    "create": "parquetry.table",
    "load": "parquetry.declared",
    "open": "parquetry.table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'parquetry' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
