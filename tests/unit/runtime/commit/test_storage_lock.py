"""Hudi's storage-based lock: what is in it, who may take it from whom, and writes under it."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
import uuid
from collections import Counter
from dataclasses import replace

import pytest

from parquetry.runtime.commit import publish
from parquetry.runtime.commit.claims import open_session
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH
from parquetry.runtime.commit.storage_lock import STORAGE_LOCK_PATH, Lease, StorageLock
from parquetry.runtime.commit.table_lock import table_lock, unlock
from parquetry.runtime.errors import (
    ConflictError,
    CorruptTableError,
    LockHeldError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedTableError,
)
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import LOCK_METHOD_KEY
from parquetry.runtime.table.properties import update_table_properties
from parquetry.runtime.timeline.instant import Timezone
from parquetry.runtime.timeline.sidecars import BREAKING_FOLDER, claim_path
from tests.support.hudi_storage_lock import ModelledHudiLock
from tests.support.s3_server import BUCKET
from tests.support.small_table import FAST, SmallTable, make_table, view_rows
from tests.support.versioned_folder import VersionedFolder

HOUR_MS = 3_600_000


@pytest.fixture
def store(tmp_path):
    return VersionedFolder(str(tmp_path / "t"))


def session(store, **settings):
    return open_session(
        store, purpose="test", after=None, zone=Timezone.UTC, timing=replace(FAST, **settings)
    )


def lock(mine, fence=lambda _: None, **lease):
    return TableLock(mine, StorageLock(lease=Lease(**lease)), fence=fence)


def content(store):
    return json.loads(store.read(STORAGE_LOCK_PATH))


def locked_by_storage(store, table_version=6) -> SmallTable:
    table = make_table(store, table_version=table_version)
    update_table_properties(store, {LOCK_METHOD_KEY: "storage"}, comment="a test")
    return table


@pytest.fixture(params=[6, 9])
def table(store, request) -> SmallTable:
    return locked_by_storage(store, request.param)


def test_the_lock_has_the_three_keys_of_hudi_and_is_never_deleted(store):
    with session(store) as mine:
        before_ms = store.now_ms()
        with lock(mine) as held:
            assert held.is_held()
            text = store.read(STORAGE_LOCK_PATH).decode()
            assert re.fullmatch(
                r'\{"expired":false,"validUntil":\d{13},"owner":"parquetry-\d{17}-[0-9a-f]{32}"\}', text
            )
            assert before_ms + 299_000 <= json.loads(text)["validUntil"] <= store.now_ms() + 300_000
            assert (
                StorageLock().read(store).holder
                == f"process {os.getpid()} on {mine.claim.owner.host} for instant {mine.instant}"
            )
        assert content(store) == {**json.loads(text), "expired": True}
        assert StorageLock().read(store) is None
        with lock(mine) as held:
            assert held.is_held()
            assert content(store)["owner"] != json.loads(text)["owner"]


def test_a_lock_of_a_hudi_job_is_waited_for_and_taken_when_it_is_released_or_its_lease_is_over(store):
    theirs = ModelledHudiLock(store)
    assert theirs.take()
    with session(store, live_lock_seconds=0.1) as mine:
        with pytest.raises(LockHeldError, match=f"another program .*{theirs.owner}"):
            lock(mine).acquire()
        theirs.release()
        with lock(mine) as held:
            assert held.is_held()
            assert not theirs.take()
        assert theirs.take()
        store.ahead_ms += 300_000
        assert StorageLock().take(mine) is None, "clocks may differ by half a second"
        store.ahead_ms += 1_000
        with lock(mine) as held:
            assert held.is_held()


def test_a_job_that_renews_its_lock_is_waited_for_as_long_as_a_live_writer(store):
    theirs = ModelledHudiLock(store)
    theirs.take()
    assert StorageLock().read(store).longest_wait_seconds(FAST) == FAST.live_lock_seconds


def test_the_lease_is_renewed_while_the_lock_is_held(store):
    with session(store) as mine, lock(mine, renewal_seconds=0.05) as held:
        first = content(store)
        deadline = time.monotonic() + 10
        while content(store)["validUntil"] == first["validUntil"]:
            assert time.monotonic() < deadline
        assert content(store)["owner"] == first["owner"]
        assert held.is_held()
    assert content(store)["expired"]


def test_near_the_end_of_its_lease_a_writer_must_not_publish(store):
    with session(store) as mine, lock(mine, renewal_seconds=1e9) as held:
        store.ahead_ms += 265_000
        assert held.is_held()
        store.ahead_ms += 10_000
        assert not held.is_held()
        assert not ModelledHudiLock(store).take(), "the lease is not over"


def test_a_sleeper_whose_lock_was_taken_knows_it_and_leaves_the_other_alone(store):
    with session(store) as mine:
        held = lock(mine, renewal_seconds=1e9)
        held.acquire()
        store.ahead_ms += HOUR_MS
        theirs = ModelledHudiLock(store)
        assert theirs.take()
        assert not held.is_held()
        taken = content(store)
        held.release()
        assert content(store) == taken


def test_renewals_end_when_the_lock_is_lost(store):
    with session(store) as mine, lock(mine, renewal_seconds=0.02) as held:
        theirs = json.dumps({"expired": False, "validUntil": store.now_ms() + HOUR_MS, "owner": "theirs"})
        store.put(STORAGE_LOCK_PATH, theirs.encode())
        time.sleep(0.1)
        assert not held.is_held()
    assert store.read(STORAGE_LOCK_PATH).decode() == theirs


def test_a_dead_holders_lock_is_taken_at_once_after_its_write_was_fenced(store):
    with session(store) as dead:
        lock(dead).acquire()
    fenced = []
    with session(store) as mine, lock(mine, fenced.append) as held:
        assert held.is_held()
    assert fenced == [dead.instant]
    assert store.list(BREAKING_FOLDER) == []


@pytest.mark.parametrize("claimed", [True, False])
def test_a_lock_of_ours_whose_lease_is_over_is_free_for_hudi_and_fenced_by_us(store, claimed):
    with session(store) as sleeper, session(store) as mine:
        lock(sleeper, renewal_seconds=1e9).acquire()
        store.ahead_ms += HOUR_MS
        sleeper.heartbeat.beat()
        if not claimed:
            store.delete(claim_path(sleeper.instant))
        fenced = []
        with lock(mine, fenced.append) as held:
            assert held.is_held()
        assert fenced == [sleeper.instant]


def test_a_lock_whose_writer_has_given_up_its_instant_is_broken(store):
    with session(store) as gone, session(store) as mine:
        lock(gone, renewal_seconds=1e9).acquire()
        gone.acknowledge()
        assert "a writer of parquetry that has ended" in StorageLock().read(store).holder
        with lock(mine) as held:
            assert held.is_held()


class Unreliable(VersionedFolder):
    """Answers to puts of the lock get lost, some before they take effect."""

    lost = ()

    def put_if_match(self, path, data, *, tag, patience_seconds=None):
        step = self.lost.pop(0) if self.lost else None
        if step is None or step == "answer":
            result = super().put_if_match(path, data, tag=tag)
            if step is None:
                return result
        raise UnknownOutcomeError(f"cannot tell if {path} was written")


def test_a_lock_that_was_taken_although_the_answer_got_lost_is_released(tmp_path):
    store = Unreliable(str(tmp_path / "t"))
    with session(store) as mine:
        store.lost = ["answer"]
        with pytest.raises(UnknownOutcomeError):
            lock(mine).acquire()
        assert content(store)["expired"]
        store.lost = ["request"]
        with pytest.raises(UnknownOutcomeError):
            lock(mine).acquire()
        assert content(store)["expired"]
        with lock(mine) as held:
            assert held.is_held()


def test_a_renewal_and_a_release_outlive_lost_answers(tmp_path):
    store = Unreliable(str(tmp_path / "t"))
    with session(store) as mine, lock(mine, renewal_seconds=0.05) as held:
        first = content(store)
        store.lost = ["answer", "request", "answer"]
        deadline = time.monotonic() + 10
        while store.lost or content(store)["validUntil"] <= first["validUntil"]:
            assert time.monotonic() < deadline
        assert held.is_held()
        store.lost = ["request", "answer"]
        held.release()
        assert content(store)["expired"]


def test_a_lock_that_cannot_be_released_expires(tmp_path, caplog):
    store = Unreliable(str(tmp_path / "t"))
    with session(store) as mine, caplog.at_level(logging.WARNING):
        with lock(mine, renewal_seconds=1e9):
            store.lost = ["request"] * 3
        assert "could not be released, it will expire" in caplog.text
        assert not content(store)["expired"]
        store.ahead_ms += 301_000
        assert ModelledHudiLock(store).take()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"expired":"no","validUntil":1,"owner":"x"}'])
def test_another_file_in_the_place_of_the_lock_is_reported(store, text):
    store.put(STORAGE_LOCK_PATH, text.encode())
    with session(store) as mine, pytest.raises(CorruptTableError, match="does not contain a lock of Hudi"):
        lock(mine).acquire()


def test_a_folder_has_no_storage_lock(tmp_path):
    table = locked_by_storage(open_store(tmp_path / "t"))
    with pytest.raises(UnsupportedTableError, match=r"a local path cannot take; open the table by its s3://"):
        table.upsert({"a": (1, "x")})


def test_writes_and_services_take_the_storage_lock_alone(store, table):
    for number in range(3):
        table.upsert({"a": (number, "x")})
    clean(table.handle, timing=FAST)
    assert view_rows(store) == {"a": (2, "x")}
    assert content(store)["expired"]
    assert store.stat(DEFAULT_LOCK_PATH) is None


def test_a_write_waits_until_a_hudi_job_releases_the_lock(store, table):
    theirs = ModelledHudiLock(store)
    released = []

    def release():
        released.append(view_rows(store))
        theirs.release()

    def lock_and_release_later(_):
        assert theirs.take()
        threading.Timer(0.3, release).start()

    table.before_publish = lock_and_release_later
    table.upsert({"a": (1, "x")})
    assert released == [{}]
    assert view_rows(store) == {"a": (1, "x")}


class Died(BaseException):
    """The writer ends here."""


def test_the_write_of_a_dead_holder_is_rolled_back_before_its_lock_is_taken(store, table):

    def die_under_the_lock(txn):
        table_lock(txn.table, txn.session).acquire()
        txn.roll_back = lambda **_: None
        raise Died

    table.before_publish = die_under_the_lock
    with pytest.raises(Died):
        table.upsert({"a": (1, "x")})
    held = StorageLock().read(store)
    assert held.is_dead(store, FAST)
    table.before_publish = lambda _: None
    table.upsert({"b": (1, "x")})
    assert view_rows(store) == {"b": (1, "x")}
    pending = [instant for instant in table.handle.timeline().instants if not instant.is_completed]
    assert pending == []


def test_a_holder_that_slept_longer_than_its_lease_does_not_publish(store, monkeypatch, table):
    table.upsert({"a": (1, "x")})
    other = SmallTable(store=store)
    slept = []

    def sleep_first(publication, validated, listings):
        transaction = publication._transaction
        if not slept:
            slept.append(transaction.instant)
            transaction.session.heartbeat.stop()
            store.ahead_ms += HOUR_MS
            other.upsert({"a": (2, "x")})
        return put_commit(publication, validated, listings)

    put_commit = publish._Publication._put_commit
    monkeypatch.setattr(publish._Publication, "_put_commit", sleep_first)
    result = table.upsert({"a": (3, "x")})
    assert result.retries == 1
    assert result.instant not in slept
    assert view_rows(store) == {"a": (3, "x")}
    assert len(table.handle.timeline().completed_writes) == 4


def test_a_holder_near_the_end_of_its_lease_takes_the_lock_again_before_it_publishes(
    store, monkeypatch, table
):
    owners = []

    def take_long(transaction, candidate, *rest):
        owners.append(content(store)["owner"])
        if len(owners) == 1:
            store.ahead_ms += 275_000
            transaction.session.heartbeat.beat()
        return validate(transaction, candidate, *rest)

    validate = publish.validate
    monkeypatch.setattr(publish, "validate", take_long)
    assert table.upsert({"a": (1, "x")}).retries == 0
    assert len(set(owners)) == 2


def test_a_writer_that_was_opened_before_the_method_changed_writes_under_the_new_one(store):
    table = make_table(store)
    stale = table.handle
    table.before_publish = lambda _: update_table_properties(
        store, {LOCK_METHOD_KEY: "storage"}, comment="a test"
    )
    result = table.upsert({"a": (1, "x")})
    assert "the table is locked in another way now" in str(result.retry_reasons[0])
    assert content(store)["expired"]
    with pytest.raises(ConflictError, match="before its method of locking changed"):
        create_savepoint(stale, timing=FAST)
    assert store.stat(DEFAULT_LOCK_PATH) is None


def test_unlock_releases_a_storage_lock_of_any_holder(store, table):
    theirs = ModelledHudiLock(store)
    theirs.take()
    assert theirs.owner in unlock(table.handle, timing=FAST).holder
    assert content(store)["expired"]
    theirs.renew()
    assert theirs.tag is None
    with pytest.raises(StorageError, match=r"table_lock\.json: the table is not locked"):
        unlock(table.handle, timing=FAST)


def test_an_upsert_on_s3_sends_one_request_more_for_the_storage_lock_than_for_the_lock_file(
    s3_options, s3_requests
):
    def sent(**properties):
        store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}/t", s3_options)
        table = make_table(store)
        table.timing = replace(FAST, heartbeat_seconds=600)
        if properties:
            update_table_properties(store, properties, comment="a test")
        table.upsert({"a": (1, "x")})
        s3_requests.clear()
        table.upsert({"a": (2, "x")})
        assert view_rows(store) == {"a": (2, "x")}
        return Counter(s3_requests)

    by_file, by_storage = sent(), sent(**{LOCK_METHOD_KEY: "storage"})
    assert by_storage.total() == by_file.total() + 1
    by_storage.subtract(by_file)
    assert {kind: count for kind, count in by_storage.items() if count} == {
        "GET": 1,
        "PUT": 1,
        "DELETE": -1,
    }
