"""Two writers in one thread: the second acts while the first stands between its files and its commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.commit.outcome import CommitResult, KeyRange
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import ConflictError, RetryWrite
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.sources.ledger import Consumption, SourceFile
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Action
from tests.support.orphans import leftovers
from tests.support.small_table import FAST, Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.timelines import timeline_of

pytestmark = pytest.mark.usefixtures("on_each_version")

AT_ONCE = replace(FAST, give_way_seconds=0.0, live_lock_seconds=0.0)
BASE = {f"k{n}": (n, "ab"[n % 2]) for n in range(6)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_table(tmp_path / "t").upsert(BASE)
    return tmp_path / "t"


def writer(path: Path, **settings: object) -> SmallTable:
    return SmallTable(store=open_store(path), timing=AT_ONCE, **settings)


def between(path: Path, act: Callable[[SmallTable], object], **settings: object) -> SmallTable:
    """A writer during whose first attempt ``act`` is done by another one."""
    done: list[str] = []

    def once(txn: Transaction) -> None:
        if not done:
            done.append(txn.instant)
            act(writer(path))

    return writer(path, before_publish=once, **settings)


@pytest.mark.parametrize(
    ("mine", "theirs", "rows", "retries"),
    [
        pytest.param({"k1": (9, "b")}, {"k3": (8, "b")}, {"k1": (9, "b"), "k3": (8, "b")}, 1, id="one file"),
        pytest.param({"k1": (9, "b")}, {"k2": (8, "a")}, {"k1": (9, "b"), "k2": (8, "a")}, 0, id="two files"),
        pytest.param({"n": (9, "c")}, {"n": (8, "c")}, {"n": (9, "c")}, 1, id="one new key"),
        pytest.param(
            {"n": (9, "c")}, {"m": (8, "d")}, {"n": (9, "c"), "m": (8, "d")}, 0, id="two partitions"
        ),
    ],
)
def test_upserts(mine: Rows, theirs: Rows, rows: Rows, retries: int, path: Path) -> None:
    result = between(path, lambda other: other.upsert(theirs)).upsert(mine)
    assert result.retries == retries == len(result.retry_reasons)
    assert rows_of(path) == view_rows(path) == {**BASE, **rows}
    clean(writer(path).handle)
    assert leftovers(path) == []


def test_an_insert_into_new_files_never_waits_for_anybody(path: Path) -> None:
    result = between(path, lambda other: other.upsert({"k1": (8, "b"), "m": (1, "b")})).insert(
        {"n": (9, "b")}
    )
    assert result.retries == 0
    assert rows_of(path) == {**BASE, "k1": (8, "b"), "m": (1, "b"), "n": (9, "b")}


def test_a_row_deleted_meanwhile_comes_back_by_a_later_upsert(path: Path) -> None:
    result = between(path, lambda other: other.delete(["k1"])).upsert({"k1": (9, "b")})
    assert (result.retries, result.inserted_rows, result.updated_rows) == (1, 1, 0)
    assert rows_of(path) == {**BASE, "k1": (9, "b")}


def test_an_overwrite_takes_in_what_was_inserted_meanwhile(path: Path) -> None:
    result = between(path, lambda other: other.insert({"n": (1, "b")})).overwrite({"z": (1, "b")})
    assert result.retries == 1
    assert rows_of(path) == {k: r for k, r in BASE.items() if r[1] == "a"} | {"z": (1, "b")}


def test_two_overwrites_of_a_partition_are_for_people_to_sort_out(path: Path) -> None:
    with pytest.raises(
        ConflictError, match="has overwritten a partition that this write overwrites"
    ) as error:
        between(path, lambda other: other.overwrite({"y": (1, "b")})).overwrite({"z": (1, "b")})
    assert error.value.exit_code == 5
    assert rows_of(path) == {k: r for k, r in BASE.items() if r[1] == "a"} | {"y": (1, "b")}
    clean(writer(path).handle)
    assert leftovers(path) == []


def test_an_upsert_into_an_overwritten_partition_starts_again(path: Path) -> None:
    result = between(path, lambda other: other.overwrite({"z": (1, "b")})).upsert({"k1": (9, "b")})
    assert (result.retries, result.inserted_rows) == (1, 1)
    assert rows_of(path) == {k: r for k, r in BASE.items() if r[1] == "a"} | {"z": (1, "b"), "k1": (9, "b")}


def test_files_consumed_by_another_write_are_left_to_it(path: Path) -> None:
    taken = Consumption(source="landing", files=(SourceFile(path="f1", size_bytes=1, modified_ms=1),))
    rows = {"n": (1, "c")}
    result = between(path, lambda other: other.upsert(rows, consumed=[taken])).upsert(rows, consumed=[taken])
    assert (result.instant, result.superseded, result.rows) == (None, True, 0)
    assert rows_of(path) == {**BASE, **rows}
    ledger = path / ".hoodie/.parquetry/sources/landing"
    assert len(list(ledger.iterdir())) == 1


@pytest.mark.parametrize(
    ("first", "second", "is_superseded"),
    [
        ({"files": (("f1", 1), ("f2", 1))}, {"files": (("f2", 1), ("f3", 1))}, True),
        ({"files": (("f1", 1),)}, {"files": (("f1", 2),)}, False),
        ({"files": (("f1", 1),)}, {"files": (("f2", 1),)}, False),
        ({"until": "5"}, {"until": "5"}, True),
        ({"until": "5"}, {"until": "6"}, True),
        ({"until": "5"}, {"since": "5", "until": "6"}, False),
        ({"until": "5"}, {"since": "3", "until": "6"}, True),
        ({"until": "6"}, {"since": "3", "until": "5"}, True),
        ({"until": "3"}, {"since": "5", "until": "6"}, True),
    ],
)
def test_what_was_consumed_between_listing_the_source_and_the_write_is_left(
    path: Path, first, second, is_superseded
) -> None:
    """A run lists, then starts Spark; another run may have begun and ended before its write begins."""

    def taken(what) -> Consumption:
        files = (SourceFile(path=p, size_bytes=1, modified_ms=m) for p, m in what.get("files", ()))
        return Consumption(
            source="landing", files=tuple(files), since=what.get("since"), until=what.get("until")
        )

    writer(path).upsert({"n": (1, "c")}, consumed=[taken(first)])
    result = writer(path).upsert({"n": (2, "c")}, consumed=[taken(second)])
    assert (result.superseded, result.instant is None) == (is_superseded, is_superseded)
    assert rows_of(path) == {**BASE, "n": (1 if is_superseded else 2, "c")}


def test_a_write_that_lost_to_an_ingest_of_its_files_does_not_write_them_on_top(path: Path) -> None:
    """The attempt that follows sees the other write from the start, and takes nothing twice all the same."""
    taken = Consumption(source="landing", files=(SourceFile(path="f1", size_bytes=1, modified_ms=1),))
    first = writer(path)
    attempts: list[str] = []

    def lost_at_first(transaction: Transaction) -> None:
        attempts.append(transaction.instant)
        if len(attempts) == 1:
            writer(path).upsert({"n": (1, "c")}, consumed=[taken])
            raise RetryWrite("a file is gone")

    first.before_publish = lost_at_first
    result = first.upsert({"n": (2, "c")}, consumed=[taken])
    assert (result.superseded, result.retries, len(attempts)) == (True, 1, 2)
    assert rows_of(path) == {**BASE, "n": (1, "c")}


def test_too_many_defeats_end_in_exit_code_5(path: Path) -> None:
    value = iter(range(100, 200))
    stubborn = writer(path, before_publish=lambda _: writer(path).upsert({"k3": (next(value), "b")}))
    stubborn.timing = replace(AT_ONCE, retries=2)
    with pytest.raises(ConflictError, match="conflicted with other writers 3 times") as error:
        stubborn.upsert({"k1": (9, "b")})
    assert error.value.exit_code == 5
    assert rows_of(path) == {**BASE, "k3": (102, "b")}


def test_a_small_file_named_by_an_older_intent_is_left_out(path: Path) -> None:
    filled: list[str | None] = []
    younger = writer(path, small_file_rows=100)
    result = between(
        path, lambda _: filled.append(younger.insert({"m": (1, "b")}).instant), small_file_rows=100
    ).insert({"n": (2, "b")})
    assert result.retries == 0
    assert (result.files_rewritten, result.files_added) == (1, 0)
    timeline = writer(path).handle.timeline()
    other = timeline.commit_metadata(str(filled[0]))
    assert [stat.prev_commit for stat in other.all_stats()] == [None]
    assert rows_of(path) == {**BASE, "m": (1, "b"), "n": (2, "b")}


@pytest.mark.parametrize("roll_back", ["rollback", "restore"])
def test_a_base_that_was_taken_back_is_noticed(roll_back: str, path: Path) -> None:
    if roll_back == "restore":
        create_savepoint(writer(path).handle)
    latest = writer(path).upsert({"k1": (50, "b")}).instant

    def take_back(other: SmallTable) -> None:
        if roll_back == "restore":
            handle = other.handle
            restore(handle, handle.timeline().savepoints[0], timing=AT_ONCE)
            return
        # Ours refuses while a write is pending; another program's does this.
        for state in timeline_of(other.store).layout.files_of(other.store, str(latest), Action.COMMIT):
            other.store.delete(state.path)
        for data in path.rglob(f"*_{latest}.parquet"):
            data.unlink()

    result = between(path, take_back).upsert({"k3": (9, "b")})
    assert result.retries == 1
    assert rows_of(path) == view_rows(path) == {**BASE, "k3": (9, "b")}


def test_another_program_that_rolls_a_pending_write_back_makes_it_start_again(path: Path) -> None:
    def roll_back_as_hudi_does(other: SmallTable) -> None:
        (write,) = other.handle.timeline().pending_writes
        for data in path.rglob(f"*_{write.time}.parquet"):
            data.unlink()
        for state in (write.inflight, write.requested):
            other.store.delete(state.path)

    result = between(path, roll_back_as_hudi_does).upsert({"k1": (9, "b")})
    assert result.retries == 1
    assert "has rolled" in result.retry_reasons[0]
    assert rows_of(path) == {**BASE, "k1": (9, "b")}


def test_a_file_that_is_missing_or_cut_off_is_not_published(path: Path) -> None:
    def cut(_: SmallTable) -> None:
        newest = max(path.rglob("*.parquet"), key=lambda file: file.name[-25:])
        newest.write_bytes(newest.read_bytes()[:-1])

    result = between(path, cut).upsert({"k1": (9, "b")})
    assert result.retries == 1
    assert "is missing or has another size" in result.retry_reasons[0]
    assert rows_of(path) == {**BASE, "k1": (9, "b")}


def test_what_happened_to_the_table_meanwhile_stops_the_write(path: Path) -> None:
    properties = path / ".hoodie/hoodie.properties"

    def switch_metadata_table_on(_: SmallTable) -> None:
        properties.write_text(properties.read_text() + "hoodie.table.metadata.partitions=files\n")

    with pytest.raises(Exception, match="metadata table") as error:
        between(path, switch_metadata_table_on).upsert({"k1": (9, "b")})
    assert error.value.exit_code == 1
    assert rows_of(path) == BASE
    assert [i.action for i in writer(path).handle.timeline().pending_writes] == []


def test_a_rollback_by_hand_leaves_a_living_writer_alone(path: Path) -> None:
    def try_to_undo(other: SmallTable) -> None:
        pending = other.handle.timeline().pending_writes[0].time
        with pytest.raises(ConflictError, match="is still writing"):
            rollback(other.handle, pending)

    assert between(path, try_to_undo).upsert({"k1": (9, "b")}).retries == 0


def test_a_sweep_leaves_a_living_writers_files_alone(path: Path) -> None:
    def sweep(other: SmallTable) -> None:
        assert clean(other.handle).orphans_deleted == 0
        assert other.handle.timeline().of(Action.ROLLBACK) == ()

    assert between(path, sweep).upsert({"k1": (9, "b"), "n": (1, "d")}).retries == 0
    assert rows_of(path) == {**BASE, "k1": (9, "b"), "n": (1, "d")}


def test_new_keys_that_lie_apart_do_not_meet(path: Path) -> None:
    def ranged(rows: Rows) -> CommitResult:
        keys = {"p=c": KeyRange(smallest=min(rows), largest=max(rows))}
        return writer(path, inserted_keys=keys).upsert(rows)

    mine = {"p=c": KeyRange(smallest="m1", largest="m2")}
    rows = {"m1": (1, "c"), "m2": (2, "c")}
    apart = between(path, lambda _: ranged({"n1": (1, "c")}), inserted_keys=mine).upsert(rows)
    assert apart.retries == 0
    again = {"p=c": KeyRange(smallest="m3", largest="p")}
    met = between(path, lambda _: ranged({"o": (1, "c")}), inserted_keys=again).upsert(
        {"m3": (1, "c"), "p": (1, "c")}
    )
    assert met.retries == 1
    assert rows_of(path) == {**BASE, **rows, "n1": (1, "c"), "o": (1, "c"), "m3": (1, "c"), "p": (1, "c")}
