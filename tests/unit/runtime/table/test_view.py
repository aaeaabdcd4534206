from __future__ import annotations

import pytest

from parquetry.runtime.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from parquetry.runtime.table.properties import PROPERTIES_PATH
from parquetry.runtime.table.view import FileGroup
from parquetry.runtime.timeline.instant import Action
from tests.support import hudi_rs
from tests.support.handmade import CREATED, HandmadeTable, at, ids, spec
from tests.support.stores import CountingStore, Kind
from tests.support.timelines import completed

ON_EACH_VERSION = pytest.mark.usefixtures("on_each_version")

A, B = "p=a", "p=b"


@pytest.fixture
def table(tmp_path):
    return HandmadeTable(tmp_path / "t")


def rows_of_hudi_rs(table, **options):
    rows = hudi_rs.read(str(table.folder), **options).select(["id", "n"])
    return sorted(zip(*rows.to_pydict().values(), strict=True))


def rows_of(table, slices, begin="", end="9"):
    import pyarrow.parquet as pq

    found = [
        (row["id"], row["n"])
        for part in slices
        for row in pq.read_table(table.folder / part.path, partitioning=None).to_pylist()
        if begin < row["_hoodie_commit_time"] <= end
    ]
    return sorted(found)


@ON_EACH_VERSION
def test_the_newest_committed_version_of_each_group_is_current(table):
    table.commit("1", {A: {"f-0": [("k", 1)], "g-0": [("l", 1)]}, B: {"h-0": [("m", 1)]}})
    table.commit("2", {A: {"f-0": [("k", 2)]}})
    view = table.view()
    assert view.partitions() == [A, B]
    assert ids(view.slices(A)) == [("f-0", at("2")), ("g-0", at("1"))]
    assert ids(view.all_slices()) == [("f-0", at("2")), ("g-0", at("1")), ("h-0", at("1"))]
    (part,) = view.slices(B)
    assert part.path == f"{B}/h-0_0-0-0_{at('1')}.parquet"
    assert part.size_bytes == (table.folder / part.path).stat().st_size
    assert rows_of(table, view.all_slices()) == rows_of_hudi_rs(table)


@ON_EACH_VERSION
def test_time_travel_sees_each_version(table):
    table.commit("1", {A: {"f-0": [("k", 1)]}})
    table.commit("2", {A: {"f-0": [("k", 2)], "g-0": [("l", 2)]}})
    view = table.view()
    assert ids(view.slices(A, CREATED)) == []
    assert ids(view.slices(A, at("1"))) == [("f-0", at("1"))]
    assert ids(view.slices(A, at("2"))) == [("f-0", at("2")), ("g-0", at("2"))]
    assert ids(view.slices(A, "9")) == ids(view.slices(A))
    assert rows_of(table, view.slices(A, at("1"))) == rows_of_hudi_rs(table, as_of=at("1"))


@ON_EACH_VERSION
def test_unfinished_writes_are_not_seen_wherever_they_lie_in_time(table):
    """The first one is the trap of Java's view, which trusts everything before the first commit."""
    table.forget(CREATED)
    table.files("1", {A: {"dead-0": [("x", 1)]}})
    table.request("1")
    table.commit("2", {A: {"f-0": [("k", 2)]}})
    table.files("3", {A: {"f-0": [("k", 3)], "g-0": [("y", 3)]}})
    table.request("3")
    table.commit("4", {A: {"h-0": [("l", 4)]}})
    table.files("5", {A: {"f-0": [("k", 5)]}})
    view = table.view()
    assert ids(view.slices(A)) == [("f-0", at("2")), ("h-0", at("4"))]
    assert ids(view.base_files(A)) == sorted(
        [
            ("dead-0", at("1")),
            ("f-0", at("2")),
            ("f-0", at("3")),
            ("f-0", at("5")),
            ("g-0", at("3")),
            ("h-0", at("4")),
        ]
    )
    assert rows_of(table, view.slices(A)) == rows_of_hudi_rs(table)


