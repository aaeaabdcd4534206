"""The ledger of consumed files beside the archive log: asked of what was left behind unnoticed, and once."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.ledger import Consumption, SourceFile
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.timeline.effective_writes import EffectiveWrites
from parquetry.runtime.timeline.instant import Action, Instant
from parquetry.runtime.timeline.sidecars import LEDGER_FOLDER
from tests.support.archives import read_archive
from tests.support.ledger import consumed
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.stores import CountingStore, Kind

pytestmark = pytest.mark.usefixtures("on_each_version")

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


def effective_of(table: SmallTable) -> EffectiveWrites:
    return EffectiveWrites(table.handle.timeline())


def known(table: SmallTable) -> set[str]:
    return set(consumed(table.store, "s", effective_of(table)))


def files(*numbers: int) -> set[str]:
    return {f"in/{n}.csv" for n in numbers}


def logs_of(table: SmallTable) -> list[str]:
    """The files with instants, without those that name them."""
    folder = table.handle.config.timeline_layout.archive_folder
    return sorted(info.path for info in table.store.list(folder) if "." in info.path.removeprefix(folder))


def archive_as_hudi(table: SmallTable, count: int, *, with_rollbacks: bool = True) -> None:
    """The oldest instants go to the log, and nothing is swept."""
    timeline = table.handle.timeline()
    first = timeline.completed_writes[count].time
    old = [instant for instant in timeline.instants if instant.time < first]
    leaving = [instant for instant in old if with_rollbacks or instant.action is not Action.ROLLBACK]
    timeline.layout.archive(table.store, timeline.files, leaving)
    delete_states(table, leaving)


def delete_states(table: SmallTable, instants: Iterable[Instant]) -> None:
    timeline = table.handle.timeline()
    for state in (state for instant in instants for state in timeline.states_of(instant)):
        table.store.delete(state.path)


def roll_back_as_hudi(table: SmallTable, time: str) -> None:
    """Our sidecars stay."""
    entry = table.store.read(ledger.entry_path("s", time))
    rollback(table.handle, time, timing=FAST)
    table.store.put(ledger.entry_path("s", time), entry)


def newest(table: SmallTable) -> str:
    return table.handle.timeline().completed_writes[-1].time


def test_files_stay_consumed_when_the_archive_log_is_moved_away(table: SmallTable) -> None:
    consume(table, range(6))
    shorten(table)
    for path in logs_of(table):
        table.store.delete(path)
    assert known(table) == files(*range(6))


@pytest.mark.parametrize("is_moved", [True, False])
def test_files_stay_consumed_when_one_log_of_several_is_damaged(table: SmallTable, is_moved: bool) -> None:
    for n in range(3):
        consume(table, range(4 * n, 4 * (n + 1)))
        if n == 2 and is_moved:
            table.store.delete(logs_of(table)[-1])
        if n == 2 and not is_moved:
            archive_as_hudi(table, 4)
            table.store.put(logs_of(table)[1], b"#HUDI#")
        else:
            # The number of a log that was moved away is given again.
            archive_as_hudi(table, 4 if n else 3)
    assert known(table) == files(*range(12))


@pytest.mark.parametrize("with_rollback", [False, True])
def test_what_hudi_rolled_back_and_archived_past_is_new_again(table: SmallTable, with_rollback: bool) -> None:
    """The rollback is on the timeline still, or in the log too."""
    consume(table, range(3))
    roll_back_as_hudi(table, newest(table))
    consume(table, range(3, 6))
    archive_as_hudi(table, 3, with_rollbacks=with_rollback)
    assert bool(table.handle.timeline().of(Action.ROLLBACK)) is not with_rollback
    assert known(table) == files(0, 1, 3, 4, 5)


def test_what_was_undone_is_new_again_if_only_the_log_says_so_by_leaving_it_out(table: SmallTable) -> None:
    consume(table, range(3))
    roll_back_as_hudi(table, table.handle.timeline().completed_writes[-1].time)
    delete_states(table, table.handle.timeline().of(Action.ROLLBACK))
    consume(table, range(3, 6))
    archive_as_hudi(table, 4)
    assert known(table) == files(0, 1, 3, 4, 5)


@pytest.fixture
def folds_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "FOLD_ABOVE", 3)


def forget_what_is_settled(table: SmallTable) -> None:
    """The folded file as former versions wrote it."""
    (path,) = (info.path for info in table.store.list(f"{LEDGER_FOLDER}/s"))
    with table.store.open_input(path) as handle:
        folded = pq.read_table(handle)
    sink = io.BytesIO()
    pq.write_table(folded.drop_columns("is_settled"), sink)
    table.store.put(path, sink.getvalue())


@pytest.mark.usefixtures("folds_early")
@pytest.mark.parametrize("is_former", [False, True])
def test_what_was_folded_and_undone_is_new_again_when_it_has_been_archived(
    table: SmallTable, tmp_path: Path, is_former: bool
) -> None:
    consume(table, range(5))
    assert ledger.fold(table.store, "s", effective_of(table)) == 5
    if is_former:
        forget_what_is_settled(table)
    rollback(table.handle, newest(table), timing=FAST)
    assert known(table) == files(0, 1, 2, 3)
    for n in range(5, 8):
        table.upsert({"k": (n, "a")})
    archive_as_hudi(table, 6)
    assert known(table) == files(0, 1, 2, 3)
    effective = effective_of(table)
    consumed(table.store, "s", effective)
    assert effective.has_unknown_writes
    ledger.fold(table.store, "s", effective)
    counting = CountingStore(table.store, tmp_path / "log")
    assert known(replace(table, store=counting)) == files(0, 1, 2, 3)
    assert_no_log_is_asked(counting, table)


def assert_no_log_is_asked(store: CountingStore, table: SmallTable) -> None:
    assert not [
        path for _, path in store.calls() if table.handle.config.timeline_layout.archive_folder in path
    ]


@pytest.mark.usefixtures("folds_early")
def test_what_a_batch_asks_does_not_grow_with_what_was_archived(table: SmallTable, tmp_path: Path) -> None:
    asked = []
    for round_number in range(2):
        consume(table, range(8 * round_number, 8 * (round_number + 1)))
        shorten(table)
        ledger.fold(table.store, "s", effective_of(table))
        store = CountingStore(table.store, tmp_path / f"log{round_number}")
        assert len(known(replace(table, store=store))) == 8 * (round_number + 1)
        asked.append(store.counts())
        assert_no_log_is_asked(store, table)
    assert asked[0][Kind.OPEN_INPUT] == 1
    assert asked[0] == asked[1]


@pytest.mark.usefixtures("folds_early")
def test_what_a_batch_asks_does_not_grow_with_the_timeline(table: SmallTable, tmp_path: Path) -> None:
    """A savepoint, or a long ``archive_keep_commits``, keeps writes there."""
    asked = []
    for round_number in range(2):
        consume(table, range(8 * round_number, 8 * (round_number + 1)))
        ledger.fold(table.store, "s", effective_of(table))
        store = CountingStore(table.store, tmp_path / f"log{round_number}")
        assert len(known(replace(table, store=store))) == 8 * (round_number + 1)
        asked.append([kind for kind, path in store.calls() if LEDGER_FOLDER in path])
    assert asked == [[Kind.LIST, Kind.OPEN_INPUT]] * 2


def test_of_the_archive_only_the_newest_logs_are_read_and_few_entries_are_folded_then(
    table: SmallTable, tmp_path: Path
) -> None:
    for n in range(4):
        for k in range(3):
            table.upsert({"k": (10 * n + k, "a")})
        archive_as_hudi(table, 2)
    consume(table, range(1))
    for n in range(3):
        table.upsert({"k": (100 + n, "a")})
    archive_as_hudi(table, 6)
    *_, last = logs_of(table)
    store = CountingStore(table.store, tmp_path / "log")
    counted = replace(table, store=store)
    effective = EffectiveWrites(counted.handle.timeline())
    assert set(consumed(store, "s", effective)) == files(0)
    read = [path for kind, path in store.calls() if kind is Kind.READ and path in logs_of(table)]
    assert read == [last]
    assert ledger.fold(store, "s", effective) == 1
    store.reset()
    assert known(counted) == files(0)
    assert_no_log_is_asked(store, table)


@pytest.mark.usefixtures("folds_early")
def test_a_batch_of_a_stream_is_written_once_be_it_folded_or_not(table: SmallTable) -> None:
    """Also when two drivers write it, of which one looked before the other had written."""

    def write(batch_id: int, query_id: str = "q") -> bool:
        batch = Consumption(source="stream:q", query_id=query_id, batch_id=batch_id)
        return table.upsert({"k": (batch_id, "a")}, consumed=[batch]).superseded

    assert [write(n) for n in range(9)] == [False] * 9
    shorten(table)
    effective = effective_of(table)
    assert ledger.fold(table.store, "stream:q", effective) > 0
    assert [write(n) for n in (0, 8)] == [True, True]
    assert not write(0, "another")
    (entry,) = ledger.history(table.store, "stream:q", effective, batch=("q", 3))
    assert entry[1].batch == ("q", 3)


def test_an_entry_that_a_sleeper_put_does_not_count_once_its_instant_is_archived(table: SmallTable) -> None:
    consume(table, range(2))
    rolled_back = table.handle.timeline().completed_writes[-1].time
    entry = table.store.read(ledger.entry_path("s", rolled_back))
    rollback(table.handle, rolled_back, timing=FAST)
    consume(table, range(2, 6))
    clean(table.handle, policy=SHORT, timing=FAST)
    # After the clean, so that only the archival is left to notice it.
    table.store.put(ledger.entry_path("s", rolled_back), entry)
    archive(table.handle, policy=SHORT, timing=FAST)
    assert table.store.stat(ledger.entry_path("s", rolled_back)) is None
    assert known(table) == {f"in/{n}.csv" for n in (0, 2, 3, 4, 5)}


def test_statistics_of_archived_writes_go_with_their_files_after_writes(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=3)
    made = replace(table, services=True)
    for n in range(16):
        made.upsert({"k": (n, "a")})
    timeline = table.handle.timeline()
    there = {info.path.rpartition("/")[2].partition(".")[0] for info in table.store.list(STATISTICS)}
    archived = {entry.time for entry in read_archive(table.store, table.handle.config.timeline_layout)}
    assert archived
    assert there == {write.time for write in timeline.completed_writes} - {table.handle.first_instant}
