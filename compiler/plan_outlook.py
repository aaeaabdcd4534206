"""What the next clustering of a table is expected to be good for, as a plan says it."""

from __future__ import annotations

from dataclasses import dataclass

from parquetry.runtime.layout.clustering_model import ScopeChoice
from parquetry.runtime.layout.skipping import Touched
from parquetry.runtime.services.clustering_past import Hindsight


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeseenQuery:
    """What a declared query reads of some files, and is expected to read when they are clustered."""

    query: str
    now: Touched
    expected: Touched


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPlan:
    """A clustering plan that waits to be carried out; ``queries`` is what was foreseen when it was made."""

    instant: str
    queries: tuple[ForeseenQuery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the next run rewrites of a table, and what that is good for.

    ``queries`` are of the ``files`` it rewrites, from a bounded sample of their rows; ``scopes`` are what
    ``scope: auto`` chose, with personal partitions masked. ``hindsight`` is how good such predictions were
    before, None when none was made.
    """

    files: int = 0
    rewrite_bytes: int = 0
    queries: tuple[ForeseenQuery, ...] = ()
    scopes: tuple[ScopeChoice, ...] = ()
    waiting: tuple[WaitingPlan, ...] = ()
    hindsight: Hindsight | None = None
