"""The client of a Hive Metastore: connections that fail, requests that end, and refusals."""

from __future__ import annotations

import gc
import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest
from thrift.transport.TTransport import TTransportException

from parquetry.runtime.catalog import hive
from parquetry.runtime.catalog.entry import CatalogPartition, catalog_table
from parquetry.runtime.catalog.hive import HiveCatalog
from parquetry.runtime.catalog.open import open_catalog
from parquetry.runtime.errors import CatalogError, StorageError
from parquetry.runtime.spec.table_spec import Column
from tests.support.hive_metastore import CountedHive, MemoryMetastore, memory_metastore

ENTRY = catalog_table([Column(name="id", type="bigint")], (), "file:/t")
PARTITIONED = catalog_table(
    [Column(name="id", type="bigint"), Column(name="day", type="string")], ("day",), "file:/t"
)


@pytest.fixture
def waits(monkeypatch):
    """The seconds that the client would have slept."""
    slept = []
    monkeypatch.setattr(hive.time, "sleep", slept.append)
    return slept


class Flaky(MemoryMetastore):
    """A metastore that breaks some connections: before it acts on a request, or after."""

    def __init__(self, *, before: int = 0, after: int = 0) -> None:
        super().__init__()
        self.before, self.after = before, after

    def create_database(self, database):
        super().create_database(database)
        if self.after:
            self.after -= 1
            raise TTransportException

    def create_table(self, table):
        super().create_table(table)
        if self.after:
            self.after -= 1
            raise TTransportException

    def get_table_req(self, request):
        if self.before:
            self.before -= 1
            raise TTransportException
        return super().get_table_req(request)


def test_a_request_over_a_broken_connection_is_repeated_with_growing_waits(waits) -> None:
    with memory_metastore(Flaky(before=3)) as uri:
        assert CountedHive(uri, database="db").table() is None
    assert waits == [0.5, 1, 2]


def test_a_repeated_request_may_have_been_done_before(waits) -> None:
    with memory_metastore(Flaky(after=2)) as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(ENTRY)
        assert catalog.table().location == "file:/t"
    taken = catalog.taken()
    assert (taken["create_database"], taken["create_table"]) == (2, 2)


def test_attempts_end(waits) -> None:
    with memory_metastore(Flaky(before=9)) as uri:
        catalog = CountedHive(uri, database="db")
        with pytest.raises(
            CatalogError, match=r"lake: db\.t: the Hive Metastore refused get_table_req"
        ) as caught:
            catalog.table()
        assert caught.value.is_outage, "other tables of the command would wait for it too"
        assert catalog.taken() == {"get_table_req": 5}


