"""Hive Metastores: the real one, from the jars of Spark 3.5, and one of this process that keeps all in memory."""

from __future__ import annotations

import copy
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from parquetry.runtime.catalog.hive import HiveCatalog
from parquetry.runtime.table.partition_path import escape_value
from tests.interop.environment import spark_environment, spark_python
from tests.support.fast_java import java_options

CONVERSIONS = {("int", "bigint"), ("float", "double"), ("bigint", "string")}
"""Changes of types that the real metastore allows, of those that tests make."""


@contextmanager
def real_metastore(folder: Path) -> Iterator[str]:
    """Yield the address of a metastore of Hive 2.3 whose database and warehouse lie in a folder."""
    python = spark_python("3.5")
    (jars,) = python.parent.parent.glob("lib/python*/site-packages/pyspark/jars")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/database;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file:{folder}/warehouse",
        # The tables of locks are not made otherwise, and asynchronous logs need a jar that Spark lacks.
        "hive.in.test": "true",
        "hive.async.log.enabled": "false",
        "derby.stream.error.file": f"{folder}/derby.log",
        "java.io.tmpdir": str(folder),
    }
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    command = [str(java), *java_options(python.parent.parent).split(), "-Xmx512m"]
    command += [f"-D{name}={value}" for name, value in settings.items()]
    command += ["-cp", f"{jars}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with (folder / "metastore.log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env=spark_environment(python)
        )
        try:
            _wait_for(port, process, folder / "metastore.log")
            yield f"thrift://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"the metastore did not start:\n{log.read_text()[-4000:]}")


class MemoryMetastore:
    """The requests that parquetry sends, answered as the real metastore does."""

    def __init__(self) -> None:
        self.databases: set[str] = {"default"}
        self.tables: dict[tuple[str, str], Any] = {}
        self.partitions_of: dict[tuple[str, str], dict[str, Any]] = {}

    def get_database(self, name: str) -> Any:
        if name not in self.databases:
            raise ttypes.NoSuchObjectException(name)
        return ttypes.Database(name=name)

    def create_database(self, database: Any) -> None:
        if database.name in self.databases:
            raise ttypes.AlreadyExistsException(database.name)
        self.databases.add(database.name)

    def get_table_req(self, request: Any) -> Any:
        return ttypes.GetTableResult(table=copy.deepcopy(self._table(request.dbName, request.tblName)))

    def create_table(self, table: Any) -> None:
        key = (table.dbName, table.tableName)
        if table.dbName not in self.databases:
            raise ttypes.InvalidObjectException(table.dbName)
        if key in self.tables:
            raise ttypes.AlreadyExistsException(table.tableName)
        self.tables[key], self.partitions_of[key] = _kept(table), {}

    def alter_table_with_environment_context(self, database: str, name: str, table: Any, _: Any) -> None:
        stored = self._table(database, name)
        if [key.name for key in stored.partitionKeys] != [key.name for key in table.partitionKeys]:
            raise ttypes.InvalidOperationException("partition keys can not be changed.")
        if any(
            old.type != new.type and (old.type, new.type) not in CONVERSIONS
            for old, new in zip(stored.sd.cols, table.sd.cols, strict=False)
        ):
            raise ttypes.InvalidOperationException("The following columns have types incompatible")
        self.tables[database, name] = _kept(table)

    def get_partition_names(self, database: str, name: str, _: int) -> list[str]:
        self._table(database, name)
        return sorted(self.partitions_of[database, name])

    def get_partitions_by_names(self, database: str, name: str, names: list[str]) -> list[Any]:
        self._table(database, name)
        stored = self.partitions_of[database, name]
        return [copy.deepcopy(stored[one]) for one in names if one in stored]

    def add_partitions_req(self, request: Any) -> Any:
        stored = self.partitions_of[request.dbName, request.tblName]
        for part in request.parts:
            if self._name(part) in stored and not request.ifNotExists:
                raise ttypes.AlreadyExistsException(self._name(part))
            stored.setdefault(self._name(part), _kept(part))
        return ttypes.AddPartitionsResult()

    def alter_partitions_with_environment_context(
        self, database: str, name: str, parts: list[Any], _: Any
    ) -> None:
        stored = self.partitions_of[database, name]
        if any(self._name(part) not in stored for part in parts):
            raise ttypes.InvalidOperationException("alter is not possible")
        stored.update({self._name(part): _kept(part) for part in parts})

    def drop_partitions_req(self, request: Any) -> Any:
        if request.deleteData:
            raise ttypes.MetaException("the files of a partition must stay")
        for name in request.parts.names:
            if self.partitions_of[request.dbName, request.tblName].pop(name, None) is None:
                assert request.ifExists
        return ttypes.DropPartitionsResult()

    def _table(self, database: str, name: str) -> Any:
        if (database, name) not in self.tables:
            raise ttypes.NoSuchObjectException(f"{database}.{name} table not found")
        return self.tables[database, name]

    def _name(self, part: Any) -> str:
        keys = [key.name for key in self._table(part.dbName, part.tableName).partitionKeys]
        levels = zip(keys, part.values, strict=True)
        return "/".join(f"{escape_value(key)}={escape_value(value)}" for key, value in levels)


