"""Publishing tables of many files: the memory of the driver, and the metadata that a commit reads."""

from __future__ import annotations

import gc
import json
import tracemalloc

import deltalake
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.publish import delta, iceberg
from parquetry.runtime.publish.delta import LOG_FOLDER, DeltaLog
from parquetry.runtime.publish.iceberg import IcebergMetadata
from parquetry.runtime.publish.publishing import publish, publish_lag
from parquetry.runtime.spec.table_spec import IcebergFormat
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table import statistics
from parquetry.runtime.table.handle import open_table
from tests.support.allocations import counted_allocations
from tests.support.delta_readers import READERS, delta_rs, sorted_rows
from tests.support.hudi_rs import read
from tests.support.iceberg_readers import pyiceberg
from tests.support.many_files import add_files, table_of_many_files
from tests.support.small_table import make_table
from tests.support.stores import CountingStore, FaultyStore, Kind, Stop, Stopped

FORMS = {"delta": DeltaLog, "iceberg": lambda store: IcebergMetadata(store, IcebergFormat())}
COLUMNS = ("id", "v", "p")


def small_parts(monkeypatch, files):
    """Row groups and manifests of at most ``files``, and commits of so many count as large."""
    monkeypatch.setattr(delta, "_LARGE_COMMIT", files)
    monkeypatch.setattr(delta, "_FILES_PER_ROW_GROUP", files)
    monkeypatch.setattr(delta, "_FILES_AT_ONCE", min(files, 100))
    monkeypatch.setattr(iceberg, "FILES_PER_MANIFEST", files)


class Collected:
    """Files between which garbage is collected, so that what is measured is what is held."""

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __iter__(self):
        for number, file in enumerate(self.files):
            if number % 25 == 0:
                gc.collect()
            yield file


class Measured:
    """A format that says how much memory its first version took at most, in Python and in Arrow."""

    def __init__(self, shown):
        self.shown = shown
        self.name, self.published, self.paths = shown.name, shown.published, shown.paths
        self.taken_bytes = 0

    def publish(self, snapshot, added, removed, *, before):
        gc.collect()
        gc.freeze()
        try:
            with counted_allocations() as arrow:
                tracemalloc.start()
                done = self.shown.publish(snapshot, Collected(added), removed, before=before)
                self.taken_bytes = tracemalloc.get_traced_memory()[1] + arrow.max_memory()
                tracemalloc.stop()
        finally:
            gc.unfreeze()
        return done


@pytest.mark.parametrize("form", FORMS)
def test_the_first_version_takes_at_most_a_kibibyte_of_memory_for_each_file(tmp_path, monkeypatch, form):
    small_parts(monkeypatch, 50)
    monkeypatch.setattr(statistics, "_ROWS_PER_GROUP", 50)
    monkeypatch.setattr(statistics, "_ROWS_AT_ONCE", 50)
    taken = {}
    for files in (10, 200, 400):
        table = table_of_many_files(tmp_path / f"{files}", files)
        measured = Measured(FORMS[form](table.store))
        publish(table, [measured])
        taken[files] = measured.taken_bytes
    assert (taken[400] - taken[200]) / 200 < 1024, taken


def test_bounds_of_a_large_commit_are_in_its_checkpoint(tmp_path, monkeypatch):
    small_parts(monkeypatch, 20)
    path = tmp_path / "t"
    table = table_of_many_files(path, 50, columns=3, partitions=5)
    publish(table, [DeltaLog(table.store)])
    log = path / LOG_FOLDER
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    adds = [line["add"] for line in lines if "add" in line]
    assert len(adds) == 50
    assert {add["stats"] for add in adds} == {'{"numRecords": 1000}'}
    checkpoint = pq.read_table(log / f"{0:020}.checkpoint.parquet").column("add").to_pylist()
    stats = [json.loads(add["stats"]) for add in checkpoint if add is not None]
    assert len(stats) == 50
    assert all(set(one["minValues"]) == {"column_0", "column_1", "column_2"} for one in stats)
    found = deltalake.DeltaTable(str(path)).get_add_actions(flatten=True)
    assert found.num_rows == 50
    add_files(path, range(50, 53), partitions=5)
    publish(open_table(table.store), [DeltaLog(table.store, commits_per_checkpoint=1)])
    files = pq.ParquetFile(log / f"{1:020}.checkpoint.parquet")
    assert files.metadata.num_row_groups == 3
    assert deltalake.DeltaTable(str(path)).get_add_actions(flatten=True).num_rows == 53


