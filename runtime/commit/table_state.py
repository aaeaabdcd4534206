"""The state of a table at one timeline, as a write reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.commit.damaged_files import check_partitions, recorded_partitions
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.key_generator import KeyEncoding
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_path import KeyRules
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.table.stored_keys import StoredKeys
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline


@dataclass(frozen=True, kw_only=True)
class TableState:
    """The state of a table at one timeline, as a write reads it."""

    handle: TableHandle
    timeline: Timeline

    @cached_property
    def spec(self) -> TableSpec:
        """The effective spec of the table at this timeline."""
        return self.handle.effective_spec(self.timeline)

    @cached_property
    def view(self) -> FileSystemView:
        """The view of the table's files at this timeline."""
        return self.handle.view(self.timeline)

    @cached_property
    def rules(self) -> KeyRules:
        """The rules by which record keys and partition paths are encoded."""
        config = self.handle.config
        named = bool(config.record_key) and self.handle.key_encoding(self.view) is KeyEncoding.PREFIXED
        return KeyRules.of(config, named_key=named)

    @cached_property
    def stored_keys(self) -> StoredKeys:
        """The origin of the record keys of stored rows."""
        has_keys = self.handle.config.meta_columns.has_keys
        return StoredKeys(schema=arrow_schema(self.spec.columns), rules=None if has_keys else self.rules)

    @property
    def schema_json(self) -> str:
        """The Avro schema that a commit records."""
        return self.handle.schema_json(self.timeline, self.spec.columns)

    @cached_property
    def every_partition(self) -> frozenset[str]:
        """All partitions that exist, and those that commits name but whose folder was deleted."""
        return frozenset(self.view.partitions()) | recorded_partitions(self.view)

    def slices(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileSlice]]:
        """Return the current file slices of each partition."""
        listed = sorted(set(partitions))
        self.view.list_partitions(listed)
        return {partition: self.view.slices(partition) for partition in listed}

    def whole_slices(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileSlice]]:
        """Return the current file slices of each partition, after checking them for damage.

        A write calls this before it builds on the files.

        Raises:
            CorruptTableError: If files of these partitions are missing or damaged.
        """
        slices = self.slices(partitions)
        check_partitions(self.handle, self.view, slices.keys())
        return slices

    def with_key_ranges(self, files: Sequence[FileSlice]) -> list[FileSlice]:
        """Return the files with row counts, key ranges and encryption, from statistics or footers."""
        keys = self.stored_keys
        known = look_up(self.handle.store, files, columns=() if keys.rules is None else keys.columns[:1])
        found = []
        for file in files:
            of_file = known[file.path]
            bounds = (
                (of_file.min_key, of_file.max_key) if keys.rules is None else keys.bounds_in(of_file.columns)
            )
            low, high = bounds or (None, None)
            found.append(
                replace(file, rows=of_file.rows, min_key=low, max_key=high, encrypted=of_file.encrypted)
            )
        return found
