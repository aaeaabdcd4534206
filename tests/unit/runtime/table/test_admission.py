from __future__ import annotations

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.errors import CorruptTableError, TableNotFoundError, UnsupportedTableError
from parquetry.runtime.spec.key_generator import KeyEncoding
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import FilesPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.admission import ahead_ms, check_stored_columns, check_writable
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import (
    CHECKSUM_KEY,
    format_properties,
    parse_properties,
    table_checksum,
)
from parquetry.runtime.table.version_properties import MERGE_STRATEGIES
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import Action, Timezone, format_instant, parse_instant_ms
from parquetry.runtime.timing import DEFAULT_TIMING
from tests.support.handmade import CREATED, HandmadeTable, at, spec
from tests.support.timelines import put_completed

PROPERTIES = ".hoodie/hoodie.properties"
NOW = parse_instant_ms(CREATED, Timezone.UTC) + 3_600_000
MILLISECONDS = {"type": "long", "logicalType": "timestamp-millis"}
GENERATORS = "org.apache.hudi.keygen."
MODEL = "org.apache.hudi.common.model."


@pytest.fixture
def table(tmp_path):
    return HandmadeTable(tmp_path / "t")


def edit(table, **changes):
    properties = parse_properties(table.store.read(PROPERTIES)) | {
        key.replace("__", "."): value for key, value in changes.items()
    }
    properties[CHECKSUM_KEY] = table_checksum(properties)
    table.store.put(PROPERTIES, format_properties(properties, comment="edited"))


def admit(table, now_ms=NOW):
    handle = table.open()
    check_writable(handle, handle.timeline(), now_ms)


def test_our_own_table_may_be_written(table):
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    admit(table)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"hoodie__table__metadata__partitions": "files"},
            r"metadata\.partitions=files: .*write once with Hudi and hoodie\.metadata\.enable=false",
        ),
        ({"hoodie__table__metadata__partitions__inflight": "column_stats,files"}, r"=column_stats,files: "),
        (
            {"hoodie__datasource__write__drop__partition__columns": "true"},
            "rewrite the table without that setting",
        ),
        (
            {"hoodie__populate__meta__fields": "false", "hoodie__table__recordkey__fields": ""},
            "rewrite the table with one of them",
        ),
        (
            {"hoodie__table__ordering__fields": "a.b"},
            r"ordering field a\.b is part of a struct; rewrite the table",
        ),
        ({"hoodie__table__ordering__fields": "a,b"}, r"ordering\.fields=a,b: one ordering field"),
        (
            {"hoodie__table__keygenerator__class": "com.example.Mine"},
            r"unknown key generator com\.example\.Mine.*rewrite the table with one of SimpleKeyGenerator",
        ),
        (
            {"hoodie__table__keygenerator__class": GENERATORS + "TimestampBasedKeyGenerator"},
            "partition paths from times",
        ),
        (
            {
                "hoodie__table__keygenerator__class": GENERATORS + "CustomKeyGenerator",
                "hoodie__keygen__timebased__output__dateformat": "yyyy",
            },
            "partition paths from times",
        ),
        (
            {
                "hoodie__table__keygenerator__class": GENERATORS + "CustomKeyGenerator",
                "hoodie__table__partition__fields": "p:TIMESTAMP",
            },
            "partition paths from times",
        ),
        ({"hoodie__record__merge__mode": "CUSTOM"}, r"mode=CUSTOM: .*parquetry replaces whole rows"),
        (
            {"hoodie__record__merge__strategy__id": "00000000-0000-0000-0000-000000000000"},
            r"strategy\.id=0.*rewrite the table without that setting",
        ),
        (
            {"hoodie__compaction__record__merger__strategy": "11111111-0000-0000-0000-000000000000"},
            r"merger\.strategy=1",
        ),
        (
            {"hoodie__compaction__payload__class": MODEL + "PartialUpdateAvroPayload"},
            r"payload\.class=org\.apache\.hudi\.common\.model\.PartialUpdateAvroPayload: ",
        ),
        ({"hoodie__table__legacy__payload__class": MODEL + "AWSDmsAvroPayload"}, r"AWSDmsAvroPayload: "),
        ({"hoodie__table__partial__update__mode": "IGNORE_DEFAULTS"}, r"mode=IGNORE_DEFAULTS: "),
        ({"hoodie__record__merge__property__hoodie__payload__delete__field": "Op"}, r"delete\.field=Op: "),
    ],
)
def test_a_table_that_may_be_read_but_not_written_says_why_and_what_to_do(table, changes, message):
    edit(table, **changes)
    assert table.open().view(table.open().timeline()).partitions() == []
    with pytest.raises(UnsupportedTableError, match=message) as refusal:
        admit(table)
    assert str(refusal.value).startswith(table.store.uri)


