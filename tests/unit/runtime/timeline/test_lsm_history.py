from __future__ import annotations

import io
import json
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.errors import CorruptTableError, StaleTimelineError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.clean import CleanerPlan, CleanMetadata
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.commit_avro import decode_commit, encode_commit
from parquetry.runtime.timeline.instant import NAMES_OF_LAYOUT_2, Action, State
from parquetry.runtime.timeline.lsm_history import (
    HistoryRow,
    append,
    change_files,
    completion_times,
    entries,
    live_files,
    newest_files_first,
    read_rows,
)
from parquetry.runtime.timeline.rollback import InstantInfo, RollbackMetadata
from tests.support.stores import FaultyStore, Kind, LostAnswerStore, Stop, Stopped, WrappedStore

FOLDER = ".hoodie/timeline/history"
SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def time_of(number):
    return f"202601010000{number:05d}"


def row(number, action="commit", *, metadata=None, plan=None):
    """The row of an instant that took a millisecond."""
    if metadata is None:
        stat = WriteStat(file_id=f"f{number}-0", path=f"f{number}", num_writes=number)
        metadata = encode_commit(CommitMetadata(operation="UPSERT", stats={"": (stat,)}))
    return HistoryRow(
        time=time_of(number), completed_at=time_of(number + 1), action=action, metadata=metadata, plan=plan
    )


def archived(store):
    """The numbers of the instants by file, the oldest file first."""
    found = []
    for _, instants in newest_files_first(store, FOLDER):
        assert instants is not None
        found.insert(0, [int(instant.time[12:]) for instant in instants])
    return found


def rows_in(store):
    return [one for file in live_files(store, FOLDER) for one in read_rows(store, FOLDER, file)]


def names(store):
    return [info.path.rpartition("/")[2] for info in store.list(FOLDER)]


def listed(store, number):
    return [file["fileName"] for file in json.loads(store.read(f"{FOLDER}/manifest_{number}"))["files"]]


class TestLayoutOfTheArchive:
    def test_a_batch_is_a_file_a_manifest_and_a_version(self, store):
        append(store, FOLDER, [row(1), row(2), row(4)])
        assert names(store) == [first_file(store), "_version_", "manifest_1"]
        assert first_file(store) == f"{time_of(1)}_{time_of(4)}_0.parquet"
        assert store.read(f"{FOLDER}/_version_") == b"1"
        (file,) = json.loads(store.read(f"{FOLDER}/manifest_1"))["files"]
        size = store.stat(f"{FOLDER}/{first_file(store)}").size_bytes
        assert file == {"fileName": first_file(store), "fileLen": size}

    def test_the_next_manifest_lists_all_files_the_oldest_first(self, store):
        for number in (1, 2, 3):
            append(store, FOLDER, [row(number)])
        assert listed(store, 3) == [f"{time_of(n)}_{time_of(n)}_0.parquet" for n in (1, 2, 3)]
        assert store.read(f"{FOLDER}/_version_") == b"3"

    def test_the_parquet_file_has_the_columns_and_the_footer_of_hudi(self, store):
        append(store, FOLDER, [row(1, plan=b"plan"), replace(row(2), metadata=None)])
        with pq.ParquetFile(io.BytesIO(store.read(f"{FOLDER}/{first_file(store)}"))) as file:
            assert file.schema_arrow.remove_metadata() == SCHEMA
            assert file.schema_arrow.field("version").nullable is False
            avro = json.loads(file.metadata.metadata[b"parquet.avro.schema"])
            group = file.metadata.row_group(0)
            columns = [group.column(position) for position in range(group.num_columns)]
            assert {column.compression for column in columns} == {"GZIP"}
            assert [column.is_stats_set for column in columns] == [True, True, False, False, False, False]
            rows = file.read().to_pylist()
        assert (avro["namespace"], avro["name"]) == ("org.apache.hudi.avro.model", "HoodieLSMTimelineInstant")
        assert [field["name"] for field in avro["fields"]] == SCHEMA.names
        assert [one["version"] for one in rows] == [1, 1]
        assert [one["plan"] for one in rows] == [b"plan", None]

    def test_three_manifests_stay(self, store):
        for number in range(6):
            append(store, FOLDER, [row(number)])
        manifests = [name for name in names(store) if name.startswith("manifest_")]
        assert manifests == ["manifest_4", "manifest_5", "manifest_6"]
        assert archived(store) == [[number] for number in range(6)]


