"""A table in Python, without YAML: open it, read it, write it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from parquetry.errors import UsageError
from parquetry.in_python import worded
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.clustering.plan.execution import masked_clustering
from parquetry.runtime.commit.outcome import CommitResult, masked_commit
from parquetry.runtime.commit.rollback import RollbackResult
from parquetry.runtime.layout.clustering.run_budget import RunBudget
from parquetry.runtime.services.accepted_loss import accept_loss
from parquetry.runtime.services.archive import ArchiveResult, archive
from parquetry.runtime.services.clean import CleanResult, clean
from parquetry.runtime.services.restore import RestoreResult, restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import SavepointResult, create_savepoint, delete_savepoint
from parquetry.runtime.spark_environment import STORAGE_VARIABLES, key_variables
from parquetry.runtime.spark_log import LogRules
from parquetry.runtime.spec.job import SparkSettings, TableOwner
from parquetry.runtime.spec.masking import failures_masked, has_personal_columns
from parquetry.runtime.spec.table_spec import Operation, TableSpec, Ties
from parquetry.runtime.storage.open import ObjectStore, open_store
from parquetry.runtime.table.applied import check_owned, write_applied
from parquetry.runtime.table.open import TableHandle, create_table, open_table
from parquetry.runtime.write.partition_deletion import delete_partitions
from parquetry.runtime.write.request import WriteRequest

if TYPE_CHECKING:
    import datetime as dt

    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from parquetry.compiler.reports.inspection import LayoutReport
    from parquetry.compiler.reports.timeline import TimelineReport
    from parquetry.runtime.arrow.local_rows import ArrowStream
    from parquetry.runtime.clustering.plan.execution import ClusteringResult

    Rows: TypeAlias = DataFrame | pd.DataFrame | pa.RecordBatch | ArrowStream

Uri = str | os.PathLike[str]

_BATCH_OPERATIONS: Final = tuple(str(o) for o in Operation if o is not Operation.DELETE_PARTITION)


class Table:
    """A table at a location. It keeps no state: every call sees the table as it is then.

    Writes return a :class:`CommitResult`; its ``instant`` is None when there was nothing to write.
    They raise InvalidDataError, with nothing written, for rows that the table cannot take, and
    ConflictError when other writers won every time.

    Rows are a Spark DataFrame, a pandas DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or any
    object with the Arrow stream interface (polars, DuckDB); TypeError for everything else. Rows that Spark
    does not have yet are given the types that the table declares, a batch at a time; InvalidDataError names
    a column with a value that its type does not hold. Where a method needs Spark and gets no session, it
    takes the one that is running, or starts one on this machine.
    """

    def __init__(self, store: ObjectStore, *, owner: TableOwner | None = None) -> None:
        self._store = store
        self._owner = owner

    def __repr__(self) -> str:
        return f"Table({self._store.uri!r})"

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self._store.uri

    @property
    def name(self) -> str:
        """The table's own name."""
        return self._handle().name

    @property
    def spec(self) -> TableSpec:
        """The spec in force: what was applied, with the columns that the table has now."""
        handle = self._handle()
        return handle.effective_spec(handle.timeline())

    def upsert(
        self, rows: Rows, *, delete_when: str | None = None, drop: Sequence[str] = (), ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Replace the rows whose record key is there, insert the others.

        Of rows with one key the one with the largest ordering value counts; a stored row with a larger one
        stays. Of several the last one of pandas or Arrow counts. Rows of Spark have no order:
        InvalidDataError where they differ, but with ``ties='any'`` one of them counts. Rows that fulfil
        ``delete_when`` (SQL over their columns), or have a true ``_hoodie_is_deleted``, delete: the row of
        their key in their partition, or, where all their partition columns are null and no such row has the
        key, those of all partitions. ``drop`` names columns that only ``delete_when`` needs.
        """
        request = WriteRequest(
            operation=Operation.UPSERT, delete_when=delete_when, drop=tuple(drop), ties=_ties(ties)
        )
        return self._write(rows, request)

    def insert(
        self,
        rows: Rows,
        *,
        drop: Sequence[str] = (),
        drop_duplicates: bool = False,
        ties: str = Ties.REFUSE,
    ) -> CommitResult:
        """Add the rows without looking their keys up; small files are filled first.

        ``drop_duplicates`` keeps one row per key of these rows: the one that counts in an upsert.
        """
        request = WriteRequest(
            operation=Operation.INSERT,
            drop=tuple(drop),
            drop_duplicates=drop_duplicates,
            ties=_ties(ties),
        )
        return self._write(rows, request)

    def bulk_insert(
        self, rows: Rows, *, drop_duplicates: bool = False, ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Add the rows in new files, in the order in which they come."""
        request = WriteRequest(
            operation=Operation.BULK_INSERT, drop_duplicates=drop_duplicates, ties=_ties(ties)
        )
        return self._write(rows, request)

    def insert_overwrite(
        self, rows: Rows, *, drop_duplicates: bool = False, ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Replace the whole content of every partition that the rows touch."""
        request = WriteRequest(
            operation=Operation.INSERT_OVERWRITE, drop_duplicates=drop_duplicates, ties=_ties(ties)
        )
        return self._write(rows, request)

    def insert_overwrite_table(
        self, rows: Rows, *, drop_duplicates: bool = False, ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Replace the whole content of the table; without rows it is empty afterwards."""
        request = WriteRequest(
            operation=Operation.INSERT_OVERWRITE_TABLE, drop_duplicates=drop_duplicates, ties=_ties(ties)
        )
        return self._write(rows, request)

    def delete(
        self, rows: Rows, *, match: Sequence[str] = (), delete_when: str | None = None
    ) -> CommitResult:
        """Remove rows by record key, or every row that agrees with one of ``rows`` in ``match`` columns.

        ``rows`` need the key's columns, or ``_hoodie_record_key``. With those of the partition only
        that is searched, unless all of them are null and no such row has the key; under
        ``key_scope: table`` a key is one row wherever it lies, and all partitions are searched. If
        they have the ordering column, a stored row with a larger value stays. Of ``rows`` only those
        count that fulfil ``delete_when``.
        """
        request = WriteRequest(operation=Operation.DELETE, match=tuple(match), delete_when=delete_when)
        return self._write(rows, request)

    @worded()
    def delete_partition(self, partitions: Iterable[str | Mapping[str, Any]]) -> CommitResult:
        """Remove partitions, each given by its path or by a value per partition column.

        A value is of the column's type, or the text of one; InvalidDataError for any other.
        """
        return delete_partitions(self._handle(), partitions)

    @worded()
    def read(
        self,
        spark: SparkSession | None = None,
        *,
        as_of: str | dt.date | None = None,
        since: str | dt.date | None = None,
        until: str | dt.date | None = None,
        where: str | None = None,
        meta: bool = False,
    ) -> DataFrame:
        """The rows, lazily: now, ``as_of`` a time, or written after ``since`` and up to ``until``.

        Times are instants, 'yyyy-MM-dd[ HH:mm:ss[.SSS]]' in the table's zone (UTC), dates or
        datetimes. ``where`` is SQL; files that cannot hold such a row are not opened. ``meta`` adds
        Hudi's five columns.
        """
        from parquetry.runtime.spark.read.table import read_table  # noqa: PLC0415 - heavy

        handle = self._handle()
        session = spark or self._session(handle)
        with failures_masked(handle.spec, location=handle.store.uri):
            return read_table(session, handle, as_of=as_of, since=since, until=until, where=where, meta=meta)

    @worded()
    def batch_writer(
        self,
        operation: str,
        *,
        stream: str | None = None,
        delete_when: str | None = None,
        match: Sequence[str] = (),
        drop: Sequence[str] = (),
        drop_duplicates: bool = False,
        ties: str = Ties.REFUSE,
    ) -> Callable[[DataFrame, int], None]:
        """A function for ``writeStream.foreachBatch`` that writes every micro-batch once.

        ``operation`` is ``upsert``, ``insert``, ``bulk_insert``, ``insert_overwrite``,
        ``insert_overwrite_table`` or ``delete``, UsageError for any other; ``stream`` names the record of
        batches, by default Spark's query id does.
        """
        if operation not in _BATCH_OPERATIONS:
            near = get_close_matches(str(operation).lower(), _BATCH_OPERATIONS, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"operations are {', '.join(_BATCH_OPERATIONS)}"
            raise UsageError(f"a batch writer has no operation {operation!r}; {known}")
        from parquetry.runtime.spark.stream import batch_writer  # noqa: PLC0415 - heavy

        request = WriteRequest(
            operation=Operation(operation),
            delete_when=delete_when,
            match=tuple(match),
            drop=tuple(drop),
            drop_duplicates=drop_duplicates,
            ties=_ties(ties),
        )
        return batch_writer(self._store, request, owner=self._owner, stream=stream)

    @worded()
    def timeline(self, instant: str | None = None) -> TimelineReport:
        """What happened to the table, by instant, or about one of them."""
        from parquetry.compiler.reports.timeline import report_timeline  # noqa: PLC0415 - heavy

        return report_timeline(self._owned(), instant=instant)

    @worded()
    def inspect(self) -> LayoutReport:
        """The files by partition, and what declared queries have to read."""
        from parquetry.compiler.reports.inspection import inspect_table  # noqa: PLC0415 - heavy

        return inspect_table(self._owned())

    @worded()
    def savepoint(self, instant: str | None = None, *, comment: str = "") -> SavepointResult:
        """Protect the table as of a commit from cleaning, by default the newest before unfinished ones."""
        return create_savepoint(self._handle(), instant, comment=comment)

    @worded()
    def delete_savepoint(self, instant: str) -> None:
        """Give a savepoint up."""
        delete_savepoint(self._handle(), instant)

    @worded()
    def restore(self, savepoint: str) -> RestoreResult:
        """Take the table back to a savepoint; everything later is removed."""
        return restore(self._handle(), savepoint)

    @worded()
    def rollback(self, instant: str) -> RollbackResult:
        """Undo the newest commit, or a pending one whose writer is dead."""
        return rollback(self._handle(), instant)

    @worded()
    def accept_loss(self) -> CommitResult:
        """Give up the rows of base files that are gone, or not of the size that their commits wrote.

        Their file groups are replaced by nothing, older versions included; reads and writes go on then.
        """
        return accept_loss(self._handle())

    @worded()
    def clean(self) -> CleanResult:
        """Remove file versions that the retention policy no longer keeps."""
        return clean(self._handle())

    @worded()
    def archive(self) -> ArchiveResult:
        """Move old instants to the archive."""
        return archive(self._handle())

    @worded()
    def cluster(
        self,
        spark: SparkSession | None = None,
        *,
        instant: str | None = None,
        budget_bytes: int | None = None,
    ) -> ClusteringResult:
        """Rewrite files as the clustering section of the applied spec asks; what was done.

        Rows keep their commit times, so incremental readers do not see them again. ``budget_bytes``
        limits the bytes that are rewritten. With ``instant`` the pending plan of that time is executed
        instead, also one that Hudi has scheduled. Files that writers changed meanwhile are left out.

        When a part of it cannot be done, a PartialFailureError says what of it stands; when nothing could
        be, the failure itself is raised.
        """
        from parquetry.runtime.spark.cluster import cluster, execute  # noqa: PLC0415 - heavy

        handle = self._handle()
        session = spark or self._session(handle)
        with failures_masked(handle.spec, location=handle.store.uri):
            if instant is not None:
                result = execute(session, handle, instant)
            else:
                result = cluster(session, handle, budget=RunBudget(limit_bytes=budget_bytes))
        return masked_clustering(result, handle.spec, location=handle.store.uri)

    def _handle(self) -> TableHandle:
        return open_table(self._store, owner=self._owner)

    def _owned(self) -> ObjectStore:
        """The store, after it was asked whose table it holds where that was named in a project."""
        if self._owner is not None:
            check_owned(self._store, self._owner)
        return self._store

    def _session(self, handle: TableHandle) -> SparkSession:
        from parquetry.runtime.spark.session.start import start_session  # noqa: PLC0415 - heavy

        # The process may open tables elsewhere later, and the JVM keeps the variables that it starts with.
        rules = LogRules(personal=has_personal_columns(handle.spec))
        names = (*STORAGE_VARIABLES, *key_variables(handle.store.allowed.keys))
        settings = SparkSettings(environment=names)
        return start_session(settings, name=f"parquetry {self.name}", rules=rules)

    @worded()
    def _write(self, rows: Rows, request: WriteRequest) -> CommitResult:
        from parquetry.runtime.arrow.local_rows import check_rows  # noqa: PLC0415 - heavy

        check_rows(rows)
        handle = self._handle()
        from parquetry.runtime.spark.write import write  # noqa: PLC0415 - heavy

        spark = getattr(rows, "sparkSession", None) or self._session(handle)
        with failures_masked(handle.spec, location=handle.store.uri):
            result = write(spark, handle, rows, request)
        return masked_commit(result, handle.spec, location=handle.store.uri)


def _ties(ties: str) -> Ties:
    try:
        return Ties(ties)
    except ValueError:
        raise UsageError(f"ties is {', '.join(Ties)}, not {ties!r}") from None


@worded()
def open(  # noqa: A001 - parquetry.open
    uri: Uri,
    options: Mapping[str, Any] | None = None,
    *,
    keys: Iterable[str] = (),
    strategies: Iterable[str] = (),
) -> Table:
    """The table at a path or URI; ``options`` are fsspec's for its store.

    ``keys`` are references to the keys that its files may be encrypted by, such as ``env:FLIGHTS_KEY``, and
    ``strategies`` the names of clustering strategies of plug-ins that it may use. What the table itself names
    beside these is refused.

    TableNotFoundError when there is none, UnsupportedTableError for one that is no copy-on-write
    table of version 6.
    """
    allowed = Allowed(keys=frozenset(keys), strategies=frozenset(strategies))
    store = open_store(uri, options, allowed)
    open_table(store)
    return Table(store)


@worded()
def create(
    uri: Uri, spec: TableSpec, *, project: str = "python", options: Mapping[str, Any] | None = None
) -> Table:
    """The table of a spec, created if it is not there; ``project`` is recorded as its owner.

    A table that is there already keeps the spec that was applied to it. StalePlanError when it was
    created by another spec or project.
    """
    store = open_store(uri, options, spec.allowed)
    if create_table(store, spec, project=project).applied is None:
        write_applied(store, spec, number=1)
    return Table(store)