@pytest.mark.parametrize(
    ("mode", "payload"),
    [
        ("EVENT_TIME_ORDERING", "DefaultHoodieRecordPayload"),
        ("EVENT_TIME_ORDERING", "EventTimeAvroPayload"),
        ("COMMIT_TIME_ORDERING", "OverwriteWithLatestAvroPayload"),
    ],
)
def test_rules_of_hudi_that_keep_whole_rows_are_ours(table, mode, payload):
    edit(
        table,
        hoodie__record__merge__mode=mode,
        hoodie__record__merge__strategy__id=MERGE_STRATEGIES[mode],
        hoodie__compaction__payload__class=MODEL + payload,
        hoodie__table__partial__update__mode="",
    )
    admit(table)


@pytest.mark.parametrize("partition", ["p=x", "p=2026-01-01"])
def test_a_custom_generator_that_formats_values_is_found_by_a_row_of_a_file(table, partition):
    """In version 6 its properties do not record that."""
    edit(table, hoodie__table__keygenerator__class=GENERATORS + "CustomKeyGenerator")
    table.commit("1", {partition: {"f-0": [("k", 1)]}})
    admit(table)
    (file,) = (table.folder / partition).glob("*.parquet")
    rows = pq.read_table(file, partitioning=None)
    position = rows.schema.get_field_index("p")
    pq.write_table(rows.set_column(position, rows.schema.field(position), pa.array(["1767225600000"])), file)
    with pytest.raises(
        UnsupportedTableError, match=r"would be written to .*CustomKeyGenerator does not name"
    ):
        admit(table)
    write_applied(table.store, table.spec, number=1)
    admit(table)


@pytest.mark.parametrize("written", [MetaColumns.COMMIT_TIME, MetaColumns.NONE])
def test_a_table_whose_rows_lack_what_its_properties_promise_is_planned_and_not_written(table, written):
    write_applied(table.store, spec(files=FilesPolicy(meta_columns=written)), number=1)
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    admit(table)
    with pytest.raises(UnsupportedTableError, match=f"meta_columns: all, but {written} is applied: .*apply"):
        recovered_timeline(table.open(), timing=DEFAULT_TIMING)
    edit(table, hoodie__populate__meta__fields="false", parquetry__meta__columns=str(written))
    check_stored_columns(table.open())


def test_following_the_remedy_for_a_metadata_table_works(table):
    edit(table, hoodie__table__metadata__partitions="files")
    with pytest.raises(UnsupportedTableError):
        admit(table)
    edit(table, hoodie__table__metadata__partitions="")
    admit(table)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hoodie__table__type": "MERGE_ON_READ"}, "only COPY_ON_WRITE is supported"),
        ({"hoodie__bootstrap__base__path": "/old"}, "bootstrapped from /old"),
        ({"hoodie__table__base__file__format": "ORC"}, "only PARQUET is supported"),
        ({"hoodie__table__version": "5"}, "table version 5, .*upgrade it by a write with Hudi 0.15"),
        ({"hoodie__table__version": "7"}, "table version 7, timeline layout 1"),
        ({"hoodie__timeline__layout__version": "2"}, "version 6 has timeline layout 1"),
        ({"hoodie__table__version": "9"}, "version 9 has timeline layout 2"),
        ({"hoodie__timeline__path": "elsewhere"}, "hoodie.timeline.path=elsewhere"),
        ({"hoodie__table__cdc__enabled": "true"}, "tables with change logs are not supported"),
        (
            {"hoodie__table__multiple__base__file__formats__enable": "true"},
            r"formats\.enable=true; tables with several formats of base files are not supported",
        ),
    ],
)
def test_a_table_of_another_kind_is_not_even_read(table, changes, message):
    handle, timeline = table.open(), table.open().timeline()
    edit(table, **changes)
    with pytest.raises(UnsupportedTableError, match=message):
        open_table(table.store)
    check_writable(handle, timeline, NOW)
    with pytest.raises(UnsupportedTableError, match=message):
        handle.reopen()


def test_a_table_of_a_later_version_names_the_way_back(table):
    edit(table, hoodie__table__version="10", hoodie__timeline__layout__version="2")
    with pytest.raises(UnsupportedTableError, match="table version 10, timeline layout 2") as refusal:
        open_table(table.store)
    assert "downgrade_table(table => 't', to_version => 'NINE')" in str(refusal.value)


@pytest.mark.usefixtures("on_each_version")
def test_a_schema_history_is_refused(table):
    extra = {"schema": table.schema, "latest_schema": '{"version_id": 1}'}
    table.request("1")
    metadata = CommitMetadata(operation="ALTER_SCHEMA", extra=extra)
    put_completed(table.store, at("1"), Action.COMMIT, metadata)
    with pytest.raises(UnsupportedTableError, match=rf"commit {at('1')} has a schema history"):
        admit(table)


@pytest.mark.usefixtures("on_each_version")
def test_a_schema_of_milliseconds_is_refused(table):
    schema = json.dumps({**json.loads(table.schema), "fields": [{"name": "at", "type": MILLISECONDS}]})
    table.request("1")
    metadata = CommitMetadata(operation="UPSERT", extra={"schema": schema})
    put_completed(table.store, at("1"), Action.COMMIT, metadata)
    with pytest.raises(
        UnsupportedTableError, match=r"timestamp-millis, .* rewrite the table with timestamp-micros"
    ):
        admit(table)


