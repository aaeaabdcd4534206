"""The ledger of consumed files beside the archive log: it neither needs it nor reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime import sources
from parquetry.runtime.effective import EffectiveWrites
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.sources import Consumption, SourceFile
from parquetry.runtime.spec import RetentionPolicy
from parquetry.runtime.timeline.archive_log import read_archive
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.stores import CountingStore, Kind

SHORT = RetentionPolicy(keep_commits=1, archive_keep_commits=2)
STATISTICS = ".hoodie/.parquetry/stats"


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    return make_table(tmp_path / "t")


def consume(table: SmallTable, numbers: range) -> None:
    for n in numbers:
        file = SourceFile(path=f"in/{n}.csv", size_bytes=1, modified_ms=n)
        table.upsert({"k": (n, "a")}, consumed=[Consumption(source="s", files=(file,))])


def shorten(table: SmallTable) -> None:
    clean(table.handle, policy=SHORT, timing=FAST)
    assert archive(table.handle, policy=SHORT, timing=FAST).instants


def known(table: SmallTable) -> set[str]:
    effective = EffectiveWrites(timeline=table.handle.timeline())
    return set(sources.consumed(table.store, "s", effective.counts))


def test_files_stay_consumed_when_the_archive_log_is_moved_away(table: SmallTable) -> None:
    consume(table, range(6))
    shorten(table)
    for info in table.store.list(table.handle.config.archive_folder):
        table.store.delete(info.path)
    assert known(table) == {f"in/{n}.csv" for n in range(6)}


@pytest.fixture
def folds_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FOLD_ABOVE", 3)


@pytest.mark.usefixtures("folds_early")
def test_what_a_batch_asks_does_not_grow_with_what_was_archived(table: SmallTable, tmp_path: Path) -> None:
    asked = []
    for round_number in range(2):
        consume(table, range(8 * round_number, 8 * (round_number + 1)))
        shorten(table)
        settled = EffectiveWrites(timeline=table.handle.timeline()).is_settled
        sources.fold(table.store, "s", settled)
        store = CountingStore(table.store, tmp_path / f"log{round_number}")
        assert len(known(replace(table, store=store))) == 8 * (round_number + 1)
        asked.append(store.counts())
        assert not any(table.handle.config.archive_folder in path for _, path in store.calls())
    assert asked[0][Kind.OPEN_INPUT] == 1
    assert asked[0] == asked[1]


@pytest.mark.usefixtures("folds_early")
def test_a_batch_of_a_stream_is_written_once_be_it_folded_or_not(table: SmallTable) -> None:
    """Also when two drivers write it, of which one looked before the other had written."""

    def write(batch_id: int, query_id: str = "q") -> bool:
        batch = Consumption(source="stream:q", query_id=query_id, batch_id=batch_id)
        return table.upsert({"k": (batch_id, "a")}, consumed=[batch]).superseded

    assert [write(n) for n in range(9)] == [False] * 9
    shorten(table)
    effective = EffectiveWrites(timeline=table.handle.timeline())
    assert sources.fold(table.store, "stream:q", effective.is_settled) > 0
    assert [write(n) for n in (0, 8)] == [True, True]
    assert not write(0, "another")
    (entry,) = sources.history(table.store, "stream:q", effective.counts, batch=("q", 3))
    assert entry[1].batch == ("q", 3)


@pytest.mark.usefixtures("folds_early")
def test_what_is_still_on_the_timeline_is_not_folded_and_may_be_undone(table: SmallTable) -> None:
    consume(table, range(sources.FOLD_ABOVE + 4))
    settled = EffectiveWrites(timeline=table.handle.timeline()).is_settled
    assert sources.fold(table.store, "s", settled) == 0
    rollback(table.handle, table.handle.timeline().completed_writes[-1].time, timing=FAST)
    assert known(table) == {f"in/{n}.csv" for n in range(sources.FOLD_ABOVE + 3)}


def test_an_entry_that_a_sleeper_put_does_not_count_once_its_instant_is_archived(table: SmallTable) -> None:
    consume(table, range(2))
    undone = table.handle.timeline().completed_writes[-1].time
    entry = table.store.read(sources.entry_path("s", undone))
    rollback(table.handle, undone, timing=FAST)
    consume(table, range(2, 6))
    clean(table.handle, policy=SHORT, timing=FAST)
    # After the clean, so that only the archival is left to notice it.
    table.store.put(sources.entry_path("s", undone), entry)
    archive(table.handle, policy=SHORT, timing=FAST)
    assert table.store.stat(sources.entry_path("s", undone)) is None
    assert known(table) == {f"in/{n}.csv" for n in (0, 2, 3, 4, 5)}


def test_statistics_of_archived_writes_go_with_their_files_after_writes(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=3)
    made = replace(table, services=True)
    for n in range(16):
        made.upsert({"k": (n, "a")})
    timeline = table.handle.timeline()
    there = {info.path.rpartition("/")[2].partition(".")[0] for info in table.store.list(STATISTICS)}
    archived = {entry.time for entry in read_archive(table.store, table.handle.config.archive_folder)}
    assert archived
    assert there == {write.time for write in timeline.completed_writes} - {table.handle.first_instant}
