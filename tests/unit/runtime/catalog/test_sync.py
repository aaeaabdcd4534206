"""The entry of a table in each kind of catalog follows the table, with as few requests as that takes."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.catalog.entry import DEFINITION, catalog_table
from parquetry.runtime.catalog.sync import sync
from parquetry.runtime.errors import CatalogError, StaleTimelineError
from parquetry.runtime.services.accepted_loss import accept_loss
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.table.partition_path import escape_value
from tests.support.glue import CountedGlue, credentials
from tests.support.hive_metastore import CountedHive, memory_metastore
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table
from tests.support.stores import Kind, WrappedStore

_NUMBERS = itertools.count()


@pytest.fixture(params=["glue", "hive"])
def catalog(request):
    """An entry in Glue (moto), and in a metastore of this process. The real one is in `tests/interop`."""
    database = f"db{next(_NUMBERS)}"
    if request.param == "glue":
        with credentials():
            yield CountedGlue(request.getfixturevalue("s3_options")["endpoint_url"], database=database)
    else:
        with memory_metastore() as uri:
            yield CountedHive(uri, database=database)


def cost(catalog: CountedGlue | CountedHive, *steps: str) -> Counter[str]:
    """The requests that these calls of the port take."""
    return Counter(request for step in steps for request in catalog.COSTS[step])


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t")


def rows(*partitions: str) -> dict[str, tuple[int, str]]:
    return {f"{partition}-key": (1, partition) for partition in partitions}


def registered(catalog: CountedGlue | CountedHive) -> dict[tuple[str, ...], str]:
    found = {part.values: part.location for part in catalog.every_partition()}
    catalog.taken()
    return found


def test_the_first_sync_registers_the_table_and_its_partitions(table, catalog, tmp_path) -> None:
    table.upsert(rows("a", "b"))
    result = sync(table.handle, catalog, restores=True)
    assert result.created
    assert result.partitions_added == 2
    assert catalog.taken() == cost(catalog, "table", "create", "add", "replace")
    assert registered(catalog) == {(p,): f"file:{tmp_path}/t/p={p}" for p in "ab"}
    assert catalog.table_type == "EXTERNAL_TABLE"
    entry = catalog.table()
    assert entry.parameters["last_commit_time_sync"] == table.handle.timeline().completed_writes[-1].time
    assert entry.location == f"file:{tmp_path}/t"


def test_a_rollback_meanwhile_drops_no_partition_that_has_its_files_again(table, catalog) -> None:
    class RolledBack(WrappedStore):
        """Another process rolls the newest write back before the first listing of a partition."""

        instant = ""

        def before(self, kind: Kind, path: str) -> None:
            if kind is Kind.LIST and path == "p=a" and self.instant:
                instant, self.instant = self.instant, ""
                rollback(table.handle, instant, timing=FAST)

    table.upsert(rows("a", "b"))
    sync(table.handle, catalog, restores=True)
    store = RolledBack(table.store)
    handle = replace(table.handle, store=store)
    store.instant = str(table.overwrite({"new": (1, "a")}).instant)
    with pytest.raises(StaleTimelineError, match="run again"):
        sync(handle, catalog, restores=True, drops=True)
    assert set(registered(catalog)) == {("a",), ("b",)}
    assert sync(handle, catalog, restores=True, drops=True).partitions_dropped == 0


def test_a_version_change_meanwhile_drops_no_partition(table, catalog, tmp_path) -> None:
    for partition in "abc":
        table.upsert(rows(partition))
    sync(table.handle, catalog, restores=True)
    opened = table.handle
    timeline = opened.timeline()
    former = {info.path: table.store.read(info.path) for info in timeline.files.values()}
    change_version(table.store, 9 if opened.config.version == 6 else 6, timing=FAST)
    for path, content in former.items():
        if not path.rpartition("/")[2].startswith(timeline.completed_writes[1].time):
            table.store.put(path, content)
    with pytest.raises(StaleTimelineError):
        sync(opened, catalog, restores=True, drops=True)
    assert set(registered(catalog)) == {("a",), ("b",), ("c",)}


def test_nothing_is_written_if_nothing_changed(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    catalog.taken()
    sync(table.handle, catalog, restores=False)
    assert catalog.taken() == cost(catalog, "table")


def test_a_commit_to_registered_partitions_writes_nothing(table, catalog) -> None:
    table.upsert(rows("a", "b"))
    sync(table.handle, catalog, restores=True)
    catalog.taken()
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=False)
    assert catalog.taken() == cost(catalog, "table", "partitions")


def test_only_partitions_of_later_commits_are_looked_up(table, catalog) -> None:
    table.upsert(rows(*"abcdefgh"))
    sync(table.handle, catalog, restores=True)
    table.upsert(rows("a", "x"))
    catalog.taken()
    result = sync(table.handle, catalog, restores=False)
    assert (result.partitions_added, result.partitions_updated) == (1, 0)
    assert catalog.taken() == cost(catalog, "table", "partitions", "add", "replace")
    assert len(registered(catalog)) == 9


def test_a_partition_that_is_deleted_again_is_not_registered(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    table.upsert(rows("x"))
    table.delete_partition("p=x")
    sync(table.handle, catalog, restores=False)
    assert registered(catalog).keys() == {("a",)}


def test_a_new_partition_of_which_a_file_was_lost_is_registered(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    table.insert(rows("x"))
    table.insert({"other": (2, "x")})
    lost = table.handle.view(table.handle.timeline()).slices("p=x")[0]
    table.store.delete(lost.path)
    assert accept_loss(table.handle, timing=FAST).groups_replaced == 1
    assert sync(table.handle, catalog, restores=False).partitions_added == 1
    assert registered(catalog).keys() == {("a",), ("x",)}


def test_partitions_without_files_are_dropped_on_demand_alone(table, catalog, tmp_path) -> None:
    table.upsert(rows("a", "b"))
    sync(table.handle, catalog, restores=True)
    table.delete_partition("p=b")
    assert sync(table.handle, catalog, restores=True).partitions_dropped == 0
    assert registered(catalog).keys() == {("a",), ("b",)}
    assert sync(table.handle, catalog, restores=True, drops=True).partitions_dropped == 1
    assert registered(catalog).keys() == {("a",)}
    assert list((tmp_path / "t" / "p=b").glob("*.parquet"))


def test_a_partition_that_another_sync_registers_meanwhile_is_not_dropped(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    read = catalog.every_partition

    def meanwhile():
        catalog.every_partition = read
        table.upsert(rows("b"))
        sync(table.handle, catalog, restores=False)
        return read()

    catalog.every_partition = meanwhile
    assert sync(table.handle, catalog, restores=True, drops=True).partitions_dropped == 0
    assert registered(catalog).keys() == {("a",), ("b",)}


def test_a_partition_in_another_folder_is_not_dropped(table, catalog, tmp_path) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    (known,) = catalog.every_partition()
    catalog.add(catalog.table(), [replace(known, values=("x",), location=f"file:{tmp_path}/t2/p=x")])
    assert sync(table.handle, catalog, restores=True, drops=True).partitions_dropped == 0
    assert registered(catalog).keys() == {("a",), ("x",)}


def evolve(table: SmallTable, *columns: Column) -> None:
    """Apply a spec with these columns."""
    spec = replace(table.handle.spec, columns=columns)
    requirements = Requirements(exists=True, applied_number=table.handle.applied.number)
    apply_change(
        table.store,
        TableChange(spec=spec, requirements=requirements, alters_schema=True, project="tests"),
        timing=FAST,
    )


def columns_of(catalog: CountedGlue | CountedHive, *, partition: str | None = None) -> dict[str, str]:
    holder = catalog.table() if partition is None else catalog.partitions([(partition,)])[partition,]
    found = holder.columns
    catalog.taken()
    return {column.name: column.type for column in found if not column.name.startswith("_hoodie_")}


def test_new_columns_reach_the_partitions_too(table, catalog) -> None:
    table.upsert(rows(*"abc"))
    sync(table.handle, catalog, restores=True)
    evolve(table, *COLUMNS, Column(name="price", type="decimal(10,2)"))
    catalog.taken()
    result = sync(table.handle, catalog, restores=False)
    assert "columns.price" in result.changes
    assert result.partitions_updated == 3
    assert catalog.taken() == cost(catalog, "table", "every_partition", "update", "replace")
    assert columns_of(catalog) == columns_of(catalog, partition="b")
    assert columns_of(catalog) == {"id": "string", "v": "bigint", "price": "decimal(10,2)"}


def test_a_sync_that_died_before_the_entry_updates_what_is_left(table, catalog) -> None:
    table.upsert(rows(*"abc"))
    sync(table.handle, catalog, restores=True)
    evolve(table, *COLUMNS, Column(name="price", type="double"))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    replace_entry, catalog.replace = catalog.replace, die
    with pytest.raises(KeyboardInterrupt):
        sync(table.handle, catalog, restores=False)
    catalog.replace = replace_entry
    result = sync(table.handle, catalog, restores=False)
    assert "columns.price" in result.changes
    assert result.partitions_updated == 0


def test_a_first_sync_that_died_is_finished(table, catalog) -> None:
    table.upsert(rows(*"abc"))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    add, catalog.add = catalog.add, die
    with pytest.raises(KeyboardInterrupt):
        sync(table.handle, catalog, restores=True)
    catalog.add = add
    assert sync(table.handle, catalog, restores=False).partitions_added == 3


def test_comments_arrive_and_change(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    evolve(table, COLUMNS[0], replace(COLUMNS[1], description="A value"), COLUMNS[2])
    changes = sync(table.handle, catalog, restores=False).changes
    assert changes == ("columns.v", "parameters.spark.sql.sources.schema.part.0")
    assert {column.name: column.comment for column in catalog.table().columns}["v"] == "A value"


def test_a_comment_that_is_too_long_for_catalogs_is_written_once(table, catalog) -> None:
    table.upsert(rows("a"))
    evolve(table, COLUMNS[0], replace(COLUMNS[1], description="é" * 400), COLUMNS[2])
    sync(table.handle, catalog, restores=True)
    assert sync(table.handle, catalog, restores=False).changes == ()


@pytest.mark.parametrize("value", ["a b", "a/b=%é", "*{[^]}'\"#\\", "ü🙂"])
def test_a_value_with_special_characters_is_registered_once(table, catalog, value) -> None:
    table.upsert({"k": (1, "a")})
    sync(table.handle, catalog, restores=True)
    for number in range(2):
        table.upsert({"k2": (number, escape_value(value))})
        sync(table.handle, catalog, restores=False)
    assert registered(catalog).keys() == {("a",), (value,)}
    table.delete_partition(f"p={escape_value(value)}")
    assert sync(table.handle, catalog, restores=True, drops=True).partitions_dropped == 1
    assert registered(catalog).keys() == {("a",)}


def test_a_wider_type_reaches_the_partitions(table, catalog) -> None:
    price = Column(name="price", type="int")
    evolve(table, *COLUMNS, price)
    table.upsert(rows("a", "b"))
    sync(table.handle, catalog, restores=True)
    evolve(table, *COLUMNS, replace(price, type="bigint"))
    assert sync(table.handle, catalog, restores=False).partitions_updated == 2
    assert columns_of(catalog)["price"] == columns_of(catalog, partition="b")["price"] == "bigint"


def test_what_others_keep_in_the_entry_stays(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    catalog.change(parameters={"team": "blue"}, owner="ann")
    assert sync(table.handle, catalog, restores=True).changes == ()
    table.upsert(rows("b"))
    sync(table.handle, catalog, restores=False)
    assert catalog.table().parameters["team"] == "blue"
    assert catalog.owner == "ann"


def test_statistics_that_spark_keeps_stay(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    size = {"spark.sql.statistics.totalSize": "17"}
    catalog.change(parameters=size)
    assert not catalog.table().was_changed_by_others
    (part,) = catalog.every_partition()
    catalog.update(catalog.table(), [replace(part, parameters=size)])
    assert sync(table.handle, catalog, restores=True).changes == ()
    evolve(table, *COLUMNS, Column(name="price", type="double"))
    assert sync(table.handle, catalog, restores=True).partitions_updated == 1
    (part,) = catalog.every_partition()
    assert size.items() <= part.parameters.items()
    assert size.items() <= catalog.table().parameters.items()


def test_a_column_that_others_changed_is_left_but_on_demand(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    catalog.change(types={"v": "string"})
    assert catalog.table().was_changed_by_others
    table.upsert(rows("b"))
    result = sync(table.handle, catalog, restores=False)
    assert "columns.v" in result.warnings[0].in_full()
    assert result.partitions_added == 1
    assert columns_of(catalog)["v"] == "string"
    assert catalog.table().was_changed_by_others
    assert sync(table.handle, catalog, restores=True).changes == ("columns.v",)
    assert columns_of(catalog) == columns_of(catalog, partition="b") == {"id": "string", "v": "bigint"}
    assert not catalog.table().was_changed_by_others


def test_an_entry_that_others_created_again_is_left_but_on_demand(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    catalog.change(types={"v": "string"}, removed=DEFINITION)
    table.upsert(rows("b"))
    result = sync(table.handle, catalog, restores=False)
    assert "columns.v" in result.warnings[0].in_full()
    assert (result.changes, result.partitions_added) == ((), 1)
    assert columns_of(catalog)["v"] == "string"
    assert sync(table.handle, catalog, restores=True).changes == ("columns.v",)


def test_a_missing_entry_is_created_on_demand_alone(table, catalog) -> None:
    table.upsert(rows("a"))
    with pytest.raises(CatalogError, match="the table is not in the catalog, which is left so"):
        sync(table.handle, catalog, restores=False)
    assert catalog.taken() == cost(catalog, "table")
    assert sync(table.handle, catalog, restores=True).created


def test_an_entry_that_another_program_creates_meanwhile_is_left(catalog) -> None:
    entry = catalog_table(COLUMNS, ("p",), "file:/t")
    catalog.create(entry)
    catalog.create(entry)
    catalog.change(types={"v": "string"})
    before = catalog.raw
    for other in (entry, catalog_table(COLUMNS, ("p",), "file:/other")):
        with pytest.raises(CatalogError, match="another program registered a table of this name meanwhile"):
            catalog.create(other)
    assert catalog.raw == before


def test_the_entry_of_another_table_is_refused(table, catalog, tmp_path) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    other = make_table(tmp_path / "other")
    with pytest.raises(CatalogError, match="not that at"):
        sync(other.handle, catalog, restores=True)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"parameters": {"table_type": "ICEBERG"}}, "table_type=ICEBERG"),
        ({"parameters": {"spark.sql.sources.provider": "delta"}}, "provider=delta"),
        ({"input_format": "org.apache.hadoop.mapred.TextInputFormat"}, "TextInputFormat"),
    ],
)
def test_the_entry_of_another_format_is_refused(table, catalog, change, found) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    catalog.change(**change)
    before = catalog.raw
    with pytest.raises(CatalogError, match=f"lake: .* is not the entry of a Hudi table .*{found}.*; remove"):
        sync(table.handle, catalog, restores=True)
    assert catalog.raw == before


@pytest.mark.parametrize("keys", [(), ("dt",), ("p", "dt")])
def test_an_entry_with_other_partition_keys_is_refused(table, catalog, keys) -> None:
    table.upsert(rows("a"))
    others = [*COLUMNS, Column(name="dt", type="string")]
    catalog.create(catalog_table(others, keys, catalog.location_of(table.store)))
    before = catalog.raw
    catalog.taken()
    with pytest.raises(CatalogError, match=r"has the partition keys \(.*\) instead of \(p\); remove"):
        sync(table.handle, catalog, restores=True)
    assert catalog.taken() == cost(catalog, "table")
    assert catalog.raw == before


def test_commits_that_left_the_timeline_are_read_from_the_archive(tmp_path, catalog, on_each_version) -> None:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=2, table_version=on_each_version)
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    for partition in "bcdefgh":
        table.upsert(rows(partition))
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    last = catalog.table().last_sync
    assert last < table.handle.timeline().first_contiguous_write
    catalog.taken()
    assert sync(table.handle, catalog, restores=False).partitions_added == 7
    assert catalog.taken() == cost(catalog, "table", "partitions", "add", "replace")
    assert len(registered(catalog)) == 8


def test_without_the_archive_the_table_is_listed(tmp_path, catalog) -> None:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=2)
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    for partition in "bcdefgh":
        table.upsert(rows(partition))
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    for log in (tmp_path / "t" / ".hoodie" / "archived").iterdir():
        log.unlink()
    assert sync(table.handle, catalog, restores=False).partitions_added == 7


def test_a_write_that_completes_late_is_not_missed(table, catalog) -> None:
    table.upsert(rows("a"))
    slow = SmallTable(store=table.store)

    def meanwhile(_: object) -> None:
        slow.before_publish = lambda _: None
        table.upsert(rows("b"))
        sync(table.handle, catalog, restores=True)

    slow.before_publish = meanwhile
    slow.upsert(rows("late"))
    sync(table.handle, catalog, restores=False)
    assert registered(catalog).keys() == {("a",), ("b",), ("late",)}


def test_the_last_sync_is_moved_on_before_the_commits_leave_the_timeline(table, catalog) -> None:
    table.upsert(rows("a"))
    sync(table.handle, catalog, restores=True)
    before = catalog.table().last_sync
    catalog.taken()
    for _ in range(3):
        table.upsert(rows("a"))
        sync(table.handle, catalog, restores=False)
    assert catalog.taken() == cost(catalog, *["table", "partitions"] * 3, "replace")
    assert catalog.table().last_sync > before


def test_a_catalog_that_cannot_be_reached_is_an_error(table) -> None:
    with credentials(), patch("parquetry.runtime.catalog.glue._ATTEMPTS", 1):
        glue = CountedGlue("http://127.0.0.1:9", database="db")
        with pytest.raises(CatalogError, match=r"lake: db\.t: Glue refused get_table") as failed:
            sync(table.handle, glue, restores=False)
        assert failed.value.is_outage
