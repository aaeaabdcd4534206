"""The laws of `tests/unit/runtime/publish/test_iceberg_catalogs.py` on published tables, over a real Hive Metastore."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime

import pytest
from hive_metastore.ttypes import DataOperationType
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import NoSuchTableError

from parquetry.runtime.publish.iceberg import IcebergMetadata
from parquetry.runtime.publish.publishing import publish
from parquetry.runtime.spec.table_spec import CatalogType, Column, IcebergFormat, TableSpec, TargetCatalog
from tests.support.arrow_writer import ArrowWriter
from tests.unit.runtime.publish import test_iceberg_catalogs
from tests.unit.runtime.publish.test_iceberg_catalogs import NAME, published

pytestmark = [pytest.mark.interop, pytest.mark.spark]

globals().update(
    {
        name: law
        for name, law in vars(test_iceberg_catalogs).items()
        if name.startswith("test_") and "place" in inspect.signature(law).parameters
    }
)
table = test_iceberg_catalogs.table


@pytest.fixture
def place(hive_metastore, monkeypatch):
    """The metastore, which has no table of that name before and after a test."""
    requested = HiveCatalog._create_lock_request

    def with_operation(*names):
        request = requested(*names)
        for component in request.component:
            component.operationType = DataOperationType.NO_TXN
        return request

    # A metastore in test mode, which makes the tables of locks, wants the field that others ignore.
    monkeypatch.setattr(HiveCatalog, "_create_lock_request", with_operation)
    catalog = HiveCatalog("reader", uri=hive_metastore)
    declared = TargetCatalog(name="lake", type=CatalogType.HIVE, options={"uri": hive_metastore})
    yield IcebergFormat(catalog=declared, name=NAME), catalog
    catalog.drop_table(NAME)


def test_the_second_address_names_the_table(table, place, hive_metastore) -> None:
    form, catalog = place
    addresses = f"thrift://127.0.0.1:9,{hive_metastore}"
    declared = TargetCatalog(name="lake", type=CatalogType.HIVE, options={"uri": addresses})
    with pytest.raises(NoSuchTableError):
        catalog.load_table(NAME)
    assert published(table, IcebergFormat(catalog=declared, name=form.name)).files_added == 3
    assert catalog.load_table(NAME).metadata.current_snapshot() is not None


def test_a_table_with_times_is_published(place, tmp_path) -> None:
    form, catalog = place
    columns = (Column(name="id", type="bigint", nullable=False), Column(name="at", type="timestamp"))
    table = ArrowWriter(tmp_path / "t", TableSpec(name="t", columns=columns, record_key=("id",)))
    table.insert([{"id": 1, "at": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)}])
    publish(table.handle, [IcebergMetadata(table.handle.store, form)])
    assert catalog.load_table(NAME).scan(selected_fields=("id", "at")).to_arrow().to_pylist() == [
        {"id": 1, "at": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)}
    ]
