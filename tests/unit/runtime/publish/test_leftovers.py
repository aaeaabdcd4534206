"""Metadata of publications that were killed or beaten: a clean deletes it when it is old, and nothing else."""

from __future__ import annotations

import os
import time
import uuid

import pytest

from parquetry.runtime.publish import delta, model
from parquetry.runtime.publish.delta import LOG_FOLDER, DeltaLog
from parquetry.runtime.publish.iceberg import IcebergMetadata
from parquetry.runtime.publish.model import LEFTOVER_MS, METADATA_FOLDER
from parquetry.runtime.publish.publishing import publish
from parquetry.runtime.spec.table_spec import IcebergFormat
from tests.support.delta_readers import delta_rs, sorted_rows
from tests.support.hudi_rs import read
from tests.support.iceberg_readers import pyiceberg, static_table
from tests.support.small_table import make_table
from tests.support.stores import FaultyStore, Stop, Stopped

COLUMNS = ("id", "v", "p")
FOREIGN = (f"{uuid.uuid4()}-m0.avro", f"snap-7-1-{uuid.uuid4()}.avro", "notes.txt", "00007-x.metadata.json")


def form_of(store):
    return IcebergMetadata(store, IcebergFormat())


def make_old(folder):
    past = time.time() - 2 * LEFTOVER_MS / 1000
    for file in folder.iterdir():
        os.utime(file, (past, past))


def named(path):
    """The files of Iceberg's metadata that its newest version needs."""
    shown = static_table(path)
    found = {file.name for file in (path / METADATA_FOLDER).glob("v*.metadata.json")} | {"version-hint.text"}
    for one in shown.metadata.snapshots:
        found |= {one.manifest_list.rpartition("/")[2]}
        found |= {manifest.manifest_path.rpartition("/")[2] for manifest in one.manifests(shown.io)}
    return found


def data_of(path):
    return sorted(file for file in path.rglob("*") if METADATA_FOLDER not in file.parts)


def stopped(work, store, counter, stop_at, stop):
    """Return whether the work was killed at its ``stop_at``-th write."""
    faulty = FaultyStore(store, counter, stop_at=stop_at, stop=stop)
    try:
        work(faulty)
    except Stopped:
        return True
    return faulty.stopped()


@pytest.mark.parametrize(
    "stop", [Stop.HALFWAY, *(pytest.param(s, marks=pytest.mark.long) for s in (Stop.BEFORE, Stop.AFTER))]
)
def test_what_killed_publications_and_cleans_leave_is_deleted_when_it_is_old(tmp_path, stop):
    path = tmp_path / "t"
    made = make_table(path)
    made.upsert({"a": (1, "x"), "b": (2, "y")})
    publish(made.handle, [form_of(made.store)])
    folder = path / METADATA_FOLDER
    stop_at, is_stopped, most = 1, True, 0
    while is_stopped:
        made.upsert({"a": (stop_at, "x")})
        is_stopped = stopped(
            lambda store: publish(made.handle, [form_of(store)]),
            made.store,
            tmp_path / f"{stop_at}",
            stop_at,
            stop,
        )
        publish(made.handle, [form_of(made.store)])
        for name in FOREIGN:
            (folder / name).write_bytes(b"of another program")
        before = data_of(path)
        form_of(made.store).expire("0", ())
        young = {file.name for file in folder.iterdir()}
        most = max(most, len(young - named(path) - {*FOREIGN}))
        make_old(folder)
        stopped(lambda store: form_of(store).expire("0", ()), made.store, tmp_path / f"{stop_at}c", 1, stop)
        form_of(made.store).expire("0", ())
        assert {file.name for file in folder.iterdir()} == named(path) | {*FOREIGN}
        assert data_of(path) == before
        assert sorted_rows(pyiceberg(path), COLUMNS) == sorted_rows(read(str(path)), COLUMNS)
        stop_at += 1
    assert stop_at > 4
    assert most > 0


def test_the_manifests_of_a_beaten_publication_are_deleted_when_they_are_old(tmp_path):
    path = tmp_path / "t"
    made = make_table(path)
    made.upsert({"a": (1, "x"), "b": (2, "y")})
    first = form_of(made.store)
    publish(made.handle, [first])
    made.upsert({"a": (2, "x")})

    class Beaten(IcebergMetadata):
        """Another process publishes before this one's commit."""

        def publish(self, *arguments, **options):
            publish(made.handle, [form_of(made.store)])
            return super().publish(*arguments, **options)

    publish(made.handle, [Beaten(made.store, IcebergFormat())])
    folder = path / METADATA_FOLDER
    left = {file.name for file in folder.iterdir()} - named(path)
    assert len(left) == 3
    make_old(folder)
    first.expire("0", ())
    assert {file.name for file in folder.iterdir()} == named(path)


@pytest.mark.parametrize("form", [DeltaLog, form_of])
def test_a_publication_of_half_the_age_gives_up(tmp_path, monkeypatch, form):
    made = make_table(tmp_path / "t")
    made.upsert({"a": (1, "x")})
    monkeypatch.setattr(model, "LEFTOVER_MS", -1)
    state = form(made.store)
    with pytest.raises(Exception, match="was changed 5 times while it was published"):
        publish(made.handle, [state])
    assert state.published() is None


def test_unfinished_files_of_a_log_are_deleted_when_they_are_old(tmp_path, monkeypatch):
    monkeypatch.setattr(delta, "_LARGE_COMMIT", 2)
    path = tmp_path / "t"
    made = make_table(path)
    made.upsert({"a": (1, "x"), "b": (2, "y")})
    for stop_at in (1, 2, 3):
        stopped(
            lambda store: publish(made.handle, [DeltaLog(store)]),
            made.store,
            tmp_path / f"{stop_at}",
            stop_at,
            Stop.HALFWAY,
        )
    publish(made.handle, [DeltaLog(made.store)])
    folder = path / LOG_FOLDER
    (folder / ".other.tmp").write_bytes(b"of another program")
    unfinished = set(folder.glob(".*.tmp")) - {folder / ".other.tmp"}
    assert unfinished
    DeltaLog(made.store).expire("0", ())
    assert unfinished < set(folder.iterdir())
    make_old(folder)
    before = set(folder.iterdir())
    DeltaLog(made.store).expire("0", ())
    assert set(folder.iterdir()) == before - unfinished
    assert sorted_rows(delta_rs(path), COLUMNS) == sorted_rows(read(str(path)), COLUMNS)
