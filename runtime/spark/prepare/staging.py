"""Staging of a request's rows, prepared as its operation needs them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.base_file.model import DELETE
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.prepare.materialise import materialise, run_stage, stage_spec
from parquetry.runtime.spark.prepare.parquet_rows import PlainRows
from parquetry.runtime.spark.prepare.parquet_scan import NOT_PLAIN, plain_files, stage_plain_rows
from parquetry.runtime.spark.prepare.rows import (
    PreparedRows,
    check_control_names,
    distinct_rows,
    is_plain_key,
    prepare_keys,
    prepare_matches,
    prepare_rows,
)
from parquetry.runtime.spark.session.conversion import are_spelled_alike, type_of
from parquetry.runtime.spec.meta_columns import META_COLUMNS, RECORD_KEY
from parquetry.runtime.spec.rules import DELETE_FLAG, deletes_by_flag
from parquetry.runtime.spec.table_spec import Column, Operation, Ties
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.stage.location import StageLocation
from parquetry.runtime.stage.part import StageSpec
from parquetry.runtime.stage.partition_paths import SAME_TEXT_TYPES
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.write.request import WriteRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """The rows to write, lazily; ``subject`` names them in errors.

    ``arrival`` is SQL for a text that sorts them by their order of arrival; None if they have none.
    """

    frame: DataFrame
    request: WriteRequest
    subject: str
    arrival: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Staged rows; ``located`` is false for keys to delete whose partitions are unknown."""

    rows: StagedRows
    located: bool = True


def stage(incoming: Incoming, state: TableState, location: StageLocation) -> Staged:
    """Compute the rows of a request once, and stage them as rows of the table in ``state``.

    Raises:
        InvalidDataError: If the query fails, or the rows or their schema do not fit the table.

    """
    check_control_names((c.name for c in state.spec.columns), place=f"the columns of {state.spec.name}")
    match incoming.request.operation:
        case Operation.UPSERT:
            return Staged(rows=_stage_upsert(incoming, state, location))
        case Operation.DELETE if incoming.request.match:
            return Staged(rows=_stage_matches(incoming, state, location))
        case Operation.DELETE:
            return _stage_keys(incoming, state, location)
        case Operation.DELETE_PARTITION:
            raise InvalidDataError("delete_partition takes partitions, not rows; use delete_partition()")
        case _:
            return Staged(rows=_stage_inserts(incoming, state, location))


def _stage_upsert(incoming: Incoming, state: TableState, location: StageLocation) -> StagedRows:
    if not state.rules.record_key:
        raise InvalidDataError(
            "{subject}: the table has no record_key, so rows cannot be found again; use insert",
            subject=incoming.subject,
        )
    columns = state.spec.columns
    prepared = _prepared(incoming, incoming.frame, state, hash_rows=True)
    spec = stage_spec(
        columns,
        location=location,
        ordering=state.spec.ordering,
        key_column=_key_column(state),
        paths=prepared.paths,
        has_arrival=incoming.arrival is not None,
        refuses_ties=_refuses_ties(incoming),
        key_fields=state.rules.record_key,
    )
    return materialise(prepared.frame, spec, subject=incoming.subject)


def _stage_inserts(incoming: Incoming, state: TableState, location: StageLocation) -> StagedRows:
    request, frame = incoming.request, incoming.frame
    keyed = bool(state.rules.record_key)
    deduplicates = request.drop_duplicates and keyed
    if request.drop_duplicates and not keyed:
        frame = distinct_rows(frame.drop(*META_COLUMNS))
    prepared = _prepared(incoming, frame, state, hash_rows=deduplicates)
    spec = stage_spec(
        state.spec.columns,
        location=location,
        ordering=state.spec.ordering if deduplicates else None,
        key_column=_key_column(state) if keyed else None,
        paths=prepared.paths,
        keys=deduplicates,
        has_arrival=deduplicates and incoming.arrival is not None,
        drop_duplicates=deduplicates,
        refuses_ties=_refuses_ties(incoming),
        key_fields=state.rules.record_key if keyed else (),
        overwrites=state.rules.partition_by if request.operation is Operation.INSERT_OVERWRITE else (),
    )
    may_delete = bool(request.delete_when) or _has_delete_flag(frame, state)
    if not (request.drop_duplicates or request.drop or may_delete):
        staged = _stage_plain(incoming, state, spec)
        if staged is not None:
            return staged
    rows = prepared.frame
    rows = rows.where(~F.col(DELETE)) if may_delete else rows
    return materialise(rows.drop(DELETE), spec, subject=incoming.subject)


