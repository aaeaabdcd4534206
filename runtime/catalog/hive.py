"""A Hive Metastore, by thrift: requests with time limits, repeated with growing waits."""

from __future__ import annotations

import copy
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from parquetry.message import Text, Value
from parquetry.runtime.catalog.entry import (
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    folder_uri,
    with_definition,
)
from parquetry.runtime.catalog.model import KeyValues, check_created
from parquetry.runtime.errors import CatalogError
from parquetry.runtime.metastore_transport import metastore_transport
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import batches
from parquetry.runtime.table.partition_path import escape_value
from parquetry.text.metastore_addresses import METASTORE_FORM, metastore_addresses

_MOST_WRITTEN: Final = 100
_MOST_READ: Final = 1000
_ATTEMPTS: Final = 5
_FIRST_WAIT_SECONDS: Final = 0.5
_CHANGED_AT: Final = "transient_lastDdlTime"
"""The parameter with the time of the last change, which the metastore sets if it is missing."""
_WITHOUT_STATISTICS: Final = {"DO_NOT_UPDATE_STATS": "true"}
"""The property of a request that keeps the metastore from listing the folder of the table."""


class HiveCatalog:
    """The entry of a table in a Hive Metastore of version 2.2 or newer. What others set in it is kept.

    The connection is neither encrypted nor authenticated. If ``uri`` has several addresses, the next one is
    tried when one fails.
    """

    def __init__(self, place: str, *, database: str, table: str, uri: str) -> None:
        """Prepare the client, without a connection yet.

        Args:
            place: The name of the entry in messages.
            database: The name of the database.
            table: The name of the table.
            uri: The address of the metastore, such as ``thrift://metastore:9083``, or several with commas.

        Raises:
            CatalogError: If the client's packages are missing, or ``uri`` is no such address.
        """
        self._addresses = list(metastore_addresses(uri))
        if not self._addresses:
            raise CatalogError(
                "{place}: {found} is not the address of a Hive Metastore; write {form}",
                place=place,
                found=Value.uri(uri),
                form=METASTORE_FORM,
            )
        self.place = place
        self._database, self._table = database, table
        self._read: Any = None
        self._client: Any = None
        self._close: Callable[[], object] = lambda: None
        try:
            self._api = import_module("hive_metastore.ThriftHiveMetastore")
            self._types = import_module("hive_metastore.ttypes")
            self._thrift = import_module("thrift.Thrift")
            self._transport = import_module("thrift.transport.TTransport")
            self._protocol = import_module("thrift.protocol.TBinaryProtocol")
        except ImportError:
            raise CatalogError(
                "{place}: a Hive Metastore needs the packages of pyiceberg[hive]; run "
                "`pip install parquetry[iceberg]`",
                place=place,
            ) from None

    def location_of(self, store: ObjectStore) -> str:
        """Return the URI of a table's folder as Hadoop's file systems open it."""
        uri = folder_uri(store.uri)
        return f"s3a://{uri.removeprefix('s3://')}" if uri.startswith("s3://") else uri

    def table(self) -> CatalogTable | None:
        """Return the entry, or None if there is none."""
        self._read = self._stored()
        return None if self._read is None else _entry(self._read)

    def create(self, entry: CatalogTable) -> None:
        """Create the entry, and the database if it is missing."""
        if self._found("get_database", self._database) is None:
            try:
                database = self._types.Database(name=self._database, parameters={})
                self._ask("create_database", database, passing=self._types.AlreadyExistsException)
            except self._types.AlreadyExistsException:
                pass  # another program was faster
        table = self._types.Table(
            dbName=self._database, tableName=self._table, retention=0, tableType="EXTERNAL_TABLE"
        )
        try:
            self._ask("create_table", self._filled(table, entry), passing=self._types.AlreadyExistsException)
        except self._types.AlreadyExistsException:
            check_created(self, entry)
        self._read = None

    def replace(self, entry: CatalogTable, *, keeps_version: bool) -> None:  # noqa: ARG002 - no versions here
        """Replace the entry that :meth:`table` returned last.

        The metastore compares nothing, so the entry is read again at once before.
        """
        stored = self._stored()
        if stored is None or self._read not in (None, stored):
            raise CatalogError(
                "{place}: another program changed the entry in the catalog meanwhile; sync again",
                place=self.place,
            )
        refused = self._types.InvalidOperationException
        try:
            self._alter(self._filled(copy.deepcopy(stored), entry), passing=refused)
        except refused as error:
            # By default, a type cannot become another one that Hive does not convert it to. Columns may be
            # removed and added, however, so those from the first that differs on are. The first step has the
            # rest of the change, so a change that is refused for another reason removes nothing.
            shortened = _shortened(_entry(stored), entry)
            if shortened is None:
                raise self._error("alter_table", error) from error
            self._alter(self._filled(copy.deepcopy(stored), shortened))
            self._alter(self._filled(copy.deepcopy(stored), entry))
        self._read = None

    def partitions(self, values: Iterable[KeyValues]) -> Mapping[KeyValues, CatalogPartition]:
        """Return those of the partitions that are registered."""
        return {part.values: part for part in map(_partition, self._named(map(self._name, values)))}

    def every_partition(self) -> Iterator[CatalogPartition]:
        """Yield all registered partitions, a page at a time."""
        names = self._ask("get_partition_names", self._database, self._table, -1)
        return map(_partition, self._named(names))

    def add(self, entry: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Register partitions. One that another program has registered meanwhile is left as it is."""
        for batch in batches(partitions, _MOST_WRITTEN):
            request = self._types.AddPartitionsRequest(
                dbName=self._database,
                tblName=self._table,
                parts=[self._filled_partition(self._types.Partition(), entry, part) for part in batch],
                ifNotExists=True,
                needResult=False,
            )
            self._ask("add_partitions_req", request)

    def update(self, entry: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Replace registered partitions."""
        context = self._types.EnvironmentContext(properties=dict(_WITHOUT_STATISTICS))
        for batch in batches(partitions, _MOST_WRITTEN):
            wanted = {part.values: part for part in batch}
            altered = [
                self._filled_partition(stored, entry, wanted[tuple(stored.values)])
                for stored in self._named(map(self._name, wanted))
            ]
            self._ask(
                "alter_partitions_with_environment_context", self._database, self._table, altered, context
            )

    def drop(self, values: Sequence[KeyValues]) -> None:
        """Remove partitions from the catalog; no file is deleted."""
        for batch in batches(values, _MOST_WRITTEN):
            request = self._types.DropPartitionsRequest(
                dbName=self._database,
                tblName=self._table,
                parts=self._types.RequestPartsSpec(names=list(map(self._name, batch))),
                deleteData=False,
                ifExists=True,
                needResult=False,
            )
            self._ask("drop_partitions_req", request)

    def _stored(self) -> Any:
        """Return the metastore's own object of the entry, or None if there is none."""
        request = self._types.GetTableRequest(dbName=self._database, tblName=self._table)
        answer = self._found("get_table_req", request)
        return None if answer is None else answer.table

    def _alter(self, table: Any, *, passing: type[Exception] | tuple[()] = ()) -> None:
        context = self._types.EnvironmentContext(properties=dict(_WITHOUT_STATISTICS))
        self._ask(
            "alter_table_with_environment_context",
            self._database,
            self._table,
            table,
            context,
            passing=passing,
        )

    def _named(self, names: Iterable[str]) -> Iterator[Any]:
        """Yield the metastore's own objects of the partitions with these names that are registered."""
        for batch in batches(names, _MOST_READ):
            yield from self._ask("get_partitions_by_names", self._database, self._table, batch)

    def _name(self, values: KeyValues) -> str:
        """Return the name of a partition, as the metastore makes it of its keys and values."""
        if self._read is None:
            self._read = self._stored()
        keys = () if self._read is None else self._read.partitionKeys or ()
        if len(keys) != len(values):
            raise CatalogError(
                "{place}: the entry in the catalog has {found} partition keys, and a partition has "
                "{expected} values; remove that entry from the catalog, then sync again",
                place=self.place,
                found=len(keys),
                expected=len(values),
            )
        return "/".join(
            f"{escape_value(key.name)}={escape_value(value)}" for key, value in zip(keys, values, strict=True)
        )

    def _filled(self, table: Any, entry: CatalogTable) -> Any:
        """Return the metastore's object of a table with what an entry declares."""
        table.parameters = {name: text for name, text in entry.parameters.items() if name != _CHANGED_AT}
        table.partitionKeys = self._fields(entry.partition_keys)
        table.sd = self._storage(table.sd, entry, entry.location, entry.columns)
        return table

    def _filled_partition(self, stored: Any, entry: CatalogTable, partition: CatalogPartition) -> Any:
        """Return the metastore's object of a partition with what an entry declares."""
        stored.dbName, stored.tableName = self._database, self._table
        stored.values, stored.parameters = list(partition.values), dict(partition.parameters)
        stored.sd = self._storage(stored.sd, entry, partition.location, partition.columns)
        return stored

    def _storage(
        self, stored: Any, entry: CatalogTable, location: str, columns: Sequence[CatalogColumn]
    ) -> Any:
        """Return the metastore's stored object of a folder, or a new one, with what an entry declares."""
        storage = stored or self._types.StorageDescriptor(
            compressed=False, numBuckets=0, bucketCols=[], sortCols=[]
        )
        storage.location, storage.cols = location, self._fields(columns)
        storage.inputFormat, storage.outputFormat = entry.input_format, entry.output_format
        storage.serdeInfo = storage.serdeInfo or self._types.SerDeInfo()
        storage.serdeInfo.serializationLib = entry.serde
        storage.serdeInfo.parameters = dict(entry.serde_parameters)
        return storage

    def _fields(self, columns: Iterable[CatalogColumn]) -> list[Any]:
        return [
            self._types.FieldSchema(name=column.name, type=column.type, comment=column.comment)
            for column in columns
        ]

    def _found(self, operation: str, *arguments: Any) -> Any:
        """Return the answer to a request, or None if the metastore has no such object."""
        missing = self._types.NoSuchObjectException
        try:
            return self._ask(operation, *arguments, passing=missing)
        except missing:
            return None

    def _ask(self, operation: str, *arguments: Any, passing: type[Exception] | tuple[()] = ()) -> Any:
        """Return the answer to a request, which is repeated if the connection fails.

        Args:
            operation: The method of the metastore's interface. Each one can be repeated.
            arguments: Its arguments.
            passing: The refusal that is raised as it is.

        Raises:
            CatalogError: If the metastore refuses the request or cannot be reached.
        """
        lost = (self._transport.TTransportException, OSError, EOFError)
        for attempt in range(_ATTEMPTS):
            try:
                return self._request(operation, *arguments)
            except passing:
                raise
            except lost as error:
                self._disconnect()
                self._addresses.append(self._addresses.pop(0))
                if attempt + 1 == _ATTEMPTS:
                    failure = self._error(operation, error)
                    failure.is_outage = True
                    raise failure from error
                time.sleep(_FIRST_WAIT_SECONDS * 2**attempt)
            except (self._thrift.TException, ValueError) as error:
                self._disconnect()
                raise self._error(operation, error) from error
        raise AssertionError  # every attempt returns or raises

    def _request(self, operation: str, *arguments: Any) -> Any:
        """Return the answer of the metastore to one request, over the connection or a new one."""
        if self._client is None:
            transport = metastore_transport(*self._addresses[0])
            self._close = weakref.finalize(self, transport.close)
            transport.open()
            # Metastores begin each answer with a version, so what does not is none.
            protocol = self._protocol.TBinaryProtocolAccelerated(transport, strictRead=True)
            self._client = self._api.Client(protocol)
        return getattr(self._client, operation)(*arguments)

    def _disconnect(self) -> None:
        self._close()
        self._client = None

    def _error(self, operation: str, error: Exception) -> CatalogError:
        code = type(error).__name__
        reason: Text = quoted_library_text(str(getattr(error, "message", None) or error), kind=code)
        return CatalogError(
            "{place}: the Hive Metastore refused {operation} ({code}: {reason}); check the catalog, its uri "
            "and the permissions, then sync again",
            place=self.place,
            operation=operation,
            code=code,
            reason=reason,
        )


def _shortened(stored: CatalogTable, wanted: CatalogTable) -> CatalogTable | None:
    """Return the wanted entry up to the first column with another type than the stored one at its position.

    The result is None if no type differs. Its definition counts as one that parquetry wrote.
    """
    for position, (before, after) in enumerate(zip(stored.columns, wanted.columns, strict=False)):
        if before.type.lower() != after.type.lower():
            return with_definition(replace(wanted, columns=wanted.columns[:position]))
    return None


def _entry(table: Any) -> CatalogTable:
    storage = table.sd
    serde = storage and storage.serdeInfo
    return CatalogTable(
        location=(storage and storage.location) or "",
        columns=_columns((storage and storage.cols) or ()),
        partition_keys=_columns(table.partitionKeys or ()),
        parameters=table.parameters or {},
        serde_parameters=(serde and serde.parameters) or {},
        input_format=(storage and storage.inputFormat) or "",
        output_format=(storage and storage.outputFormat) or "",
        serde=(serde and serde.serializationLib) or "",
    )


def _partition(partition: Any) -> CatalogPartition:
    return CatalogPartition(
        values=tuple(partition.values),
        location=partition.sd.location or "",
        columns=_columns(partition.sd.cols or ()),
        parameters=partition.parameters or {},
    )


def _columns(columns: Iterable[Any]) -> tuple[CatalogColumn, ...]:
    return tuple(
        CatalogColumn(name=column.name, type=column.type or "", comment=column.comment) for column in columns
    )
