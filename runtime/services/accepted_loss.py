"""The acceptance of a loss: the file groups of missing or damaged base files are replaced by nothing."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from parquetry.message import RECORD_KEY_FIELD, Value
from parquetry.runtime.commit.damaged_files import DamagedFile, damaged_files
from parquetry.runtime.commit.outcome import CommitResult, Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import UNUSABLE, StalePlanError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.statistics import decode_statistics
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.sidecars import statistics_path
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

ACCEPTED_KEY: Final = "parquetry.accepted_loss"
# Of Hudi's operations that replace file groups, this is the one from which no reader concludes that a whole
# partition is deleted: after a DELETE_PARTITION, catalogs drop the partition.
_OPERATION: Final = "INSERT_OVERWRITE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """A damaged file, and the key range of its rows, if that was recorded."""

    file: DamagedFile
    min_key: str | None = field(default=None, metadata=RECORD_KEY_FIELD)
    max_key: str | None = field(default=None, metadata=RECORD_KEY_FIELD)


def lost_rows(handle: TableHandle) -> tuple[LostRows, ...]:
    """Return the damaged files whose rows :func:`accept_loss` would give up."""
    damaged = damaged_files(handle)
    instants = sorted({file.instant for file in damaged})
    recorded = dict(
        pair for pairs in map_each(instants, lambda time: _key_ranges(handle.store, time)) for pair in pairs
    )
    unknown: tuple[None, None] = (None, None)
    ranges = [recorded.get(file.path, unknown) for file in damaged]
    return tuple(
        LostRows(file=file, min_key=low, max_key=high)
        for file, (low, high) in zip(damaged, ranges, strict=True)
    )


@with_masked_failures
def accept_loss(
    handle: TableHandle, paths: Collection[str] | None = None, *, timing: Timing = DEFAULT_TIMING
) -> CommitResult:
    """Give up the rows of all damaged files in one commit, or do nothing if no file is damaged.

    Their file groups are replaced by nothing. Older versions that still exist are given up too, because they
    would show a part of an earlier state. Reads and writes work again afterwards. A file that is put back
    stays replaced until the commit is archived.

    Args:
        handle: The table.
        paths: The paths of the files whose loss was approved, or None to accept every loss.
        timing: The waiting periods and retries of the commit.

    Raises:
        StalePlanError: If other files than ``paths`` are damaged too.
    """

    def body(transaction: Transaction) -> WriteOutcome | None:
        table, timeline = transaction.table, transaction.timeline
        damaged = damaged_files(table)
        if unapproved := [file.path for file in damaged if paths is not None and file.path not in paths]:
            raise StalePlanError(
                "{file} is lost too, but its loss was not approved; check again what is lost",
                file=Value.uri(f"{table.store.uri}/{unapproved[0]}"),
            )
        if not damaged:
            return None
        replaced: dict[str, list[str]] = {}
        for file in damaged:
            replaced.setdefault(file.partition, []).append(file.file_id)
        return WriteOutcome(
            operation=_OPERATION,
            schema_json=table.schema_json(timeline, table.effective_spec(timeline).columns),
            replaced={partition: tuple(ids) for partition, ids in replaced.items()},
            extra={ACCEPTED_KEY: _record(damaged)},
            footprint=Footprint(overwritten=frozenset(replaced)),
        )

    return run_write(
        handle,
        action=Action.REPLACECOMMIT,
        operation=_OPERATION,
        body=body,
        timing=timing,
    )


def _record(damaged: Sequence[DamagedFile]) -> str:
    """Return the record of the lost files for the commit, as JSON."""
    files = [{"path": file.path, "instant": file.instant, "rows": file.rows} for file in damaged]
    return json.dumps(files, separators=(",", ":"))


def _key_ranges(store: ObjectStore, instant: str) -> list[tuple[str, tuple[str | None, str | None]]]:
    """Return the recorded key range of each file of a write, by path; empty without usable statistics."""
    path = statistics_path(instant)
    try:
        files = decode_statistics(
            store.read(path, most_bytes=MOST_BYTES), location=f"{store.uri}/{path}", columns=()
        )
    except UNUSABLE:
        return []
    return [(file.path, (file.min_key, file.max_key)) for file in files]
