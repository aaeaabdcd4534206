"""Claims, heartbeats and the lock: who is alive, and who may take what from whom."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parquetry.runtime.commit import owner
from parquetry.runtime.commit.claims import (
    Claim,
    claim_instant,
    heartbeat_path,
    is_alive,
    open_session,
    read_claim,
)
from parquetry.runtime.commit.lock import LockInfo, TableLock, break_lock
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH, LockFile
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.commit.storage_lock import StorageLock
from parquetry.runtime.commit.table_lock import lock_method
from parquetry.runtime.errors import LockHeldError, NotFoundError, UnsupportedTableError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Timezone, format_instant
from parquetry.runtime.timeline.sidecars import BREAKING_FOLDER, claim_path
from tests.support.small_table import FAST


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(tmp_path / "t")


def session(store: ObjectStore, **settings: object):
    return open_session(
        store, purpose="test", after=None, zone=Timezone.UTC, timing=replace(FAST, **settings)
    )


def forgotten(owner: Owner, **changes: object) -> Owner:
    """The owner as another machine, boot or process would be."""
    return replace(owner, **changes)


def test_in_the_hour_that_a_local_zone_repeats_instants_go_on(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock reads 01:30 for the second time; waiting for 01:59 would take half an hour."""
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    try:
        second_half_past_one = int(datetime(2026, 11, 1, 9, 30, tzinfo=UTC).timestamp() * 1000)
        monkeypatch.setattr(type(store), "now_ms", lambda _: second_half_past_one)
        claims = [
            claim_instant(
                store,
                Owner.here(),
                purpose="test",
                after="20261101015900000",
                zone=Timezone.LOCAL,
                timing=replace(FAST, sleep=pytest.fail),
            ).instant
            for _ in range(2)
        ]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert claims == ["20261101015900001", "20261101015900002"]


def test_an_owner_is_gone_when_its_work_or_its_process_is(store: ObjectStore) -> None:
    owner = Owner.here()
    assert not owner.has_ended
    owner.finish()
    assert owner.has_ended
    assert not owner.has_process_ended
    assert Owner.from_json(json.loads(json.dumps(owner.to_json()))) == owner


def test_an_owner_elsewhere_is_never_known_to_be_gone() -> None:
    owner = Owner.here()
    owner.finish()
    for change in ({"host": "other"}, {"boot_id": "other"}, {"pid_namespace": "other"}, {"boot_id": ""}):
        assert not forgotten(owner, **change).has_ended


def test_a_dead_process_is_known_to_be_gone_and_a_reused_pid_is_not_it() -> None:
    code = "import json; from parquetry.runtime.commit.owner import Owner; print(json.dumps(Owner.here().to_json()), flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
    )
    assert process.stdout is not None
    owner = Owner.from_json(json.loads(process.stdout.readline()))
    assert owner.pid == process.pid != os.getpid()
    assert not owner.has_ended
    process.kill()
    deadline = time.monotonic() + 10
    while not owner.has_ended:  # a zombie before it is waited for
        assert time.monotonic() < deadline
    process.communicate()
    assert owner.has_ended
    assert forgotten(owner, pid=os.getpid()).has_process_ended


@pytest.mark.parametrize("in_sight", [{}, {1: "5"}], ids=["hidden", "in sight"])
def test_a_process_that_is_not_seen_is_gone_where_those_of_other_users_are_seen(
    in_sight, monkeypatch
) -> None:
    """A /proc that is mounted with hidepid shows nobody else's processes."""
    there = forgotten(Owner.here(), pid=4711, process_start="900")
    monkeypatch.setattr(owner, "_process_start", in_sight.get)
    assert there.has_process_ended == bool(in_sight)
    monkeypatch.setattr(owner, "_process_start", {**in_sight, 4711: "901"}.get)
    assert there.has_process_ended
    monkeypatch.setattr(owner, "_process_start", {**in_sight, 4711: "900"}.get)
    assert not there.has_process_ended


