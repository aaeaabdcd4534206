from __future__ import annotations

import json
import struct

import fastavro
import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.archive_entry import archive_entries
from parquetry.runtime.timeline.archive_log import (
    changed_log,
    decode_log,
    encode_log,
    read_newest_log,
    write_archive_log,
)
from parquetry.runtime.timeline.instant import Action, Timezone
from parquetry.runtime.timeline.rollback import InstantInfo, RollbackMetadata, RollbackPlan
from tests.support.archives import read_archive
from tests.support.handmade import HandmadeTable, at
from tests.support.timelines import LAYOUT_1, timeline_of

FOLDER = ".hoodie/archived"


@pytest.fixture
def table(tmp_path):
    """One instant of every action that is ever archived."""
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    table.commit("2", {"p=a": {"g-0": [("k", 1)]}}, operation="CLUSTER", replaced={"p=a": ["f-0"]})
    table.clean("3", "2")
    victim = InstantInfo(time=at("4"), action="commit")
    table.request("5", Action.ROLLBACK, content=RollbackPlan(instant=victim).encode())
    done = RollbackMetadata(start_time=at("5"), time_taken_ms=1, instants=(victim,))
    table.store.put(f".hoodie/{at('5')}.rollback", done.encode())
    table.savepoint("1")
    return table


def entries(table):
    timeline = timeline_of(table.store)
    return list(archive_entries(timeline.store, timeline.files, timeline.instants[1:], Timezone.UTC))


def test_each_state_file_is_one_entry_in_the_order_of_states(table):
    log = decode_log(encode_log(entries(table)), place="log")
    assert [(one.time, one.action, one.state) for one in log] == [
        (at("1"), "commit", "requested"),
        (at("1"), "commit", "inflight"),
        (at("1"), "commit", "completed"),
        (at("1"), "savepoint", "completed"),
        (at("2"), "replacecommit", "requested"),
        (at("2"), "replacecommit", "inflight"),
        (at("2"), "replacecommit", "completed"),
        (at("3"), "clean", "requested"),
        (at("3"), "clean", "completed"),
        (at("5"), "rollback", "requested"),
        (at("5"), "rollback", "inflight"),
        (at("5"), "rollback", "completed"),
    ]
    assert {one.entry["actionState"] for one in log} == {"REQUESTED", "INFLIGHT", "COMPLETED"}


def test_entries_hold_what_the_state_files_said(table):
    log = {(one.action, one.state): one.entry for one in decode_log(encode_log(entries(table)), place="log")}
    requested = log["commit", "requested"]["hoodieCommitMetadata"]
    assert requested["operationType"] == "UNKNOWN"
    assert requested["extraMetadata"] == {"ROLLING_STAT": ""}
    commit = log["commit", "completed"]["hoodieCommitMetadata"]
    (stat,) = commit["partitionToWriteStats"]["p=a"]
    assert (stat["fileId"], stat["numWrites"], stat["prevCommit"]) == ("f-0", 1, "null")
    assert json.loads(commit["extraMetadata"]["schema"])["name"] == "t_record"
    replace = log["replacecommit", "completed"]["hoodieReplaceCommitMetadata"]
    assert replace["partitionToReplaceFileIds"] == {"p=a": ["f-0"]}
    assert log["replacecommit", "requested"]["hoodieRequestedReplaceMetadata"]["operationType"] == "CLUSTER"
    assert log["replacecommit", "inflight"]["HoodieInflightReplaceMetadata"] is None
    assert log["clean", "completed"]["hoodieCleanMetadata"]["earliestCommitToRetain"] == at("2")
    assert log["clean", "requested"]["hoodieCleanerPlan"]["policy"] == "KEEP_LATEST_COMMITS"
    assert log["rollback", "completed"]["hoodieRollbackMetadata"]["commitsRollback"] == [at("4")]
    assert log["savepoint", "completed"]["hoodieSavePointMetadata"]["savepointedBy"] == "tests"
    assert all(len(entry["stateTransitionTime"]) == 17 for entry in log.values())


def test_an_empty_inflight_clean_of_hudi_1_2_has_no_plan(table):
    table.store.put(f".hoodie/{at('3')}.clean.inflight", b"")
    log = {(one.action, one.state): one.entry for one in decode_log(encode_log(entries(table)), place="log")}
    assert log["clean", "inflight"]["hoodieCleanerPlan"] is None


