"""The file layout of lake tables, as reviewed code.

>>> table = parquetry.open("warehouse/flights")
>>> table.upsert(rows)

Names are imported when they are first used: ``import parquetry`` needs nothing but Python.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from parquetry.errors import MODULES as _ERRORS
from parquetry.errors import ParquetryError, UsageError
from parquetry.version import VERSION

if TYPE_CHECKING:
    from parquetry.compiler.errors import (
        BlockedPlanError,
        JobFailedError,
        MissingPackageError,
        SpecError,
        UnacceptableDriftError,
        UnappliedError,
        UnexpectedError,
        UnknownTableError,
        UnnamedPlaceError,
        UnsavedResultsError,
    )
    from parquetry.compiler.git.revisions import RevisionError
    from parquetry.compiler.jobs.results import RunResult
    from parquetry.compiler.plan.apply import ApplyResult
    from parquetry.confined_folder import LinkInTheWayError
    from parquetry.project.loading.project_file import UndeclaredVariableError
    from parquetry.project.model.selection import SelectionError
    from parquetry.project_api import Plan, Project, load
    from parquetry.runtime.clustering.plan.execution import PartlyClusteredError
    from parquetry.runtime.commit.outcome import CommitResult
    from parquetry.runtime.errors import (
        CatalogError,
        ConflictError,
        CorruptTableError,
        ForeignTableError,
        InvalidDataError,
        KeyUnavailableError,
        LockHeldError,
        LostTaskError,
        MissingJavaError,
        MissingSourceError,
        NotFoundError,
        PartialFailureError,
        SourceChangedError,
        SparkEndedError,
        SparkStartError,
        StalePlanError,
        StaleTimelineError,
        StorageError,
        TableNotFoundError,
        TooLargeError,
        UnknownOutcomeError,
        UnsupportedSessionError,
        UnsupportedTableError,
    )
    from parquetry.runtime.spec.sizing import SizingPolicy
    from parquetry.runtime.spec.table_spec import Column, FilesPolicy, KeyScope, RetentionPolicy, TableSpec
    from parquetry.table import Table, create, open  # noqa: A004 - parquetry.open

__version__ = VERSION

__all__ = [
    "ApplyResult",
    "BlockedPlanError",
    "CatalogError",
    "Column",
    "CommitResult",
    "ConflictError",
    "CorruptTableError",
    "FilesPolicy",
    "ForeignTableError",
    "InvalidDataError",
    "JobFailedError",
    "KeyScope",
    "KeyUnavailableError",
    "LinkInTheWayError",
    "LockHeldError",
    "LostTaskError",
    "MissingJavaError",
    "MissingPackageError",
    "MissingSourceError",
    "NotFoundError",
    "ParquetryError",
    "PartialFailureError",
    "PartlyClusteredError",
    "Plan",
    "Project",
    "RetentionPolicy",
    "RevisionError",
    "RunResult",
    "SelectionError",
    "SizingPolicy",
    "SourceChangedError",
    "SparkEndedError",
    "SparkStartError",
    "SpecError",
    "StalePlanError",
    "StaleTimelineError",
    "StorageError",
    "Table",
    "TableNotFoundError",
    "TableSpec",
    "TooLargeError",
    "UnacceptableDriftError",
    "UnappliedError",
    "UndeclaredVariableError",
    "UnexpectedError",
    "UnknownOutcomeError",
    "UnknownTableError",
    "UnnamedPlaceError",
    "UnsavedResultsError",
    "UnsupportedSessionError",
    "UnsupportedTableError",
    "UsageError",
    "__version__",
    "create",
    "load",
    "open",
]

_HOMES = {
    **_ERRORS,
    "ApplyResult": "parquetry.compiler.plan.apply",
    "Column": "parquetry.runtime.spec.table_spec",
    "CommitResult": "parquetry.runtime.commit.outcome",
    "FilesPolicy": "parquetry.runtime.spec.table_spec",
    "KeyScope": "parquetry.runtime.spec.table_spec",
    "Plan": "parquetry.project_api",
    "Project": "parquetry.project_api",
    "RetentionPolicy": "parquetry.runtime.spec.table_spec",
    "RunResult": "parquetry.compiler.jobs.results",
    "SizingPolicy": "parquetry.runtime.spec.sizing",
    "Table": "parquetry.table",
    "TableSpec": "parquetry.runtime.spec.table_spec",
    "create": "parquetry.table",
    "load": "parquetry.project_api",
    "open": "parquetry.table",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'parquetry' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