def _kept(given: Any) -> Any:
    """A table or a partition as the metastore keeps it."""
    kept = copy.deepcopy(given)
    for fields in (kept.sd.cols, getattr(kept, "partitionKeys", ())):
        for each in fields:
            each.name = each.name.lower()
    kept.parameters = {"transient_lastDdlTime": str(int(time.time())), **(kept.parameters or {})}
    return kept


@contextmanager
def memory_metastore(store: MemoryMetastore | None = None) -> Iterator[str]:
    """Yield the address of a metastore of this process; each connection has a thread."""
    processor = ThriftHiveMetastore.Processor(store or MemoryMetastore())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, processor), daemon=True).start()
        yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"


def _accept(listener: socket.socket, processor: Any) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, processor), daemon=True).start()


def _serve(connection: socket.socket, processor: Any) -> None:
    transport = TSocket()
    transport.setHandle(connection)
    protocol = TBinaryProtocol(TBufferedTransport(transport))
    try:
        while True:
            processor.process(protocol, protocol)
    except (TTransportException, OSError):
        transport.close()


class CountedHive(HiveCatalog):
    """A catalog with ``calls``: the requests that a metastore got, each attempt once."""

    COSTS: Mapping[str, tuple[str, ...]] = {
        "table": ("get_table_req",),
        "create": ("get_database", "create_database", "create_table"),
        "replace": ("get_table_req", "alter_table_with_environment_context"),
        "partitions": ("get_partitions_by_names",),
        "every_partition": ("get_partition_names", "get_partitions_by_names"),
        "add": ("add_partitions_req",),
        "update": ("get_partitions_by_names", "alter_partitions_with_environment_context"),
    }

    def __init__(self, uri: str, *, database: str, table: str = "t") -> None:
        super().__init__(f"lake: {database}.{table}", database=database, table=table, uri=uri)
        self.calls: Counter[str] = Counter()

    def _request(self, operation: str, *arguments: Any) -> Any:
        self.calls[operation] += 1
        return super()._request(operation, *arguments)

    def taken(self) -> Counter[str]:
        """The requests since the last call of this function."""
        taken, self.calls = self.calls, Counter()
        return taken

    @property
    def raw(self) -> Any:
        """The entry with all that the catalog keeps in it."""
        return self._stored()

    @property
    def owner(self) -> str:
        """The owner of the entry."""
        return str(self.raw.owner)

    @property
    def table_type(self) -> str:
        """The type of the entry."""
        return str(self.raw.tableType)

    def change(self, *, parameters=None, types=None, owner=None, input_format=None, removed=None) -> None:
        """Change the entry as another program does, and remove this parameter."""
        table = self.raw
        table.parameters |= parameters or {}
        table.parameters.pop(removed, None)
        for column in table.sd.cols:
            column.type = (types or {}).get(column.name, column.type)
        table.owner = owner or table.owner
        table.sd.inputFormat = input_format or table.sd.inputFormat
        self._alter(table)
