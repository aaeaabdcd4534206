from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import parquetry
from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.operating.services import LocksView
from parquetry.compiler.reports.doctor import check_project
from parquetry.compiler.reports.locks import held_lock, held_locks
from parquetry.compiler.spec_words import human_duration
from parquetry.runtime.commit.claims import Claim, Heartbeat, Session, heartbeat_path, open_session
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH, LockFile
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.commit.table_lock import table_lock
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import LOCK_METHOD_KEY
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import update_table_properties
from parquetry.runtime.timeline.instant import format_instant, next_instant
from parquetry.runtime.timeline.sidecars import claim_path
from tests.support.hudi_storage_lock import ModelledHudiLock
from tests.support.project_folder import ProjectFolder
from tests.support.small_table import FAST, make_table
from tests.support.versioned_folder import VersionedFolder


@pytest.fixture
def table(tmp_path):
    return make_table(tmp_path / "t")


def said(*arguments, **settings):
    result = CliRunner().invoke(command_line, ["unlock", *map(str, arguments)], **settings)
    return result.exit_code, result.output


def test_a_living_writer_is_named_with_its_instant(table):
    handle = table.handle
    after = handle.timeline().last_instant
    with open_session(
        table.store, purpose="test", after=after, zone=handle.config.timezone, timing=FAST
    ) as session:
        with table_lock(handle, session):
            found = held_lock(table.store)
            assert (found.instant, found.abandoned) == (session.instant, False)
            assert str(os.getpid()) in found.holder
            assert 0 <= found.age_seconds < 60
        assert held_lock(table.store) is None


def test_the_age_is_that_of_the_lock_file(table, tmp_path):
    place = tmp_path / "t" / ".hoodie" / ".aux" / "lock"
    place.parent.mkdir(exist_ok=True)
    place.write_text("job 12")
    then = time.time() - 7_300
    os.utime(place, (then, then))
    assert 7_299 <= held_lock(table.store).age_seconds <= 7_360
    code, text = said(tmp_path / "t", "--list")
    assert (code, "held by another program (job 12)" in text, "for 2 h" in text) == (0, True, True)
    assert place.exists()


def test_a_storage_lock_is_shown_with_the_time_at_which_it_expires(tmp_path):
    store = VersionedFolder(str(tmp_path / "t"))
    make_table(store)
    update_table_properties(store, {LOCK_METHOD_KEY: "storage"}, comment="a test")
    theirs = ModelledHudiLock(store)
    assert held_lock(store) is None
    theirs.take()
    store.ahead_ms += 40_000
    found = held_lock(store)
    assert (found.instant, found.abandoned, found.age_seconds) == (None, False, 40)
    assert 259 <= found.expires_in_seconds <= 260
    text = LocksView().text((found,), Paint(enabled=False))
    assert "renewed 40 s ago, expires in 4 min unless renewed, " in text
    assert theirs.owner in text
    store.ahead_ms += 300_000
    assert held_lock(store) is None


def left_by_an_apply(path):
    """A project with a table, and the lock of an apply on another machine that was stopped when it was done."""
    folder = ProjectFolder.create(path)
    parquetry.load(folder.root).plan().apply()
    store = open_store(folder.root / "warehouse/orders")
    handle = open_table(store)
    instant = next_instant(handle.timeline().last_instant, store.now_ms(), handle.config.timezone)
    elsewhere = replace(Owner.here(), host="elsewhere")
    claim = Claim(instant=instant, purpose="apply", run=instant, attempt=0, owner=elsewhere)
    heartbeat = Heartbeat(store, instant, FAST)
    store.put(claim_path(instant), claim.to_bytes())
    heartbeat.beat()
    TableLock(
        Session(store=store, claim=claim, heartbeat=heartbeat, timing=FAST), LockFile(), fence=print
    ).acquire()
    return folder, store, instant


def test_a_table_that_cannot_be_read_hides_no_locks(tmp_path, caplog):
    folder = left_by_an_apply(tmp_path / "shop")[0]
    text = (folder.root / "tables/orders.yml").read_text()
    (folder.root / "tables/visits.yml").write_text(text.replace("orders", "visits"))
    parquetry.load(folder.root).plan().apply()
    properties = folder.root / "warehouse/visits/.hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("table.version=6", "table.version=99"))
    assert [lock.table for lock in held_locks(folder.workspace())] == ["orders"]
    assert "visits cannot be read, so its lock is not known" in caplog.text


def long_ago(store, instant):
    then = time.time() - 200
    for path in (heartbeat_path(instant), claim_path(instant), DEFAULT_LOCK_PATH):
        place = Path(store.uri.removeprefix("file://")) / path
        os.utime(place, (then, then))


