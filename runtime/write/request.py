"""What a write is asked to do with rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spec.table_spec import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What is to be done with the rows; see :func:`write`."""

    operation: Operation
    delete_when: str | None
    match: tuple[str, ...]
    drop: tuple[str, ...]
    drop_duplicates: bool
    sort_by: tuple[str, ...]
    consumption: Consumption | None
    extra: Mapping[str, str]