@pytest.mark.parametrize("stop", Stop)
def test_bounds_that_a_killed_publication_did_not_write_are_written_by_the_next(tmp_path, monkeypatch, stop):
    small_parts(monkeypatch, 2)
    path = tmp_path / "t"
    made = make_table(path)
    made.upsert({"a": (1, "x"), "b": (2, "y"), "c": (3, "z")})
    stop_at, is_stopped, incomplete = 1, True, 0
    while is_stopped:
        if (path / LOG_FOLDER).exists():
            made.upsert({"a": (stop_at, "x"), "b": (stop_at, "y")})
        store = FaultyStore(made.store, tmp_path / f"{stop_at}", stop_at=stop_at, stop=stop)
        try:
            publish(made.handle, [DeltaLog(store)])
        except Stopped:
            is_stopped = True
        else:
            is_stopped = store.stopped()
        state = DeltaLog(made.store).published()
        incomplete += state is not None and len(state.incomplete)
        publish(made.handle, [DeltaLog(made.store)])
        assert DeltaLog(made.store).published().incomplete == frozenset()
        for name, reader in READERS.items():
            assert sorted_rows(reader(path), COLUMNS) == sorted_rows(read(str(path)), COLUMNS), name
        bounds = deltalake.DeltaTable(str(path)).get_add_actions(flatten=True).column("min.v")
        assert None not in bounds.to_pylist()
        stop_at += 1
    assert incomplete > 0


def sixty_files(path):
    """A published table of a file in each of 60 partitions, in parts of ten."""
    made = make_table(path)
    made.upsert({f"k{n}": (n, f"p{n:02}") for n in range(60)})
    return made


def test_a_commit_reads_only_row_groups_that_may_name_files_of_its_partitions(tmp_path, monkeypatch):
    small_parts(monkeypatch, 10)
    made = sixty_files(tmp_path / "t")
    publish(made.handle, [DeltaLog(made.store)])
    made.upsert({"k21": (100, "p21"), "new": (1, "p99")})
    decoded = []
    monkeypatch.setattr(delta, "unquote", lambda path: decoded.append(path) or path)
    (result,) = publish(made.handle, [DeltaLog(made.store)])
    assert (result.files_added, result.files_removed) == (2, 1)
    assert len(decoded) == 10
    assert sorted_rows(delta_rs(tmp_path / "t"), COLUMNS) == sorted_rows(read(str(tmp_path / "t")), COLUMNS)


def test_a_commit_reads_only_manifests_that_may_name_files_of_its_partitions(tmp_path, monkeypatch):
    small_parts(monkeypatch, 10)
    path = tmp_path / "t"
    made = sixty_files(path)
    publish(made.handle, [FORMS["iceberg"](made.store)])
    made.upsert({"k21": (100, "p21"), "new": (1, "p99")})
    counting = CountingStore(open_store(path), tmp_path / "calls")
    shown = FORMS["iceberg"](counting)
    (result,) = publish(open_table(counting), [shown])
    assert (result.files_added, result.files_removed) == (2, 1)
    read_manifests = {place for kind, place in counting.calls() if kind is Kind.READ and "-m" in place}
    assert len(read_manifests) == 1
    assert sorted_rows(pyiceberg(path), COLUMNS) == sorted_rows(read(str(path)), COLUMNS)
    counting.reset()
    publish_lag(open_table(counting), shown)
    assert not [place for kind, place in counting.calls() if kind is Kind.READ and "-m" in place]
