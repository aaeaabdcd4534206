"""What readers of Delta tables find after each operation: the rows of the Hudi table at one instant."""

from __future__ import annotations

import json

import deltalake
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.errors import ForeignTableError
from parquetry.runtime.publish.delta import LOG_FOLDER, DeltaLog
from parquetry.runtime.publish.delta_types import delta_schema, unreadable_change
from parquetry.runtime.publish.publishing import publish
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spec.table_spec import Column, DeltaFormat, Publish, RetentionPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.arrow_writer import ArrowWriter
from tests.support.delta_readers import READERS, delta_rs, sorted_rows
from tests.support.hudi_rs import read
from tests.support.small_table import make_table
from tests.support.stores import CountingStore, FaultyStore, Kind, Stop, Stopped

COLUMNS = ("id", "v", "p")


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t")
    made.upsert({"a": (1, "x"), "b": (2, "y"), "c": (3, "z")})
    return made


@pytest.fixture
def path(tmp_path, table):
    return tmp_path / "t"


def published(table, **options):
    (result,) = publish(table.handle, [DeltaLog(table.store, **options)])
    return result


def assert_read_rightly(path, readers=READERS):
    expected = sorted_rows(read(str(path)), COLUMNS)
    for name, reader in readers.items():
        assert sorted_rows(reader(path), COLUMNS) == expected, name


def test_one_commit_for_each_write_and_none_without(table, path):
    published(table)
    table.upsert({"a": (10, "x")})
    second = published(table)
    assert (second.files_added, second.files_removed) == (1, 1)
    assert published(table).files_added == 0
    assert deltalake.DeltaTable(str(path)).version() == 1
    assert_read_rightly(path)
    assert sorted_rows(delta_rs(path, version=0), COLUMNS)[0] == ("a", 1, "x")


def test_a_restore_is_followed(table, path):
    saved = table.upsert({"a": (5, "x")})
    create_savepoint(table.handle, saved.instant)
    for value in range(3):
        table.upsert({"b": (value, "y"), f"n{value}": (value, "w")})
        published(table)
    restore(table.handle, saved.instant, timing=table.timing)
    published(table)
    assert_read_rightly(path)
    log = json.loads((path / LOG_FOLDER / f"{3:020}.json").read_text().splitlines()[0])
    assert log["commitInfo"]["parquetry.savepoints"] == saved.instant


def test_archived_writes_need_no_commit(table, path):
    for value in range(8):
        table.upsert({"a": (value, "x")})
    policy = RetentionPolicy(keep_commits=2, archive_keep_commits=3)
    clean(table.handle, policy=policy, timing=table.timing)
    published(table)
    archive(table.handle, policy=policy, timing=table.timing)
    assert published(table).files_added == 0
    assert deltalake.DeltaTable(str(path)).version() == 0


def test_checkpoints_have_the_whole_state(table, path):
    published(table)
    for value in range(6):
        table.upsert({"a": (value, "x"), f"n{value}": (value, "w")})
        published(table, commits_per_checkpoint=3)
    store = table.store
    assert len([info for info in store.list(LOG_FOLDER) if info.path.endswith(".checkpoint.parquet")]) == 2
    assert_read_rightly(path)
    table.upsert({"b": (7, "y")})
    published(table)
    assert_read_rightly(path)


def test_checkpoints_have_the_fields_that_spark_demands(table, path):
    """Spark refuses a checkpoint that lacks one of them, although no row of it has the action."""
    published(table, commits_per_checkpoint=1)
    table.upsert({"a": (4, "x")})
    published(table, commits_per_checkpoint=1)
    checkpoints = sorted((path / LOG_FOLDER).glob("*.checkpoint.parquet"))
    schema = pq.read_schema(checkpoints[-1])
    demanded = {
        "txn": {"appId", "version"},
        "add": {"path", "partitionValues", "size", "modificationTime", "dataChange"},
        "remove": {"path", "dataChange"},
        "metaData": {"id", "format", "schemaString", "partitionColumns", "configuration"},
        "protocol": {"minReaderVersion", "minWriterVersion"},
    }
    for action, names in demanded.items():
        assert names <= {field.name for field in schema.field(action).type}, action