def first_file(store):
    return next(name for name in names(store) if name.endswith(".parquet"))


class TestReading:
    def test_no_archive_is_an_empty_archive(self, store):
        assert archived(store) == []
        assert live_files(store, FOLDER) == ()
        assert completion_times(store, FOLDER) == {}

    def test_contents_have_the_names_of_the_archive_log(self, store):
        clean = CleanMetadata(start_time=time_of(2), time_taken_ms=1, earliest_commit_to_retain=time_of(1))
        victim = InstantInfo(time=time_of(3), action="commit")
        undone = RollbackMetadata(start_time=time_of(4), time_taken_ms=1, instants=(victim,))
        overwrite = CommitMetadata(operation="INSERT_OVERWRITE", replaced={"p": ("f-0",)})
        append(
            store,
            FOLDER,
            [
                row(1),
                row(2, "clean", metadata=clean.encode()),
                row(4, "rollback", metadata=undone.encode()),
                row(5, "replacecommit", metadata=encode_commit(overwrite)),
                replace(row(6), metadata=None),
                row(7, "wonder"),
            ],
        )
        ((number, instants),) = newest_files_first(store, FOLDER)
        assert number == 1
        assert {instant.state for instant in instants} == {State.COMPLETED}
        assert [instant.completed_at for instant in instants] == [time_of(n + 1) for n in (1, 2, 4, 5, 6, 7)]
        assert [instant.is_completed_write for instant in instants] == [True, False, False, True, True, False]
        commit, cleaned, rolled_back, replaced, empty, other = instants
        assert [stat.num_writes for stat in commit.commit_metadata().all_stats()] == [1]
        assert CleanMetadata.from_avro(cleaned.entry["hoodieCleanMetadata"]) == clean
        assert RollbackMetadata.from_avro(rolled_back.entry["hoodieRollbackMetadata"]) == undone
        assert replaced.commit_metadata() == overwrite
        assert empty.commit_metadata() == CommitMetadata(operation="UNKNOWN")
        assert other.entry.keys() == {"commitTime", "actionType", "actionState", "stateTransitionTime"}

    def test_files_are_read_from_the_newest_time_down_wherever_the_manifest_lists_them(self, store):
        for number in (1, 5, 3):
            append(store, FOLDER, [row(number), row(number + 1)])
        compacted = f"{time_of(1)}_{time_of(4)}_1.parquet"
        store.put(f"{FOLDER}/{compacted}", store.read(f"{FOLDER}/{first_file(store)}"))
        newest = f"{time_of(5)}_{time_of(6)}_0.parquet"
        put_manifest(store, 9, newest, compacted)
        assert [number for number, _ in newest_files_first(store, FOLDER)] == [1, 2]
        assert archived(store) == [[1, 2], [5, 6]]

    def test_a_file_is_read_when_the_iterator_reaches_it(self, store):
        for number in (1, 2):
            append(store, FOLDER, [row(number)])
        files = newest_files_first(store, FOLDER)
        assert next(files)[1] is not None
        store.delete(f"{FOLDER}/{first_file(store)}")
        assert next(files) == (1, None)

    def test_without_the_version_the_greatest_manifest_counts(self, store):
        for number in (1, 2):
            append(store, FOLDER, [row(number)])
        for content in (b"", b"x", b"9" * 99, None):
            if content is None:
                store.delete(f"{FOLDER}/_version_")
            else:
                store.put(f"{FOLDER}/_version_", content)
            assert archived(store) == [[1], [2]]

    def test_a_file_that_no_manifest_lists_does_not_count(self, store):
        append(store, FOLDER, [row(1)])
        store.put(f"{FOLDER}/{time_of(7)}_{time_of(8)}_0.parquet", b"")
        store.put(f"{FOLDER}/manifest_7", b"{")
        assert archived(store) == [[1]]


