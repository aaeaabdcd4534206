from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    StalePlanError,
    StorageError,
    TableNotFoundError,
    UnsupportedTableError,
)
from parquetry.runtime.spec.table_spec import Column, Extra
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table import creation
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.table.partition_metadata import put_partition_metadata
from parquetry.runtime.table.properties import format_properties, parse_properties
from parquetry.runtime.timeline.instant import Action, State
from parquetry.runtime.timeline.sidecars import IDENTITY_PATH
from tests.support import hudi_rs
from tests.support.handmade import HandmadeTable, at, spec
from tests.support.stores import CountingStore, FaultyStore, Kind, ReadOnlyStore, Stop, Stopped
from tests.support.timelines import timeline_of

PROPERTIES = ".hoodie/hoodie.properties"
NESTED = Column(name="s", type="struct<a:decimal(38,2),b:array<struct<x:date,y:map<string,timestamp>>>>")


def test_a_new_table_is_whole_and_empty(tmp_path):
    store = open_store(tmp_path / "t")
    handle = create_table(store, spec(ordering="n"), project="tests")
    timeline = handle.timeline()
    (first,) = timeline.instants
    assert (first.action, first.state) == (Action.COMMIT, State.COMPLETED)
    assert set(timeline.files) == {
        f"{first.time}.commit.requested",
        f"{first.time}.inflight",
        f"{first.time}.commit",
    }
    metadata = timeline.commit_metadata(first.time)
    assert metadata.stats == {}
    assert metadata.extra["parquetry.table_id"] == handle.table_id
    assert (handle.project, handle.spec, handle.applied) == ("tests", None, None)
    assert handle.effective_spec(timeline).columns == spec().columns
    assert handle.view(timeline).partitions() == []
    properties = parse_properties(store.read(PROPERTIES))
    assert properties["hoodie.table.recordkey.fields"] == "id"
    assert properties["hoodie.table.precombine.field"] == "n"
    assert properties["hoodie.table.keygenerator.class"] == "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert properties["hoodie.table.timeline.timezone"] == "UTC"
    assert properties["hoodie.datasource.write.hive_style_partitioning"] == "true"


def test_absent_features_have_no_property(tmp_path):
    create_table(open_store(tmp_path), spec(partition_by=(), record_key=()), project="tests")
    properties = parse_properties((tmp_path / PROPERTIES).read_bytes())
    assert not {
        "hoodie.table.partition.fields",
        "hoodie.table.recordkey.fields",
        "hoodie.table.precombine.field",
    } & set(properties)


@pytest.mark.parametrize("partition_by", [(), ("p",), ("p", "n")])
def test_hudi_rs_opens_a_new_table(tmp_path, partition_by):
    table = spec(name="a-b", columns=(*spec().columns, NESTED), partition_by=partition_by)
    create_table(open_store(tmp_path / "t"), table, project="tests")
    rows = hudi_rs.read(str(tmp_path / "t"))
    assert rows.num_rows == 0
    assert rows.column_names[5:] == ["id", "p", "n", "s"]


def test_hudi_rs_reads_commits_written_by_hand(tmp_path):
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("k", 1), ("l", 2)]}, "p=b": {"g-0": [("m", 3)]}})
    table.commit("2", {"p=a": {"f-0": [("k", 9)]}})
    assert sorted(
        zip(*hudi_rs.read(str(tmp_path / "t")).select(["id", "n"]).to_pydict().values(), strict=True)
    ) == [("k", 9), ("m", 3)]