def test_many_writers_never_share_an_instant(store: ObjectStore) -> None:
    def claim(_: int) -> str:
        with session(store) as mine:
            return mine.instant

    with ThreadPoolExecutor(max_workers=8) as pool:
        instants = list(pool.map(claim, range(40)))
    assert len(set(instants)) == 40
    assert max(instants) <= format_instant(store.now_ms(), Timezone.UTC)


def test_an_instant_is_greater_than_the_newest_and_never_ahead_of_the_clock(store: ObjectStore) -> None:
    ahead = format_instant(store.now_ms() + 300, Timezone.UTC)
    owner = Owner.here()
    claim = claim_instant(store, owner, purpose="test", after=ahead, zone=Timezone.UTC, timing=FAST)
    assert ahead < claim.instant <= format_instant(store.now_ms(), Timezone.UTC)
    far = format_instant(store.now_ms() + 60_000, Timezone.UTC)
    with pytest.raises(UnsupportedTableError, match="ahead of the store's clock"):
        claim_instant(store, owner, purpose="test", after=far, zone=Timezone.UTC, timing=FAST)
    owner.finish()


def test_a_claim_names_its_owner_and_outlives_its_session(store: ObjectStore) -> None:
    with session(store) as mine:
        claim = read_claim(store, mine.instant)
        assert claim == mine.claim
        assert is_alive(store, mine.claim, FAST)
        assert store.stat(heartbeat_path(mine.instant)) is not None
    assert not is_alive(store, mine.claim, FAST)
    assert read_claim(store, "20000101000000000") is None


def test_silence_is_death_by_the_stores_clock(store: ObjectStore) -> None:
    with session(store) as mine:
        elsewhere = replace(mine.claim, owner=forgotten(mine.claim.owner, host="other"))
        assert is_alive(store, elsewhere, FAST)
        for path in (heartbeat_path(mine.instant), claim_path(mine.instant)):
            file = Path(store.uri.removeprefix("file://")) / path
            os.utime(file, (time.time() - 10, time.time() - 10))
        assert not is_alive(store, elsewhere, FAST)
        store.delete(heartbeat_path(mine.instant))
        assert not is_alive(store, elsewhere, FAST)


def test_the_heart_beats_until_the_session_ends(store: ObjectStore) -> None:
    def beat() -> int:
        info = store.stat(heartbeat_path(mine.instant))
        assert info is not None
        return info.modified_ms

    with session(store, heartbeat_seconds=0.02) as mine:
        first = beat()
        deadline = time.monotonic() + 10
        while beat() == first:
            assert time.monotonic() < deadline
    assert not [t for t in threading.enumerate() if t.name == f"heartbeat-{mine.instant}"]


def test_the_lock_is_where_the_table_says() -> None:
    assert lock_method({}, uri="t") == LockFile(".hoodie/.aux/lock")
    assert lock_method({"parquetry.lock.path": ".hoodie/lock"}, uri="t") == LockFile(".hoodie/lock")
    assert lock_method({"parquetry.lock.method": "storage"}, uri="t") == StorageLock()
    with pytest.raises(UnsupportedTableError, match=r"parquetry\.lock\.method=zookeeper names no method"):
        lock_method({"parquetry.lock.method": "zookeeper"}, uri="t")


def lock(mine, fence=lambda _: None) -> TableLock:
    return TableLock(mine, LockFile(), fence=fence)


def test_the_lock_excludes(store: ObjectStore) -> None:
    inside = 0
    most = 0
    guard = threading.Lock()

    def work(_: int) -> None:
        nonlocal inside, most
        with session(store) as mine, lock(mine) as held:
            with guard:
                inside += 1
                most = max(most, inside)
            assert held.is_held()
            time.sleep(0.002)
            with guard:
                inside -= 1

    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(work, range(18)))
    assert most == 1
    assert LockFile().read(store) is None
    assert store.list(BREAKING_FOLDER) == []