@pytest.mark.usefixtures("on_each_version")
def test_a_half_written_newest_commit_is_named_before_anything_is_written(table):
    table.request("1")
    done = put_completed(table.store, at("1"), Action.COMMIT, b'{"partitionToWr')
    with pytest.raises(CorruptTableError, match=rf"{done.file_name}: not "):
        admit(table)


def test_an_instant_a_little_ahead_is_waited_for_and_one_far_ahead_refused(table):
    newest = parse_instant_ms(CREATED, Timezone.UTC)
    admit(table, now_ms=newest - 5_000)
    timeline = table.open().timeline()
    assert ahead_ms(timeline, Timezone.UTC, newest - 4_000) == 4_000
    assert ahead_ms(timeline, Timezone.UTC, newest + 1) == 0
    with pytest.raises(
        UnsupportedTableError,
        match=rf"newest instant {CREATED} is 6 s ahead of the clock \(time zone of the table: UTC\)",
    ):
        admit(table, now_ms=newest - 6_000)


def test_a_pending_instant_in_the_future_counts_too(table):
    table.request("20990101000000000")
    with pytest.raises(UnsupportedTableError, match=r"20990101000000000 is .* correct the clock .* or wait"):
        admit(table)


@pytest.mark.parametrize("zone", ["America/Los_Angeles"])
def test_a_table_in_local_time_is_judged_in_the_zone_of_the_machine(table, monkeypatch, zone):
    edit(table, hoodie__table__timeline__timezone="LOCAL")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = table.store.now_ms()
        table.request(format_instant(now, Timezone.LOCAL))
        admit(table, now)
        table.request(format_instant(now, Timezone.UTC))
        with pytest.raises(UnsupportedTableError, match="set TZ to the zone of the machines"):
            admit(table, now)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_zone_that_hudi_dropped_from_our_table_is_utc_and_put_back_by_the_next_writer(table):
    properties = parse_properties(table.store.read(PROPERTIES))
    del properties["hoodie.table.timeline.timezone"]
    table.store.put(PROPERTIES, format_properties(properties, comment="CREATE TABLE of Hudi 0.15"))
    handle = table.open()
    assert handle.config.timezone is Timezone.UTC
    assert "hoodie.table.timeline.timezone" not in parse_properties(table.store.read(PROPERTIES))
    assert handle.config_under_lock().timezone is Timezone.UTC
    assert parse_properties(table.store.read(PROPERTIES))["hoodie.table.timeline.timezone"] == "UTC"


def test_a_table_of_hudi_without_a_time_zone_stays_local(table):
    properties = parse_properties(table.store.read(PROPERTIES))
    del properties["hoodie.table.timeline.timezone"]
    table.store.put(PROPERTIES, format_properties(properties, comment="made by Hudi"))
    table.store.delete_folder(".hoodie/.parquetry")
    before = table.store.read(PROPERTIES)
    assert table.open().config.timezone is Timezone.LOCAL
    assert table.open().config_under_lock().timezone is Timezone.LOCAL
    assert table.store.read(PROPERTIES) == before


def test_no_table_is_said_to_be_none(tmp_path):
    with pytest.raises(TableNotFoundError, match="there is no Hudi table"):
        open_table(open_store(tmp_path))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["id:a", "id:b"], KeyEncoding.PREFIXED),
        (["a", "b"], KeyEncoding.BARE),
        (["id:a", "id:id:b"], KeyEncoding.BARE),
    ],
)
def test_one_key_of_a_complex_generator_is_spelled_as_in_the_files(tmp_path, monkeypatch, keys, expected):
    table = HandmadeTable(tmp_path / "t", spec(partition_by=("p", "n")))
    edit(table, hoodie__table__keygenerator__class=GENERATORS + "ComplexKeyGenerator")
    handle = table.open()
    assert handle.key_encoding(handle.view(handle.timeline())) is KeyEncoding.BARE
    values = keys if expected is KeyEncoding.BARE else [key.removeprefix("id:") for key in keys]
    table.commit("1", {"p=a/n=0": {"e-0": []}, "p=a/n=1": {"f-0": [(value, 1) for value in values]}})
    rewrite_keys(table, "p=a/n=1", keys)
    assert handle.key_encoding(handle.view(handle.timeline())) is expected


def test_files_that_disagree_about_the_spelling_are_refused(tmp_path):
    table = HandmadeTable(tmp_path / "t", spec(partition_by=("p", "n")))
    edit(table, hoodie__table__keygenerator__class=GENERATORS + "ComplexKeyGenerator")
    table.commit("1", {"p=a/n=1": {"f-0": [("a", 1), ("b", 1)]}})
    rewrite_keys(table, "p=a/n=1", ["id:a", "b"])
    handle = table.open()
    with pytest.raises(CorruptTableError, match="two writers used different encodings"):
        handle.key_encoding(handle.view(handle.timeline()))


def rewrite_keys(table, partition, keys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (path,) = (table.folder / partition).glob("*.parquet")
    rows = pq.read_table(path, partitioning=None)
    index = rows.schema.get_field_index("_hoodie_record_key")
    pq.write_table(rows.set_column(index, "_hoodie_record_key", pa.array(keys)), path)