def test_making_it_again_changes_nothing(tmp_path):
    store = open_store(tmp_path / "t")
    first = create_table(store, spec(extra=Extra(tags=("a",))), project="tests")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert create_table(store, spec(extra=Extra(tags=("a",))), project="tests").table_id == first.table_id
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("stop_at", range(1, 9))
def test_a_creator_stopped_anywhere_leaves_no_table_or_one_that_any_opener_finishes(tmp_path, stop_at, stop):
    store = open_store(tmp_path / "t")
    faulty = FaultyStore(store, tmp_path / "counter", stop_at=stop_at, stop=stop)
    with pytest.raises(Stopped):
        create_table(faulty, spec(), project="tests")
    if store.stat(IDENTITY_PATH) is None:
        with pytest.raises(TableNotFoundError, match="check the location or create it"):
            open_table(store)
    else:
        assert len(open_table(store).timeline().completed_writes) == 1
    handle = create_table(store, spec(), project="tests")
    (first,) = handle.timeline().completed_writes
    assert handle.timeline().commit_metadata(first.time).schema
    assert hudi_rs.read(str(tmp_path / "t")).num_rows == 0


def test_a_creator_makes_eight_writes_so_the_test_above_stops_at_each(tmp_path):
    counted = FaultyStore(open_store(tmp_path / "t"), tmp_path / "counter")
    create_table(counted, spec(), project="tests")
    assert counted.operations() == 8


def test_of_many_creators_one_wins_and_all_get_its_table(tmp_path):
    handles, barrier = [], threading.Barrier(8)

    def create():
        barrier.wait()
        handles.append(create_table(open_store(tmp_path / "t"), spec(), project="tests"))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 8
    assert len({handle.table_id for handle in handles}) == 1
    assert len(timeline_of(open_store(tmp_path / "t")).instants) == 1


def test_another_spec_or_project_is_refused(tmp_path):
    store = open_store(tmp_path / "t")
    create_table(store, spec(), project="tests")
    with pytest.raises(StalePlanError, match="created the table with another spec; plan again"):
        create_table(store, spec(record_key=("p",)), project="tests")
    with pytest.raises(
        StalePlanError, match="belongs to project 'tests', not 'others'; choose another location"
    ):
        create_table(store, spec(), project="others")


def test_a_table_of_somebody_else_is_refused(tmp_path):
    store = open_store(tmp_path)
    store.put(PROPERTIES, format_properties({"hoodie.table.name": "theirs"}, comment="c"))
    with pytest.raises(UnsupportedTableError, match="'theirs' that parquetry did not create; choose another"):
        create_table(store, spec(), project="tests")
    assert store.stat(IDENTITY_PATH) is None


def test_a_hudi_writer_that_gets_in_between_is_noticed(tmp_path):
    store = open_store(tmp_path)
    with pytest.raises(Stopped):
        create_table(FaultyStore(store, tmp_path / "counter", stop_at=8), spec(), project="tests")
    store.put(PROPERTIES, format_properties({"hoodie.table.name": "theirs"}, comment="c"))
    with pytest.raises(UnsupportedTableError, match="another program wrote a"):
        create_table(store, spec(), project="tests")


def test_lost_properties_of_a_table_that_was_written_to_are_not_made_up(tmp_path):
    table = HandmadeTable(tmp_path)
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    (tmp_path / PROPERTIES).unlink()
    with pytest.raises(
        CorruptTableError, match=rf"is missing, but there is an instant {at('1')}; restore it"
    ):
        open_table(table.store)
    assert not (tmp_path / PROPERTIES).exists()


@pytest.mark.parametrize(("partition_by", "partition"), [((), ""), (("p",), "p=a"), (("p", "q"), "p=a/q=b")])
def test_files_of_a_table_that_lost_its_timeline_are_not_taken_for_a_new_one(
    tmp_path, partition_by, partition
):
    store = open_store(tmp_path)
    put_partition_metadata(store, partition, instant=at("1"))
    columns = (*spec().columns, Column(name="q", type="string"))
    wanted = replace(spec(), partition_by=partition_by, columns=columns)
    with pytest.raises(UnsupportedTableError, match=r"files of a table, but its \.hoodie is missing"):
        create_table(store, wanted, project="tests")
    assert not (tmp_path / ".hoodie").exists()


def test_properties_that_hudi_has_extended_meanwhile_are_left_alone(tmp_path):
    store = open_store(tmp_path)
    create_table(store, spec(), project="tests")
    extended = parse_properties(store.read(PROPERTIES)) | {"hoodie.table.metadata.partitions": ""}
    store.put(PROPERTIES, format_properties(extended, comment="c"))
    assert create_table(store, spec(), project="tests").config.raw == extended


