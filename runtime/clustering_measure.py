"""What clustering was good for: what declared queries had to read of the files, and have to read now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any, Final

from parquetry.runtime.clustering_execution import RewrittenGroup
from parquetry.runtime.layout.file_statistics import FileStatistics
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping import Types, column_types, parse_where, touched
from parquetry.runtime.spec import TableSpec
from parquetry.runtime.statistics import look_up
from parquetry.runtime.storage import ObjectStore

MEASURED_KEY: Final = "parquetry.measured"
"""Where a replacecommit says it, in JSON."""


class QueryMeasure:
    """Measures the queries of a spec on the files of groups, by statistics alone.

    Times without zone in queries are in UTC, as in ``inspect``.
    """

    def __init__(self, spec: TableSpec) -> None:
        self._queries: Sequence[Mapping[str, Any]] = tuple(spec.extra.get("queries") or ())
        self._types: Types = column_types(spec.columns)
        self._before: Mapping[str, FileStatistics] = {}

    def look_up(self, store: ObjectStore, slices: Sequence[FileSlice]) -> None:
        """Read the recorded statistics of the files before they are rewritten, if there is a query."""
        if self._queries:
            self._before = look_up(store, slices)

    def measured(self, groups: Sequence[RewrittenGroup]) -> dict[str, str]:
        """What the commit says: by query the files, row groups and rows to read, before and after."""
        if not self._queries:
            return {}
        before = [self._before[part.path] for group in groups for part in group.work.slices]
        after = [file.statistics for group in groups for file in group.files]
        said = [
            {
                "query": query["name"],
                "before": self._touched(query["where"], before),
                "after": self._touched(query["where"], after),
            }
            for query in self._queries
        ]
        return {MEASURED_KEY: json.dumps(said, separators=(",", ":"))}

    def _touched(self, where: str, files: Iterable[FileStatistics]) -> dict[str, int]:
        condition = parse_where(where, types=self._types, time_zone=UTC)
        return asdict(touched(list(files), condition, self._types))