@ON_EACH_VERSION
def test_nothing_is_seen_before_anything_was_committed(table):
    table.forget(CREATED)
    table.files("1", {A: {"f-0": [("k", 1)]}})
    assert table.view().slices(A) == []


@ON_EACH_VERSION
def test_archived_commits_are_still_seen(table):
    for time in "1234":
        table.commit(time, {A: {f"f{time}-0": [(time, 1)]}})
    for time in (CREATED, "1", "2"):
        table.forget(time)
    view = table.view()
    assert ids(view.slices(A)) == [(f"f{time}-0", at(time)) for time in "1234"]
    assert ids(view.slices(A, at("2"))) == [("f1-0", at("1")), ("f2-0", at("2"))]
    assert rows_of(table, view.slices(A)) == rows_of_hudi_rs(table)


@ON_EACH_VERSION
def test_archived_commits_are_seen_beside_a_dead_request_that_is_older(table):
    """hudi-rs hides them: its boundary is the earliest instant in any state."""
    table.commit("2", {A: {"f-0": [("k", 2)]}})
    table.commit("3", {A: {"g-0": [("l", 3)]}})
    for time in (CREATED, "2"):
        table.forget(time)
    table.request("1")
    assert ids(table.view().slices(A)) == [("f-0", at("2")), ("g-0", at("3"))]


@ON_EACH_VERSION
def test_commits_that_a_savepoint_kept_do_not_move_the_start_of_the_timeline(table):
    for time in "1234":
        table.commit(time, {A: {f"f{time}-0": [(time, 1)]}})
    table.savepoint("1")
    for time in (CREATED, "2"):
        table.forget(time)
    assert ids(table.view().slices(A)) == [(f"f{time}-0", at(time)) for time in "1234"]


@ON_EACH_VERSION
def test_replaced_groups_are_gone_as_of_their_replacement(table):
    table.commit("1", {A: {"f-0": [("k", 1)], "g-0": [("l", 1)]}, B: {"f-0": [("m", 1)]}})
    table.commit("2", {A: {"h-0": [("k", 2)]}}, operation="INSERT_OVERWRITE", replaced={A: ["f-0", "g-0"]})
    table.commit("3", {}, operation="DELETE_PARTITION", replaced={B: ["f-0"], A: ["f-0"]})
    view = table.view()
    assert ids(view.all_slices()) == [("h-0", at("2"))]
    assert ids(view.all_slices(at("2"))) == [("f-0", at("1")), ("h-0", at("2"))]
    assert ids(view.all_slices(at("1"))) == [("f-0", at("1")), ("f-0", at("1")), ("g-0", at("1"))]
    groups = {group.file_id: group.replaced_at for group in view.file_groups(A)}
    assert groups == {"f-0": at("2"), "g-0": at("2"), "h-0": None}
    for time in "123":
        assert rows_of(table, view.all_slices(at(time))) == rows_of_hudi_rs(table, as_of=at(time))


@ON_EACH_VERSION
def test_a_pending_clustering_changes_nothing(table):
    table.commit("1", {A: {"f-0": [("k", 1)]}})
    table.plan_clustering("2", {A: ["f-0"]})
    table.files("2", {A: {"g-0": [("k", 1)]}})
    table.commit("3", {A: {"h-0": [("l", 3)]}})
    assert ids(table.view().slices(A)) == [("f-0", at("1")), ("h-0", at("3"))]


@ON_EACH_VERSION
def test_file_groups_have_their_versions_newest_first(table):
    for time in "123":
        table.commit(time, {A: {"f-0": [("k", int(time))]}})
    (group,) = table.view().file_groups(A)
    assert [part.instant for part in group.slices] == [at("3"), at("2"), at("1")]
    assert group.as_of(at("2")).instant == at("2")
    assert group.as_of(CREATED) is None
    assert (
        FileGroup(partition=A, file_id="f-0", slices=group.slices, replaced_at=at("2")).as_of(at("2")) is None
    )