def test_expired_states_leave_the_log_and_newer_ones_stay_readable(table, path):
    published(table)
    instants = []
    for value in range(7):
        instants.append(table.upsert({"a": (value, "x")}).instant)
        published(table, commits_per_checkpoint=3)
    files = sorted(path.rglob("*_*_*.parquet"))
    DeltaLog(table.store).expire(instants[-2], ())
    assert sorted(path.rglob("*_*_*.parquet")) == files
    names = [info.path.rpartition("/")[2] for info in table.store.list(LOG_FOLDER)]
    assert min(names) == f"{5:020}.checkpoint.parquet"
    assert_read_rightly(path)
    assert sorted_rows(delta_rs(path, version=6), COLUMNS)[0] == ("a", 5, "x")
    table.upsert({"a": (100, "x")})
    published(table)
    assert_read_rightly(path)


def test_others_cannot_write_or_vacuum(table, path):
    table.upsert({"a": (10, "x")})
    published(table)
    before = sorted(path.rglob("*"))
    log = deltalake.DeltaTable(str(path))
    assert log.vacuum(dry_run=True, full=True) == []
    with pytest.raises(deltalake.exceptions.CommitFailedError, match="parquetry"):
        log.vacuum(dry_run=False, full=True, retention_hours=0, enforce_retention_duration=False)
    with pytest.raises(deltalake.exceptions.CommitFailedError, match="parquetry"):
        log.delete("id = 'a'")
    assert sorted(path.rglob("*")) == before


def test_a_commit_of_another_program_stops_publishing(table, path):
    published(table)
    foreign = path / LOG_FOLDER / f"{1:020}.json"
    foreign.write_text(json.dumps({"commitInfo": {"operation": "OPTIMIZE"}}) + "\n")
    table.upsert({"a": (10, "x")})
    with pytest.raises(ForeignTableError, match="another program wrote the version 1"):
        published(table)
    foreign.unlink()
    published(table)
    assert_read_rightly(path)


def test_a_missing_version_stops_publishing(table, path):
    published(table)
    for value in range(2):
        table.upsert({"a": (value, "x")})
        published(table)
    (path / LOG_FOLDER / f"{1:020}.json").unlink()
    with pytest.raises(ForeignTableError, match="version 1 is missing"):
        published(table)


class SleepingLog(DeltaLog):
    """A log whose process sleeps at a step of a publication, while others publish and expire."""

    def __init__(self, store, meanwhile, step, **options):
        super().__init__(store, **options)
        self.meanwhile, self.step = meanwhile, step

    def pause(self, step):
        if step == self.step:
            self.step = None
            self.meanwhile()

    def publish(self, *arguments, **options):
        self.pause("before the commit")
        return super().publish(*arguments, **options)

    def _put_commit(self, *arguments, **options):
        super()._put_commit(*arguments, **options)
        self.pause("after the commit")


@pytest.mark.parametrize("former", [True, False], ids=["later_version", "first_version"])
@pytest.mark.parametrize("step", ["before the commit", "after the commit"])
def test_a_process_that_sleeps_until_its_version_is_deleted_takes_no_reader_back(table, path, step, former):
    if former:
        published(table)
        table.upsert({"a": (10, "x")})

    def meanwhile():
        for value in range(4):
            newest = table.upsert({"b": (value, "y")}).instant
            published(table, commits_per_checkpoint=3)
        DeltaLog(table.store).expire(newest, ())
        assert not (path / LOG_FOLDER / f"{int(former):020}.json").exists()

    slow = SleepingLog(table.store, meanwhile, step, commits_per_checkpoint=1)
    publish(table.handle, [slow])
    assert slow.step is None
    assert_read_rightly(path)
    hint = json.loads((path / LOG_FOLDER / "_last_checkpoint").read_bytes())
    checkpoints = sorted((path / LOG_FOLDER).glob("*.checkpoint.parquet"))
    assert int(checkpoints[-1].name.partition(".")[0]) == hint["version"]
    table.upsert({"c": (8, "z")})
    published(table)
    assert_read_rightly(path)


