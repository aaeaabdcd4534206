"""The catalogs of Iceberg tables: what names the newest metadata of a table, and replaces it atomically.

:class:`MetadataFolder` is the table's own folder, without any service. :class:`IcebergCatalogTable` is a
table in a catalog that pyiceberg reaches: SQL, REST, AWS Glue or a Hive Metastore. In both cases the metadata
lies in the folder of the table and is read and written through its store, but for a REST catalog, which
writes it itself.

This module needs pyiceberg. Only ``runtime.publish.iceberg`` imports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Final, Protocol

from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchIcebergTableError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertCreate,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)

from parquetry.errors import ParquetryError
from parquetry.message import Message, Text, Value, command
from parquetry.runtime.errors import CorruptTableError, ForeignTableError, NotFoundError, StorageError
from parquetry.runtime.metastore_transport import metastore_transport
from parquetry.runtime.publish.iceberg_io import STORE_KEY, StoreIO
from parquetry.runtime.publish.model import METADATA_FOLDER
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.redaction import option_value
from parquetry.runtime.spec.table_spec import CatalogType, TargetCatalog
from parquetry.runtime.storage.dry_run import DryRunStore
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.parallel import OnceProperty
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.text.metastore_addresses import METASTORE_FORM, metastore_addresses

HINT: Final = f"{METADATA_FOLDER}/version-hint.text"
OLD_VERSIONS: Final = 100
"""The number of older metadata files that are kept."""

EMPTY: Final = MetastoreCatalog._empty_table_metadata()  # noqa: SLF001 - what catalogs apply first updates to
"""The metadata that the updates of a new table start from."""

_METADATA_NAME: Final = re.compile(r"v([0-9]+)\.metadata\.json")
_IO_CLASS: Final = f"{StoreIO.__module__}.{StoreIO.__qualname__}"
_TIMEOUT_SECONDS: Final = 60.0
_OPTIONS: Final[Mapping[CatalogType, Mapping[str, str]]] = {
    CatalogType.SQL: {"uri": "uri"},
    CatalogType.REST: {
        "oauth2_server_uri": "oauth2-server-uri",
        **{name: name for name in ("uri", "warehouse", "token", "credential", "scope")},
    },
    CatalogType.GLUE: {"region": "glue.region", "endpoint": "glue.endpoint"},
    CatalogType.HIVE: {"uri": "uri"},
}
"""The properties of pyiceberg's clients by the options of catalogs. No other option reaches a client."""

