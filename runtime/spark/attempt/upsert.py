"""Writes with a key lookup: upsert, and delete by key or by other columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.arrow.schema import arrow_schema, columns_from_arrow
from parquetry.runtime.base_file.model import DELETE, HASH, POSITION
from parquetry.runtime.commit.outcome import Footprint, KeyRange
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.attempt.deliver import write_rows
from parquetry.runtime.spark.attempt.write_attempt import Attempt, AttemptResult, check_results
from parquetry.runtime.spark.lookup.key_match import StoredOrdering, find_positions, is_small
from parquetry.runtime.spark.lookup.partitionless_deletes import (
    default_partition,
    locate_deletes,
    with_deletes_to_locate,
)
from parquetry.runtime.spark.lookup.tagged_keys import KeyTotals, TaggedKeys, count_tagged
from parquetry.runtime.spark.lookup.tagging import (
    BROADCAST_BYTES,
    FILE,
    STORED_KEY,
    STORED_ORDERING,
    STORED_PARTITION,
    key_rows,
    may_hold,
    split_moves,
    stored_keys,
    tag,
    winners,
)
from parquetry.runtime.spark.lookup.task_lookup import LocatedKeys, locate_keys
from parquetry.runtime.spark.read.scan import scan_files
from parquetry.runtime.spark.read.stored_keys import with_keys
from parquetry.runtime.spark.session.keys import quoted
from parquetry.runtime.spec.meta_columns import PARTITION_PATH, RECORD_KEY
from parquetry.runtime.spec.table_spec import Column, KeyScope
from parquetry.runtime.stage.batch_keys import is_rankable
from parquetry.runtime.stage.part import PARTITION, type_at
from parquetry.runtime.stage.regroup import regrouping_tasks
from parquetry.runtime.stage.staged import StagedRows

UPSERT, DELETE_ROWS = "UPSERT", "DELETE"
_KEY_BYTES, _ROW_BYTES = 24.0, 64.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A base file that may contain a row for each of ``expected_updates`` keys, as a reader of the stage."""

    partition: str
    expected_updates: int
    expected_inserts: int = 0
    expected_deletes: int = 0


def upsert_rows(attempt: Attempt, staged: StagedRows) -> AttemptResult:
    """Update or remove the stored rows with the keys of the staged rows, and insert the other rows."""
    if not staged.rows:
        return AttemptResult(outcome=attempt.empty_outcome(UPSERT))
    spec = attempt.state.spec
    attempt.check_partitions(staged.totals)
    everywhere = spec.key_scope is KeyScope.TABLE
    default = None if everywhere else default_partition(attempt.state.rules, staged)
    others = attempt.state.every_partition if everywhere or default is not None else ()
    slices = attempt.state.whole_slices({*others, *staged.totals})
    found = _tagged_keys(
        attempt, staged, slices, partitioned=not everywhere, moves=everywhere, default=default
    )
    try:
        if not found.count:
            return _result_without_changes(attempt, UPSERT, found)
        planner = attempt.planner(
            staged, inserts=found.inserts, slices=slices, changes=found.changes, fill=True
        )
        plan = attempt.announce(planner, inserted_keys=found.inserted_keys)
        context = attempt.context(ordering=spec.ordering)
        results = write_rows(attempt.spark, context, plan, staged, found)
        check_results(plan, results, found.hash_sums)
    finally:
        found.release()
    footprint = Footprint(looks_up_keys=True, key_scope=spec.key_scope, inserted_keys=found.inserted_keys)
    return AttemptResult(
        outcome=attempt.outcome(UPSERT, plan=plan, results=results, footprint=footprint),
        unmatched_deletes=found.unmatched_deletes,
        late_rows=found.late_rows + results.late_rows,
    )


def delete_keys(attempt: Attempt, staged: StagedRows, *, located: bool) -> AttemptResult:
    """Delete the rows with the staged keys.

    They are searched for in the partition that the batch names if keys are unique per partition, otherwise in
    all. ``located`` is false if the batch does not contain the partitions.
    """
    if not staged.rows:
        return AttemptResult(outcome=attempt.empty_outcome(DELETE_ROWS))
    everywhere = attempt.state.spec.key_scope is KeyScope.TABLE or not located
    default = None if everywhere else default_partition(attempt.state.rules, staged)
    searches_all = everywhere or default is not None
    slices = attempt.state.whole_slices(attempt.state.every_partition if searches_all else staged.totals)
    found = _tagged_keys(attempt, staged, slices, partitioned=not everywhere, moves=False, default=default)
    return _remove(attempt, staged, found, slices)


