"""The content of a stage, as the driver knows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from parquetry.errors import failures_at
from parquetry.message import Message, joined, message_from_json
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.stage.index import IndexBuilder, StageIndex
from parquetry.runtime.stage.location import validated_reads
from parquetry.runtime.stage.part import TOTALS, RowFault, StageSpec, rows_name, totals_name
from parquetry.runtime.storage.parallel import map_each

_TOTALS_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """The totals of the rows that arrived for one table partition; ``hash_sum`` is modulo 2**64.

    Keys are compared as UTF-8 bytes. ``text_bytes`` counts the bytes of keys and of ordering values that are
    text.
    """

    rows: int = 0
    deletes: int = 0
    hash_sum: int = 0
    size_bytes: int = 0
    text_bytes: int = 0
    min_key: str | None = None
    max_key: str | None = None

    def __add__(self, other: PartitionTotals) -> PartitionTotals:
        """Return the totals of both."""
        keys = [k for k in (self.min_key, self.max_key, other.min_key, other.max_key) if k is not None]
        return PartitionTotals(
            rows=self.rows + other.rows,
            deletes=self.deletes + other.deletes,
            hash_sum=(self.hash_sum + other.hash_sum) % (1 << 64),
            size_bytes=self.size_bytes + other.size_bytes,
            text_bytes=self.text_bytes + other.text_bytes,
            min_key=min(keys, key=str.encode, default=None),
            max_key=max(keys, key=str.encode, default=None),
        )


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """A complete stage: the names of the successful attempts by task number, and the totals by partition.

    ``index`` contains the positions of the batches with whole rows.
    """

    spec: StageSpec
    names: Mapping[int, str]
    index: StageIndex
    totals: Mapping[str, PartitionTotals]
    faults: tuple[RowFault, ...]

    @cached_property
    def rows(self) -> int:
        """The number of all rows, including deletes."""
        return sum(total.rows for total in self.totals.values())

    @cached_property
    def folds(self) -> bool:
        """True if a row may be compared by an ordering value other than its own.

        See :func:`winning_rows` for the rule.
        """
        spec = self.spec
        return spec.has_arrival and spec.ordering is not None and any(t.deletes for t in self.totals.values())

    @property
    def row_bytes(self) -> float | None:
        """The mean size of a row in memory, or None without rows."""
        return sum(total.size_bytes for total in self.totals.values()) / self.rows if self.rows else None

    def check(self, subject: str) -> None:
        """Raise an error if staged rows violate the declaration of the table.

        Raises:
            InvalidDataError: With the number of rows and an example of each fault. The message starts with
                ``subject``.

        """
        by_kind: dict[str, RowFault] = {}
        for fault in self.faults:
            seen = by_kind.get(fault.description)
            by_kind[fault.description] = replace(seen, rows=seen.rows + fault.rows) if seen else fault
        if by_kind:
            found = joined(
                "; ",
                (
                    Message(
                        "{fault} in {faulty_rows} of {all_rows} rows, first in {example}",
                        fault=f.description,
                        faulty_rows=f.rows,
                        all_rows=self.rows,
                        example=f.example,
                    )
                    for f in by_kind.values()
                ),
            )
            declared = (self.spec.declared.get(description) for description in by_kind)
            with failures_at(next(filter(None, declared), None)):
                raise InvalidDataError(
                    "{subject}: {faults}; nothing was written: fill or filter these rows",
                    subject=subject,
                    faults=found,
                )


def staged_rows(spec: StageSpec, summary: Iterable[Mapping[str, Any]]) -> StagedRows:
    """Return the stage that the summaries of its tasks describe.

    The totals are read from the files of each task.
    """
    names: dict[int, str] = {}
    faults = []
    for row in summary:
        if row["fault"] is not None:
            example = message_from_json(json.loads(row["example"]))
            faults.append(RowFault(description=row["fault"], rows=row["rows"], example=example))
        else:
            names[row["part"]] = row["name"]
    names = dict(sorted(names.items()))
    totals: dict[str, PartitionTotals] = {}
    index = IndexBuilder()
    written = list(names.items())
    for first in range(0, len(written), _TOTALS_AT_ONCE):
        some = written[first : first + _TOTALS_AT_ONCE]
        found = map_each(some, lambda item: _totals(spec, item[1]))
        for (part, name), rows in zip(some, found, strict=True):
            batches = rows.column("batches")
            partitions = rows.column("partition").to_pylist()
            index.add(part, rows_name(name), partitions, batches)
            for row in rows.drop_columns(["batches"]).to_pylist():
                partition, hashes = row.pop("partition"), row.pop("hash_sum") % (1 << 64)
                total = PartitionTotals(hash_sum=hashes, **row)
                totals[partition] = totals.get(partition, PartitionTotals()) + total
    return StagedRows(spec=spec, names=names, totals=totals, index=index.index(), faults=tuple(faults))


def _totals(spec: StageSpec, name: str) -> pa.RecordBatch:
    """Return the totals in the file of a task attempt."""
    content = spec.location.read(totals_name(name))
    with validated_reads(spec.location, totals_name(name)) as check, pa.ipc.open_file(content) as file:
        if file.schema != TOTALS:
            raise pa.ArrowInvalid("it does not have the columns of a totals file")
        return check(file.get_batch(0))