def put_manifest(store, number, *files):
    listed = [{"fileName": name, "fileLen": 1} for name in files]
    store.put(f"{FOLDER}/manifest_{number}", json.dumps({"files": listed}).encode())
    store.put(f"{FOLDER}/_version_", str(number).encode())


class TestCompletionTimes:
    def test_they_are_those_of_the_writes(self, store):
        append(store, FOLDER, [row(1), row(2, "clean"), row(3, "replacecommit")])
        append(store, FOLDER, [row(4)])
        assert completion_times(store, FOLDER) == {time_of(n): time_of(n + 1) for n in (1, 3, 4)}

    def test_the_newer_file_counts_if_two_disagree(self, store):
        append(store, FOLDER, [row(1)])
        content = store.read(f"{FOLDER}/{first_file(store)}")
        append(store, FOLDER, [replace(row(1), completed_at=time_of(9), action="replacecommit"), row(2)])
        store.put(f"{FOLDER}/{first_file(store)}", content)
        assert completion_times(store, FOLDER)[time_of(1)] == time_of(9)

    def test_files_that_are_older_are_not_read(self, store):
        append(store, FOLDER, [row(1)])
        store.put(f"{FOLDER}/{first_file(store)}", b"not Parquet")
        soon = store.now_ms() + 3_600_000
        assert completion_times(store, FOLDER, since_ms=soon) == {}
        with pytest.raises(CorruptTableError, match=r"_0\.parquet in .*: not a file of the archive"):
            completion_times(store, FOLDER, since_ms=1)

    def test_a_missing_file_is_an_error_that_names_it(self, store):
        append(store, FOLDER, [row(1)])
        store.delete(f"{FOLDER}/{first_file(store)}")
        for since_ms in (0, store.now_ms() + 3_600_000):
            with pytest.raises(CorruptTableError, match=rf"{time_of(1)}_0\.parquet in .* is missing"):
                completion_times(store, FOLDER, since_ms=since_ms)

    def test_a_merge_of_files_during_the_read_asks_for_another_read(self, store):
        append(store, FOLDER, [row(1)])
        name = first_file(store)

        class MergingStore(WrappedStore):
            def before(self, kind, path):
                if kind is Kind.READ and path.endswith(name):
                    compacted = name.replace("_0.", "_1.")
                    store.put(f"{FOLDER}/{compacted}", store.read(path))
                    put_manifest(store, 2, compacted)
                    store.delete(path)

        with pytest.raises(StaleTimelineError, match="run again"):
            completion_times(MergingStore(store), FOLDER)
        assert completion_times(store, FOLDER) == {time_of(1): time_of(2)}

    def test_of_a_large_file_only_the_columns_with_times_are_read(self, store):
        rows = [replace(row(n), metadata=noise_of(n)) for n in range(1, 4)]
        append(store, FOLDER, rows)
        size = store.stat(f"{FOLDER}/{first_file(store)}").size_bytes
        assert size > 1 << 23
        expected = {time_of(n): time_of(n + 1) for n in range(1, 4)}
        assert completion_times(store, FOLDER) == expected


def noise_of(seed):
    """Three megabytes that do not compress."""
    return random.Random(seed).randbytes(3 << 20)


