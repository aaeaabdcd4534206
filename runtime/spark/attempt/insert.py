"""Writes without a key lookup: insert, bulk_insert and the two overwrites."""

from __future__ import annotations

from collections.abc import Mapping

from parquetry.runtime.commit.damaged_files import damaged_groups
from parquetry.runtime.commit.outcome import Footprint
from parquetry.runtime.spark.attempt.deliver import write_rows
from parquetry.runtime.spark.attempt.write_attempt import Attempt, AttemptResult, check_results
from parquetry.runtime.spark.lookup.tagged_keys import TaggedKeys, tag_all_as_new
from parquetry.runtime.spec.table_spec import KeyScope, Operation
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.write.null_partition import check_null_partitions

_OVERWRITES = (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)


def insert_rows(attempt: Attempt, staged: StagedRows, operation: Operation) -> AttemptResult:
    """Insert the staged rows; ``insert`` fills small files first, overwrites replace existing files."""
    name = operation.value.upper()
    replaced = _replaced(attempt, staged, operation)
    if not staged.rows and not replaced and operation is not Operation.INSERT_OVERWRITE_TABLE:
        return AttemptResult(outcome=attempt.empty_outcome(name))
    footprint = Footprint(
        overwritten=frozenset(staged.totals) if operation in _OVERWRITES else frozenset(),
        overwrites_table=operation is Operation.INSERT_OVERWRITE_TABLE,
    )
    if not staged.rows:
        return AttemptResult(outcome=attempt.outcome(name, replaced=replaced, footprint=footprint))
    attempt.check_partitions(staged.totals)
    fill = operation is Operation.INSERT
    slices = attempt.state.whole_slices(staged.totals) if operation not in _OVERWRITES else {}
    partitioned = attempt.state.spec.key_scope is KeyScope.PARTITION
    chooses = staged.spec.drop_duplicates
    found = tag_all_as_new(attempt.spark, staged, partitioned=partitioned) if chooses else None
    try:
        inserts, hash_sums = _profile(staged, found)
        planner = attempt.planner(staged, inserts=inserts, slices=slices, changes={}, fill=fill)
        plan = attempt.announce(planner)
        results = write_rows(attempt.spark, attempt.context(ordering=None), plan, staged, found)
        check_results(plan, results, hash_sums)
    finally:
        if found is not None:
            found.release()
    return AttemptResult(
        outcome=attempt.outcome(name, plan=plan, results=results, replaced=replaced, footprint=footprint)
    )


def _profile(staged: StagedRows, found: TaggedKeys | None) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the number of new rows and the sum of their hashes, both by partition."""
    if found is not None:
        return found.inserts, found.hash_sums
    return (
        {partition: total.rows for partition, total in staged.totals.items()},
        {partition: total.hash_sum for partition, total in staged.totals.items()},
    )


def _replaced(attempt: Attempt, staged: StagedRows, operation: Operation) -> Mapping[str, tuple[str, ...]]:
    view = attempt.state.view
    match operation:
        case Operation.INSERT_OVERWRITE:
            slices = attempt.state.slices(staged.totals)
            check_null_partitions(attempt.state.handle.store, attempt.state.rules, slices)
        case Operation.INSERT_OVERWRITE_TABLE:
            slices = attempt.state.slices(view.partitions())
        case _:
            return {}
    # Damaged file groups are replaced too, so that a restored file brings no overwritten rows back.
    lost = damaged_groups(view, staged.totals if operation is Operation.INSERT_OVERWRITE else None)
    ids = {
        partition: (*(s.file_id for s in slices.get(partition, ())), *lost.get(partition, ()))
        for partition in (*slices, *(lost.keys() - slices.keys()))
    }
    return {partition: file_ids for partition, file_ids in ids.items() if file_ids}
