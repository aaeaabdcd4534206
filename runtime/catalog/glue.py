"""The AWS Glue Data Catalog, through botocore, which retries by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

from parquetry.message import Text
from parquetry.runtime.catalog.entry import CatalogColumn, CatalogPartition, CatalogTable, folder_uri
from parquetry.runtime.catalog.model import KeyValues, check_created
from parquetry.runtime.errors import CatalogError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import batches

_MOST_WRITTEN: Final = 100
_MOST_READ: Final = 1000
_MOST_DROPPED: Final = 25
_ATTEMPTS: Final = 5
_CONNECT_SECONDS: Final = 10
_INDEX: Final = "parquetry"
_MISSING: Final = "EntityNotFoundException"
_EXISTS: Final = "AlreadyExistsException"
_FILTERING: Final = "partition_filtering.enabled"
READ_ONLY_FIELDS: Final = frozenset(
    {
        *("CatalogId", "CreateTime", "CreatedBy", "DatabaseName", "FederatedTable", "IsMultiDialectView"),
        *("IsMaterializedView", "IsRegisteredWithLakeFormation", "Status", "UpdateTime", "VersionId"),
    }
)
"""Fields of an answer that a request to update the table must not have."""


class GlueCatalog:
    """The entry of a table in Glue. The fields that others set in it are kept.

    Credentials are those that botocore finds: environment variables, a profile, a role.
    """

    def __init__(
        self,
        place: str,
        *,
        database: str,
        table: str,
        region: str | None = None,
        endpoint: str | None = None,
        partition_index: bool = False,
    ) -> None:
        """Connect to Glue, without a request yet.

        Args:
            place: The name of the entry in messages.
            database: The name of the database.
            table: The name of the table.
            region: The region of AWS; by default, that of the environment.
            endpoint: The URL of another endpoint than that of AWS.
            partition_index: Whether a new table gets an index of its partition keys.

        Raises:
            CatalogError: If botocore is missing, or no region is known.
        """
        self.place = place
        self._names = {"DatabaseName": database, "TableName": table}
        self._partition_index = partition_index
        self._read: dict[str, Any] = {}
        try:
            session, config = import_module("botocore.session"), import_module("botocore.config")
            self._errors = import_module("botocore.exceptions")
        except ImportError:
            raise CatalogError(
                "{place}: Glue needs the package botocore; run `pip install parquetry[s3]`", place=place
            ) from None
        retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
        limits = config.Config(retries=retries, connect_timeout=_CONNECT_SECONDS)
        made = session.get_session()
        made.register_component("data_loader", _descriptions())
        self._client = self._answered(
            "connect",
            lambda: made.create_client("glue", region_name=region, endpoint_url=endpoint, config=limits),
        )

    def location_of(self, store: ObjectStore) -> str:
        """Return the URI of a table's folder as Athena opens it."""
        return folder_uri(store.uri)

    def table(self) -> CatalogTable | None:
        """Return the entry, or None if there is none."""
        names = {"DatabaseName": self._names["DatabaseName"], "Name": self._names["TableName"]}
        answer = self._ask("get_table", names, ignored=_MISSING)
        self._read = {} if answer is None else answer["Table"]
        return None if answer is None else _entry(self._read)

    def create(self, entry: CatalogTable) -> None:
        """Create the entry, and the database if it is missing."""
        database = self._names["DatabaseName"]
        if self._ask("get_database", {"Name": database}, ignored=_MISSING) is None:
            self._ask("create_database", {"DatabaseInput": {"Name": database}}, ignored=_EXISTS)
        keys = [column.name for column in entry.partition_keys]
        indexes = [{"Keys": keys, "IndexName": _INDEX}] if self._partition_index and keys else []
        request = {"DatabaseName": database, "TableInput": self._table_input(entry)}
        index = {"PartitionIndexes": indexes} if indexes else {}
        if self._ask("create_table", {**request, **index}, ignored=_EXISTS) is None:
            check_created(self, entry)

    def replace(self, entry: CatalogTable, *, keeps_version: bool) -> None:
        """Replace the entry that :meth:`table` returned last."""
        version = {"VersionId": self._read["VersionId"]} if "VersionId" in self._read else {}
        request = {
            "DatabaseName": self._names["DatabaseName"],
            "TableInput": self._table_input(entry),
            "SkipArchive": not keeps_version,
        }
        self._ask("update_table", request | version)

    def partitions(self, values: Iterable[KeyValues]) -> Mapping[KeyValues, CatalogPartition]:
        """Return those of the partitions that are registered."""
        found: dict[KeyValues, CatalogPartition] = {}
        for batch in batches(values, _MOST_READ):
            keys = [{"Values": list(one)} for one in batch]
            while keys:
                answer = self._ask("batch_get_partition", {**self._names, "PartitionsToGet": keys})
                found |= {part.values: part for part in map(_partition, answer["Partitions"])}
                keys = answer.get("UnprocessedKeys", [])
        return found

    def every_partition(self) -> Iterator[CatalogPartition]:
        """Yield all registered partitions, a page at a time."""
        token: dict[str, str] = {}
        while True:
            answer = self._ask("get_partitions", {**self._names, "MaxResults": _MOST_READ, **token})
            yield from map(_partition, answer["Partitions"])
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}

    def add(self, entry: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Register partitions. One that another program has registered meanwhile is left as it is."""
        for batch in batches(partitions, _MOST_WRITTEN):
            inputs = [_partition_input(entry, part) for part in batch]
            answer = self._ask("batch_create_partition", {**self._names, "PartitionInputList": inputs})
            self._check(answer, "batch_create_partition", ignored=_EXISTS)

    def update(self, entry: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Replace registered partitions."""
        for batch in batches(partitions, _MOST_WRITTEN):
            entries = [
                {"PartitionValueList": list(part.values), "PartitionInput": _partition_input(entry, part)}
                for part in batch
            ]
            answer = self._ask("batch_update_partition", {**self._names, "Entries": entries})
            self._check(answer, "batch_update_partition")

    def drop(self, values: Sequence[KeyValues]) -> None:
        """Remove partitions from the catalog; no file is deleted."""
        for batch in batches(values, _MOST_DROPPED):
            keys = [{"Values": list(one)} for one in batch]
            answer = self._ask("batch_delete_partition", {**self._names, "PartitionsToDelete": keys})
            self._check(answer, "batch_delete_partition", ignored=_MISSING)

    def _table_input(self, entry: CatalogTable) -> dict[str, Any]:
        kept = {name: value for name, value in self._read.items() if name not in READ_ONLY_FIELDS}
        filtering = {_FILTERING: "true"} if self._partition_index and entry.partition_keys else {}
        return {
            **kept,
            "Name": self._names["TableName"],
            "TableType": "EXTERNAL_TABLE",
            "Parameters": {**entry.parameters, **filtering},
            "PartitionKeys": _column_inputs(entry.partition_keys),
            "StorageDescriptor": {
                **self._read.get("StorageDescriptor", {}),
                **_storage_input(entry, entry.location, entry.columns),
            },
        }

    def _check(self, answer: Mapping[str, Any], operation: str, *, ignored: str | None = None) -> None:
        """Raise CatalogError for the first error in the answer to a batch."""
        for error in answer.get("Errors", ()):
            detail = error.get("ErrorDetail") or error.get("PartitionError", {}).get("ErrorDetail", {})
            code = str(detail.get("ErrorCode", "unknown"))
            if code != ignored:
                raise self._error(operation, code, str(detail.get("ErrorMessage", "")))

    def _ask(self, operation: str, arguments: Mapping[str, Any], *, ignored: str | None = None) -> Any:
        """Return the answer to a request, or None if Glue refuses it with the ignored code."""
        return self._answered(
            operation, lambda: getattr(self._client, operation)(**arguments), ignored=ignored
        )

    def _answered(self, operation: str, request: Any, *, ignored: str | None = None) -> Any:
        try:
            return request()
        except self._errors.ClientError as error:
            found = error.response.get("Error", {})
            code = str(found.get("Code", type(error).__name__))
            if code == ignored:
                return None
            raise self._error(operation, code, str(found.get("Message", ""))) from error
        except self._errors.BotoCoreError as error:
            failure = self._error(operation, type(error).__name__, str(error))
            failure.is_outage = not isinstance(error, self._errors.ParamValidationError)
            raise failure from error

    def _error(self, operation: str, code: str, text: str) -> CatalogError:
        reason: Text = quoted_library_text(text, kind=code)
        return CatalogError(
            "{place}: Glue refused {operation} ({code}: {reason}); check the catalog, its region and the "
            "permissions, then sync again",
            place=self.place,
            operation=operation,
            code=code,
            reason=reason,
        )


@cache
def _descriptions() -> Any:
    """Return botocore's reader of API descriptions, which takes six times as long as the rest of a client."""
    return import_module("botocore.loaders").create_loader()


def _entry(table: Mapping[str, Any]) -> CatalogTable:
    storage = table.get("StorageDescriptor", {})
    serde = storage.get("SerdeInfo", {})
    return CatalogTable(
        location=storage.get("Location", ""),
        columns=_columns(storage.get("Columns", ())),
        partition_keys=_columns(table.get("PartitionKeys", ())),
        parameters=table.get("Parameters", {}),
        serde_parameters=serde.get("Parameters", {}),
        input_format=storage.get("InputFormat", ""),
        output_format=storage.get("OutputFormat", ""),
        serde=serde.get("SerializationLibrary", ""),
    )


def _partition(partition: Mapping[str, Any]) -> CatalogPartition:
    storage = partition.get("StorageDescriptor", {})
    return CatalogPartition(
        values=tuple(partition["Values"]),
        location=storage.get("Location", ""),
        columns=_columns(storage.get("Columns", ())),
        parameters=partition.get("Parameters", {}),
    )


def _columns(columns: Iterable[Mapping[str, Any]]) -> tuple[CatalogColumn, ...]:
    return tuple(
        CatalogColumn(name=column["Name"], type=column.get("Type", ""), comment=column.get("Comment"))
        for column in columns
    )


def _partition_input(entry: CatalogTable, partition: CatalogPartition) -> dict[str, Any]:
    return {
        "Values": list(partition.values),
        "Parameters": dict(partition.parameters),
        "StorageDescriptor": _storage_input(entry, partition.location, partition.columns),
    }


def _storage_input(entry: CatalogTable, location: str, columns: Sequence[CatalogColumn]) -> dict[str, Any]:
    return {
        "Location": location,
        "Columns": _column_inputs(columns),
        "InputFormat": entry.input_format,
        "OutputFormat": entry.output_format,
        "SerdeInfo": {"SerializationLibrary": entry.serde, "Parameters": dict(entry.serde_parameters)},
    }


def _column_inputs(columns: Sequence[CatalogColumn]) -> list[dict[str, str]]:
    return [
        {"Name": column.name, "Type": column.type} | ({"Comment": column.comment} if column.comment else {})
        for column in columns
    ]
