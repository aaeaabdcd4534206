"""Readers of both formats find the rows of the Hudi table at one instant after each operation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.publish.delta import DeltaLog
from parquetry.runtime.publish.iceberg import IcebergMetadata
from parquetry.runtime.publish.publishing import publish
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.spec.table_spec import IcebergFormat, RetentionPolicy
from tests.support import delta_readers, iceberg_readers
from tests.support.delta_readers import sorted_rows
from tests.support.hudi_rs import read
from tests.support.small_table import SmallTable, make_table

COLUMNS = ("id", "v", "p")
FORMATS = {
    "delta": (DeltaLog, delta_readers.READERS),
    "iceberg": (lambda store: IcebergMetadata(store, IcebergFormat()), iceberg_readers.READERS),
}


@dataclass(frozen=True)
class Shown:
    """A table that is published in one format."""

    table: SmallTable
    path: Path
    form: Any
    readers: Any

    def publish(self):
        (result,) = publish(self.table.handle, [self.form(self.table.store)])
        return result

    def check(self):
        """Publish the table, and read it by each reader."""
        self.publish()
        expected = sorted_rows(read(str(self.path)), COLUMNS)
        for name, reader in self.readers.items():
            assert sorted_rows(reader(self.path), COLUMNS) == expected, name


@pytest.fixture(params=FORMATS)
def shown(request, tmp_path):
    made = make_table(tmp_path / "t")
    made.upsert({"a": (1, "x"), "b": (2, "y"), "c": (3, "z")})
    return Shown(made, tmp_path / "t", *FORMATS[request.param])


def test_every_reader_finds_the_rows(shown):
    first = shown.publish()
    assert (first.files_added, first.files_removed) == (3, 0)
    shown.check()
    for reader in shown.readers.values():
        assert set(reader(shown.path).column_names) == set(COLUMNS)


def test_replaced_and_deleted_partitions_are_gone(shown):
    shown.publish()
    shown.table.overwrite({"d": (4, "y")})
    shown.check()
    shown.table.delete_partition("p=x")
    shown.check()


def test_a_rollback_is_followed(shown):
    last = shown.table.upsert({"a": (10, "x"), "e": (5, "w")})
    shown.publish()
    rollback(shown.table.handle, last.instant, timing=shown.table.timing)
    shown.check()
    shown.table.upsert({"b": (20, "y")})
    shown.check()


def test_no_stale_file_is_named_after_a_clean_of_unpublished_writes(shown):
    shown.publish()
    for value in range(6):
        shown.table.upsert({"a": (value, "x"), "b": (value, "y")})
    clean(shown.table.handle, policy=RetentionPolicy(keep_commits=1), timing=shown.table.timing)
    shown.check()


def test_a_loser_of_two_publishers_follows_the_winner(shown):
    shown.publish()
    shown.table.upsert({"a": (10, "x")})
    shown.publish()
    form = shown.form(shown.table.store)
    undisturbed = form.publish

    def beaten(*arguments, **options):
        """Publish the next write of somebody else between the reading of the metadata and the commit."""
        form.publish = undisturbed
        shown.table.upsert({"b": (9, "y")})
        shown.publish()
        return undisturbed(*arguments, **options)

    form.publish = beaten
    shown.table.upsert({"c": (8, "z")})
    publish(shown.table.handle, [form])
    shown.check()


def test_an_empty_text_in_the_partition_of_null_is_refused(shown):
    shown.table.upsert({"s": (1, "__HIVE_DEFAULT_PARTITION__")})
    with pytest.raises(UnsupportedTableError, match="do not have one value of p"):
        shown.publish()