def test_the_framing_is_that_of_a_hudi_log(table):
    content = encode_log(entries(table))
    length, version, kind, headers, key, size = struct.unpack_from(">qiiiii", content, 6)
    assert content[:6] == b"#HUDI#"
    assert (version, kind, headers, key) == (1, 3, 1, 2)
    assert len(content) == 6 + 8 + length
    assert struct.unpack(">q", content[-8:]) == (length + 6,)
    schema = json.loads(content[34 : 34 + size])
    assert schema["name"] == "HoodieArchivedMetaEntry"
    fastavro.parse_schema(schema)


def test_every_batch_gets_a_file_of_its_own_after_those_that_are_there(table):
    (table.folder / FOLDER).mkdir()
    (table.folder / FOLDER / ".commits_.archive.9_1-0-1").write_bytes(encode_log(entries(table)[:1]))
    (table.folder / FOLDER / "mergeArchivePlan").write_bytes(b"")
    assert (
        write_archive_log(table.store, FOLDER, entries(table)[1:3]) == f"{FOLDER}/.commits_.archive.10_1-0-1"
    )
    assert (
        write_archive_log(table.store, FOLDER, entries(table)[3:]) == f"{FOLDER}/.commits_.archive.11_1-0-1"
    )
    assert [dict(one.entry) for one in read_archive(table.store, LAYOUT_1)] == [
        dict(one.entry) for one in decode_log(encode_log(entries(table)), place="log")
    ]


def test_a_log_may_have_several_blocks(table):
    one, rest = entries(table)[:1], entries(table)[1:]
    assert decode_log(encode_log(one) + encode_log(rest), place="log") == decode_log(
        encode_log([*one, *rest]), place="log"
    )


def test_no_archive_is_an_empty_archive(table):
    assert read_newest_log(table.store, FOLDER) == read_archive(table.store, LAYOUT_1) == []


@pytest.mark.parametrize("cut", [3, 20, 200, -30, -1])
def test_a_cut_off_log_is_named(table, cut):
    path = write_archive_log(table.store, FOLDER, entries(table))
    file = table.folder / path
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(CorruptTableError, match=r"archive\.1_1-0-1: not an archive log, or truncated"):
        read_newest_log(table.store, FOLDER)


def test_a_broken_commit_does_not_leave_the_timeline(table):
    (table.folder / f".hoodie/{at('1')}.commit").write_bytes(b"{")
    with pytest.raises(CorruptTableError, match=rf"{at('1')}\.commit: not JSON"):
        entries(table)


class TestChangedLog:
    def test_no_change_is_none(self, table):
        assert changed_log(encode_log(entries(table)), dict, place="log") is None

    def test_changed_blocks_keep_their_schema_and_the_others_their_bytes(self, table):
        one, other = entries(table)[:2], entries(table)[2:]
        first, last = encode_log(one), encode_log(other)
        rollback_block = log_block(kind=5, content=b"whatever")

        def change(entry):
            is_first = entry["actionState"] == "REQUESTED" and entry["commitTime"] == at("1")
            return {**entry, "actionType": "changed"} if is_first else entry

        content = changed_log(first + rollback_block + last, change, place="log")
        assert content is not None
        assert content.endswith(rollback_block + last)
        log = decode_log(content, place="log")
        assert [entry.action for entry in log[:2]] == ["changed", "commit"]
        before = decode_log(first + last, place="log")
        assert [entry.entry for entry in log[1:]] == [entry.entry for entry in before[1:]]

    def test_a_log_that_is_cut_off_is_refused(self, table):
        content = encode_log(entries(table))
        with pytest.raises(CorruptTableError, match="not an archive log, or truncated"):
            changed_log(content[:-20], dict, place="log")


def log_block(*, kind, content):
    header = struct.pack(">i", 0)
    length = 4 + 4 + len(header) + 8 + len(content) + 4 + 8
    body = struct.pack(">qii", length, 1, kind) + header + struct.pack(">q", len(content)) + content
    return b"#HUDI#" + body + struct.pack(">i", 0) + struct.pack(">q", length + 6)