def test_a_read_only_store_says_so(tmp_path):
    with pytest.raises(StorageError, match="mount the file system read-write"):
        create_table(ReadOnlyStore(open_store(tmp_path)), spec(), project="tests")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, "table name 'a b': use ASCII"), ({"name": "\u00e9"}, "use ASCII"), ({"name": ""}, "use ASCII"),
        ({"name": "a:b"}, "table name 'a:b': use ASCII"), ({"name": "a'b"}, "use ASCII"), ({"name": "a{"}, "use ASCII"), ({"name": "a\n"}, "use ASCII"),
        ({"columns": ()}, "needs a column"), ({"record_key": ("x",)}, "table t: record_key names the column 'x', which the table does not have; declare the column"),
        ({"partition_by": ("x",)}, "partition_by names the column 'x'"), ({"ordering": "x"}, "ordering names the column 'x'"),
        ({"ordering": "s.v", "columns": (*spec().columns, Column(name="s", type="struct<v:int>"))}, r"'s\.v' is part of a struct; add a generated column"),
        ({"columns": (Column(name="a", type="struct<b:int>"),), "record_key": ("a.c",)}, r"record_key names the column 'a\.c'"),
        ({"columns": (Column(name="_hoodie_x", type="int"),)}, "belongs to the table format"),
        ({"columns": (*spec().columns, Column(name="b", type="binary")), "record_key": ("b",)}, "key column 'b' is binary; choose"),
    ],
)  # fmt: skip
def test_a_spec_that_no_table_can_be_made_of_is_refused_before_anything_is_written(
    tmp_path, changes, message
):
    with pytest.raises(InvalidDataError, match=message):
        create_table(open_store(tmp_path / "t"), spec(**changes), project="tests")
    assert not (tmp_path / "t").exists()


def test_a_table_that_has_a_name_refused_today_is_opened_by_its_spec(tmp_path, monkeypatch):
    store = open_store(tmp_path)
    with monkeypatch.context() as earlier:
        earlier.setattr(creation, "check_new_spec", creation.check_spec)
        create_table(store, spec(name="a:b"), project="tests")
    assert create_table(store, spec(name="a:b"), project="tests").config.name == "a:b"


def test_nested_fields_may_be_keys(tmp_path):
    table = spec(
        columns=(Column(name="a", type="struct<b:struct<c:int>>"),), record_key=("a.b.c",), partition_by=()
    )
    assert create_table(open_store(tmp_path / "t"), table, project="tests").config.record_key == ("a.b.c",)


def test_opening_a_table_and_its_timeline_takes_few_requests(tmp_path):
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}, "p=b": {"f-1": [("l", 1)]}})
    store = CountingStore(table.store, tmp_path / "log")
    handle = open_table(store)
    timeline = handle.timeline()
    assert sum(store.counts().values()) <= 4
    store.reset()
    assert len(handle.view(timeline).all_slices()) == 2
    assert store.counts() == {Kind.LIST: 2, Kind.LIST_FOLDERS: 1}


def test_a_table_on_s3_is_made_and_read_alike(s3_options, tmp_path):
    import fsspec

    bucket = f"b{tmp_path.name[:20].lower().replace('_', '-')}"
    fsspec.filesystem("s3", **s3_options).mkdir(bucket)
    store = open_store(f"s3://{bucket}/lake/t", s3_options)
    handle = create_table(store, spec(), project="tests")
    assert create_table(store, spec(), project="tests").table_id == handle.table_id
    (first,) = handle.timeline().completed_writes
    for partition in ("p=a", "p=Z\u00fcrich 1"):
        store.put(f"{partition}/.hoodie_partition_metadata", b"")
        store.put(f"{partition}/f-0_0-0-0_{first.time}.parquet", b"PAR1")
    view = handle.view(handle.timeline())
    assert view.partitions() == ["p=Z\u00fcrich 1", "p=a"]
    assert [part.size_bytes for part in view.all_slices()] == [4, 4]
