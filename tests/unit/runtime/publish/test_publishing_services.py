"""Publishing beside writes and services: none fails by it, and no file that the log names is deleted."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import deltalake
import pytest

from parquetry.compiler.reports.inspection import inspect_table
from parquetry.compiler.reports.lake import read_table
from parquetry.compiler.reports.timeline import report_timeline
from parquetry.compiler.testing.kinds import KINDS as KINDS_OF_TESTS
from parquetry.compiler.testing.live_table import LiveTable, Scope
from parquetry.errors import ParquetryError
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.commit.rollback import plan_rollback
from parquetry.runtime.errors import ForeignTableError
from parquetry.runtime.publish.delta import LOG_FOLDER, DeltaLog
from parquetry.runtime.publish.model import INSTANT_KEY
from parquetry.runtime.publish.publishing import (
    PublishLag,
    files_still_named,
    formats_of,
    lag_warnings,
    publish,
    publish_lag,
)
from parquetry.runtime.services import clean as service
from parquetry.runtime.services import restore as restoring
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import (
    Column,
    DeltaFormat,
    IcebergFormat,
    Publish,
    RetentionPolicy,
    TableTest,
)
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.timeline.instant import Action
from tests.interop.readers.kinds import KINDS, the_key
from tests.support.arrow_writer import ArrowWriter
from tests.support.delta_readers import READERS, delta_rs, sorted_rows
from tests.support.hudi_rs import read
from tests.support.iceberg_readers import static_table
from tests.support.small_table import make_table
from tests.support.stores import Stopped
from tests.support.timelines import put_pending

COLUMNS = ("id", "v", "p")
SHOWN_BY_OTHER_TESTS = frozenset(
    {"plain", "upserted", "clustered", "cleaned", "partition_deleted", "column_added", "version_8"}
)
ONE_COMMIT = RetentionPolicy(keep_commits=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t"


@pytest.fixture
def table(path):
    """A table that is published by its applied spec, with services after each write."""
    made = make_table(path, keep_commits=2)
    handle = made.handle
    write_applied(made.store, replace(handle.spec, publish=Publish(delta=DeltaFormat())), number=2)
    made.services = True
    made.upsert({"a": (1, "x"), "b": (2, "y")})
    return made


def broken(path):
    """Another program has written to the log."""
    newest = deltalake.DeltaTable(str(path)).version()
    foreign = path / LOG_FOLDER / f"{newest + 1:020}.json"
    foreign.write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")
    return foreign


def assert_read_rightly(path):
    assert sorted_rows(delta_rs(path), COLUMNS) == sorted_rows(read(str(path)), COLUMNS)


def test_each_write_is_followed(table, path):
    assert_read_rightly(path)
    result = table.upsert({"a": (3, "x"), "c": (4, "z")})
    assert result.warnings == ()
    assert deltalake.DeltaTable(str(path)).history()[0]["parquetry.instant"] == result.instant
    assert_read_rightly(path)
    table.delete(["b"])
    assert_read_rightly(path)


def test_cleans_leave_no_file_that_the_log_names(table, path):
    for value in range(11):
        table.upsert({"a": (value, "x")})
        assert_read_rightly(path)
    assert len(list((path / "p=x").glob("*.parquet"))) == 3
    versions = [json.loads(f.read_text().splitlines()[0]) for f in (path / LOG_FOLDER).glob("*.json")]
    assert len(versions) < 11


@pytest.mark.parametrize(
    ("retention", "partitions", "kept"),
    [
        (RetentionPolicy(keep_commits=None, keep_versions=1), "xxxx", 1),
        (RetentionPolicy(keep_commits=2), "xyzw", 2),
    ],
    ids=["by_number", "append_only"],
)
def test_published_states_expire_whatever_a_clean_deletes(path, retention, partitions, kept):
    made = make_table(path)
    spec = replace(made.handle.spec, publish=Publish(iceberg=IcebergFormat()), retention=retention)
    write_applied(made.store, spec, number=2)
    made.services = True
    instants = [made.upsert({part: (n, part)}).instant for n, part in enumerate(partitions)]
    snapshots = static_table(path).metadata.snapshots
    assert [one.summary.additional_properties[INSTANT_KEY] for one in snapshots] == instants[-kept:]


def test_a_rollback_and_a_restore_are_followed(table, path):
    saved = table.upsert({"a": (5, "x")})
    create_savepoint(table.handle, saved.instant)
    table.upsert({"a": (6, "x"), "n": (1, "w")})
    last = table.upsert({"b": (6, "y")})
    rollback(table.handle, last.instant, timing=table.timing)
    assert_read_rightly(path)
    restore(table.handle, saved.instant, timing=table.timing)
    assert_read_rightly(path)
    assert sorted_rows(delta_rs(path), COLUMNS) == [("a", 5, "x"), ("b", 2, "y")]


def test_a_rollback_that_was_begun_is_finished_and_followed(table, path):
    last = table.upsert({"a": (6, "x")}).instant
    timeline = table.handle.timeline()
    plan = plan_rollback(table.store, timeline, timeline.write_at(last), further_files=(), partitions=())
    put_pending(table.store, f"{int(timeline.last_instant) + 1}", Action.ROLLBACK, content=plan.encode())
    rollback(table.handle, last, timing=table.timing)
    assert_read_rightly(path)
    assert sorted_rows(delta_rs(path), COLUMNS)[0] == ("a", 1, "x")


def test_a_restore_that_recovery_finishes_is_followed(table, path, monkeypatch):
    saved = table.upsert({"a": (5, "x")}).instant
    create_savepoint(table.handle, saved)
    table.upsert({"a": (6, "x")})

    def killed(*_arguments):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "publish_after", killed)
        with pytest.raises(Stopped):
            restore(table.handle, saved, timing=table.timing)
    assert restore(table.handle, saved, timing=table.timing).instant is None
    assert_read_rightly(path)
    assert sorted_rows(delta_rs(path), COLUMNS)[0] == ("a", 5, "x")


def test_a_write_succeeds_with_a_warning_if_publishing_fails(table, path):
    foreign = broken(path)
    result = table.upsert({"a": (3, "x")})
    assert result.instant is not None
    (warning,) = result.warnings
    assert "another program wrote the version" in str(warning)
    assert sorted_rows(read(str(path)), COLUMNS)[0] == ("a", 3, "x")
    foreign.unlink()
    table.upsert({"a": (4, "x")})
    assert_read_rightly(path)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]\n", b'{"add": 1}\n'])
def test_metadata_that_is_damaged_fails_no_write_and_no_file_is_deleted(table, path, content):
    newest = deltalake.DeltaTable(str(path)).version()
    (path / LOG_FOLDER / f"{newest + 1:020}.json").write_bytes(content)
    before = set(path.glob("*.parquet"))
    for value in range(5):
        assert "unharmed" in str(table.upsert({"a": (value, "y")}).warnings[0])
    with pytest.raises(ParquetryError, match="unharmed"):
        clean(table.handle)
    assert before <= set(path.glob("*.parquet"))
    assert "unharmed" in str(lag_warnings(table.handle)[0])


def test_a_checkpoint_that_is_damaged_fails_no_write(table, path):
    for value in range(11):
        table.upsert({"a": (value, "x")})
    (checkpoint,) = (path / LOG_FOLDER).glob("*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    assert "cannot be read" in str(table.upsert({"a": (12, "y")}).warnings[0])


def test_how_far_a_format_is_behind_is_shown(table, path):
    def lags():
        return [publish_lag(table.handle, one) for one in formats_of(table.handle)]

    assert [(lag.writes, lag.since) for lag in lags()] == [(0, None)]
    assert inspect_table(table.store).warnings == report_timeline(table.store).warnings == ()
    shown = DeltaLog(table.store).published().instant
    table.services = False
    first = table.upsert({"a": (3, "x")}).instant
    table.upsert({"a": (4, "x")})
    assert lags() == [PublishLag(format="delta", instant=shown, writes=2, since=first)]
    for warnings in (inspect_table(table.store).warnings, report_timeline(table.store).warnings):
        assert f"delta is behind the table by writes since {first}: 2" in " ".join(map(str, warnings))
    publish(table.handle, formats_of(table.handle))
    assert [lag.writes for lag in lags()] == [0]
    broken(path)
    assert "another program wrote the version" in " ".join(map(str, lag_warnings(table.handle)))


def test_a_test_and_a_metric_measure_the_lag(table):
    def lag_seconds():
        test = TableTest(kind="max_publish_lag", arguments={}, severity="error")
        live = LiveTable(table.handle, table.handle.spec, (test,))
        live.now_ms += 86_400_000
        (measure,) = KINDS_OF_TESTS["max_publish_lag"](Scope(table=live, partitions=None), test)
        return measure.value

    assert lag_seconds() == 0
    assert read_table(table.handle, table="small").publish_lag_seconds == {"delta": 0}
    table.services = False
    table.upsert({"a": (3, "x")})
    assert 86_400 <= lag_seconds() < 2 * 86_400
    assert read_table(table.handle, table="small").publish_lag_seconds["delta"] > 0


def test_a_clean_keeps_files_of_a_state_that_publishing_could_not_replace(table, path, monkeypatch):
    def fail(*_arguments, **_options):
        raise OSError("no storage")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "publish", fail)
        for value in range(5):
            table.upsert({"a": (value, "x"), "b": (value, "y")})
        clean(table.handle, policy=ONE_COMMIT, timing=table.timing)
        assert sorted_rows(delta_rs(path), COLUMNS) == [("a", 1, "x"), ("b", 2, "y")]
    clean(table.handle, policy=ONE_COMMIT, timing=table.timing)
    assert_read_rightly(path)
    table.upsert({"a": (7, "x"), "b": (7, "y")})
    clean(table.handle, policy=ONE_COMMIT, timing=table.timing)
    assert len(list(path.rglob("p=*/*.parquet"))) == 4  # of the newest commit and the one before


def test_a_clean_that_keeps_replaced_files_retains_their_replacecommit_for_archivals(
    table, path, monkeypatch
):
    table.services = False
    publish(table.handle, formats_of(table.handle))

    def fail(*_arguments, **_options):
        raise OSError("no storage")

    monkeypatch.setattr(DeltaLog, "publish", fail)
    replaced = table.overwrite({"a": (5, "x")}).instant
    for value in range(3):
        table.upsert({"b": (value, "y")})
    result = clean(table.handle, policy=ONE_COMMIT, timing=table.timing)
    assert sorted_rows(delta_rs(path), COLUMNS) == [("a", 1, "x"), ("b", 2, "y")]
    assert result.files_deleted > 0
    # Hudi's archival goes by the plan alone.
    timeline = table.handle.timeline()
    assert timeline.cleaner_plan(result.instant).earliest_commit_to_retain <= replaced
    expected = sorted_rows(read(str(path)), COLUMNS)
    archive(table.handle, policy=ONE_COMMIT, timing=table.timing)
    assert sorted_rows(read(str(path)), COLUMNS) == expected


def test_a_clean_that_plans_again_publishes_again(table, path, monkeypatch):
    table.services = False
    table.upsert({"a": (6, "x")})
    named = []

    def beside_a_write(handle):
        found = files_still_named(handle)
        if not named:
            table.upsert({"a": (7, "x")})
        named.append(found)
        return found

    monkeypatch.setattr(service, "files_still_named", beside_a_write)
    clean(table.handle, policy=RetentionPolicy(keep_commits=None, keep_versions=1), timing=table.timing)
    assert_read_rightly(path)
    assert sorted_rows(delta_rs(path), COLUMNS)[0] == ("a", 7, "x")
    assert named == [frozenset(), frozenset()]
    assert len(list(path.rglob("p=*/*.parquet"))) == 2


def test_a_clean_deletes_nothing_if_it_cannot_find_out_what_the_log_names(table, path):
    for value in range(3):
        table.upsert({"a": (value, "x")})
    broken(path)
    table.upsert({"a": (9, "x")})
    files = sorted(path.rglob("p=*/*.parquet"))
    with pytest.raises(ForeignTableError):
        clean(table.handle, policy=ONE_COMMIT, timing=table.timing)
    assert sorted(path.rglob("p=*/*.parquet")) == files


@pytest.mark.parametrize("partition_by", [("p",), ()])
def test_nothing_takes_a_checkpoint_of_the_log_for_a_data_file(path, partition_by):
    spec = replace(make_table(path.with_name("other")).handle.spec, partition_by=partition_by)
    made = ArrowWriter(path, spec)
    for value in range(3):
        made.upsert([{"id": "a", "v": value, "p": "x"}])
        publish(made.handle, [DeltaLog(made.handle.store, commits_per_checkpoint=1)])
    log = sorted((path / LOG_FOLDER).iterdir())
    assert len([file for file in log if file.name.endswith(".checkpoint.parquet")]) == 3
    for file in log:
        os.utime(file, (1, 1))  # older than any grace period
    view = made.handle.view(made.handle.timeline())
    assert view.partitions() == ["p=x" if partition_by else ""]
    assert {part.path.partition("/")[0] for part in view.base_files(view.partitions()[0])} & {
        LOG_FOLDER
    } == set()
    assert clean(made.handle, policy=ONE_COMMIT).files_deleted == 1
    assert sorted((path / LOG_FOLDER).iterdir()) == log
    assert_read_rightly(path)


def test_an_apply_publishes_columns_and_the_first_version(path):
    made = make_table(path)
    made.upsert({"a": (1, "x")})
    spec = replace(made.handle.spec, publish=Publish(delta=DeltaFormat()))

    def apply(spec, number, *, alters_schema):
        known = Requirements(exists=True, applied_number=number)
        change = TableChange(spec=spec, requirements=known, alters_schema=alters_schema, project="tests")
        apply_change(made.store, change, timing=made.timing)

    apply(spec, 1, alters_schema=False)
    assert_read_rightly(path)
    wider = replace(spec, columns=(*spec.columns, Column(name="note", type="string", description="a note")))
    apply(wider, 2, alters_schema=True)
    found = delta_rs(path)
    assert found.column_names == ["id", "v", "p", "note"]
    assert found.column("note").to_pylist() == [None]
    apply(replace(wider, publish=None), 3, alters_schema=False)
    assert formats_of(made.handle) == ()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.long if kind in SHOWN_BY_OTHER_TESTS else ())
        for kind in sorted(KINDS.keys() - {"encrypted"})
    ],
)
def test_tables_of_every_kind_are_read_rightly(tmp_path, kind):
    table = KINDS[kind](tmp_path / "t")
    publish(table.handle, [DeltaLog(table.handle.store)])
    names = [column.name for column in table.spec.columns]
    expected = sorted_rows(table.expected(), names)
    for name, reader in READERS.items():
        assert sorted_rows(reader(table.path), names) == expected, name


def test_encrypted_files_are_refused(tmp_path):
    with the_key():
        table = KINDS["encrypted"](tmp_path / "t")
        with pytest.raises(Exception, match="encrypted files"):
            publish(table.handle, [DeltaLog(table.handle.store)])
