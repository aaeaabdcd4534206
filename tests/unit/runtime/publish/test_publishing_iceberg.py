"""What readers of Iceberg tables find after each operation: the rows of the Hudi table at one instant."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.snapshots import Operation

from parquetry.runtime.errors import CorruptTableError, ForeignTableError, UnsupportedTableError
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.publish import iceberg, iceberg_catalogs
from parquetry.runtime.publish.iceberg import IcebergMetadata
from parquetry.runtime.publish.iceberg_catalogs import HINT
from parquetry.runtime.publish.model import INSTANT_KEY, METADATA_FOLDER, PublishedFile, Snapshot
from parquetry.runtime.publish.publishing import publish
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column, IcebergFormat
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.delta_readers import sorted_rows
from tests.support.hudi_rs import read
from tests.support.iceberg_readers import READERS, pyiceberg, static_table
from tests.support.small_table import make_table
from tests.support.stores import CountingStore, FaultyStore, Kind, ReadOnlyStore, Stop, Stopped

COLUMNS = ("id", "v", "p")


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t")
    made.upsert({"a": (1, "x"), "b": (2, "y"), "c": (3, "z")})
    return made


@pytest.fixture
def path(tmp_path, table):
    return tmp_path / "t"


def published(table):
    (result,) = publish(table.handle, [IcebergMetadata(table.store, IcebergFormat())])
    return result


def assert_read_rightly(path, readers=READERS):
    expected = sorted_rows(read(str(path)), COLUMNS)
    for name, reader in readers.items():
        assert sorted_rows(reader(path), COLUMNS) == expected, name


def test_a_table_has_one_partition_spec_and_refuses_garbage_collection(table, path):
    published(table)
    metadata = static_table(path).metadata
    assert [str(part.transform) for part in metadata.spec().fields] == ["identity"]
    assert len(metadata.partition_specs) == 1
    assert metadata.properties["gc.enabled"] == "false"


def test_one_snapshot_for_each_write_and_none_without(table, path):
    published(table)
    last = table.upsert({"a": (10, "x")})
    second = published(table)
    assert (second.files_added, second.files_removed) == (1, 1)
    assert published(table).files_added == 0
    first, newest = static_table(path).metadata.snapshots
    assert newest.summary.additional_properties[INSTANT_KEY] == last.instant
    assert (first.summary.operation, newest.summary.operation) == (Operation.APPEND, Operation.OVERWRITE)
    assert newest.summary.additional_properties["total-records"] == "3"
    assert_read_rightly(path)
    old = pyiceberg(path, snapshot=first.snapshot_id)
    assert sorted_rows(old, COLUMNS)[0] == ("a", 1, "x")


def test_files_are_skipped_by_bounds_and_partitions(table, path):
    published(table)
    shown = static_table(path)
    for where in ("v > 2", "p = 'z'", "id >= 'c'"):
        assert len(list(shown.scan(where).plan_files())) == 1, where
    assert list(shown.scan("v is null").plan_files()) == []


def test_a_restore_is_followed_and_its_savepoint_is_a_tag(table, path):
    saved = table.upsert({"a": (5, "x")})
    published(table)
    create_savepoint(table.handle, saved.instant)
    for value in range(3):
        table.upsert({"b": (value, "y"), f"n{value}": (value, "w")})
        published(table)
    tagged = static_table(path).metadata.snapshot_by_name(f"savepoint_{saved.instant}")
    assert tagged.summary.additional_properties[INSTANT_KEY] == saved.instant
    restore(table.handle, saved.instant, timing=table.timing)
    published(table)
    assert_read_rightly(path)
    delete_savepoint(table.handle, saved.instant)
    table.upsert({"b": (9, "y")})
    published(table)
    assert list(static_table(path).metadata.refs) == ["main"]


def test_expired_snapshots_lose_their_metadata_and_no_data(table, path):
    published(table)
    instants = []
    for value in range(6):
        instants.append(table.upsert({"a": (value, "x"), "b": (value, "y")}).instant)
        published(table)
    files = sorted(path.rglob("*_*_*.parquet"))
    lists = len(list((path / METADATA_FOLDER).glob("snap-*.avro")))
    IcebergMetadata(table.store, IcebergFormat()).expire(instants[-2], ())
    assert sorted(path.rglob("*_*_*.parquet")) == files
    assert lists - len(list((path / METADATA_FOLDER).glob("snap-*.avro"))) == 5
    snapshots = static_table(path).metadata.snapshots
    assert [one.summary.additional_properties[INSTANT_KEY] for one in snapshots] == instants[-2:]
    old = pyiceberg(path, snapshot=snapshots[0].snapshot_id)
    assert sorted_rows(old, COLUMNS)[0] == ("a", 4, "x")
    table.upsert({"c": (7, "z")})
    published(table)
    assert_read_rightly(path)


def test_tags_follow_savepoints_before_snapshots_expire(table, path):
    first = table.upsert({"a": (5, "x")}).instant
    published(table)
    create_savepoint(table.handle, first)
    last = table.upsert({"a": (6, "x")}).instant
    published(table)
    form = IcebergMetadata(table.store, IcebergFormat())
    delete_savepoint(table.handle, first)
    create_savepoint(table.handle, last)
    form.expire(last, [last])
    assert set(static_table(path).metadata.refs) == {"main", f"savepoint_{last}"}
    assert [
        one.summary.additional_properties[INSTANT_KEY] for one in static_table(path).metadata.snapshots
    ] == [last]


def test_manifests_are_bounded_and_merged(table, path, monkeypatch):
    monkeypatch.setattr(iceberg, "FILES_PER_MANIFEST", 4)
    monkeypatch.setattr(iceberg, "_SMALL", 1)
    monkeypatch.setattr(iceberg, "_SMALL_MANIFESTS", 3)
    table.upsert({f"k{n}": (n, f"p{n}") for n in range(9)})
    published(table)
    for value in range(6):
        table.upsert({f"n{value}": (value, f"q{value}")})
        published(table)
        shown = static_table(path)
        counts = [
            one.added_files_count + one.existing_files_count
            for one in shown.current_snapshot().manifests(shown.io)
        ]
        assert max(counts) <= 4
        assert len(counts) <= 7
        assert_read_rightly(path, {"pyiceberg": pyiceberg})
    assert_read_rightly(path)


def test_a_snapshot_of_another_program_stops_publishing(table, path):
    published(table)
    table.upsert({"a": (10, "x")})
    newest = path / METADATA_FOLDER / "v1.metadata.json"
    metadata = json.loads(newest.read_text())
    own = newest.read_text()
    del metadata["snapshots"][0]["summary"][INSTANT_KEY]
    newest.write_text(json.dumps(metadata))
    with pytest.raises(ForeignTableError, match="another program has written to its Iceberg metadata"):
        published(table)
    newest.write_text(own)
    published(table)
    assert_read_rightly(path)


def test_a_metadata_folder_that_parquetry_did_not_make_is_left_alone(table, path):
    published(table)
    newest = path / METADATA_FOLDER / "v1.metadata.json"
    metadata = json.loads(newest.read_text())
    del metadata["properties"][iceberg.TABLE_KEY]
    newest.write_text(json.dumps(metadata))
    with pytest.raises(ForeignTableError, match="another program"):
        published(table)
    newest.write_text("{}")
    with pytest.raises(CorruptTableError, match="is not Iceberg metadata"):
        published(table)


def test_metadata_that_names_files_outside_of_its_folder_is_not_followed(table, path, tmp_path):
    published(table)
    newest = path / METADATA_FOLDER / "v1.metadata.json"
    for place in ("../secret.avro", "sub/secret.avro", "/etc/passwd"):
        metadata = json.loads(newest.read_text())
        metadata["snapshots"][0]["manifest-list"] = f"file://{path}/{METADATA_FOLDER}/{place}"
        newest.write_text(json.dumps(metadata))
        with pytest.raises(CorruptTableError, match="outside of its folder"):
            published(table)


def test_a_hint_that_was_left_behind_or_lost_is_mended(table, path):
    published(table)
    table.upsert({"a": (10, "x")})
    published(table)
    for hint in ("1", "7", "no number", ""):
        (path / HINT).write_text(hint)
        form = IcebergMetadata(ReadOnlyStore(table.store), IcebergFormat())
        assert form.paths(form.published())
        published(table)
        assert (path / HINT).read_text() == "2"
    (path / HINT).unlink()
    assert published(table).files_added == 0
    assert_read_rightly(path)


def test_a_hint_that_is_put_late_names_the_newest_state(table, path):
    class Late(IcebergMetadata):
        """Another process publishes between the metadata file and the hint of this one."""

        def publish(self, *arguments, **options):
            put = table.store.put

            def later(place, content):
                if place == HINT and table.store.stat(f"{METADATA_FOLDER}/v2.metadata.json") is None:
                    table.upsert({"b": (9, "y")})
                    published(table)
                put(place, content)

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(type(table.store), "put", lambda _, place, content: later(place, content))
                return super().publish(*arguments, **options)

    publish(table.handle, [Late(table.store, IcebergFormat())])
    assert (path / HINT).read_text() == "2"
    assert_read_rightly(path)


def test_a_process_that_sleeps_until_its_version_is_deleted_takes_no_reader_back(table, path, monkeypatch):
    monkeypatch.setattr(iceberg_catalogs, "OLD_VERSIONS", 2)
    published(table)
    table.upsert({"a": (10, "x")})

    class SleepingMetadata(IcebergMetadata):
        """A process that sleeps before its commit, while others publish."""

        done = False

        def publish(self, *arguments, **options):
            if not self.done:
                self.done = True
                for value in range(4):
                    table.upsert({"b": (value, "y")})
                    published(table)
                assert not (path / METADATA_FOLDER / "v2.metadata.json").exists()
            return super().publish(*arguments, **options)

    publish(table.handle, [SleepingMetadata(table.store, IcebergFormat())])
    assert_read_rightly(path, {"pyiceberg": pyiceberg})
    table.upsert({"c": (8, "z")})
    published(table)
    assert_read_rightly(path, {"pyiceberg": pyiceberg})


def test_plain_characters_in_partitions(table, path):
    table.upsert({"s": (1, "a b=ü+&;"), "q": (2, "~!'(,)")})
    published(table)
    assert_read_rightly(path)


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("earlier", [pytest.param(0, marks=pytest.mark.long), 1])
def test_stopped_at_any_write_the_metadata_is_the_old_or_the_new_one(tmp_path, stop, earlier):
    stop_at, is_stopped = 1, True
    while is_stopped:
        path = tmp_path / f"{stop_at}"
        made = make_table(path)
        made.upsert({"a": (1, "x"), "b": (2, "y")})
        for value in range(earlier):
            published(made)
            made.upsert({"a": (value, "x")})
        rows = [] if not earlier else sorted_rows(pyiceberg(path), COLUMNS)
        made.upsert({"a": (30, "x")})
        store = FaultyStore(made.store, tmp_path / f"{stop_at}.calls", stop_at=stop_at, stop=stop)
        try:
            publish(made.handle, [IcebergMetadata(store, IcebergFormat())])
        except Stopped:
            found = sorted_rows(pyiceberg(path), COLUMNS) if (path / HINT).exists() else []
            assert found in (rows, [("a", 30, "x"), ("b", 2, "y")])
        is_stopped = store.stopped()
        published(made)
        assert_read_rightly(path, {"pyiceberg": pyiceberg})
        stop_at += 1
    assert stop_at > 4


def test_the_requests_of_a_commit_do_not_grow_with_the_table(tmp_path):
    made = make_table(tmp_path / "t")
    made.upsert({f"k{n}": (n, f"p{n}") for n in range(40)})
    published(made)
    made.upsert({"k1": (100, "p1"), "k2": (100, "p2")})
    counting = CountingStore(open_store(tmp_path / "t"), tmp_path / "calls")
    handle = open_table(counting)
    counting.reset()
    (result,) = publish(handle, [IcebergMetadata(counting, IcebergFormat())])
    assert (result.files_added, result.files_removed) == (2, 2)
    opened = [path for kind, path in counting.calls() if path.endswith(".parquet") and kind is not Kind.LIST]
    assert opened == []
    puts = [
        path
        for kind, path in counting.calls()
        if path.startswith(METADATA_FOLDER) and kind in (Kind.PUT, Kind.PUT_IF_ABSENT)
    ]
    assert len(puts) == 5


OLD = {
    "id": ("string", pa.string()),
    "n": ("int", pa.int32()),
    "f": ("float", pa.float32()),
    "gone": ("array<struct<x:int>>", pa.list_(pa.struct([("x", pa.int32())]))),
    "s": ("struct<a:int,b:string>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    "l": ("array<int>", pa.list_(pa.int32())),
    "m": ("map<string,int>", pa.map_(pa.string(), pa.int32())),
    "dec": ("decimal(9,2)", pa.decimal128(9, 2)),
    "ts": ("timestamp", pa.timestamp("us", "UTC")),
    "day": ("date", pa.date32()),
    "bin": ("binary", pa.binary()),
    "yes": ("boolean", pa.bool_()),
}
NEW = {
    **{name: kind for name, kind in OLD.items() if name != "gone"},
    "n": ("bigint", pa.int64()),
    "f": ("double", pa.float64()),
    "s": (
        "struct<a:bigint,b:string,c:date>",
        pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.date32())]),
    ),
    "l": ("array<bigint>", pa.list_(pa.int64())),
    "dec": ("decimal(12,2)", pa.decimal128(12, 2)),
    "added": ("double", pa.float64()),
}
FIRST = {
    "id": "a",
    "n": 1,
    "f": 0.5,
    "s": {"a": 1, "b": "x"},
    "l": [1, None],
    "m": [("k", 1)],
    "dec": Decimal("1.50"),
    "ts": dt.datetime(1960, 1, 1, tzinfo=dt.UTC),
    "day": dt.date(1900, 2, 3),
    "bin": b"\xff",
    "yes": True,
}
SECOND = {
    "id": "b",
    "n": 2**40,
    "f": 1e300,
    "s": {"a": 2**40, "b": "y", "c": dt.date(2020, 1, 1)},
    "l": [2**40],
    "dec": Decimal("1234567890.25"),
    "added": 2.0,
}


def live_file(store, folder, name, rows, types):
    schema = pa.schema(
        [*((meta, pa.string()) for meta in META_COLUMNS), *((n, t) for n, (_, t) in types.items())]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / name)
    size = (folder / name).stat().st_size
    statistics = file_statistics(name, read_metadata(store, name), size_bytes=size)
    return PublishedFile(path=name, size_bytes=size, modified_ms=0, partition=(), statistics=statistics)


def state(instant, types):
    columns = tuple(Column(name=name, type=kind) for name, (kind, _) in types.items())
    return Snapshot(
        instant=instant,
        completed_ms=0,
        operation="UPSERT",
        writes=frozenset({instant}),
        settled=instant,
        columns=columns,
    )


def test_columns_are_added_dropped_and_widened_under_stable_ids(tmp_path):
    store = open_store(tmp_path)
    shown = IcebergMetadata(store, IcebergFormat())
    first = live_file(store, tmp_path, "a_0_1.parquet", [{**FIRST, "gone": [{"x": 1}]}], OLD)
    assert shown.publish(state("1", OLD), [first], [], before=None)
    ids = {field.name: field.field_id for field in static_table(tmp_path).schema().fields}
    second = live_file(store, tmp_path, "b_0_2.parquet", [SECOND], NEW)
    assert shown.publish(state("2", NEW), [second], [], before=shown.published())
    evolved = {field.name: field.field_id for field in static_table(tmp_path).schema().fields}
    assert {name: evolved[name] for name in ids if name != "gone"} == {
        name: number for name, number in ids.items() if name != "gone"
    }
    assert evolved["added"] not in ids.values()
    absent = dict.fromkeys(NEW)
    old = {**absent, **FIRST, "s": {**FIRST["s"], "c": None}}
    for name, reader in READERS.items():
        assert reader(tmp_path).sort_by("id").to_pylist() == [old, absent | SECOND], name


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("n = 1", ["a"]),
        ("n = 1099511627776", ["b"]),
        ("f = 0.5", ["a"]),
        ("dec = 1234567890.25", ["b"]),
        ("ts < '1970-01-01T00:00:00+00:00'", ["a"]),
        ("day = '1900-02-03'", ["a"]),
        ("added is null", ["a"]),
    ],
)
def test_bounds_of_files_older_than_a_widening_are_right(tmp_path, where, found):
    store = open_store(tmp_path)
    shown = IcebergMetadata(store, IcebergFormat())
    first = live_file(store, tmp_path, "a_0_1.parquet", [FIRST], OLD)
    second = live_file(store, tmp_path, "b_0_2.parquet", [SECOND], NEW)
    shown.publish(state("1", OLD), [first], [], before=None)
    shown.publish(state("2", NEW), [second], [], before=shown.published())
    assert static_table(tmp_path).scan(where).to_arrow().column("id").to_pylist() == found


def test_a_type_that_readers_do_not_convert_is_refused(tmp_path):
    store = open_store(tmp_path)
    shown = IcebergMetadata(store, IcebergFormat())
    shown.publish(
        state("1", OLD), [live_file(store, tmp_path, "a_0_1.parquet", [FIRST], OLD)], [], before=None
    )
    changed = {**OLD, "n": ("string", pa.string())}
    with pytest.raises(UnsupportedTableError, match="cannot read the column n"):
        shown.publish(state("2", changed), [], [], before=shown.published())
