"""A table in Python, without YAML: open it, read it, write it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack

from parquetry.errors import ParquetryError, UsageError
from parquetry.in_python import in_python, python_messages, with_texts
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.commit.rollback import RollbackResult
from parquetry.runtime.layout.clustering.run_budget import RunBudget
from parquetry.runtime.publish.publishing import PublishResult, formats_of, publish
from parquetry.runtime.services.accepted_loss import accept_loss
from parquetry.runtime.services.archive import ArchiveResult, archive
from parquetry.runtime.services.clean import CleanResult, clean
from parquetry.runtime.services.restore import RestoreResult, restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import SavepointResult, create_savepoint, delete_savepoint
from parquetry.runtime.spark_environment import STORAGE_VARIABLES, key_variables
from parquetry.runtime.spark_log import LogRules
from parquetry.runtime.spec.job import SparkSettings, TableOwner
from parquetry.runtime.spec.masking import has_personal_columns
from parquetry.runtime.spec.table_spec import CatalogType, Operation, TableSpec, TargetCatalog, Ties
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import check_owned, write_applied
from parquetry.runtime.table.handle import TableHandle, create_table, open_table
from parquetry.runtime.write.partition_deletion import delete_partitions
from parquetry.runtime.write.request import WriteRequest
from parquetry.text.html import html_table

if TYPE_CHECKING:
    import datetime as dt

    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

    from parquetry.compiler.reports.inspection import LayoutReport
    from parquetry.compiler.reports.timeline import TimelineReport
    from parquetry.runtime.arrow.local_rows import ArrowStream
    from parquetry.runtime.clustering.plan.execution import ClusteringResult

    Rows: TypeAlias = DataFrame | pd.DataFrame | pa.RecordBatch | ArrowStream

Uri = str | os.PathLike[str]


class ReadArguments(TypedDict, total=False):
    """The arguments of :meth:`Table.to_batches`."""

    columns: Sequence[str] | None
    where: str | None
    as_of: str | dt.date | None
    since: str | dt.date | None
    until: str | dt.date | None
    meta: bool


_BATCH_OPERATIONS: Final = tuple(str(o) for o in Operation if o is not Operation.DELETE_PARTITION)


class Table:
    """A table at a location. Every call sees the current state of the table.

    Writes return a :class:`CommitResult`; its ``instant`` is None if there was nothing to write. They raise
    InvalidDataError, with nothing written, for rows that do not fit the table, and ConflictError if other
    writers won every attempt.

    Rows are a Spark DataFrame, a pandas DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or any
    object with the Arrow stream interface (polars, DuckDB); TypeError for everything else. Rows that do not
    come from Spark are converted to the types of the table, one batch at a time; InvalidDataError names the
    column if a value does not fit its type. If a method needs Spark and gets no session, it uses the running
    session, or starts one on this machine.
    """

    def __init__(self, store: ObjectStore, *, owner: TableOwner | None = None) -> None:
        self._store = store
        self._owner = owner

    def __repr__(self) -> str:
        return f"Table({self._store.uri!r})"

    def _repr_html_(self) -> str:
        """Return the columns as a table for notebooks, or the location alone if the table cannot be opened.

        Unlike ``repr``, this reads the table's properties, its newest commit and its applied spec.
        """
        try:
            spec = self.spec
        except ParquetryError as error:
            return html_table(repr(self), [("error", in_python(error.message))])
        roles = (("key", spec.record_key), ("partition", spec.partition_by))
        columns = (
            (c.name, c.type, ", ".join(role for role, names in roles if c.name in names))
            for c in spec.columns
        )
        return html_table(f"{spec.name}: {self!r}", columns, header=("column", "type", "role"))

    @property
    def uri(self) -> str:
        """The location of the table."""
        return self._store.uri

    @property
    def name(self) -> str:
        """The table's own name."""
        return self._handle().name

    @property
    def spec(self) -> TableSpec:
        """The effective spec: the applied one, with the columns that the table has now."""
        handle = self._handle()
        return handle.effective_spec(handle.timeline())

    def upsert(
        self, rows: Rows, *, delete_when: str | None = None, drop: Sequence[str] = (), ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Replace the rows whose record keys exist, and insert the others.

        If several rows have one key, the row with the largest ordering value wins. A stored row with a larger
        ordering value stays. Among rows with equal ordering values, the last one of pandas or Arrow wins;
        rows of Spark have no order.

        Rows that fulfil ``delete_when``, or have a true ``_hoodie_is_deleted``, delete the stored row with
        their key in their partition. If all their partition columns are null and no row in that partition has
        the key, they delete the rows with the key in all partitions.

        Args:
            rows: The rows.
            delete_when: An SQL condition over the columns of ``rows``.
            drop: Columns that only ``delete_when`` needs, which are not written.
            ties: ``refuse``, or ``any`` to write any one of several rows of Spark that have equal keys and
                ordering values.

        Raises:
            InvalidDataError: Rows of Spark with equal keys and ordering values differ, and ``ties`` is
                ``refuse``.

        """
        request = WriteRequest(
            operation=Operation.UPSERT, delete_when=delete_when, drop=tuple(drop), ties=_parse_ties(ties)
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
        """Add the rows without an index lookup; small files are filled first.

        Args:
            rows: The rows.
            drop: Columns that are not written.
            drop_duplicates: Keep one row per key of these rows, the one that would win in an upsert.
            ties: As in :meth:`upsert`.

        """
        request = WriteRequest(
            operation=Operation.INSERT,
            drop=tuple(drop),
            drop_duplicates=drop_duplicates,
            ties=_parse_ties(ties),
        )
        return self._write(rows, request)

    def bulk_insert(
        self, rows: Rows, *, drop_duplicates: bool = False, ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Add the rows in new files, in the order of the rows."""
        request = WriteRequest(
            operation=Operation.BULK_INSERT, drop_duplicates=drop_duplicates, ties=_parse_ties(ties)
        )
        return self._write(rows, request)

    def insert_overwrite(
        self, rows: Rows, *, drop_duplicates: bool = False, ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Replace the whole content of every partition that has one of the rows."""
        request = WriteRequest(
            operation=Operation.INSERT_OVERWRITE, drop_duplicates=drop_duplicates, ties=_parse_ties(ties)
        )
        return self._write(rows, request)

    def insert_overwrite_table(
        self, rows: Rows, *, drop_duplicates: bool = False, ties: str = Ties.REFUSE
    ) -> CommitResult:
        """Replace the whole content of the table; without rows the table becomes empty."""
        request = WriteRequest(
            operation=Operation.INSERT_OVERWRITE_TABLE,
            drop_duplicates=drop_duplicates,
            ties=_parse_ties(ties),
        )
        return self._write(rows, request)

    def delete(
        self, rows: Rows, *, match: Sequence[str] = (), delete_when: str | None = None
    ) -> CommitResult:
        """Delete rows by record key, or every row that equals one of ``rows`` in the ``match`` columns.

        If ``rows`` have the partition columns, only that partition is searched, unless all of them are null
        and no row in that partition has the key. Under ``key_scope: table`` a key identifies one row in any
        partition, so all partitions are searched. If ``rows`` have the ordering column, a stored row with a
        larger value stays.

        Args:
            rows: The keys to delete, with the columns of the record key or ``_hoodie_record_key``.
            match: Columns to compare instead of the record key.
            delete_when: An SQL condition; only ``rows`` that fulfil it delete.

        """
        request = WriteRequest(operation=Operation.DELETE, match=tuple(match), delete_when=delete_when)
        return self._write(rows, request)

    @python_messages()
    def delete_partition(self, partitions: Iterable[str | Mapping[str, Any]]) -> CommitResult:
        """Delete partitions, each given by its path or by one value per partition column.

        A value is of the column's type, or its text.

        Raises:
            InvalidDataError: A value has another type.

        """
        with self._opened() as handle:
            return with_texts(handle.cleared(delete_partitions(handle, partitions)))

    @python_messages()
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
        """Return the current rows, those at a past time, or those written in an interval, as a DataFrame.

        The DataFrame is lazy: Spark reads the files when it is evaluated.

        Times are instants, 'yyyy-MM-dd[ HH:mm:ss[.SSS]]' in the table's time zone (UTC), dates or datetimes.

        Args:
            spark: The session; None for the running one, or a new one.
            as_of: Read the rows as of this time.
            since: Read only rows that were written after this time.
            until: Read only rows that were written up to this time, inclusive.
            where: An SQL condition. Files that cannot contain a matching row are not opened.
            meta: Add Hudi's five meta columns.

        """
        from parquetry.runtime.spark.read.table import read_table  # noqa: PLC0415 - heavy

        with self._opened() as handle:
            session = spark or self._session(handle)
            return read_table(session, handle, as_of=as_of, since=since, until=until, where=where, meta=meta)

    @python_messages()
    def to_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: str | dt.date | None = None,
        since: str | dt.date | None = None,
        until: str | dt.date | None = None,
        meta: bool = False,
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream of Arrow batches, without Spark and in bounded memory.

        Files, row groups and pages that cannot contain a matching row are not read. Numbers of 8 and 16 bits
        have 32 bits.

        Args:
            columns: The names of the columns to read, in the order of the result; None for all.
            where: An SQL condition that compares columns with literals, with AND, OR, NOT, IN, BETWEEN, LIKE
                and IS NULL. Times without a zone are in UTC.
            as_of: As in :meth:`read`.
            since: As in :meth:`read`.
            until: As in :meth:`read`.
            meta: Add Hudi's five meta columns.

        Raises:
            InvalidDataError: There is no such column, or only Spark can evaluate the condition.

        """
        from parquetry.runtime.read.rows import read_rows  # noqa: PLC0415 - heavy

        with self._opened() as handle:
            return read_rows(
                handle, columns=columns, where=where, as_of=as_of, since=since, until=until, meta=meta
            )

    @python_messages()
    def scan(self, **read: Unpack[ReadArguments]) -> ds.Scanner:
        """Return the rows as a scanner of ``pyarrow.dataset``, which can be consumed once.

        The scanner reads further ahead than :meth:`to_batches`. The arguments are those of
        :meth:`to_batches`.
        """
        from pyarrow.dataset import Scanner  # noqa: PLC0415 - heavy

        return Scanner.from_batches(self.to_batches(**read))

    @python_messages()
    def to_arrow(self, **read: Unpack[ReadArguments]) -> pa.Table:
        """Return the rows as a table of pyarrow. The arguments are those of :meth:`to_batches`."""
        return self.to_batches(**read).read_all()

    @python_messages()
    def to_pandas(self, **read: Unpack[ReadArguments]) -> pd.DataFrame:
        """Return the rows as a DataFrame of pandas. The arguments are those of :meth:`to_batches`."""
        frame: pd.DataFrame = self.to_arrow(**read).to_pandas()
        return frame

    @python_messages()
    def to_polars(self, **read: Unpack[ReadArguments]) -> pl.DataFrame:
        """Return the rows as a DataFrame of Polars, which must be installed.

        The arguments are those of :meth:`to_batches`.
        """
        import polars as pl  # noqa: PLC0415 - of the user

        return pl.DataFrame(self.to_arrow(**read))

    @python_messages()
    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection, name: str, **read: Unpack[ReadArguments]
    ) -> None:
        """Register the rows as a view of a connection of DuckDB. Each query of the view reads the table.

        Args:
            connection: The connection.
            name: The name of the view.
            **read: The arguments of :meth:`to_batches`.

        """
        connection.register(name, RowStream(self, read))

    @python_messages()
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
        """Return a function for ``writeStream.foreachBatch`` that writes every micro-batch exactly once.

        Args:
            operation: ``upsert``, ``insert``, ``bulk_insert``, ``insert_overwrite``,
                ``insert_overwrite_table`` or ``delete``.
            stream: The name under which the written batches are recorded; None for Spark's query id.
            delete_when: As in :meth:`upsert` and :meth:`delete`.
            match: As in :meth:`delete`.
            drop: As in :meth:`upsert`.
            drop_duplicates: As in :meth:`insert`.
            ties: As in :meth:`upsert`.

        Raises:
            UsageError: The operation is not one of these.

        """
        if operation not in _BATCH_OPERATIONS:
            near = get_close_matches(str(operation).lower(), _BATCH_OPERATIONS, n=1)
            known = f"did you mean {near[0]!r}?" if near else f"operations are {', '.join(_BATCH_OPERATIONS)}"
            raise UsageError(
                "a batch writer has no operation {operation}; {hint}", operation=repr(operation), hint=known
            )
        from parquetry.runtime.spark.stream import batch_writer  # noqa: PLC0415 - heavy

        request = WriteRequest(
            operation=Operation(operation),
            delete_when=delete_when,
            match=tuple(match),
            drop=tuple(drop),
            drop_duplicates=drop_duplicates,
            ties=_parse_ties(ties),
        )
        return batch_writer(self._store, request, owner=self._owner, stream=stream)

    @python_messages()
    def timeline(self, instant: str | None = None) -> TimelineReport:
        """Return a report of all instants of the table, or of one."""
        from parquetry.compiler.reports.timeline import report_timeline  # noqa: PLC0415 - heavy

        return with_texts(report_timeline(self._checked_store(), instant=instant))

    @python_messages()
    def inspect(self) -> LayoutReport:
        """Return a report of the files by partition, and of what declared queries have to read."""
        from parquetry.compiler.reports.inspection import inspect_table  # noqa: PLC0415 - heavy

        return with_texts(inspect_table(self._checked_store()))

    @python_messages()
    def savepoint(self, instant: str | None = None, *, comment: str = "") -> SavepointResult:
        """Protect the table as of a commit from cleaning.

        Args:
            instant: The commit; None for the newest one before any unfinished write.
            comment: The reason, stored with the savepoint.

        """
        return create_savepoint(self._handle(), instant, comment=comment)

    @python_messages()
    def delete_savepoint(self, instant: str) -> None:
        """Delete a savepoint."""
        delete_savepoint(self._handle(), instant)

    @python_messages()
    def restore(self, savepoint: str) -> RestoreResult:
        """Restore the table to a savepoint; everything later is removed."""
        return restore(self._handle(), savepoint)

    @python_messages()
    def publish(self) -> tuple[PublishResult, ...]:
        """Bring the metadata of the table formats that its spec names to the newest state.

        Each write, clean, rollback and restore does so. This catches up after writes of other programs.
        """
        handle = self._handle()
        return publish(handle, formats_of(handle))

    @python_messages()
    def rollback(self, instant: str) -> RollbackResult:
        """Roll back the newest commit, or a pending one whose writer is dead."""
        return rollback(self._handle(), instant)

    @python_messages()
    def accept_loss(self) -> CommitResult:
        """Give up the rows of base files that are missing, or differ in size from their commits.

        A commit removes their file groups, with all older versions, so that reads and writes work again.
        """
        with self._opened() as handle:
            return with_texts(handle.cleared(accept_loss(handle)))

    @python_messages()
    def clean(self) -> CleanResult:
        """Delete the file versions that the retention policy no longer keeps."""
        return clean(self._handle())

    @python_messages()
    def archive(self) -> ArchiveResult:
        """Move old instants to the archive."""
        return archive(self._handle())

    @python_messages()
    def cluster(
        self,
        spark: SparkSession | None = None,
        *,
        instant: str | None = None,
        budget_bytes: int | None = None,
    ) -> ClusteringResult:
        """Rewrite files by the clustering section of the applied spec.

        Rows keep their commit times, so incremental readers do not see them again. Files that writers change
        meanwhile are left out.

        Args:
            spark: The session; None for the running one, or a new one.
            instant: Execute the pending plan of this instant instead, which Hudi may have scheduled.
            budget_bytes: The maximum number of bytes to rewrite; None for no limit.

        Raises:
            PartialFailureError: A part failed; the error names the part that was committed. If nothing was
                committed, the failure itself is raised.

        """
        from parquetry.runtime.spark.cluster import cluster, execute  # noqa: PLC0415 - heavy

        with self._opened() as handle:
            session = spark or self._session(handle)
            if instant is not None:
                result = execute(session, handle, instant)
            else:
                result = cluster(session, handle, budget=RunBudget(limit_bytes=budget_bytes))
            return with_texts(handle.cleared(result))

    def _handle(self) -> TableHandle:
        return open_table(self._store, owner=self._owner)

    @contextmanager
    def _opened(self) -> Iterator[TableHandle]:
        """Open the table for one call, whose failures lose the table's personal values."""
        handle = self._handle()
        with handle.failures_masked():
            yield handle

    def _checked_store(self) -> ObjectStore:
        """Return the store; raise ForeignTableError if a project named it and another one owns it."""
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

    @python_messages()
    def _write(self, rows: Rows, request: WriteRequest) -> CommitResult:
        from parquetry.runtime.arrow.local_rows import check_rows  # noqa: PLC0415 - heavy

        check_rows(rows)
        with self._opened() as handle:
            from parquetry.runtime.spark.write import write  # noqa: PLC0415 - heavy

            spark = getattr(rows, "sparkSession", None) or self._session(handle)
            result = write(spark, handle, rows, request)
            return with_texts(handle.cleared(result))


@dataclass(frozen=True, slots=True)
class RowStream:
    """The rows of a read as an Arrow stream that can be read many times, each time as they are then."""

    table: Table
    read: ReadArguments

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a new stream."""
        return self.table.to_batches(**self.read).__arrow_c_stream__(requested_schema)


def _parse_ties(ties: str) -> Ties:
    try:
        return Ties(ties)
    except ValueError:
        raise UsageError("ties is {expected}, not {found}", expected=list(Ties), found=repr(ties)) from None


def _parse_catalog(*, name: str, type: str, **options: str) -> TargetCatalog:  # noqa: A002 - as in YAML
    try:
        return TargetCatalog(name=name, type=CatalogType(type), options=options)
    except ValueError:
        raise UsageError(
            "the type of a catalog is {expected}, not {found}", expected=list(CatalogType), found=repr(type)
        ) from None


@python_messages()
def open(  # noqa: A001 - parquetry.open
    uri: Uri,
    options: Mapping[str, Any] | None = None,
    *,
    keys: Iterable[str] = (),
    strategies: Iterable[str] = (),
    catalogs: Iterable[Mapping[str, str]] = (),
) -> Table:
    """Open and return the table at a path or URI.

    The table may use only the keys, plug-ins and catalogs that the caller names here.

    Args:
        uri: The path or URI.
        options: fsspec's options for the store.
        keys: References to the keys that may encrypt the table's files, such as ``env:FLIGHTS_KEY``.
        strategies: The names of clustering strategies of plug-ins that the table may use.
        catalogs: The catalogs to which the table may be published, each with its ``name``, ``type`` and
            options as declared at the target.

    Raises:
        TableNotFoundError: There is no table.
        UnsupportedTableError: The table is not a copy-on-write table of version 6, 8 or 9.

    """
    allowed = Allowed(
        keys=frozenset(keys),
        strategies=frozenset(strategies),
        catalogs=frozenset(_parse_catalog(**catalog).digest for catalog in catalogs),
    )
    store = open_store(uri, options, allowed)
    open_table(store)
    return Table(store)


@python_messages()
def create(
    uri: Uri, spec: TableSpec, *, project: str = "python", options: Mapping[str, Any] | None = None
) -> Table:
    """Return the table of a spec, created if it does not exist.

    An existing table keeps its applied spec.

    Args:
        uri: The path or URI.
        spec: The spec.
        project: The name of the project that is recorded as the table's owner.
        options: fsspec's options for the store.

    Raises:
        StalePlanError: Another spec or project created the table.

    """
    store = open_store(uri, options, spec.allowed)
    if create_table(store, spec, project=project).applied is None:
        write_applied(store, spec, number=1)
    return Table(store)