class TestAppending:
    @given(
        st.lists(
            st.lists(st.integers(1, 30), min_size=1, max_size=6, unique=True).map(sorted),
            min_size=1,
            max_size=6,
        )
    )
    def test_each_instant_is_archived_once_whatever_the_batches(self, tmp_path_factory, batches):
        store = open_store(tmp_path_factory.mktemp("t"))
        for batch in batches:
            append(store, FOLDER, map(row, batch))
        expected = {number for batch in batches for number in batch}
        rows = rows_in(store)
        assert sorted(int(one.time[12:]) for one in rows) == sorted(expected)
        assert {one.time: one for one in rows} == {time_of(n): row(n) for n in expected}
        assert completion_times(store, FOLDER) == {time_of(n): time_of(n + 1) for n in expected}
        for file in live_files(store, FOLDER):
            times = [one.time for one in read_rows(store, FOLDER, file)]
            assert times == sorted(times)
            assert (file.first, file.last) == (times[0], times[-1])

    def test_one_time_with_two_actions_is_two_instants(self, store):
        append(store, FOLDER, [row(1)])
        append(store, FOLDER, [row(1), row(1, "savepoint")])
        assert sorted(one.action for one in rows_in(store)) == ["commit", "savepoint"]

    def test_nothing_new_changes_nothing(self, store):
        append(store, FOLDER, [])
        assert names(store) == []
        append(store, FOLDER, [row(1), row(2)])
        before = {info.path: info.modified_ms for info in store.list(FOLDER)}
        append(store, FOLDER, [row(2)])
        assert {info.path: info.modified_ms for info in store.list(FOLDER)} == before

    def test_a_name_that_is_taken_is_left_to_its_file(self, store):
        taken = f"{FOLDER}/{time_of(1)}_{time_of(2)}_0.parquet"
        store.put(taken, b"half a file")
        append(store, FOLDER, [row(1), row(2)])
        assert store.read(taken) == b"half a file"
        assert [file.name for file in live_files(store, FOLDER)] == [f"{time_of(1)}_{time_of(3)}_0.parquet"]
        assert archived(store) == [[1, 2]]

    def test_large_contents_go_to_several_files_that_appear_at_once(self, store):
        rows = [replace(row(n), metadata=None, plan=bytes(60)) for n in (1, 2, 3)]
        append(store, FOLDER, rows, part_bytes=100)
        assert [(file.first, file.last) for file in live_files(store, FOLDER)] == [
            (time_of(1), time_of(2)),
            (time_of(3), time_of(3)),
        ]
        assert store.read(f"{FOLDER}/_version_") == b"1"

    def test_a_manifest_that_another_writer_puts_meanwhile_is_extended(self, store):
        append(store, FOLDER, [row(1)])
        rivals = iter([[row(2)]])

        class RivalStore(WrappedStore):
            def before(self, kind, path):
                if kind is Kind.PUT_IF_ABSENT and "manifest" in path:
                    for rows in rivals:
                        append(store, FOLDER, rows)

        append(RivalStore(store), FOLDER, [row(3)])
        assert archived(store) == [[1], [2], [3]]

    def test_answers_that_get_lost_change_nothing(self, store):
        append(LostAnswerStore(store), FOLDER, [row(1), row(2)])
        append(LostAnswerStore(store), FOLDER, [row(3)])
        assert archived(store) == [[1, 2], [3]]
        assert [file.last for file in live_files(store, FOLDER)] == [time_of(2), time_of(3)]

    @pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"files": 7}'])
    def test_a_damaged_manifest_that_counts_is_never_replaced(self, store, content):
        for number in (1, 2):
            append(store, FOLDER, [row(number)])
        if content is None:
            store.delete(f"{FOLDER}/manifest_2")
        else:
            store.put(f"{FOLDER}/manifest_2", content)
        assert list(newest_files_first(store, FOLDER)) == [(0, None)]
        for use in (append, lambda store, folder, _: completion_times(store, folder)):
            with pytest.raises(CorruptTableError, match="manifest_2"):
                use(store, FOLDER, [row(3)])
        assert store.read(f"{FOLDER}/_version_") == b"2"

    def test_a_newer_manifest_of_a_dead_writer_is_replaced_if_it_is_damaged(self, store):
        append(store, FOLDER, [row(1)])
        store.put(f"{FOLDER}/manifest_2", b'{"files": [')
        append(store, FOLDER, [row(2)])
        assert listed(store, 2) == [f"{time_of(n)}_{time_of(n)}_0.parquet" for n in (1, 2)]
        assert archived(store) == [[1], [2]]


def check_archive(store, *possible):
    """What must hold at every moment: a version has its manifest, and that has readable files."""
    found = archived(store)
    assert found in possible
    if "_version_" in names(store):
        assert f"manifest_{store.read(f'{FOLDER}/_version_').decode()}" in names(store)


