"""The files that the next clustering of a table leaves as they are, each with its reason.

No rows are read: where a sample of them would choose the scope, statistics do. What is kept is bounded,
since a plan is read on a screen: `service cluster TABLE --plan-only` lists all.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from parquetry.compiler.evidence.model import ExcludedFiles, ExcludedPath
from parquetry.compiler.workspace.masking import personal_in_either
from parquetry.compiler.workspace.observation import Observation
from parquetry.runtime.clustering.plan.due import due_by_statistics, trigger_of
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.masking import masked_path
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.timeline.rereading import read_again

NAMED: Final = 100
"""How many files of a table are named."""


@read_again
def excluded_files(
    observation: Observation, declared: TableSpec, *, budget_bytes: int
) -> ExcludedFiles | None:
    """What a run within the budget leaves; None where nothing is applied or clustering is off.

    One listing of each partition and the statistics of all files. Partitions are masked by what is
    applied and by what is ``declared``.
    """
    handle = observation.handle
    if not observation.is_applied or handle.spec is None or trigger_of(handle) is Trigger.OFF:
        return None
    left = due_by_statistics(handle, budget_bytes=budget_bytes).excluded
    shown_by = personal_in_either(handle.spec, declared)
    named = sorted(left, key=lambda excluded: excluded.file.path)[:NAMED]
    return ExcludedFiles(
        total=len(left),
        reasons=dict(sorted(Counter(str(excluded.reason) for excluded in left).items())),
        files=tuple(
            ExcludedPath(
                path=masked_path(excluded.file.path, excluded.file.partition, shown_by),
                reason=str(excluded.reason),
                detail=excluded.words,
            )
            for excluded in named
        ),
    )
