"""Deletion of whole partitions in one commit. Their files stay until they are cleaned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from parquetry.message import Message
from parquetry.runtime.commit.damaged_files import damaged_groups
from parquetry.runtime.commit.outcome import CommitResult, Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.files import column_types
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.services.after_write import run_due_services
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.partition_path import NULL_FOLDER_TEXTS, KeyRules, partition_path
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.runtime.write.null_partition import check_null_partitions
from parquetry.runtime.write.partition_value import partition_value

_OPERATION = "DELETE_PARTITION"


@with_masked_failures
def delete_partitions(
    handle: TableHandle,
    partitions: Iterable[str | Mapping[str, Any]],
    *,
    timing: Timing = DEFAULT_TIMING,
) -> CommitResult:
    """Delete partitions, each given by its path or by a value per partition column.

    Absent and empty partitions are ignored. If no partition remains, nothing is committed.

    Args:
        handle: The table.
        partitions: Paths, or values by partition column.
        timing: The periods of the commit protocol.

    Raises:
        InvalidDataError: If the table has no partitions, if values identify no partition or do not have the
            type of their column, or if one partition is given instead of a list.
    """
    if isinstance(partitions, str | Mapping):
        one = quoted_library_text(repr(partitions))
        raise InvalidDataError(Message("expected a list of partitions, not ", one, "; pass [", one, "]"))
    config = handle.config
    if not config.partition_by:
        raise InvalidDataError(
            f"{config.name} has no partitions to delete; use insert_overwrite_table with no rows to empty it"
        )
    rules = KeyRules.of(config, named_key=False)
    kinds = column_types(handle.effective_spec(handle.timeline()).columns)
    by_value = {partition_path(rules, _typed(p, kinds)) for p in partitions if not isinstance(p, str)}
    paths = sorted({*by_value, *(p for p in partitions if isinstance(p, str))})

    def body(transaction: Transaction) -> WriteOutcome | None:
        table, timeline = transaction.table, transaction.timeline
        view = table.view(timeline)
        known = set(view.partitions())
        named = {path: view.slices(path) for path in by_value & known}
        check_null_partitions(table.store, rules, named)
        # A missing file that is put back later must not restore rows of a deleted partition.
        damaged = damaged_groups(view, paths)
        ids = {
            path: (*(s.file_id for s in view.slices(path)), *damaged.get(path, ()))
            for path in paths
            if path in known or path in damaged
        }
        replaced = {path: file_ids for path, file_ids in ids.items() if file_ids}
        if not replaced:
            return None
        return WriteOutcome(
            operation=_OPERATION,
            schema_json=table.schema_json(timeline, table.effective_spec(timeline).columns),
            replaced=replaced,
            footprint=Footprint(overwritten=frozenset(replaced)),
        )

    result = run_write(handle, action=Action.REPLACECOMMIT, operation=_OPERATION, body=body, timing=timing)
    return run_due_services(handle, result, timing=timing)


def _typed(values: Mapping[str, Any], kinds: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the values in the types of their columns. Values of unknown columns are unchanged.

    Raise InvalidDataError for a text that has no partition of its own, because its rows are in that of null.
    """
    typed = {
        name: partition_value(name, parse_type(kinds[name]), value) if name in kinds else value
        for name, value in values.items()
    }
    for name, value in typed.items():
        if value in NULL_FOLDER_TEXTS:
            raise InvalidDataError(
                f"{name}={value!r} has no partition of its own: its rows are in that of null; delete them "
                "with match, or the whole partition by its path"
            )
    return typed