class TestDeadWriters:
    @pytest.mark.parametrize("stop", list(Stop))
    @pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
    def test_a_batch_is_in_the_archive_or_not_and_the_same_call_finishes_it(
        self, store, tmp_path, stop, is_first
    ):
        before = [] if is_first else [[1], [2], [3]]
        batch = [row(4), row(5)]
        stops = 0
        for stop_at in range(1, 20):
            root = open_store(tmp_path / f"{stop_at}")
            for numbers in before:
                append(root, FOLDER, map(row, numbers))
            dying = FaultyStore(root, tmp_path / f"count-{stop_at}", stop_at=stop_at, stop=stop)
            try:
                append(dying, FOLDER, batch)
            except Stopped:
                stops += 1
            else:
                break
            check_archive(root, before, [*before, [4, 5]])
            append(root, FOLDER, batch)
            check_archive(root, [*before, [4, 5]])
        assert stops >= 3

    @pytest.mark.parametrize("stop", list(Stop))
    def test_another_batch_after_a_crash_doubles_nothing(self, tmp_path, stop):
        for stop_at in range(1, 20):
            root = open_store(tmp_path / f"{stop_at}")
            append(root, FOLDER, [row(1)])
            dying = FaultyStore(root, tmp_path / f"count-{stop_at}", stop_at=stop_at, stop=stop)
            try:
                append(dying, FOLDER, [row(2), row(4)])
            except Stopped:
                pass
            else:
                break
            append(root, FOLDER, [row(2), row(3), row(4), row(5)])
            assert sorted(int(one.time[12:]) for one in rows_in(root)) == [1, 2, 3, 4, 5]


def without_writes(entry):
    return {**entry, "hoodieCommitMetadata": {**entry["hoodieCommitMetadata"], "partitionToWriteStats": {}}}


class TestChanges:
    def test_a_change_that_was_stopped_anywhere_is_finished_by_the_next_one(self, tmp_path):
        for stop_at in range(1, 100):
            root = open_store(tmp_path / f"t-{stop_at}")
            for number in (1, 2):
                append(root, FOLDER, [row(number)])
            dying = FaultyStore(root, tmp_path / f"count-{stop_at}", stop_at=stop_at, stop=Stop.AFTER)
            is_stopped = False
            try:
                assert change_files(dying, FOLDER, without_writes) == 2
            except Stopped:
                is_stopped = True
                change_files(root, FOLDER, without_writes)
            sizes = {info.path.rpartition("/")[2]: info.size_bytes for info in root.list(FOLDER)}
            assert {file.name: file.size_bytes for file in live_files(root, FOLDER)} == {
                name: size for name, size in sizes.items() if name.endswith(".parquet")
            }
            assert all(decode_commit(one.metadata).stats == {} for one in rows_in(root))
            assert change_files(root, FOLDER, without_writes) == 0
            if not is_stopped:
                break
        assert stop_at > 4


class TestEntries:
    def entries(self, store, *instants):
        files = {info.path.rpartition("/")[2]: info for info in store.list(".hoodie/timeline")}
        return list(entries(store, files, instants))

    def completed(self, store, number, action, content, requested=None):
        pending = NAMES_OF_LAYOUT_2.requested(time_of(number), action)
        instant = replace(pending, state=State.COMPLETED, completed_at=time_of(number + 1))
        store.put(instant.path, content)
        if requested is not None:
            store.put(instant.requested.path, requested)
        return instant

    def test_rows_have_the_bytes_of_the_completed_and_the_requested_file(self, store):
        plan = CleanerPlan(policy="KEEP_LATEST_COMMITS", earliest_commit_to_retain=time_of(1)).encode()
        commit = row(1).metadata
        instants = [
            self.completed(store, 1, Action.COMMIT, commit, b""),
            self.completed(store, 2, Action.CLEAN, plan, plan),
            self.completed(store, 3, Action.REPLACECOMMIT, commit, plan),
            self.completed(store, 4, Action.REPLACECOMMIT, commit, b""),
            self.completed(store, 5, Action.REPLACECOMMIT, b""),
            self.completed(store, 6, Action.ROLLBACK, plan, plan),
        ]
        assert [(one.action, one.metadata, one.plan) for one in self.entries(store, *instants)] == [
            ("commit", commit, None),
            ("clean", plan, plan),
            ("replacecommit", commit, plan),
            ("replacecommit", commit, None),
            ("replacecommit", None, None),
            ("rollback", plan, None),
        ]
        assert [(one.time, one.completed_at) for one in self.entries(store, *instants)] == [
            (time_of(n), time_of(n + 1)) for n in range(1, 7)
        ]

    @pytest.mark.parametrize("damaged", ["completed", "requested"])
    def test_a_damaged_file_does_not_leave_the_timeline(self, store, damaged):
        contents = {"completed": row(1).metadata, "requested": row(1).metadata} | {damaged: b"{}"}
        instant = self.completed(store, 1, Action.REPLACECOMMIT, contents["completed"], contents["requested"])
        with pytest.raises(CorruptTableError, match=f"{time_of(1)}.*: not an Avro file"):
            self.entries(store, instant)


