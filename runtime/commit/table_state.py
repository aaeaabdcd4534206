"""A table as of one timeline, as far as a write needs to know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from parquetry.runtime.commit.damaged_files import check_partitions, named_partitions
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.key_generator import KeyEncoding
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.table.partition_path import KeyRules
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline


@dataclass(frozen=True, kw_only=True)
class TableState:
    """A table as of one timeline, as far as a write needs to know it."""

    handle: TableHandle
    timeline: Timeline

    @cached_property
    def spec(self) -> TableSpec:
        """The spec in force."""
        return self.handle.effective_spec(self.timeline)

    @cached_property
    def view(self) -> FileSystemView:
        """The files."""
        return self.handle.view(self.timeline)

    @cached_property
    def rules(self) -> KeyRules:
        """How keys and partition paths are spelled."""
        config = self.handle.config
        named = bool(config.record_key) and self.handle.key_encoding(self.view) is KeyEncoding.PREFIXED
        return KeyRules.of(config, named_key=named)

    @property
    def schema_json(self) -> str:
        """The Avro schema that a commit carries."""
        return self.handle.schema_json(self.timeline, self.spec.columns)

    @cached_property
    def every_partition(self) -> frozenset[str]:
        """The partitions that are there, and those that writes filled and somebody deleted as a whole."""
        return frozenset(self.view.partitions()) | named_partitions(self.view)

    def slices(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileSlice]]:
        """The current files of the partitions."""
        listed = sorted(set(partitions))
        return dict(zip(listed, map_each(listed, self.view.slices), strict=True))

    def whole_slices(self, partitions: Iterable[str]) -> Mapping[str, Sequence[FileSlice]]:
        """The same for a write that builds on them; CorruptTableError when files are gone or damaged."""
        slices = self.slices(partitions)
        check_partitions(self.handle, self.view, slices.keys())
        return slices

    def with_key_ranges(self, files: Sequence[FileSlice]) -> list[FileSlice]:
        """The files with their rows and key ranges, from recorded statistics or footers."""
        known = look_up(self.handle.store, files, columns=())
        return [
            replace(
                f,
                rows=known[f.path].rows,
                min_key=known[f.path].min_key,
                max_key=known[f.path].max_key,
                encrypted=known[f.path].encrypted,
            )
            for f in files
        ]