def test_characters_that_paths_do_not_escape(table, path):
    table.upsert({"s": (1, "a bü+&;"), "q": (2, "~!'(,)")})
    published(table)
    assert_read_rightly(path)


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("earlier", [0, 1, pytest.param(9, marks=pytest.mark.long)])
def test_stopped_at_any_write_the_log_is_the_old_or_the_new_one(tmp_path, stop, earlier):
    stop_at, is_stopped = 1, True
    while is_stopped:
        path = tmp_path / f"{stop_at}"
        made = make_table(path)
        made.upsert({"a": (1, "x"), "b": (2, "y")})
        for value in range(earlier):
            published(made)
            made.upsert({"a": (value, "x")})
        rows = [] if not earlier else sorted_rows(delta_rs(path), COLUMNS)
        made.upsert({"a": (30, "x")})
        store = FaultyStore(made.store, tmp_path / f"{stop_at}.calls", stop_at=stop_at, stop=stop)
        try:
            publish(made.handle, [DeltaLog(store)])
        except Stopped:
            shown = DeltaLog(made.store).published()
            found = [] if shown is None else sorted_rows(delta_rs(path), COLUMNS)
            assert found in (rows, [("a", 30, "x"), ("b", 2, "y")])
        is_stopped = store.stopped()
        published(made)
        assert_read_rightly(path, {"delta-rs": delta_rs})
        stop_at += 1
    assert stop_at > (3 if earlier == 9 else 2)


def test_the_requests_of_a_commit_do_not_grow_with_the_table(tmp_path):
    made = make_table(tmp_path / "t")
    made.upsert({f"k{n}": (n, f"p{n}") for n in range(40)})
    published(made)
    made.upsert({"k1": (100, "p1"), "k2": (100, "p2")})
    counting = CountingStore(open_store(tmp_path / "t"), tmp_path / "calls")
    handle = open_table(counting)
    counting.reset()
    (result,) = publish(handle, [DeltaLog(counting)])
    assert (result.files_added, result.files_removed) == (2, 2)
    opened = [path for kind, path in counting.calls() if path.endswith(".parquet") and kind is not Kind.LIST]
    assert opened == []
    listed = {path for kind, path in counting.calls() if kind is Kind.LIST and path.startswith("p=")}
    assert listed <= {"p=p1", "p=p2"}


@pytest.mark.parametrize(
    ("before", "after", "old", "new"),
    [
        ("array<int>", "array<bigint>", [1, None], [2**40]),
        ("map<string,float>", "map<string,double>", [("a", 0.5)], [("a", 1e300)]),
        ("struct<a:struct<b:int>>", "struct<a:struct<b:bigint>>", {"a": {"b": 1}}, {"a": {"b": 2**40}}),
    ],
)
def test_a_widened_part_of_a_column_is_followed(tmp_path, before, after, old, new):
    columns = (Column(name="id", type="string", nullable=False), Column(name="c", type=before))
    path = tmp_path / "t"
    table = ArrowWriter(
        path,
        TableSpec(name="orders", columns=columns, record_key=("id",), publish=Publish(delta=DeltaFormat())),
    )
    table.insert([{"id": "a", "c": old}])
    table.apply(columns=(columns[0], Column(name="c", type=after)))
    table.insert([{"id": "b", "c": new}])
    assert publish(table.handle, [DeltaLog(table.handle.store)])[0].files_added == 0
    for name, reader in READERS.items():
        assert sorted_rows(reader(path), ("id", "c")) == [("a", old), ("b", new)], name


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        ("array<int>", "array<bigint>", None),
        ("int", "array<int>", "c"),
        ("array<int>", "int", "c"),
        ("array<int>", "array<string>", "c"),
        ("array<decimal(5,2)>", "array<decimal(9,2)>", "c"),
        ("struct<a:array<float>>", "struct<a:array<double>,b:int>", None),
        ("struct<a:bigint>", "struct<a:int>", "c"),
        ("map<string,struct<a:int>>", "map<string,struct<a:double>>", "c"),
    ],
)
def test_types_that_readers_do_not_convert_are_named(before, after, column):
    schemas = [delta_schema([Column(name="c", type=one)]) for one in (before, after)]
    assert unreadable_change(*schemas) == column
