"""The entry of a table in Glue (moto) follows the table, with as few requests as that takes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from unittest.mock import patch

import pytest

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.catalog.glue import READ_ONLY_FIELDS
from parquetry.runtime.catalog.sync import sync
from parquetry.runtime.errors import CatalogError
from parquetry.runtime.services.accepted_loss import accept_loss
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import Column
from tests.support.glue import CountedGlue, credentials
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table

_NUMBERS = itertools.count()


@pytest.fixture
def glue(s3_options):
    with credentials():
        yield CountedGlue(s3_options["endpoint_url"], database=f"db{next(_NUMBERS)}")


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t")


def rows(*partitions: str) -> dict[str, tuple[int, str]]:
    return {f"{partition}-key": (1, partition) for partition in partitions}


def stored(glue: CountedGlue) -> dict[str, object]:
    name = {"DatabaseName": glue._names["DatabaseName"]}
    return glue.client.get_table(**name, Name="t")["Table"]


def registered(glue: CountedGlue) -> dict[tuple[str, ...], str]:
    found = {part.values: part.location for part in glue.every_partition()}
    glue.taken()
    return found


def test_the_first_sync_registers_the_table_and_its_partitions(table, glue, tmp_path) -> None:
    table.upsert(rows("a", "b"))
    result = sync(table.handle, glue, restores=False)
    assert result.created
    assert result.partitions_added == 2
    assert glue.taken() == {
        "GetTable": 1,
        "GetDatabase": 1,
        "CreateDatabase": 1,
        "CreateTable": 1,
        "BatchCreatePartition": 1,
        "UpdateTable": 1,
    }
    assert registered(glue) == {(p,): f"file:{tmp_path}/t/p={p}" for p in "ab"}
    entry = stored(glue)
    assert entry["TableType"] == "EXTERNAL_TABLE"
    assert entry["Parameters"]["last_commit_time_sync"] == table.handle.timeline().completed_writes[-1].time
    assert entry["StorageDescriptor"]["Location"] == f"file:{tmp_path}/t"


def test_nothing_is_written_if_nothing_changed(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    glue.taken()
    sync(table.handle, glue, restores=False)
    assert glue.taken() == {"GetTable": 1}


def test_a_commit_to_registered_partitions_writes_nothing(table, glue) -> None:
    table.upsert(rows("a", "b"))
    sync(table.handle, glue, restores=False)
    glue.taken()
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    assert glue.taken() == {"GetTable": 1, "BatchGetPartition": 1}


def test_only_partitions_of_later_commits_are_looked_up(table, glue) -> None:
    table.upsert(rows(*"abcdefgh"))
    sync(table.handle, glue, restores=False)
    table.upsert(rows("a", "x"))
    glue.taken()
    result = sync(table.handle, glue, restores=False)
    assert (result.partitions_added, result.partitions_updated) == (1, 0)
    assert glue.taken() == {
        "GetTable": 1,
        "BatchGetPartition": 1,
        "BatchCreatePartition": 1,
        "UpdateTable": 1,
    }
    assert len(registered(glue)) == 9


def test_a_partition_that_is_deleted_again_is_not_registered(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    table.upsert(rows("x"))
    table.delete_partition("p=x")
    sync(table.handle, glue, restores=False)
    assert registered(glue).keys() == {("a",)}


def test_a_new_partition_of_which_a_file_was_lost_is_registered(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    table.insert(rows("x"))
    table.insert({"other": (2, "x")})
    lost = table.handle.view(table.handle.timeline()).slices("p=x")[0]
    table.store.delete(lost.path)
    assert accept_loss(table.handle, timing=FAST).groups_replaced == 1
    assert sync(table.handle, glue, restores=False).partitions_added == 1
    assert registered(glue).keys() == {("a",), ("x",)}


def test_partitions_without_files_are_dropped_on_demand_alone(table, glue, tmp_path) -> None:
    table.upsert(rows("a", "b"))
    sync(table.handle, glue, restores=False)
    table.delete_partition("p=b")
    assert sync(table.handle, glue, restores=True).partitions_dropped == 0
    assert registered(glue).keys() == {("a",), ("b",)}
    assert sync(table.handle, glue, restores=True, drops=True).partitions_dropped == 1
    assert registered(glue).keys() == {("a",)}
    assert list((tmp_path / "t" / "p=b").glob("*.parquet"))


def test_a_partition_that_another_sync_registers_meanwhile_is_not_dropped(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    read = glue.every_partition

    def meanwhile():
        glue.every_partition = read
        table.upsert(rows("b"))
        sync(table.handle, glue, restores=False)
        return read()

    glue.every_partition = meanwhile
    assert sync(table.handle, glue, restores=True, drops=True).partitions_dropped == 0
    assert registered(glue).keys() == {("a",), ("b",)}


def test_a_partition_in_another_folder_is_not_dropped(table, glue, tmp_path) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    (known,) = glue.every_partition()
    glue.add(glue.table(), [replace(known, values=("x",), location=f"file:{tmp_path}/t2/p=x")])
    assert sync(table.handle, glue, restores=True, drops=True).partitions_dropped == 0
    assert registered(glue).keys() == {("a",), ("x",)}


def evolve(table: SmallTable, *columns: Column) -> None:
    """Apply a spec with these columns."""
    spec = replace(table.handle.spec, columns=columns)
    requirements = Requirements(exists=True, applied_number=table.handle.applied.number)
    apply_change(
        table.store,
        TableChange(spec=spec, requirements=requirements, alters_schema=True, project="tests"),
        timing=FAST,
    )


def columns_of(glue: CountedGlue, *, partition: str | None = None) -> dict[str, str]:
    holder = glue.table() if partition is None else glue.partitions([(partition,)])[partition,]
    found = holder.columns
    glue.taken()
    return {column.name: column.type for column in found if not column.name.startswith("_hoodie_")}


def test_new_columns_reach_the_partitions_too(table, glue) -> None:
    table.upsert(rows(*"abc"))
    sync(table.handle, glue, restores=False)
    evolve(table, *COLUMNS, Column(name="price", type="decimal(10,2)"))
    glue.taken()
    result = sync(table.handle, glue, restores=False)
    assert "columns.price" in result.changes
    assert result.partitions_updated == 3
    assert glue.taken() == {
        "GetTable": 1,
        "GetPartitions": 1,
        "BatchUpdatePartition": 1,
        "UpdateTable": 1,
    }
    assert columns_of(glue) == columns_of(glue, partition="b")
    assert columns_of(glue) == {"id": "string", "v": "bigint", "price": "decimal(10,2)"}


def test_a_sync_that_died_before_the_entry_updates_what_is_left(table, glue) -> None:
    table.upsert(rows(*"abc"))
    sync(table.handle, glue, restores=False)
    evolve(table, *COLUMNS, Column(name="price", type="double"))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    replace_entry, glue.replace = glue.replace, die
    with pytest.raises(KeyboardInterrupt):
        sync(table.handle, glue, restores=False)
    glue.replace = replace_entry
    result = sync(table.handle, glue, restores=False)
    assert "columns.price" in result.changes
    assert result.partitions_updated == 0


def test_a_first_sync_that_died_is_finished(table, glue) -> None:
    table.upsert(rows(*"abc"))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    add, glue.add = glue.add, die
    with pytest.raises(KeyboardInterrupt):
        sync(table.handle, glue, restores=False)
    glue.add = add
    assert sync(table.handle, glue, restores=False).partitions_added == 3


def test_comments_arrive_and_change(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    evolve(table, COLUMNS[0], replace(COLUMNS[1], description="A value"), COLUMNS[2])
    assert sync(table.handle, glue, restores=False).changes == ("columns.v",)
    assert {column.name: column.comment for column in glue.table().columns}["v"] == "A value"


def test_what_others_keep_in_the_entry_stays(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    change_entry(glue, lambda entry: entry["Parameters"].update(team="blue") or entry.update(Owner="ann"))
    assert sync(table.handle, glue, restores=True).changes == ()
    table.upsert(rows("b"))
    sync(table.handle, glue, restores=False)
    assert stored(glue)["Parameters"]["team"] == "blue"
    assert stored(glue)["Owner"] == "ann"


def test_statistics_that_spark_keeps_stay(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    size = {"spark.sql.statistics.totalSize": "17"}
    change_entry(glue, lambda entry: entry["Parameters"].update(size))
    assert not glue.table().was_changed_by_others
    (part,) = glue.every_partition()
    glue.update(glue.table(), [replace(part, parameters=size)])
    assert sync(table.handle, glue, restores=True).changes == ()
    evolve(table, *COLUMNS, Column(name="price", type="double"))
    assert sync(table.handle, glue, restores=True).partitions_updated == 1
    (part,) = glue.every_partition()
    assert part.parameters == size
    assert size.items() <= stored(glue)["Parameters"].items()


def change_entry(glue: CountedGlue, change) -> None:
    """Change the entry as another program does."""
    entry = {key: value for key, value in stored(glue).items() if key not in READ_ONLY_FIELDS}
    change(entry)
    glue.client.update_table(DatabaseName=glue._names["DatabaseName"], TableInput=entry)


def test_a_column_that_others_changed_is_left_but_on_demand(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    change_entry(glue, lambda entry: entry["StorageDescriptor"]["Columns"][-1].update(Type="string"))
    assert glue.table().was_changed_by_others
    table.upsert(rows("b"))
    result = sync(table.handle, glue, restores=False)
    assert "columns.v" in result.warnings[0].in_full()
    assert result.partitions_added == 1
    assert columns_of(glue)["v"] == "string"
    assert glue.table().was_changed_by_others
    assert sync(table.handle, glue, restores=True).changes == ("columns.v",)
    assert columns_of(glue) == columns_of(glue, partition="b") == {"id": "string", "v": "bigint"}
    assert not glue.table().was_changed_by_others


def test_the_entry_of_another_table_is_refused(table, glue, tmp_path) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    other = make_table(tmp_path / "other")
    with pytest.raises(CatalogError, match="not that at"):
        sync(other.handle, glue, restores=True)


@pytest.mark.parametrize(
    ("parameters", "storage", "found"),
    [
        ({"table_type": "ICEBERG"}, {}, "table_type=ICEBERG"),
        ({"spark.sql.sources.provider": "delta"}, {}, "provider=delta"),
        ({}, {"InputFormat": "org.apache.hadoop.mapred.TextInputFormat"}, "TextInputFormat"),
    ],
)
def test_the_entry_of_another_format_is_refused(table, glue, parameters, storage, found) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    change_entry(
        glue,
        lambda entry: (entry["Parameters"].update(parameters), entry["StorageDescriptor"].update(storage)),
    )
    before = stored(glue)
    with pytest.raises(CatalogError, match=f"lake: .* is not the entry of a Hudi table .*{found}.*; remove"):
        sync(table.handle, glue, restores=True)
    assert stored(glue) == before


def test_commits_that_left_the_timeline_are_read_from_the_archive(tmp_path, glue, on_each_version) -> None:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=2, table_version=on_each_version)
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    for partition in "bcdefgh":
        table.upsert(rows(partition))
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    last = glue.table().last_sync
    assert last < table.handle.timeline().first_contiguous_write
    glue.taken()
    assert sync(table.handle, glue, restores=False).partitions_added == 7
    assert glue.taken()["BatchGetPartition"] == 1
    assert len(registered(glue)) == 8


def test_without_the_archive_the_table_is_listed(tmp_path, glue) -> None:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=2)
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    for partition in "bcdefgh":
        table.upsert(rows(partition))
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    for log in (tmp_path / "t" / ".hoodie" / "archived").iterdir():
        log.unlink()
    assert sync(table.handle, glue, restores=False).partitions_added == 7


def test_a_write_that_completes_late_is_not_missed(table, glue) -> None:
    table.upsert(rows("a"))
    slow = SmallTable(store=table.store)

    def meanwhile(_: object) -> None:
        slow.before_publish = lambda _: None
        table.upsert(rows("b"))
        sync(table.handle, glue, restores=False)

    slow.before_publish = meanwhile
    slow.upsert(rows("late"))
    sync(table.handle, glue, restores=False)
    assert registered(glue).keys() == {("a",), ("b",), ("late",)}


def test_the_last_sync_is_moved_on_before_the_commits_leave_the_timeline(table, glue) -> None:
    table.upsert(rows("a"))
    sync(table.handle, glue, restores=False)
    before = glue.table().last_sync
    glue.taken()
    for _ in range(3):
        table.upsert(rows("a"))
        sync(table.handle, glue, restores=False)
    assert glue.taken()["UpdateTable"] == 1
    assert glue.table().last_sync > before


def test_a_catalog_that_cannot_be_reached_is_an_error(table) -> None:
    with credentials(), patch("parquetry.runtime.catalog.glue._ATTEMPTS", 1):
        glue = CountedGlue("http://127.0.0.1:9", database="db")
        with pytest.raises(CatalogError, match=r"lake: db\.t: Glue refused get_table"):
            sync(table.handle, glue, restores=False)
