"""A clustering that is not kept, which makes the files of a real one, except for their names.

The task that rewrites groups runs on a store that reads the table. Of each file that it writes, the store
keeps the page indexes and the footer, from which reads are counted. Nothing is written to the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import pyarrow as pa

from parquetry.errors import message_of
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, GroupForecast
from parquetry.runtime.clustering.forecast.tried_encoding import FORECAST_INSTANT
from parquetry.runtime.clustering.rewrite.order import row_order
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.errors import NotFoundError, RetryWrite, StaleTimelineError
from parquetry.runtime.layout.clustering.model import ClusteringFile
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.parquet.tail import MAGIC
from parquetry.runtime.spec.avro import table_avro_schema, with_meta_columns
from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectInfo, Objects, ObjectStore, Paths, PutOutcome
from parquetry.runtime.storage.regular_file import MOST_BYTES

_KEPT_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of the table's files that are kept in memory for the next layout."""


class DryRun:
    """Rewrites groups of a table and keeps no rows of the new files.

    Its memory is that of a rewriting task, one new file, and the first 32 MiB of the table's files. These are
    read once for any number of layouts, and the other files once for each layout.
    """

    def __init__(self, store: ObjectStore, spec: TableSpec, queries: DeclaredQueries) -> None:
        self._store = _DryRunStore(store)
        self._spec = spec
        self._queries = queries

    def forecast(
        self,
        groups: Sequence[Sequence[ClusteringFile]],
        known: Mapping[str, FileStatistics],
        execution: ExecutionPolicy,
        *,
        target_bytes: int,
    ) -> list[GroupForecast]:
        """Return the forecast of each group, in the order of the groups.

        New files have the pages that the queries need. They contain the digest of the layout, because files
        without one are assumed to have usual pages.

        Args:
            groups: The groups of files.
            known: The statistics of the existing files, by path.
            execution: The execution policy.
            target_bytes: The target file size.

        Raises:
            StaleTimelineError: If a file was cleaned meanwhile.

        """
        context = WriteContext(
            store=self._store,
            instant=FORECAST_INSTANT,
            schema=arrow_schema(self._spec.columns),
            avro_schema=with_meta_columns(table_avro_schema(self._spec.name, self._spec.columns)),
            files=self._spec.files,
            max_file_size_bytes=self._spec.sizing.max_file_size_bytes,
            guard=_NoGuard(),
            has_markers=True,
            clustering=execution.digest,
        )
        forecasts: list[GroupForecast] = []
        for number, files in enumerate(groups):
            work = GroupWork(
                index=number,
                partition=files[0].partition,
                slices=tuple(files),
                target_bytes=target_bytes,
                order=row_order(execution),
            )
            try:
                written = {file.stat.path: file.statistics for file in rewrite_group(context, work).files}
            except (NotFoundError, RetryWrite) as gone:
                raise StaleTimelineError(
                    "{table}: {reason}", table=self._store.uri, reason=message_of(gone)
                ) from gone
            made = with_pages(self._store, written, self._queries.predicates, self._queries.types)
            self._store.delete_all(written)
            forecasts.append(self._queries.forecast([known[file.path] for file in files], [*made.values()]))
        return forecasts


class _NoGuard:
    """A guard for writes in memory, where no bucket is abandoned."""

    def is_abandoned(self, store: ObjectStore, bucket: int) -> bool:
        del store, bucket
        return False

    def is_pending(self, store: ObjectStore) -> bool:
        del store
        return True

    def is_published(self, store: ObjectStore) -> bool:
        del store
        return False


class _IndexOnly:
    """A written parquet file without its pages, in whose place zeros are read."""

    def __init__(self, content: pa.Buffer) -> None:
        parts = ParquetParts(pa.BufferReader(content))
        pages_bytes = sum(parts.stored_bytes(group) for group in range(len(parts.groups)))
        self._size = len(content)
        self._start = len(MAGIC) + pages_bytes
        self._end = bytes(content[self._start :])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def size(self) -> int:
        return self._size

    def read_at(self, count: int, at: int) -> bytes:
        before = bytes(min(max(self._start - at, 0), count))
        first = max(at - self._start, 0)
        return before + self._end[first : first + count - len(before)]


class _DryRunStore:
    """A store that reads another one, and keeps the ends of the files that are written."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner
        self._read: dict[str, pa.Buffer] = {}
        self._written: dict[str, _IndexOnly] = {}

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def allowed(self) -> Allowed:
        return self._inner.allowed

    def read(self, path: str, *, most_bytes: int = MOST_BYTES, listed: ObjectInfo | None = None) -> bytes:
        return self._inner.read(path, most_bytes=most_bytes, listed=listed)

    def read_range(self, path: str, start: int, stop: int) -> bytes:
        return self._inner.read_range(path, start, stop)

    def open_input(self, path: str) -> Any:
        if path in self._written:
            return self._written[path]
        if path not in self._read:
            content = self._inner.open_input(path)
            if sum(map(len, self._read.values())) + content.size() > _KEPT_BYTES:
                return content
            with content:
                self._read[path] = pa.py_buffer(content.read())
        return pa.BufferReader(self._read[path])

    def stat(self, path: str) -> ObjectInfo | None:
        return self._inner.stat(path)

    def list(self, prefix: str = "", *, recursive: bool = False) -> Objects:
        return self._inner.list(prefix, recursive=recursive)

    def list_each(self, prefixes: Iterable[str]) -> dict[str, Objects]:
        return self._inner.list_each(prefixes)

    def list_folders(self, prefix: str = "") -> Paths:
        return self._inner.list_folders(prefix)

    def put(self, path: str, data: bytes) -> None:
        """Do nothing: a rewriting task puts markers only."""

    def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
        del path, data, nonce
        return PutOutcome.WON

    @contextmanager
    def create_file(self, path: str) -> Iterator[Any]:
        sink = pa.BufferOutputStream()
        yield sink
        self._written[path] = _IndexOnly(sink.getvalue())

    def move(self, path: str, to: str) -> None:
        if path in self._written:
            self._written[to] = self._written.pop(path)

    def delete(self, path: str) -> None:
        self._written.pop(path, None)

    def delete_all(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            self.delete(path)

    def delete_folder(self, prefix: str, *, objects: Iterable[str] | None = None) -> None:
        del objects
        self.delete_all([path for path in self._written if path.startswith(f"{prefix}/")])

    def now_ms(self) -> int:
        return self._inner.now_ms()

    def spark_uri(self, path: str) -> str:
        return self._inner.spark_uri(path)
