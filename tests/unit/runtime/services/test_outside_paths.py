"""Files elsewhere that the records of a table name: whoever writes to its storage has none of them changed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.errors import ParquetryError
from parquetry.runtime.commit.claims import Claim
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.timeline.clean import CleanerPlan
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.restore import SavepointMetadata
from parquetry.runtime.timeline.rollback import InstantInfo, RollbackPlan, RollbackRequest
from parquetry.runtime.timeline.sidecars import claim_path
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.timelines import change_commit, put_completed

pytestmark = pytest.mark.usefixtures("on_each_version")

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
DEAD = "20200101000000000"
LATER = "20200101000000001"
NAME = f"aa-0_0-0-0_{DEAD}.parquet"
OUTSIDE = (
    "../victim/" + NAME,
    "p/../../victim/" + NAME,
    "/{root}/../victim/" + NAME,
    "file:{victim}/" + NAME,
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in (NAME, "notes.commit", "archive.1"):
        (folder / name).write_bytes(b"precious")
    return folder


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=3)
    table.upsert({f"k{n}": (n, "ab"[n % 2]) for n in range(6)})
    return table


def put(table: SmallTable, name: str, content: bytes) -> None:
    table.store.put(f"{table.handle.config.timeline_layout.NAMES.folder}/{name}", content)


def claimed(table: SmallTable, instant: str, purpose: str) -> None:
    claim = Claim(instant=instant, purpose=purpose, run=instant, attempt=0, owner=Owner.here())
    table.store.put(claim_path(instant), claim.to_bytes())


def a_rollback(table: SmallTable, outside: str) -> None:
    put(table, f"{DEAD}.commit.requested", b"")
    request = RollbackRequest(partition=outside.rpartition("/")[0], files=(outside,))
    plan = RollbackPlan(instant=InstantInfo(time=DEAD, action="commit"), requests=(request,))
    put(table, f"{LATER}.rollback.requested", plan.encode())
    claimed(table, LATER, "rollback")
    rollback(table.handle, DEAD, timing=AT_ONCE)


def a_rolled_back_instant(table: SmallTable, outside: str) -> None:
    time = outside.removesuffix(NAME) + "notes"
    plan = RollbackPlan(instant=InstantInfo(time=time, action="commit"), requests=())
    put(table, f"{LATER}.rollback.requested", plan.encode())
    claimed(table, LATER, "rollback")
    clean(table.handle, timing=AT_ONCE)


def markers(table: SmallTable, outside: str) -> None:
    put(table, f"{DEAD}.commit.requested", b"")
    folder = f".hoodie/.temp/{DEAD}"
    table.store.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    table.store.put(f"{folder}/MARKERS0", f"{outside}.marker.CREATE\n".encode())
    rollback(table.handle, DEAD, timing=AT_ONCE)


def a_clean(table: SmallTable, outside: str) -> None:
    plan = CleanerPlan(
        policy="KEEP_LATEST_COMMITS",
        earliest_commit_to_retain=None,
        files={"a": (outside,)},
        partitions_to_delete=("../victim",),
    )
    put(table, f"{LATER}.clean.requested", plan.encode())
    claimed(table, LATER, "clean")
    clean(table.handle, timing=AT_ONCE)


def a_commit(table: SmallTable, outside: str) -> None:
    newest = table.handle.timeline().completed_writes[-1]
    file_id = outside.removesuffix(NAME) + "aa-0"
    change_commit(table.store, newest.time, lambda stat: replace(stat, path=outside, file_id=file_id))
    rollback(table.handle, newest.time, timing=AT_ONCE)


def a_savepoint(table: SmallTable, outside: str) -> None:
    first = table.handle.timeline().completed_writes[-1].time
    saved = SavepointMetadata(
        created_by="x", created_at_ms=0, comments="", files={outside.removesuffix("/" + NAME): (NAME,)}
    )
    put_completed(table.store, first, Action.SAVEPOINT, saved.encode())
    table.upsert({"k1": (7, "b")})
    restore(table.handle, first, timing=AT_ONCE)


def the_archive_folder(table: SmallTable, outside: str) -> None:
    path = ".hoodie/hoodie.properties"
    folder = outside.removesuffix("/" + NAME)
    said = table.store.read(path).decode()
    for name in ("hoodie.archivelog.folder=archived", "hoodie.timeline.history.path=history"):
        said = said.replace(name, f"{name.partition('=')[0]}=../{folder}")
    assert folder in said
    table.store.put(path, said.encode())
    for n in range(30):
        table.upsert({"k1": (n, "b")})
    archive(table.handle, timing=AT_ONCE)


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize(
    "attack",
    [a_rollback, a_rolled_back_instant, markers, a_clean, a_commit, a_savepoint, the_archive_folder],
)
def test_a_record_names_no_file_outside(table, victim, attack, outside):
    root = table.store.uri.removeprefix("file://")
    before = {path.name: path.read_bytes() for path in victim.iterdir()}
    with suppress(ParquetryError):
        attack(table, outside.format(root=root, victim=victim))
    assert {path.name: path.read_bytes() for path in victim.iterdir()} == before
