"""A write that completes late and is archived before it is published: no format loses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from parquetry.runtime.publish.delta import LOG_FOLDER
from parquetry.runtime.publish.model import SETTLED_KEY
from parquetry.runtime.publish.publishing import PublishLag, formats_of, publish, publish_lag
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.table_spec import DeltaFormat, IcebergFormat, Publish, RetentionPolicy
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.timeline.instant import Action
from tests.support.delta_readers import delta_rs, sorted_rows
from tests.support.hudi_rs import read
from tests.support.iceberg_readers import pyiceberg
from tests.support.small_table import FAST, SmallTable, make_table

COLUMNS = ("id", "v", "p")
PATIENT = replace(FAST, dead_after_seconds=600.0)
POLICY = RetentionPolicy(keep_commits=1, archive_keep_commits=3)
FORMATS = {
    "delta": (Publish(delta=DeltaFormat()), delta_rs),
    "iceberg": (Publish(iceberg=IcebergFormat()), pyiceberg),
}


@dataclass(frozen=True)
class LateWrite:
    """A table with a late write that is archived and not published.

    ``shown`` is the newest published write, ``late`` the late one.
    """

    table: SmallTable
    path: Path
    reader: Callable[[Path], pa.Table]
    shown: str
    late: str

    def publish(self) -> int:
        (result,) = publish(self.table.handle, formats_of(self.table.handle))
        return result.files_added

    def assert_read_rightly(self) -> None:
        assert sorted_rows(self.reader(self.path), COLUMNS) == sorted_rows(read(str(self.path)), COLUMNS)


def late_write(path, kind, version, *, with_first=True):
    """Build the history. Without ``with_first``, the late write is the oldest of the table."""
    publishes, reader = FORMATS[kind]
    table = replace(make_table(path, table_version=version), timing=PATIENT)
    write_applied(table.store, replace(table.handle.spec, publish=publishes), number=2)
    if with_first:
        table.upsert({"a": (0, "x"), "l": (0, "late")})
    shown = []

    def meanwhile(_transaction):
        if not shown:
            for value in range(1, 8):
                shown.append(table.upsert({"a": (value, "x")}).instant)
                publish(table.handle, formats_of(table.handle))

    late = replace(table, before_publish=meanwhile).upsert({"l": (100, "late"), "new": (101, "late")}).instant
    assert late < shown[0]
    return LateWrite(table, path, reader, shown[-1], late)


def archived(history):
    archive(history.table.handle, policy=POLICY, timing=history.table.timing)
    timeline = history.table.handle.timeline()
    assert timeline.is_completed(history.shown)
    assert not timeline.is_completed(history.late)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", FORMATS)
def test_it_is_shown_by_the_next_publication_and_a_clean_deletes_no_file_of_it(tmp_path, kind, version):
    history = late_write(tmp_path / "t", kind, version)
    archived(history)
    table = history.table
    (one,) = formats_of(table.handle)
    # The late write is not on the timeline any more, and counts nevertheless.
    assert publish_lag(table.handle, one) == PublishLag(
        format=kind, instant=history.shown, writes=1, since=history.late
    )
    table.upsert({"a": (50, "x")})
    history.publish()
    history.assert_read_rightly()
    assert publish_lag(table.handle, one).writes == 0
    assert clean(table.handle, policy=POLICY, timing=table.timing).files_deleted > 0
    assert len(list((history.path / "p=late").glob("*.parquet"))) == 2
    history.assert_read_rightly()


@pytest.mark.parametrize("kind", FORMATS)
def test_it_is_shown_even_if_no_other_write_follows_and_then_nothing_more_is_published(tmp_path, kind):
    history = late_write(tmp_path / "t", kind, 6)
    archived(history)
    assert history.publish() == 2
    history.assert_read_rightly()
    files = set(history.path.rglob("*"))
    assert history.publish() == 0
    assert set(history.path.rglob("*")) == files


def test_while_the_first_write_of_a_table_is_pending_only_what_changes_is_published(tmp_path):
    history = late_write(tmp_path / "t", "delta", 6, with_first=False)
    assert len(list((history.path / LOG_FOLDER).glob("*.json"))) == 7
    archived(history)
    history.publish()
    history.assert_read_rightly()


def test_a_clustering_after_it_does_not_hide_that_rows_changed(tmp_path):
    history = late_write(tmp_path / "t", "delta", 6)
    archived(history)
    table = history.table
    table._run(Action.REPLACECOMMIT, "CLUSTER", lambda txn: table._overwrite(txn, {"a": (7, "x")}))
    history.publish()
    history.assert_read_rightly()
    newest = max((history.path / LOG_FOLDER).glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    assert all(action["add"]["dataChange"] for action in actions if "add" in action)


def test_a_state_without_the_record_is_compared_in_full_once(tmp_path):
    history = late_write(tmp_path / "t", "delta", 6)
    newest = max((history.path / LOG_FOLDER).glob("*.json"))
    first, *others = newest.read_text().splitlines()
    action = json.loads(first)
    assert action["commitInfo"].pop(SETTLED_KEY) == history.late
    newest.write_text("\n".join([json.dumps(action), *others]) + "\n")
    archived(history)
    assert history.publish() == 2
    history.assert_read_rightly()
    assert history.publish() == 0
    assert len(list((history.path / LOG_FOLDER).glob("*.json"))) == 8