@ON_EACH_VERSION
def test_of_two_files_for_one_version_the_commit_names_the_right_one(table):
    table.commit("1", {A: {"f-0": [("k", 1)]}})
    table.base_file("1", A, "f-0", [("k", 7)], token="1-1-1")
    (part,) = table.view().slices(A)
    assert "_0-0-0_" in part.path
    table.base_file("1", A, "g-0", [], token="1-1-1")
    table.base_file("1", A, "g-0", [], token="2-2-2")
    with pytest.raises(
        CorruptTableError, match=r"g-0_1-1-1_.* and .*g-0_2-2-2_.* same version .* delete the one"
    ):
        table.view().slices(A)


@ON_EACH_VERSION
def test_a_foreign_parquet_file_is_named(table):
    table.commit("1", {A: {"f-0": [("k", 1)]}})
    (table.folder / A / "foo.parquet").write_bytes(b"")
    with pytest.raises(
        CorruptTableError, match=r"p=a/foo\.parquet: not the name of a Hudi base file.* move it out"
    ):
        table.view().slices(A)
    (table.folder / A / "foo.parquet").unlink()
    assert len(table.view().slices(A)) == 1


@pytest.mark.parametrize(
    "name",
    [
        "_SUCCESS",
        "x.txt",
        ".f-0_0-0-0_1.parquet.crc",
        ".hoodie_partition_metadata.parquet",
        "f-0.parquet.tmp",
        "a_b_c_d.parquet",
    ],
)
@ON_EACH_VERSION
def test_other_files_in_a_partition_are_passed_over(table, name):
    table.commit("1", {A: {"f-0": [("k", 1)]}})
    (table.folder / A / name).write_bytes(b"x")
    assert ids(table.view().slices(A)) == [("f-0", at("1"))]


@pytest.mark.parametrize(
    "partitions",
    [
        [
            "p=a",
            "p=__HIVE_DEFAULT_PARTITION__",
            "p=%2F%25",
            "p=Z\u00fcrich \u4e1c\u4eac",
            "p=e\u0301",
            "p=\u00e9",
            "p= ",
            "p=.x",
            "p=a=b",
            "p=\U0001f600",
        ],
        ["2026/01/01", "2026/01/02", "x"],
    ],
)
@ON_EACH_VERSION
def test_partitions_of_any_name_and_depth_are_found(table, partitions):
    table.commit("1", {partition: {"f-0": [(partition, 1)]} for partition in partitions})
    view = table.view()
    assert view.partitions() == sorted(partitions)
    assert {part.partition for part in view.all_slices()} == set(partitions)


@ON_EACH_VERSION
def test_partitions_of_several_fields_lie_at_the_level_of_the_last(tmp_path):
    table = HandmadeTable(tmp_path / "t", spec(partition_by=("p", "n")))
    table.commit(
        "1", {"p=a/n=1": {"f-0": [("k", 1)]}, "p=a/n=2": {"f-1": [("l", 1)]}, "p=b/n=1": {"f-2": [("m", 1)]}}
    )
    assert table.view().partitions() == ["p=a/n=1", "p=a/n=2", "p=b/n=1"]
    store = CountingStore(table.store, tmp_path / "log")
    handle = table.open()
    from parquetry.runtime.table.view import FileSystemView

    assert len(FileSystemView(store, handle.timeline(), handle.config).all_slices()) == 3
    assert store.counts() == {Kind.LIST: 3, Kind.LIST_FOLDERS: 3}


@ON_EACH_VERSION
def test_a_folder_without_partition_metadata_is_no_partition(table):
    table.commit("1", {A: {"f-0": [("k", 1)]}, "deep/x": {"g-0": [("l", 1)]}})
    (table.folder / "deep/.hidden").mkdir()
    (table.folder / A / "below").mkdir()
    (table.folder / A / "below/.hoodie_partition_metadata").write_text("")
    (table.folder / "stray").mkdir()
    (table.folder / "stray/x.parquet").write_bytes(b"")
    assert table.view().partitions() == ["deep/x", A]


