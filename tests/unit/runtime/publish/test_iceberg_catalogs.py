"""Tables that are published to catalogs: SQL, REST and Glue name them, and their readers find the rows."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

import parquetry
from parquetry.runtime import metastore_transport
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.errors import CorruptTableError, ForeignTableError, StorageError, UnsupportedTableError
from parquetry.runtime.publish import iceberg_catalogs
from parquetry.runtime.publish.iceberg import IcebergMetadata
from parquetry.runtime.publish.model import INSTANT_KEY
from parquetry.runtime.publish.publishing import (
    files_still_named,
    formats_of,
    lag_warnings,
    publish,
    publish_after,
    publish_lag,
)
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spec.table_spec import CatalogType, IcebergFormat, Publish, TargetCatalog
from parquetry.runtime.storage.dry_run import DryRunStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import APPLIED_FOLDER
from tests.support.applied_records import edit
from tests.support.delta_readers import sorted_rows
from tests.support.hive_metastore import memory_metastore
from tests.support.hudi_rs import read
from tests.support.iceberg_rest_server import rest_server
from tests.support.small_table import make_table

COLUMNS = ("id", "v", "p")
NAME = "shop.orders"


@contextmanager
def sql(folder, monkeypatch):
    uri = f"sqlite:///{folder}/lake.db"
    monkeypatch.setenv("LAKE", uri)
    catalog = SqlCatalog("lake", uri=uri)
    yield {"uri": "env:LAKE"}, catalog
    catalog.engine.dispose()


@contextmanager
def rest(folder, monkeypatch):
    monkeypatch.setenv("REST_TOKEN", "opensesame")
    with rest_server(folder, token="opensesame") as (url, _):
        yield {"uri": url, "token": "env:REST_TOKEN"}, RestCatalog("reader", uri=url, token="opensesame")


CATALOGS = {CatalogType.SQL: sql, CatalogType.REST: rest}


@pytest.fixture(params=CATALOGS)
def place(request, tmp_path, monkeypatch):
    with CATALOGS[request.param](tmp_path, monkeypatch) as (options, catalog):
        declared = TargetCatalog(name="lake", type=request.param, options=options)
        yield IcebergFormat(catalog=declared, name=NAME), catalog


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t")
    made.upsert({"a": (1, "x"), "b": (2, "y"), "c": (3, "z")})
    return made


def published(table, form):
    (result,) = publish(table.handle, [IcebergMetadata(table.store, form)])
    return result


def assert_found(catalog, path):
    rows = catalog.load_table(NAME).scan().to_arrow()
    assert sorted_rows(rows, COLUMNS) == sorted_rows(read(str(path)), COLUMNS)


def test_a_catalog_names_the_table_after_each_commit(table, place, tmp_path):
    form, catalog = place
    for value in range(3):
        assert published(table, form).files_added > 0
        assert_found(catalog, tmp_path / "t")
        assert published(table, form).files_added == 0
        last = table.upsert({"a": (value + 10, "x")})
    create_savepoint(table.handle, last.instant)
    published(table, form)
    metadata = catalog.load_table(NAME).metadata
    assert metadata.current_snapshot().summary.additional_properties[INSTANT_KEY] == last.instant
    assert sorted(metadata.refs) == ["main", f"savepoint_{last.instant}"]
    assert (len(metadata.partition_specs), metadata.properties["gc.enabled"]) == (1, "false")
    IcebergMetadata(table.store, form).expire(last.instant, ())
    assert len(catalog.load_table(NAME).metadata.snapshots) == 1
    assert_found(catalog, tmp_path / "t")


def test_a_loser_of_two_publishers_follows_the_winner(table, place, tmp_path):
    form, catalog = place

    class Beaten(IcebergMetadata):
        done = False

        def publish(self, *arguments, **options):
            if not self.done:
                self.done = True
                published(table, form)
            return super().publish(*arguments, **options)

    for value in range(2):
        publish(table.handle, [Beaten(table.store, form)])
        assert_found(catalog, tmp_path / "t")
        table.upsert({"c": (value, "z")})


def test_a_write_through_the_catalog_stops_publishing(table, place, tmp_path):
    form, catalog = place
    published(table, form)
    with catalog.load_table(NAME).transaction() as change, change.update_snapshot().fast_append():
        pass
    table.upsert({"a": (9, "x")})
    with pytest.raises(ForeignTableError, match=r"\(shop.orders in the catalog lake\)"):
        published(table, form)
    assert sorted_rows(read(str(tmp_path / "t")), ("id", "v")) == [("a", 9), ("b", 2), ("c", 3)]


def test_another_table_of_that_name_is_left_alone(table, place, tmp_path):
    form, catalog = place
    other = make_table(tmp_path / "other")
    other.upsert({"k": (1, "x")})
    published(other, form)
    with pytest.raises(ForeignTableError, match="has its files elsewhere"):
        published(table, form)
    assert catalog.load_table(NAME).metadata.location.endswith("/other")


def test_a_dry_run_changes_no_catalog(table, place):
    form, catalog = place
    published(table, form)
    before = catalog.load_table(NAME).metadata
    table.upsert({"a": (9, "x")})
    dry = DryRunStore(table.store)
    publish(open_table(dry), [IcebergMetadata(dry, form)])
    assert catalog.load_table(NAME).metadata == before


def test_a_server_does_not_choose_what_reads_the_files(table, tmp_path):
    with rest_server(tmp_path, overrides={"py-io-impl": "antigravity.FileIO"}) as (url, commits):
        declared = TargetCatalog(name="lake", type=CatalogType.REST, options={"uri": url})
        published(table, IcebergFormat(catalog=declared, name=NAME))
        table.upsert({"a": (9, "x")})
        published(table, IcebergFormat(catalog=declared, name=NAME))
    assert commits == [200, 200]


def test_a_catalog_that_cannot_be_reached_fails_no_write(table, tmp_path):
    nowhere = TargetCatalog(name="lake", type=CatalogType.REST, options={"uri": "http://127.0.0.1:9"})
    form = IcebergFormat(catalog=nowhere, name=NAME)
    with pytest.raises(StorageError, match=r"not published to shop\.orders in the catalog lake"):
        published(table, form)


def to_metastore(table, uri):
    declared = TargetCatalog(name="lake", type=CatalogType.HIVE, options={"uri": uri})
    return published(table, IcebergFormat(catalog=declared, name=NAME))


def test_a_metastore_that_does_not_answer_is_given_up(table, monkeypatch):
    monkeypatch.setattr(metastore_transport, "TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"thrift://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(
            StorageError, match=r"not published to shop\.orders in the catalog lake: read timeout"
        ):
            to_metastore(table, uri)


def test_the_last_of_several_metastores_is_reached(table):
    with memory_metastore() as uri, pytest.raises(StorageError, match="Internal error"):
        # It has no locks, of which pyiceberg takes one.
        to_metastore(table, f"thrift://127.0.0.1:9,{uri}")


def test_another_address_is_no_metastore(table):
    with pytest.raises(
        StorageError, match="is not the address of a Hive Metastore; write thrift://HOST:PORT"
    ):
        to_metastore(table, "http://metastore:9083")


def recorded(table, form):
    """Another record of the table, as one who can write to its folder makes it."""
    write_applied(table.store, replace(table.handle.spec, publish=Publish(iceberg=form)), number=2)


def assert_refused(table, *, allowed_by):
    for allowed in allowed_by:
        handle = open_table(open_store(table.store.uri, None, allowed))
        (warning,) = lag_warnings(handle)
        assert "'lake' is a catalog that the applied spec names" in str(warning)
        assert len(publish_after(handle, "write")) == 1
        for refused in (files_still_named, lambda one: publish(one, formats_of(one))):
            with pytest.raises(UnsupportedTableError, match="nothing is sent to it"):
                refused(handle)


def test_a_record_names_no_catalog_that_the_caller_does_not(table, tmp_path, monkeypatch):
    """Nothing is sent to it, no variable is read, and no file is taken for one that nobody reads."""
    monkeypatch.setenv("SHOP_SECRET", "opensesame")
    lake = {"name": "lake", "type": "rest"}
    with rest_server(tmp_path, token="opensesame") as (url, commits):
        options = {"uri": url, "token": "env:SHOP_SECRET"}
        declared = TargetCatalog(name="lake", type=CatalogType.REST, options=options)
        recorded(table, IcebergFormat(catalog=declared, name=NAME))
        other = replace(declared, options={"uri": url})
        with monkeypatch.context() as patched:
            patched.setattr(iceberg_catalogs, "_client", lambda *_: pytest.fail("the catalog was opened"))
            assert_refused(table, allowed_by=(Allowed(), Allowed(catalogs=frozenset([other.digest]))))
        with pytest.raises(UnsupportedTableError, match="nothing is sent to it"):
            parquetry.open(tmp_path / "t", catalogs=[lake | {"uri": url}]).publish()
        assert commits == []
        # Whoever opens the table names the catalog itself.
        parquetry.open(tmp_path / "t", catalogs=[lake | options]).publish()
        assert commits == [200]
    assert table.handle.spec.allowed.catalogs == {declared.digest}


def test_a_table_whose_record_was_changed_is_not_published(table, tmp_path):
    recorded(table, IcebergFormat())
    edit(
        tmp_path / "t" / APPLIED_FOLDER / f"{2:020d}.json",
        lambda document: document.update(git_commit="f" * 40),
        sealed=False,
    )
    handle = table.handle
    with pytest.raises(CorruptTableError, match="SC505"):
        publish(handle, formats_of(handle))
    assert not (tmp_path / "t/metadata").exists()


def test_a_type_of_catalogs_that_nobody_knows_is_refused(table, tmp_path):
    with pytest.raises(parquetry.UsageError, match="the type of a catalog is"):
        parquetry.open(tmp_path / "t", catalogs=[{"name": "lake", "type": "nessie"}])


def test_what_reads_makes_no_tables_in_a_database(table, tmp_path):
    database = tmp_path / "lake.db"
    declared = TargetCatalog(name="lake", type=CatalogType.SQL, options={"uri": f"sqlite:///{database}"})
    form = IcebergFormat(catalog=declared, name=NAME)
    dry = DryRunStore(table.store)
    database.touch()
    assert publish_lag(table.handle, IcebergMetadata(table.store, form)).writes == 2
    publish(open_table(dry), [IcebergMetadata(dry, form)])
    assert database.read_bytes() == b""
    assert published(table, form).files_added == 3
    assert publish_lag(table.handle, IcebergMetadata(table.store, form)).writes == 0