def parquet(table, compression="gzip"):
    target = io.BytesIO()
    pq.write_table(table, target, compression=compression)
    return target.getvalue()


def columns(compression="gzip", **changes):
    usual = {
        "instantTime": pa.array([time_of(1)]),
        "completionTime": pa.array([time_of(2)]),
        "action": pa.array(["commit"]),
        "metadata": pa.array([row(1).metadata], pa.binary()),
        "plan": pa.array([None], pa.binary()),
        "version": pa.array([1], pa.int32()),
    }
    present = {name: value for name, value in (usual | changes).items() if value is not None}
    return parquet(pa.table(present), compression)


NO_ROWS = 10_000_000
HOSTILE_FILES = {
    "empty": b"",
    "not Parquet": b"PAR1" + b"\0" * 100 + b"PAR1",
    "cut off": columns()[:-40],
    "changed": columns().replace(b"instantTime", b"instantTimX"),
    "no times": columns(instantTime=None),
    "times are numbers": columns(instantTime=pa.array([7])),
    "times are bytes": columns(instantTime=pa.array([b"\xff"])),
    "contents are texts": columns(metadata=pa.array(["x"])),
    "contents are lists": columns(metadata=pa.array([[b"x"]])),
    "contents are no containers": columns(metadata=pa.array([b"x"], pa.binary())),
    "times are no texts": columns("none").replace(time_of(1).encode(), b"\xff" * 17),
    "rows of nothing": parquet(pa.table([pa.nulls(NO_ROWS, field.type) for field in SCHEMA], SCHEMA.names)),
}


class TestHostileFiles:
    @pytest.mark.parametrize("name", HOSTILE_FILES)
    def test_they_count_as_unreadable(self, store, name):
        file = f"{time_of(1)}_{time_of(1)}_0.parquet"
        put_manifest(store, 1, file)
        store.put(f"{FOLDER}/{file}", HOSTILE_FILES[name])
        assert list(newest_files_first(store, FOLDER)) == [(1, None)]
        append(store, FOLDER, [row(2)])
        assert [instants and len(instants) for _, instants in newest_files_first(store, FOLDER)] == [1, None]

    @pytest.mark.parametrize(
        "listed",
        [
            {},
            {"files": {}},
            {"files": [7]},
            {"files": [{}]},
            {"files": [{"fileName": 7, "fileLen": 1}]},
            {"files": [{"fileName": "../../x_1_0.parquet", "fileLen": 1}]},
            {"files": [{"fileName": "1_1_0.parquet/../../x", "fileLen": 1}]},
            {"files": [{"fileName": "1_1_0.parquet", "fileLen": "1"}]},
            {"files": [{"fileName": "١_1_0.parquet", "fileLen": 1}]},
        ],
    )
    def test_a_manifest_that_lists_anything_else_is_unreadable(self, store, listed):
        store.put(f"{FOLDER}/manifest_1", json.dumps(listed).encode())
        store.put(f"{FOLDER}/_version_", b"1")
        assert list(newest_files_first(store, FOLDER)) == [(0, None)]
        with pytest.raises(CorruptTableError, match="manifest_1: "):
            live_files(store, FOLDER)