_CLIENTS: Final[Mapping[CatalogType, tuple[str, str]]] = {
    CatalogType.SQL: ("pyiceberg.catalog.sql", "SqlCatalog"),
    CatalogType.REST: ("pyiceberg.catalog.rest", "RestCatalog"),
    CatalogType.GLUE: ("pyiceberg.catalog.glue", "GlueCatalog"),
    CatalogType.HIVE: ("pyiceberg.catalog.hive", "HiveCatalog"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestMetadata:
    """The newest metadata of a table, as it was read. ``table`` is pyiceberg's, if a catalog names it.

    ``is_hinted`` is False if the version hint names another file.
    """

    metadata: TableMetadata = field(repr=False)
    number: int = 0
    is_hinted: bool = True
    table: Table | None = field(default=None, repr=False)


class MetadataCatalog(Protocol):
    """The place that names the newest metadata of one table. ``place`` is its description for messages.

    ``remedy`` says how to begin anew after a foreign write.
    """

    @property
    def place(self) -> Text:
        """The description for messages, such as a folder."""
        ...

    @property
    def remedy(self) -> Text:
        """The way to begin anew, for messages."""
        ...

    def newest(self) -> NewestMetadata | None:
        """Return the newest metadata, or None if the table is not there yet."""
        ...

    def commit(
        self, before: NewestMetadata | None, updates: tuple[TableUpdate, ...], *, nonce: str | None = None
    ) -> bool:
        """Apply the updates to the metadata, atomically.

        Args:
            before: The metadata that is replaced, or None to create the table.
            updates: The updates.
            nonce: A text in the updates that no other process uses.

        Returns:
            False if the newest metadata is not ``before`` any more.

        """
        ...

    def repair(self, newest: NewestMetadata) -> None:
        """Finish the commit of the newest metadata, if its process was killed before the end."""
        ...


class MetadataFolder:
    """The folder ``metadata`` of a table, as in a Hadoop catalog: ``vN.metadata.json`` and a hint of N.

    A commit is one *put if absent*.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.place: Text = METADATA_FOLDER
        self.remedy: Text = Message(
            "move the folder {folder} away, and {command} makes it again",
            folder=METADATA_FOLDER,
            command=command("publish", "TABLE"),
        )

    def newest(self) -> NewestMetadata | None:
        """Return the newest metadata, or None if there is none."""
        hint = self._hint()
        number = self._newest_number(hint)
        if number is None:
            return None
        path = _metadata_path(number)
        try:
            text = self._store.read(path, most_bytes=MOST_BYTES).decode()
            metadata = TableMetadataUtil.parse_raw(text)
            return NewestMetadata(metadata=metadata, number=number, is_hinted=hint == str(number))
        except (ValueError, ValidationError) as error:
            raise CorruptTableError(
                "{file} is not Iceberg metadata; {remedy}",
                file=Value.uri(f"{self._store.uri}/{path}"),
                remedy=self.remedy,
            ) from error

    def commit(
        self, before: NewestMetadata | None, updates: tuple[TableUpdate, ...], *, nonce: str | None = None
    ) -> bool:
        """Put the next metadata file if it is absent, then the hint."""
        metadata = _updated(before, updates)
        number = 1 if before is None else before.number + 1
        content = metadata.model_dump_json().encode()
        if (
            self._store.put_if_absent(_metadata_path(number), content, nonce=nonce) is PutOutcome.LOST
            # Others may have written and deleted the version. If not, the next attempt finds it.
            or (_number(self._hint()) or 0) > number
        ):
            return False
        self._put_hint(number)
        if number > OLD_VERSIONS:
            self._store.delete(_metadata_path(number - OLD_VERSIONS))
        return True

    def repair(self, newest: NewestMetadata) -> None:
        """Put the hint if a killed process left it behind."""
        if not newest.is_hinted:
            self._put_hint(newest.number)

    def _put_hint(self, number: int) -> None:
        """Put the hint of the file, and again while another process has put a later file before the hint."""
        shown = 0
        while shown != number:
            self._store.put(HINT, str(number).encode())
            shown, number = number, self._last_from(number)

    def _hint(self) -> str:
        """Return the text of the hint, or an empty one if there is none."""
        try:
            return self._store.read(HINT).decode(errors="replace").strip()
        except NotFoundError:
            return ""

    def _newest_number(self, hint: str) -> int | None:
        """Return the number of the newest metadata file, or None if there is none.

        A process that was killed may have left the hint behind.
        """
        hinted = _number(hint)
        if hinted is not None and self._store.stat(_metadata_path(hinted)):
            return self._last_from(hinted)
        listed = (info.path.rpartition("/")[2] for info in self._store.list(METADATA_FOLDER))
        numbers = [int(found[1]) for found in map(_METADATA_NAME.fullmatch, listed) if found]
        return self._last_from(max(numbers)) if numbers else None

    def _last_from(self, number: int) -> int:
        """Return the number of the last metadata file that follows the given one without a gap."""
        while self._store.stat(_metadata_path(number + 1)):
            number += 1
        return number


class IcebergCatalogTable:
    """A table in a catalog that pyiceberg reaches, by its name there."""

    def __init__(self, store: ObjectStore, name: str, catalog: TargetCatalog) -> None:
        self._store = store
        self._declared = catalog
        self._identifier = tuple(name.split("."))
        self.place: Text = Message("{name} in the catalog {catalog}", name=name, catalog=catalog.name)
        self.remedy: Text = Message(
            "drop the table {name} in the catalog {catalog}, without its files, and {command} makes it again",
            name=name,
            catalog=catalog.name,
            command=command("publish", "TABLE"),
        )

    def newest(self) -> NewestMetadata | None:
        """Return the metadata of the table in the catalog, or None if there is no such table."""
        try:
            with self._failures():
                catalog = self._catalog
                if self._declared.type is CatalogType.SQL and not _has_tables(catalog):
                    return None
                table = catalog.load_table(self._identifier)
        except NoSuchIcebergTableError as error:
            raise self._taken("is not an Iceberg table") from error
        except CorruptTableError as error:
            raise self._taken("has its files elsewhere") from error
        except NoSuchTableError:
            return None
        if table.metadata.location.rstrip("/") != self._store.uri:
            raise self._taken("has its files elsewhere")
        return NewestMetadata(metadata=table.metadata, table=table)

    def commit(
        self,
        before: NewestMetadata | None,
        updates: tuple[TableUpdate, ...],
        *,
        nonce: str | None = None,  # noqa: ARG002 - catalogs compare the metadata
    ) -> bool:
        """Commit the updates to the catalog, which compares the newest snapshot; in a dry run, do nothing."""
        if isinstance(self._store, DryRunStore):
            return True
        catalog: Any = self._catalog
        try:
            with self._failures():
                if before is None or before.table is None:
                    if self._declared.type is CatalogType.SQL:
                        catalog.create_tables()
                    catalog.create_namespace_if_not_exists(self._identifier[:-1])
                    table = Table(
                        self._identifier,
                        _updated(None, updates),
                        "",
                        StoreIO({STORE_KEY: self._store}),
                        catalog,
                    )
                    catalog.commit_table(table, (AssertCreate(),), updates)
                else:
                    catalog.commit_table(before.table, _requirements(before.metadata), updates)
        except (CommitFailedException, TableAlreadyExistsError):
            return False
        return True

    def repair(self, newest: NewestMetadata) -> None:
        """Do nothing: a commit to a catalog is one step."""

    @OnceProperty
    def _catalog(self) -> PyIcebergCatalog:
        with self._failures():
            return _client(self._declared, self._store)

    def _taken(self, reason: str) -> ForeignTableError:
        return ForeignTableError(
            "{table} is not published to {place}: the table there {reason}; the Hudi table is unharmed. "
            "Choose another name below publish.iceberg, or drop that table",
            table=self._store.uri,
            place=self.place,
            reason=reason,
        )

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Convert the errors of clients, which come from several libraries, to a StorageError."""
        try:
            yield
        except (ParquetryError, CommitFailedException, NoSuchTableError, TableAlreadyExistsError):
            raise
        except Exception as error:  # the clients' errors have no common class
            raise StorageError(
                "{table} is not published to {place}: {reason}; {command} publishes it when the catalog can "
                "be reached",
                table=self._store.uri,
                place=self.place,
                reason=quoted_library_text(str(error), kind=type(error).__name__),
                command=command("publish", "TABLE"),
            ) from error


def _client(declared: TargetCatalog, store: ObjectStore) -> PyIcebergCatalog:
    """Return pyiceberg's client of a catalog. It reads and writes metadata through the store."""
    module, name = _CLIENTS[declared.type]
    kind: Any = getattr(import_module(module), name)

    class StoreCatalog(kind):  # type: ignore[misc]  # of the declared type
        """A client whose files are those of the store, whatever a property of a table or a server says."""

        def _load_file_io(self, *_: object, **__: object) -> StoreIO:
            return StoreIO({STORE_KEY: store})

        def _create_session(self) -> Any:
            """Return the session of a REST catalog, whose requests end."""
            session = super()._create_session()
            session.request = partial(session.request, timeout=_TIMEOUT_SECONDS)
            return session

        @staticmethod
        def _create_hive_client(properties: Mapping[str, str]) -> Any:
            """Return the client of a Hive Metastore, whose requests end."""
            return _metastore_client(properties["uri"])

        @staticmethod
        def _get_hive_table(open_client: Any, database_name: str, table_name: str) -> Any:
            """Return the metastore's object of a table, by a request that Hive 4 has too."""
            return _metastore_table(open_client, database_name, table_name)

    names = _OPTIONS[declared.type]
    options: dict[str, Any] = {
        names[name]: option_value(value) for name, value in declared.options.items() if name in names
    }
    if declared.type is CatalogType.SQL:
        options["init_catalog_tables"] = "false"  # what only reads makes none
    client: PyIcebergCatalog = StoreCatalog(
        declared.name, **options, **{PY_IO_IMPL: _IO_CLASS, STORE_KEY: store}
    )
    return client


def _metastore_client(uri: str) -> Any:
    """Return pyiceberg's client of the Hive Metastores at one or several addresses, tried in that order."""
    addresses = metastore_addresses(uri)
    if not addresses:
        raise StorageError(
            "{found} is not the address of a Hive Metastore; write {form}",
            found=Value.uri(uri),
            form=METASTORE_FORM,
        )
    *others, last = addresses
    kind: Any = import_module("pyiceberg.catalog.hive")._HiveClient  # noqa: SLF001 - it has no time limit
    lost = import_module("thrift.transport.TTransport").TTransportException

    class TimedClient(kind):  # type: ignore[misc]  # loaded late, as it needs thrift
        """A client with a time limit for each step of a request."""

        def _init_thrift_transport(self) -> Any:
            return metastore_transport(*addresses[0])

        def __enter__(self) -> Any:
            for address in others:
                self._transport = metastore_transport(*address)
                try:
                    self._transport.open()
                except lost:
                    continue
                return self._client()
            self._transport = metastore_transport(*last)
            self._transport.open()
            return self._client()

    return TimedClient(uri)


def _metastore_table(client: Any, database: str, table: str) -> Any:
    types = import_module("hive_metastore.ttypes")
    try:
        return client.get_table_req(types.GetTableRequest(dbName=database, tblName=table)).table
    except types.NoSuchObjectException as error:
        raise NoSuchTableError(table) from error


def _has_tables(catalog: Any) -> bool:
    """Return whether the database of a SQL catalog has the tables of such catalogs."""
    from pyiceberg.catalog.sql import IcebergTables  # noqa: PLC0415 - needs the database's library
    from sqlalchemy import inspect  # noqa: PLC0415

    return bool(inspect(catalog.engine).has_table(IcebergTables.__tablename__))


def _updated(before: NewestMetadata | None, updates: tuple[TableUpdate, ...]) -> TableMetadata:
    if before is not None:
        return update_table_metadata(before.metadata, updates)
    return update_table_metadata(EMPTY, updates, enforce_validation=True)


def _requirements(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    current = metadata.current_snapshot_id
    found = {"ref": MAIN_BRANCH, "snapshot-id": current}
    return AssertTableUUID(uuid=metadata.table_uuid), AssertRefSnapshotId.model_validate(found)


def _number(hint: str) -> int | None:
    return int(hint) if hint.isascii() and hint.isdecimal() else None


def _metadata_path(number: int) -> str:
    return f"{METADATA_FOLDER}/v{number}.metadata.json"


def is_in_folder(name: str) -> bool:
    """Return whether :class:`MetadataFolder` writes files of this name."""
    return _METADATA_NAME.fullmatch(name) is not None or name == HINT.rpartition("/")[2]
