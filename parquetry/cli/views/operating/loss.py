"""The lost rows of a table, before and after their loss is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.services.accepted_loss import LostRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The damaged files of a table.

    ``instant`` is the commit that gave up their rows, or None before that.
    """

    table: str
    lost: Sequence[LostRows]
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
                "files": [_document(one) for one in outcome.lost],
            },
        }


def loss_lines(loss: Loss) -> Iterator[str]:
    """Yield a line for the whole loss, and one for each file."""
    rows = count(sum(one.file.rows or 0 for one in loss.lost), "row")
    yield f"{loss.table} has lost {rows} in {count(len(loss.lost), 'file')}:"
    for one in loss.lost:
        yield f"  {'; '.join(_parts(one))}"


def _parts(one: LostRows) -> Iterator[str]:
    file = one.file
    lost = "is in no partition" if file.is_outside else "is missing"
    state = lost if file.size_bytes is None else f"has {file.size_bytes:,} bytes"
    if file.size_bytes is not None and file.written_bytes is not None:
        state += f" of {file.written_bytes:,}"
    yield f"{file.path} {state}"
    rows = "an unknown number of rows" if file.rows is None else count(file.rows, "row")
    low, high = _keys(one)
    yield f"{rows}, written by {file.instant}{'' if low is None else f', keys {low} to {high}'}"
    if file.older is not None:
        yield f"its older version of {file.older} is given up too"


def _document(one: LostRows) -> dict[str, Any]:
    file = one.file
    low, high = _keys(one)
    return {
        "partition": file.partition,
        "path": file.path,
        "instant": file.instant,
        "rows": file.rows,
        "written_bytes": file.written_bytes,
        "size_bytes": file.size_bytes,
        "older": file.older,
        "min_key": low,
        "max_key": high,
    }


def _keys(one: LostRows) -> tuple[str | None, str | None]:
    """Return the lowest and highest record key, or None for both if one is unknown."""
    if one.min_key is None or one.max_key is None:
        return None, None
    return one.min_key, one.max_key