@ON_EACH_VERSION
def test_a_table_without_partitions_has_the_base_folder(tmp_path):
    table = HandmadeTable(tmp_path / "t", spec(partition_by=()))
    assert table.view().partitions() == []
    table.commit("1", {"": {"f-0": [("k", 1)]}})
    view = table.view()
    assert view.partitions() == [""]
    assert ids(view.slices("")) == [("f-0", at("1"))]
    assert view.slices("")[0].path == f"f-0_0-0-0_{at('1')}.parquet"


@ON_EACH_VERSION
def test_each_folder_is_listed_once(table, tmp_path):
    table.commit("1", {A: {"f-0": [("k", 1)]}})
    store = CountingStore(table.store, tmp_path / "log")
    from parquetry.runtime.table.view import FileSystemView

    handle = table.open()
    view = FileSystemView(store, handle.timeline(), handle.config)
    view.all_slices()
    view.slices(A, at("1"))
    assert store.counts()[Kind.LIST] == 1
    assert store.counts()[Kind.OPEN_INPUT] == store.counts()[Kind.READ] == 0


@ON_EACH_VERSION
def test_times_whose_files_were_cleaned_are_refused_savepoints_excepted(table):
    for time in "1234":
        table.commit(time, {A: {"f-0": [("k", int(time))]}})
    table.savepoint("1")
    table.view().check_time_travel(at("1"))
    table.clean("5", "3")
    view = table.view()
    view.check_time_travel(at("3"))
    view.check_time_travel(at("1"))
    view.check_time_travel("20260101000159999")
    with pytest.raises(
        InvalidDataError,
        match=rf"versions before {at('3')} were cleaned.* as of {at('2')}; ask for {at('3')} or later",
    ):
        view.check_time_travel(at("2"))


