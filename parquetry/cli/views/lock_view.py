"""Locks in text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parquetry import shell
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.reports.locks import HeldLock
from parquetry.compiler.workspace.spec_words import elapsed
from parquetry.runtime.spec.codec import to_json_value


class LocksView:
    """The locks that are held."""

    def text(self, outcome: Sequence[HeldLock], paint: Paint) -> str:
        """Holder and age of each, and what to do about it."""
        if not outcome:
            return "no lock is held"
        return "\n".join(_lines(lock, paint) for lock in outcome)

    def json(self, outcome: Sequence[HeldLock]) -> Any:
        """Every field of every lock."""
        return {"locks": [to_json_value(lock) for lock in outcome]}


class ReleaseView:
    """The lock that was released."""

    def text(self, outcome: HeldLock, paint: Paint) -> str:
        """Which, and whose it was."""
        return f"{paint.good('released')} the lock of {paint.bold(outcome.table)}: held by {outcome.holder}"

    def json(self, outcome: HeldLock) -> Any:
        """Every field."""
        return {"released": to_json_value(outcome)}


def _lines(lock: HeldLock, paint: Paint) -> str:
    unlock = shell.named("parquetry", "unlock", shell.place(lock.table))
    advice = (
        f"its writer is dead: the next write of parquetry removes it; Hudi's writers wait for that, or for "
        f"{unlock}"
        if lock.abandoned
        else f"wait for it to end; once its holder is really dead: {unlock}"
    )
    return (
        f"{paint.bold(lock.table)}  held by {lock.holder}\n"
        f"  for {elapsed(lock.age_seconds)}, {lock.path}\n"
        f"  {advice}"
    )