def checked(folder):
    return next(check for check in check_project(folder.workspace()) if check.name == "table orders")


def test_the_lock_of_an_apply_that_was_killed_blocks_nothing_of_ours(tmp_path):
    """Until its heart has been silent for three minutes nobody can tell that it does not live."""
    folder, store, instant = left_by_an_apply(tmp_path / "shop")
    assert parquetry.load(folder.root).plan().is_empty
    code, text = said("orders", "--list", "--project", folder.root)
    assert (code, "if it no longer runs" in text) == (0, True)
    assert str(checked(folder).found).startswith("can be written")
    long_ago(store, instant)
    assert parquetry.load(folder.root).plan().is_empty
    code, text = said("--list", "--project", folder.root)
    text = " ".join(text.split())
    assert (code, "the next write of parquetry removes the lock" in text) == (0, True)
    check = checked(folder)
    assert (check.ok, "`parquetry unlock orders`" in check.found) == (True, True)
    assert ", held for 3 min)" in check.found
    folder.orders(clustering={"trigger": "async", "execution": {"columns": ["amount"]}})
    parquetry.load(folder.root).plan().apply()
    assert held_lock(store) is None
    assert str(checked(folder).found).endswith("warehouse/orders")


def test_a_lock_by_another_program_that_writes_will_not_wait_for_is_told_by_doctor(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    parquetry.load(folder.root).plan().apply()
    place = folder.root / "warehouse/orders" / DEFAULT_LOCK_PATH
    place.parent.mkdir(exist_ok=True)
    place.write_text("job 12")
    check = checked(folder)
    assert check.ok
    assert re.search(r"; locked by another program \(job 12\) for \d+ s$", str(check.found))
    then = time.time() - 200
    os.utime(place, (then, then))
    check = checked(folder)
    assert (check.ok, "held by another program (job 12) for 3 min" in check.found) == (False, True)


def test_ages_of_pending_instants_are_told_alike_by_doctor_and_timeline(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    parquetry.load(folder.root).plan().apply()
    store = open_store(folder.root / "warehouse/orders")
    zone = open_table(store).config.timezone
    assert "pending:" not in checked(folder).found
    begun = [format_instant(store.now_ms() - seconds * 1000, zone) for seconds in (3 * 86_400 + 50, 310)]
    for time_, count in zip(
        reversed(begun), ("a write is pending: ", "2 writes are pending: the oldest "), strict=True
    ):
        Path(folder.root / "warehouse/orders/.hoodie" / f"{time_}.commit.requested").touch()
        assert count in checked(folder).found
    assert str(checked(folder).found).endswith(f"the oldest {begun[0]} for 3 days")
    cleaned = format_instant(store.now_ms() - 150_000, zone)
    place = Path(folder.root / "warehouse/orders/.hoodie" / f"{cleaned}.clean.requested")
    place.touch()
    assert str(checked(folder).found).endswith(f"; a clean is pending: {cleaned} for 2 min")
    place.unlink()
    told = CliRunner().invoke(command_line, ["timeline", "orders", "-p", str(folder.root)]).output
    assert f"{begun[0]}  commit requested, for 3 days" in told
    assert f"{begun[1]}  commit requested, for 5 min" in told
    answer = CliRunner().invoke(
        command_line, ["timeline", "orders", "-p", str(folder.root), "--format", "json"]
    )
    ages = {one["time"]: one.get("age_seconds") for one in json.loads(answer.stdout)["instants"]}
    assert 310 <= ages.pop(begun[1]) < 420
    assert ages.pop(begun[0]) > 3 * 86_400
    assert list(ages.values()) == [None]
    Draft202012Validator(answer_schema("timeline")).validate(json.loads(answer.stdout))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 days"),
    ],
)
def test_what_has_lasted_is_told_in_the_largest_unit_of_which_it_has_two(seconds, words):
    assert human_duration(seconds) == words


def test_releasing_asks_first_and_no_leaves_the_lock(table, tmp_path, monkeypatch):
    place = tmp_path / "t" / ".hoodie" / ".aux" / "lock"
    place.parent.mkdir(exist_ok=True)
    place.write_text("job 12")
    monkeypatch.setattr("parquetry.cli.requests.prompt.is_terminal", lambda: True)
    code, text = said(tmp_path / "t", input="n\n")
    assert (code, place.exists()) == (1, True)
    assert "Release the lock of" in text
    assert said(tmp_path / "t", input="y\n")[0] == 0
    assert not place.exists()
    assert table.upsert({"a": (1, "x")}).instant