@ON_EACH_VERSION
class TestChanges:
    """Writes complete in the order in which they began; test_on_layout_2.py has other orders."""

    def changes(self, table, begin, end=None):
        """Return the rows, and the write at which the next read continues."""
        changes = table.view().changed_between(begin, end)
        times = {write.position: write.time for write in table.open().timeline().completed_writes}
        rows = rows_of(table, changes.slices, changes.begin, changes.end)
        return rows, times.get(changes.end, changes.end)

    def test_inserts_and_updates_after_an_instant(self, table):
        table.commit("1", {A: {"f-0": [("k", 1)]}, B: {"g-0": [("l", 1)]}})
        table.commit("2", {A: {"f-0": [("k", 2)]}})
        table.commit("3", {B: {"h-0": [("m", 3)]}})
        assert self.changes(table, "0") == ([("k", 2), ("l", 1), ("m", 3)], at("3"))
        assert self.changes(table, at("1")) == ([("k", 2), ("m", 3)], at("3"))
        assert self.changes(table, at("1"), at("2")) == ([("k", 2)], at("2"))
        assert self.changes(table, at("0"), at("1")) == ([("k", 1), ("l", 1)], at("1"))
        assert self.changes(table, at("3")) == ([], at("3"))
        assert self.changes(table, "9") == ([], "9")
        position = {at(time): completed(table.store, at(time)).position for time in "123"} | {
            at("0"): at("0")
        }
        for begin, end in [("0", "3"), ("1", "3"), ("1", "2"), ("0", "1")]:
            ours = self.changes(table, at(begin), at(end))[0]
            assert ours == rows_of_hudi_rs(table, since=position[at(begin)], until=position[at(end)])

    def test_each_change_comes_once_although_clustering_moved_it(self, table):
        table.commit("1", {A: {"f-0": [("k", 1)], "g-0": [("l", 1)]}})
        table.commit("2", {A: {"f-0": [("k", 2)]}})
        self.cluster(table, "3")
        table.commit("4", {A: {"h-0": [("k", 4)]}})
        assert self.changes(table, at("1"), at("2")) == ([("k", 2)], at("2"))
        assert self.changes(table, at("1"), at("3")) == ([("k", 2)], at("3"))
        assert self.changes(table, at("2"), at("3")) == ([], at("3"))

    def cluster(self, table, time):
        """f-0 and g-0 become c-0, whose rows keep the instants of their writers."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table.commit(
            time, {A: {"c-0": [("k", 2), ("l", 1)]}}, operation="CLUSTER", replaced={A: ["f-0", "g-0"]}
        )
        (path,) = (table.folder / A).glob("c-0_*")
        rows = pq.read_table(path, partitioning=None)
        pq.write_table(rows.set_column(0, "_hoodie_commit_time", pa.array([at("2"), at("1")])), path)

    def test_overwritten_rows_do_not_come(self, table):
        table.commit("1", {A: {"f-0": [("k", 1)]}, B: {"g-0": [("l", 1)]}})
        table.commit("2", {A: {"f-0": [("k", 2)]}})
        table.commit("3", {A: {"h-0": [("x", 3)]}}, operation="INSERT_OVERWRITE", replaced={A: ["f-0"]})
        table.commit("4", {}, operation="DELETE_PARTITION", replaced={B: ["g-0"]})
        assert self.changes(table, "0") == ([("x", 3)], at("4"))
        assert self.changes(table, at("1"), at("2")) == ([("k", 2)], at("2"))

    def test_reading_stops_before_the_oldest_pending_write_unless_it_completes_behind(
        self, table, on_each_version
    ):
        is_behind = on_each_version != 6
        table.commit("1", {A: {"f-0": [("k", 1)]}})
        table.request("2")
        table.commit("3", {A: {"g-0": [("l", 3)]}})
        expected = ([("k", 1), ("l", 3)], at("3")) if is_behind else ([("k", 1)], at("1"))
        assert self.changes(table, CREATED) == expected
        table.commit("2", {A: {"h-0": [("m", 2)]}})
        last = at("2") if is_behind else at("3")
        assert self.changes(table, at("1")) == ([("l", 3), ("m", 2)], last)

    def test_a_pending_clustering_holds_nothing_up(self, table):
        table.commit("1", {A: {"f-0": [("k", 1)]}})
        table.plan_clustering("2", {A: ["f-0"]})
        table.commit("3", {A: {"g-0": [("l", 3)]}})
        assert self.changes(table, at("1")) == ([("l", 3)], at("3"))

    def test_a_pending_overwrite_is_no_clustering(self, table, on_each_version):
        table.commit("1", {A: {"f-0": [("k", 1)]}})
        table.request("2", Action.REPLACECOMMIT)
        table.commit("3", {A: {"h-0": [("m", 3)]}})
        expected = ([], at("1")) if on_each_version == 6 else ([("m", 3)], at("3"))
        assert self.changes(table, at("1")) == expected

    def test_a_begin_that_was_archived_misses_nothing(self, table):
        for time in "1234":
            table.commit(time, {f"p={time}": {"f-0": [(time, 1)]}})
        for time in (CREATED, "1", "2"):
            table.forget(time)
        assert self.changes(table, at("1")) == ([("2", 1), ("3", 1), ("4", 1)], at("4"))

    def test_only_partitions_that_changed_are_listed(self, table, tmp_path):
        from parquetry.runtime.table.view import FileSystemView

        table.commit("1", {f"p={number}": {"f-0": [(str(number), 1)]} for number in range(5)})
        table.commit("2", {"p=3": {"f-0": [("3", 2)]}})
        store = CountingStore(table.store, tmp_path / "log")
        handle = table.open()
        FileSystemView(store, handle.timeline(), handle.config).changed_between(at("1"))
        assert store.counts() == {Kind.LIST: 1}

    def test_an_end_whose_files_were_cleaned_is_refused(self, table):
        for time in "1234":
            table.commit(time, {A: {"f-0": [("k", int(time))]}})
        table.clean("5", "3")
        assert self.changes(table, at("1")) == ([("k", 4)], at("4"))
        with pytest.raises(InvalidDataError, match="were cleaned"):
            self.changes(table, CREATED, at("2"))

    def test_rows_without_times_are_refused(self, table):
        content = table.store.read(PROPERTIES_PATH) + b"hoodie.populate.meta.fields=false\n"
        table.store.put(PROPERTIES_PATH, content)
        with pytest.raises(UnsupportedTableError, match="read the whole table"):
            self.changes(table, "0")