def test_a_living_holder_is_waited_for_and_named(store: ObjectStore) -> None:
    with (
        session(store) as holder,
        lock(holder),
        session(store, live_lock_seconds=0.1) as other,
        pytest.raises(LockHeldError, match=f"process {os.getpid()} on .* for instant {holder.instant}"),
    ):
        lock(other).acquire()


def test_a_foreign_lock_is_waited_for_and_then_reported(store: ObjectStore) -> None:
    store.put(DEFAULT_LOCK_PATH, b'{"lockCreateTime": "2026", "lockThreadName": "main"}')
    with (
        session(store, foreign_lock_seconds=0.1) as mine,
        pytest.raises(
            LockHeldError, match=r"another program .*lockThreadName.*`parquetry unlock TABLE`"
        ) as error,
    ):
        lock(mine).acquire()
    assert error.value.exit_code == 5
    assert store.stat(DEFAULT_LOCK_PATH) is not None


def test_a_foreign_lock_that_changes_hands_is_waited_for_anew(store: ObjectStore) -> None:
    store.put(DEFAULT_LOCK_PATH, b"first")
    threading.Timer(0.3, lambda: store.put(DEFAULT_LOCK_PATH, b"second")).start()
    threading.Timer(0.6, lambda: store.delete(DEFAULT_LOCK_PATH)).start()
    with session(store, foreign_lock_seconds=0.5) as mine, lock(mine) as held:
        assert held.is_held()


def test_a_dead_holders_lock_is_taken_after_its_write_was_fenced(store: ObjectStore) -> None:
    with session(store) as dead:
        lock(dead).acquire()
    fenced: list[str] = []
    with session(store) as mine, lock(mine, fenced.append) as held:
        assert held.is_held()
    assert fenced == [dead.instant]


def test_of_many_that_find_a_dead_lock_one_removes_it(store: ObjectStore) -> None:
    with session(store) as dead:
        lock(dead).acquire()
    fenced: list[str] = []
    inside = threading.Semaphore(1)

    def take(_: int) -> None:
        with session(store) as mine, lock(mine, fenced.append):
            assert inside.acquire(blocking=False)
            inside.release()

    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(take, range(12)))
    assert fenced == [dead.instant]


def test_a_lock_that_changed_hands_is_not_removed(store: ObjectStore) -> None:
    with session(store) as first:
        lock(first).acquire()
        found = LockFile().read(store)
        assert found is not None
    with session(store) as mine, lock(mine):
        assert not break_lock(mine, LockFile(), found, fence=lambda _: None)
        assert LockFile().read(store) is not None


def test_who_dies_over_removing_a_lock_stops_nobody(store: ObjectStore) -> None:
    class Died(BaseException):
        pass

    def die(_: str) -> None:
        raise Died

    with session(store) as dead:
        lock(dead).acquire()
    found = LockFile().read(store)
    assert isinstance(found, LockInfo)
    with session(store) as breaker:
        token = f"{BREAKING_FOLDER}/{found.nonce}"
        store.put(token, json.dumps(breaker.claim.owner.to_json()).encode())
    with session(store) as mine, lock(mine) as held:
        assert held.is_held()
    assert store.list(BREAKING_FOLDER) == []


def test_a_holder_that_lost_its_lock_knows_and_removes_nobody_elses(store: ObjectStore) -> None:
    with session(store) as sleeper, session(store) as other:
        held = lock(sleeper)
        held.acquire()
        store.delete(DEFAULT_LOCK_PATH)
        assert not held.is_held()
        with lock(other) as theirs:
            assert not held.is_held()
            held.release()
            assert theirs.is_held()


def test_something_else_in_the_place_of_a_claim_is_reported(store: ObjectStore) -> None:
    store.put(claim_path("20260101000000000"), b"{}")
    with pytest.raises(Exception, match="does not contain a claim"):
        read_claim(store, "20260101000000000")
    with pytest.raises(NotFoundError):
        store.read(claim_path("20260101000000001"))
    assert Claim.from_bytes