def delete_matches(attempt: Attempt, staged: StagedRows, match: Sequence[str]) -> AttemptResult:
    """Delete every row that equals a staged row in all ``match`` columns.

    A staged row with a null in one of them matches nothing. The result counts such rows.
    """
    if not staged.rows:
        return AttemptResult(outcome=attempt.empty_outcome(DELETE_ROWS))
    state = attempt.state
    columns = [F.col(quoted(column)) for column in match]
    keys = key_rows(attempt.spark, staged)
    incomplete = keys.where(reduce(or_, (column.isNull() for column in columns))).count()
    slices = state.whole_slices(state.every_partition)
    files = [file for part in slices.values() for file in part]
    if not files or incomplete == staged.rows:
        return AttemptResult(outcome=attempt.empty_outcome(DELETE_ROWS), incomplete_deletes=incomplete)
    wanted = keys.select(*(column.alias(f"match.{i}") for i, column in enumerate(columns))).distinct()
    same = reduce(and_, (column == F.col(f"`match.{i}`") for i, column in enumerate(columns)))
    stored = scan_files(
        attempt.spark,
        state.handle,
        state.timeline,
        files,
        [c for c in state.spec.columns if c.name in match],
        meta=(RECORD_KEY,),
        positions=True,
    )
    tagged = stored.join(wanted, same, "left_semi").select(
        F.coalesce(RECORD_KEY, FILE).alias(RECORD_KEY),  # its value is not used: the rows are deleted
        FILE,
        POSITION,
        F.lit(None).cast("string").alias(PARTITION),
        F.expr("true").alias(DELETE),
        F.xxhash64(FILE, POSITION).alias(HASH),
    )
    found = count_tagged(tagged, files=files, rows=staged.rows)
    return replace(_remove(attempt, staged, found, slices), incomplete_deletes=incomplete)


def _remove(
    attempt: Attempt,
    staged: StagedRows,
    found: TaggedKeys | LocatedKeys,
    slices: Mapping[str, Sequence[FileSlice]],
) -> AttemptResult:
    try:
        if not found.count:
            return _result_without_changes(attempt, DELETE_ROWS, found)
        touched = {partition: slices[partition] for partition in found.changes}
        planner = attempt.planner(None, inserts={}, slices=touched, changes=found.changes, fill=False)
        plan = attempt.announce(planner)
        context = attempt.context(ordering=staged.spec.ordering)
        results = write_rows(attempt.spark, context, plan, staged, found)
        check_results(plan, results, found.hash_sums)
    finally:
        found.release()
    footprint = Footprint(looks_up_keys=True)
    return AttemptResult(
        outcome=attempt.outcome(DELETE_ROWS, plan=plan, results=results, footprint=footprint),
        unmatched_deletes=found.unmatched_deletes,
        late_rows=results.late_rows,
    )


def _result_without_changes(attempt: Attempt, operation: str, found: KeyTotals) -> AttemptResult:
    """Return the result of a write whose key lookup left no row to write or remove."""
    return AttemptResult(
        outcome=attempt.empty_outcome(operation),
        unmatched_deletes=found.unmatched_deletes,
        late_rows=found.late_rows,
    )


def _tagged_keys(
    attempt: Attempt,
    staged: StagedRows,
    slices: Mapping[str, Sequence[FileSlice]],
    *,
    partitioned: bool,
    moves: bool,
    default: str | None,
) -> TaggedKeys | LocatedKeys:
    """Look up the staged keys in the table, with tasks for a small batch and with Spark joins for others.

    Args:
        attempt: The attempt.
        staged: The staged rows.
        slices: The file slices to search, by partition.
        partitioned: Whether keys are unique per partition.
        moves: Whether a row may go to another partition than the stored row with its key.
        default: The partition of deletes without partition values, or None. A delete whose key is not found
            there is searched for in all other partitions.

    """
    spec = attempt.state.spec
    candidates = _candidates(attempt, staged, slices, partitioned=partitioned and default is None)
    stored_keys = attempt.state.stored_keys
    is_for_tasks = default is None and not moves and stored_keys.are_spelled_here
    if is_for_tasks and _is_located_by_tasks(staged, candidates):
        store = attempt.state.handle.store
        return locate_keys(
            attempt.spark, store, staged, candidates, stored_keys=stored_keys, partitioned=partitioned
        )
    compares = moves and spec.ordering is not None
    by_partition = partitioned and len({*staged.totals, *(c.partition for c in candidates)}) > 1
    found = None
    if candidates:
        ordering = spec.ordering if compares else None
        found = _stored_positions(
            attempt, staged, candidates, by_partition=by_partition and default is None, ordering=ordering
        )
    keys = key_rows(attempt.spark, staged)
    if default is not None:
        keys = with_deletes_to_locate(keys, found, default=default)
    tagged = tag(winners(staged, keys, partitioned=partitioned), found, by_partition=by_partition)
    if moves and candidates:
        tagged = split_moves(tagged, ordering=compares)
    if default is not None:
        tagged = locate_deletes(tagged, found, default=default)
    return count_tagged(tagged, files=candidates, rows=staged.rows)


