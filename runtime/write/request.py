"""What a write is asked to do with rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spec.table_spec import Operation, Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What is to be done with the rows of one commit.

    ``delete_when`` makes rows that fulfil it deletes (for ``delete``: only those count), ``drop`` are columns
    only it needs. ``match`` deletes by equality of these columns instead of by key. ``drop_duplicates`` keeps
    one row per key of an insert (without record key: one of equal rows). ``ties`` is for rows of one key that
    nothing tells apart.
    ``consumption`` is recorded with the commit, ``extra`` goes into its metadata. ``confirm`` is called when
    all rows have been read, and may raise.
    """

    operation: Operation
    delete_when: str | None = None
    match: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    drop_duplicates: bool = False
    ties: Ties = Ties.REFUSE
    consumption: Consumption | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    confirm: Callable[[], None] | None = None