def _stage_plain(incoming: Incoming, state: TableState, spec: StageSpec) -> StagedRows | None:
    """Stage the rows with pyarrow, or return None if only Spark can read them.

    pyarrow can read rows that are columns of local Parquet files without a computation.
    """
    columns, rules = state.spec.columns, state.rules
    kinds = {column.name: str(parse_type(column.type)) for column in columns}
    if (
        any(column.generated for column in columns)
        or spec.paths is None
        or any(kinds.get(field) not in SAME_TEXT_TYPES for field in rules.record_key)
    ):
        return None
    frame = incoming.frame.drop(*META_COLUMNS)
    given = {field.name.lower(): type_of(field.dataType, field.name) for field in frame.schema}
    # pyarrow matches field names exactly; Spark ignores their case.
    if not all(are_spelled_alike(given.get(c.name.lower()), parse_type(c.type)) for c in columns):
        return None
    files = plain_files(frame)
    if files is None:
        return None
    stored = {name.lower(): source for name, source in files.sources.items()}
    rows = PlainRows(
        columns=columns,
        sources={c.name: stored[c.name.lower()] for c in columns if c.name.lower() in stored},
        rules=rules,
        computes_key=spec.key_column == RECORD_KEY,
    )
    summary = stage_plain_rows(incoming.frame.sparkSession, spec, rows, files)
    staged = run_stage(summary, spec, subject=incoming.subject)
    if any(fault.description == NOT_PLAIN for fault in staged.faults):
        return None
    staged.check(incoming.subject)
    return staged


def _stage_keys(incoming: Incoming, state: TableState, location: StageLocation) -> Staged:
    """Stage the keys of rows to delete."""
    ordering = state.spec.ordering
    prepared, located = prepare_keys(
        incoming.frame,
        state.spec.columns,
        state.rules,
        ordering=ordering,
        delete_when=incoming.request.delete_when,
    )
    spec = stage_spec(
        _only(state.spec.columns, prepared),
        location=location,
        ordering=ordering if ordering in prepared.columns else None,
        key_column=RECORD_KEY,
        rows=False,
        key_fields=state.rules.record_key,
    )
    return Staged(rows=materialise(prepared.frame, spec, subject=incoming.subject), located=located)


def _stage_matches(incoming: Incoming, state: TableState, location: StageLocation) -> StagedRows:
    request = incoming.request
    prepared = prepare_matches(
        incoming.frame, state.spec.columns, request.match, delete_when=request.delete_when
    )
    spec = stage_spec(
        _only(state.spec.columns, prepared),
        location=location,
        ordering=None,
        key_column=None,
        rows=False,
        matched=True,
    )
    return materialise(prepared.frame, spec, subject=incoming.subject)


def _prepared(incoming: Incoming, frame: DataFrame, state: TableState, *, hash_rows: bool) -> PreparedRows:
    return prepare_rows(
        frame,
        state.spec.columns,
        state.rules,
        delete_when=incoming.request.delete_when,
        drop=incoming.request.drop,
        arrival=incoming.arrival,
        hash_rows=hash_rows,
    )


def _refuses_ties(incoming: Incoming) -> bool:
    return incoming.arrival is None and incoming.request.ties is Ties.REFUSE


def _only(columns: tuple[Column, ...], prepared: PreparedRows) -> list[Column]:
    return [column for column in columns if column.name in prepared.columns]


def _has_delete_flag(frame: DataFrame, state: TableState) -> bool:
    named = DELETE_FLAG in (name.lower() for name in frame.columns)
    return named and deletes_by_flag(state.spec.columns)


def _key_column(state: TableState) -> str:
    """Return the staged column with the record keys: a column of the table if it is the key's text."""
    if is_plain_key(state.rules, state.spec.columns):
        return state.rules.record_key[0]
    return RECORD_KEY