@contextmanager
def server_that_answers(answer: bytes):
    """Yield the address of a server that sends this and keeps the connection open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        opened = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                opened.append(connection)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        for connection in opened:
            connection.close()


def test_a_metastore_that_does_not_answer_is_given_up(waits) -> None:
    with (
        server_that_answers(b"") as uri,
        patch("parquetry.runtime.metastore_transport.TIMEOUT_SECONDS", 0.05),
    ):
        catalog = CountedHive(uri, database="db")
        with pytest.raises(CatalogError, match="read timeout"):
            catalog.table()
    assert catalog.taken() == {"get_table_req": 5}


def test_what_is_no_metastore_is_an_error(waits) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with (
        server_that_answers(answer) as uri,
        pytest.raises(CatalogError, match="refused get_table_req") as caught,
    ):
        CountedHive(uri, database="db").table()
    assert not caught.value.is_outage
    assert waits == []


def test_the_next_address_is_tried(waits) -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(f"thrift://127.0.0.1:9,{uri}", database="db")
        catalog.create(ENTRY)
        assert waits == [0.5]
        assert catalog.table().location == "file:/t"
        assert waits == [0.5]


def test_nothing_is_printed_if_no_address_answers(waits, capfd) -> None:
    with pytest.raises(CatalogError, match="Could not connect"):
        CountedHive("thrift://127.0.0.1:9", database="db").table()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "uri",
    [
        "http://metastore:9083",
        "thrift://ann:secret@metastore:9083",
        "thrift://",
        "thrift://a:9083,",
        "a:9083",
    ],
)
def test_another_address_is_refused(uri) -> None:
    with pytest.raises(
        CatalogError, match="is not the address of a Hive Metastore; write thrift://HOST:PORT"
    ):
        HiveCatalog("lake: db.t", database="db", table="t", uri=uri)


def test_missing_packages_are_named() -> None:
    missing = {"hive_metastore": None, "hive_metastore.ThriftHiveMetastore": None}
    with (
        patch.dict(sys.modules, missing),
        pytest.raises(CatalogError, match=r"pip install parquetry\[iceberg\]"),
    ):
        HiveCatalog("lake: db.t", database="db", table="t", uri="thrift://metastore")


def test_the_address_may_be_a_variable_of_the_environment(monkeypatch) -> None:
    with memory_metastore() as uri:
        options = {"type": "hive", "uri": "env:METASTORE"}
        with pytest.raises(StorageError, match="METASTORE is not set"):
            open_catalog("lake", options, database="db", table="T")
        monkeypatch.setenv("METASTORE", uri)
        catalog = open_catalog("lake", options, database="db", table="T")
        assert catalog.place == "lake: db.t"
        assert catalog.table() is None


class InBucket:
    uri = "s3://lake/orders"


def test_readers_of_a_metastore_open_buckets_by_hadoop() -> None:
    catalog = HiveCatalog("lake: db.t", database="db", table="t", uri="thrift://metastore")
    assert catalog.location_of(InBucket()) == "s3a://lake/orders"


def test_partitions_are_sent_in_batches() -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(PARTITIONED)
        (known,) = partitions(1)
        many = partitions(1250)
        catalog.taken()
        catalog.add(PARTITIONED, many)
        catalog.update(PARTITIONED, many[:101])
        assert catalog.partitions([part.values for part in many]).keys() == {part.values for part in many}
        assert len(list(catalog.every_partition())) == 1250
        catalog.drop([part.values for part in many if part != known])
        assert [part.values for part in catalog.every_partition()] == [known.values]
    assert catalog.taken() == {
        "get_table_req": 1,
        "add_partitions_req": 13,
        "alter_partitions_with_environment_context": 2,
        "get_partitions_by_names": 2 + 2 + 2 + 1,
        "get_partition_names": 2,
        "drop_partitions_req": 13,
    }


def partitions(count: int):
    base = CatalogPartition(values=(), location="", columns=PARTITIONED.columns)
    return [
        replace(base, values=(f"d{number}",), location=f"file:/t/day=d{number}") for number in range(count)
    ]


def test_a_change_of_others_during_a_sync_is_not_overwritten() -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(ENTRY)
        catalog.table()
        catalog.change(parameters={"team": "blue"})
        with pytest.raises(CatalogError, match="another program changed the entry in the catalog meanwhile"):
            catalog.replace(ENTRY, keeps_version=True)
        assert catalog.table().parameters["team"] == "blue"


def test_a_partition_that_others_registered_meanwhile_is_left() -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(PARTITIONED)
        (theirs,) = partitions(1)
        catalog.add(PARTITIONED, [replace(theirs, location="file:/elsewhere")])
        catalog.add(PARTITIONED, partitions(2))
        found = {part.values: part.location for part in catalog.every_partition()}
    assert found == {("d0",): "file:/elsewhere", ("d1",): "file:/t/day=d1"}


def test_the_metastore_sets_the_time_of_a_change() -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(ENTRY)
        old = {"transient_lastDdlTime": "5"}
        catalog.change(parameters=old)
        stored = catalog.table()
        catalog.replace(replace(ENTRY, parameters={**ENTRY.parameters, **old}), keeps_version=True)
        assert stored.parameters.items() >= old.items()
        assert int(catalog.table().parameters["transient_lastDdlTime"]) > 5


def test_a_partition_that_others_dropped_meanwhile_is_not_updated() -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(PARTITIONED)
        catalog.add(PARTITIONED, partitions(1))
        catalog.update(PARTITIONED, partitions(2))
        assert [part.values for part in catalog.every_partition()] == [("d0",)]


def test_a_change_that_died_between_its_steps_is_not_taken_for_one_of_others() -> None:
    store = MemoryMetastore()
    wanted = catalog_table([Column(name="id", type="int"), Column(name="v", type="int")], (), "file:/t")
    with memory_metastore(store) as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(ENTRY)
        steps = []

        def die(*arguments):
            steps.append(MemoryMetastore.alter_table_with_environment_context(store, *arguments))
            raise TTransportException

        store.alter_table_with_environment_context = die
        with patch.object(hive, "_ATTEMPTS", 1), pytest.raises(CatalogError):
            catalog.replace(wanted, keeps_version=True)
        assert len(steps) == 1
        left = catalog.table()
        assert not left.was_changed_by_others
        assert [column.name for column in left.columns] == [column.name for column in ENTRY.columns[:-1]]
        del store.alter_table_with_environment_context
        catalog.replace(wanted, keeps_version=True)
        assert catalog.table().columns == wanted.columns


def test_a_partition_without_a_value_for_each_key_is_an_error() -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(PARTITIONED)
        with pytest.raises(CatalogError, match="has 1 partition keys, and a partition has 2 values; remove"):
            catalog.partitions([("a", "b")])


@pytest.mark.parametrize("kind", ["bigint", "int"])
def test_a_refused_change_of_partition_keys_leaves_the_columns(kind) -> None:
    columns = [Column(name="id", type=kind), Column(name="dt", type="string")]
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.create(PARTITIONED)
        with pytest.raises(CatalogError, match="partition keys can not be changed"):
            catalog.replace(catalog_table(columns, ("dt",), "file:/t"), keeps_version=True)
        assert catalog.table().columns == PARTITIONED.columns
        assert catalog.table().partition_keys == PARTITIONED.partition_keys


def test_the_connection_is_closed_with_the_catalog() -> None:
    with memory_metastore() as uri:
        catalog = CountedHive(uri, database="db")
        catalog.table()
        transport = catalog._client._iprot.trans
        assert transport.isOpen()
        del catalog
        gc.collect()
        assert not transport.isOpen()
