"""The request of a write: its operation and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spec.table_spec import Operation, Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """The operation for the rows of one commit, and its options.

    ``delete_when`` is a condition: rows that fulfil it are deletes (for ``delete``, other rows are ignored).
    ``drop`` are columns that only this condition needs. ``match`` deletes by equality of these columns
    instead of by key. ``drop_duplicates`` keeps one row per key of an insert (without a record key, one of
    equal rows). ``ties`` decides about different rows with one key, equal ordering values and no order.
    ``consumption`` is recorded with the commit; ``extra`` goes into its metadata. ``confirm`` is called when
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
