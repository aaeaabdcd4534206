"""The lost rows of a table, before and after their loss is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.services.accepted_loss import LostRows
from parquetry.runtime.spec.masking import masked_partition, masked_path, pii_columns
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.text.secret_names import MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The damaged files of a table; ``instant`` is the commit that gave up their rows, or None before that.

    ``shown_by`` is the spec that masks personal partitions and keys.
    """

    table: str
    lost: Sequence[LostRows]
    shown_by: TableSpec | None
    instant: str | None = None


class LossView:
    """Every damaged file with the rows that it contained."""

    def text(self, outcome: Loss, paint: Paint) -> str:
        """Return the lost rows, and the commit that accepted the loss."""
        if not outcome.lost:
            return f"{paint.good('nothing is lost')}: every file of {outcome.table} is as its commit wrote it"
        accepted = f"{paint.good('loss accepted')} by {outcome.instant}"
        return "\n".join([*loss_lines(outcome), f"{accepted}; restoring a file has no effect any more"])

    def json(self, outcome: Loss) -> Any:
        """Return the loss in the form of a doctor's check, with the files."""
        found = "nothing is lost" if not outcome.lost else f"loss accepted by {outcome.instant}"
        return {
            "ok": True,
            "checks": [{"name": f"table {outcome.table}", "ok": True, "found": found}],
            "loss": {
                "instant": outcome.instant,
                "rows": sum(one.file.rows or 0 for one in outcome.lost),
                "files": [_document(one, outcome.shown_by) for one in outcome.lost],
            },
        }


def loss_lines(loss: Loss) -> Iterator[str]:
    """Yield a line for the whole loss, and one for each file."""
    rows = count(sum(one.file.rows or 0 for one in loss.lost), "row")
    yield f"{loss.table} has lost {rows} in {count(len(loss.lost), 'file')}:"
    for one in loss.lost:
        yield f"  {'; '.join(_parts(one, loss.shown_by))}"


def _parts(one: LostRows, shown_by: TableSpec | None) -> Iterator[str]:
    file = one.file
    state = "is missing" if file.size_bytes is None else f"has {file.size_bytes:,} bytes"
    if file.size_bytes is not None and file.written_bytes is not None:
        state += f" of {file.written_bytes:,}"
    yield f"{masked_path(file.path, file.partition, shown_by)} {state}"
    rows = "an unknown number of rows" if file.rows is None else count(file.rows, "row")
    low, high = _keys(one, shown_by)
    yield f"{rows}, written by {file.instant}{'' if low is None else f', keys {low} to {high}'}"
    if file.older is not None:
        yield f"its older version of {file.older} is given up too"


def _document(one: LostRows, shown_by: TableSpec | None) -> dict[str, Any]:
    file = one.file
    low, high = _keys(one, shown_by)
    return {
        "partition": masked_partition(file.partition, shown_by),
        "path": masked_path(file.path, file.partition, shown_by),
        "instant": file.instant,
        "rows": file.rows,
        "written_bytes": file.written_bytes,
        "size_bytes": file.size_bytes,
        "older": file.older,
        "min_key": low,
        "max_key": high,
    }


def _keys(one: LostRows, shown_by: TableSpec | None) -> tuple[str | None, str | None]:
    """Return the lowest and highest record key, masked if a key column is personal; None if unknown."""
    if one.min_key is None or one.max_key is None:
        return None, None
    key = {name.lower() for name in ((shown_by.record_key or ()) if shown_by else ())}
    if shown_by is not None and key & pii_columns(shown_by.columns):
        return MASK, MASK
    return one.min_key, one.max_key