def _is_located_by_tasks(staged: StagedRows, files: Sequence[FileSlice]) -> bool:
    """Return whether tasks alone can look up the batch.

    Each task must be able to hold and rank the keys, and writers must be able to fetch their rows one by one.
    Rows that a Spark join has tagged can be grouped by file before they are fetched.
    """
    spec = staged.spec
    ranks = spec.ordering is None or is_rankable(type_at(spec.schema, spec.ordering))
    if not (ranks and is_small(staged)):
        return False
    if spec.location.is_mapped or not spec.rows:
        return True
    # The worst case: the rows of a partition are spread equally over its candidate files.
    counts = Counter(file.partition for file in files)
    rows = {name: -(-total.rows // max(counts[name], 1)) for name, total in staged.totals.items()}
    readers = (
        _Candidate(partition=file.partition, expected_updates=rows.get(file.partition, 0)) for file in files
    )
    return not regrouping_tasks(staged.index, readers)


def _stored_positions(
    attempt: Attempt,
    staged: StagedRows,
    files: Sequence[FileSlice],
    *,
    by_partition: bool,
    ordering: str | None,
) -> DataFrame:
    """Return the positions of the staged keys in the files.

    For a large batch, return those of all stored keys.
    """
    spark, store = attempt.spark, attempt.state.handle.store
    columns = [c for c in attempt.state.spec.columns if c.name == ordering]
    if is_small(staged) and attempt.state.stored_keys.are_spelled_here:
        stored = arrow_schema(columns)
        # Tasks return the types of the files, which store small integers as ints.
        with_ordering = [
            StoredOrdering(column=c.name, arrow=stored.field(c.name).type, ddl=c.type)
            for c in columns_from_arrow(stored)
        ]
        return F.broadcast(
            find_positions(
                spark,
                store,
                staged,
                files,
                stored_keys=attempt.state.stored_keys,
                by_partition=by_partition,
                ordering=with_ordering[0] if with_ordering else None,
            )
        )
    found = _all_stored_keys(attempt, files, columns)
    stored_bytes = sum(f.rows or 0 for f in files) * (_KEY_BYTES + _ROW_BYTES)
    return F.broadcast(found) if stored_bytes <= BROADCAST_BYTES else found


def _candidates(
    attempt: Attempt,
    staged: StagedRows,
    slices: Mapping[str, Sequence[FileSlice]],
    *,
    partitioned: bool,
) -> list[FileSlice]:
    """Return the files that may contain one of the keys, by their key ranges."""
    files = attempt.state.with_key_ranges([file for part in slices.values() for file in part])
    totals = staged.totals
    ends = [key for t in totals.values() for key in (t.min_key, t.max_key) if key is not None]
    whole = KeyRange(smallest=min(ends, key=str.encode), largest=max(ends, key=str.encode)) if ends else None
    ranges = {
        partition: KeyRange(smallest=t.min_key, largest=t.max_key)
        for partition, t in totals.items()
        if t.min_key is not None and t.max_key is not None
    }
    return [file for file in files if may_hold(file, ranges.get(file.partition) if partitioned else whole)]


def _all_stored_keys(attempt: Attempt, files: Sequence[FileSlice], columns: Sequence[Column]) -> DataFrame:
    """Return all keys of the files with their positions, and the ordering column if it is in ``columns``."""
    state = attempt.state
    keys = state.stored_keys
    if keys.rules is None and not columns and not any(file.encrypted for file in files):
        return stored_keys(attempt.spark, state.handle.store, files)
    needed = {*(path.partition(".")[0] for path in keys.columns), *(column.name for column in columns)}
    frame = scan_files(
        attempt.spark,
        state.handle,
        state.timeline,
        files,
        [column for column in state.spec.columns if column.name in needed],
        meta=(RECORD_KEY, PARTITION_PATH),
        positions=True,
    )
    return with_keys(frame, keys, files).select(
        F.col(RECORD_KEY).alias(STORED_KEY),
        F.col(PARTITION_PATH).alias(STORED_PARTITION),
        FILE,
        POSITION,
        *(F.col(quoted(c.name)).alias(STORED_ORDERING) for c in columns),
    )
