"""The ledger of consumed source files, on a real store."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.errors import ConflictError, CorruptTableError, NotFoundError
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.ledger import Consumption, EntryKind, SourceFile
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.effective_writes import WriteState
from parquetry.runtime.timeline.sidecars import LEDGER_FOLDER
from tests.support.ledger import consumed
from tests.support.stores import WrappedStore


def source_file(path, size=10, modified=1, etag=None):
    return SourceFile(path=path, size_bytes=size, modified_ms=modified, etag=etag)


@pytest.fixture
def store(tmp_path):
    return open_store(tmp_path)


def record(store, instant, *files, source="landing", since=None, until=None):
    ledger.record(store, instant, Consumption(source=source, files=files, since=since, until=until))


class Rule:
    """What is in effect by a rule, all of it on the timeline: nothing is asked of an archive."""

    has_unknown_writes = False

    def __init__(self, rule):
        self.rule = rule

    def state_of(self, instant):
        return WriteState.COMPLETED if self.rule(instant) else WriteState.NOT_IN_EFFECT

    def counts(self, instant, *, is_settled=False):
        return self.rule(instant)


everything = Rule(lambda t: True)


def test_an_entry_counts_only_while_its_instant_is_effective(store):
    record(store, "20260101000000001", source_file("a"))
    record(store, "20260101000000002", source_file("b"))
    assert set(consumed(store, "landing", everything)) == {"a", "b"}
    assert set(consumed(store, "landing", Rule(lambda t: t.endswith("1")))) == {"a"}


def test_the_newest_version_of_a_file_counts(store):
    record(store, "20260101000000001", source_file("a", size=10))
    record(store, "20260101000000002", source_file("a", size=20))
    assert consumed(store, "landing", everything)["a"].size_bytes == 20


def test_sources_do_not_see_each_other(store):
    record(store, "20260101000000001", source_file("a"), source="one")
    record(store, "20260101000000002", source_file("b"), source="two")
    assert set(consumed(store, "one", everything)) == {"a"}
    assert consumed(store, "three", everything) == {}


def test_what_an_instant_took_is_read_back(store):
    consumption = Consumption(source="s", files=(source_file("a", etag="x"),), query_id="q", batch_id=3)
    ledger.record(store, "20260101000000001", consumption)
    assert ledger.consumed_by(store, "s", "20260101000000001") == consumption
    assert ledger.consumed_by(store, "s", "20260101000000002") is None


def test_a_broken_entry_names_its_file_and_the_remedy(store):
    record(store, "20260101000000001", source_file("a"))
    store.put(ledger.entry_path("landing", "20260101000000001"), b'{"source": "la')
    with pytest.raises(
        CorruptTableError, match=r"20260101000000001\.json is not a valid ledger entry.*delete it"
    ):
        consumed(store, "landing", everything)
    store.delete(ledger.entry_path("landing", "20260101000000001"))
    assert consumed(store, "landing", everything) == {}


def test_folding_keeps_what_counts_and_leaves_what_is_pending(store):
    times = [f"202601010000{n:05d}" for n in range(ledger.FOLD_ABOVE + 10)]
    for n, time in enumerate(times):
        record(store, time, source_file(f"f{n}", etag=f"e{n}"), until=None)
    pending = times[-1]
    before = consumed(store, "landing", Rule(lambda t: t != pending))
    assert ledger.fold(store, "landing", Rule(lambda t: t != pending)) == len(times) - 1
    assert len(store.list(f"{LEDGER_FOLDER}/landing")) == 2
    assert consumed(store, "landing", Rule(lambda t: t != pending)) == before
    # What is folded may be undone yet, and the pending one may complete.
    assert "f3" not in consumed(store, "landing", Rule(lambda t: t != times[3]))
    assert set(consumed(store, "landing", everything)) == {f"f{n}" for n in range(len(times))}


def test_folding_twice_keeps_the_older_fold(store):
    first = [f"202601010000{n:05d}" for n in range(ledger.FOLD_ABOVE + 1)]
    second = [f"202602010000{n:05d}" for n in range(ledger.FOLD_ABOVE + 1)]
    for batch in (first, second):
        for time in batch:
            record(store, time, source_file(time))
        ledger.fold(store, "landing", everything)
    assert set(consumed(store, "landing", everything)) == {*first, *second}
    assert len(store.list(f"{LEDGER_FOLDER}/landing")) == 1


def test_folding_at_the_same_time_loses_no_entry(store):
    """Both list the same files; the slower one does not know yet that the fifth write took effect."""
    times = [f"202601010000{n:05d}" for n in range(ledger.FOLD_ABOVE + 1)]
    for time in times:
        record(store, time, source_file(time))

    class Slower:
        """A store on which the other fold happens just before this one's file is put."""

        def __getattr__(self, name):
            return getattr(store, name)

        def put(self, path, data):
            ledger.fold(store, "landing", everything)
            store.put(path, data)

    ledger.fold(Slower(), "landing", Rule(lambda t: t != times[4]))
    assert set(consumed(store, "landing", everything)) == set(times)


def test_a_fold_by_an_older_sight_of_the_timeline_keeps_what_a_newer_one_has_folded(store):
    times = [f"202601010000{n:05d}" for n in range(2 * ledger.FOLD_ABOVE + 3)]
    middle = ledger.FOLD_ABOVE + 1
    for time in times[:middle]:
        record(store, time, source_file(time))
    ledger.fold(store, "landing", everything)
    for time in times[middle:]:
        record(store, time, source_file(time))
    # This one still takes what was folded for pending.
    assert ledger.fold(store, "landing", Rule(lambda t: t >= times[middle])) == len(times) - middle
    assert set(consumed(store, "landing", everything)) == set(times)


def test_few_entries_are_not_folded(store):
    record(store, "20260101000000001", source_file("a"))
    assert ledger.fold(store, "landing", everything) == 0


def test_a_table_source_remembers_its_newest_instant_through_a_fold(store):
    for n in range(ledger.FOLD_ABOVE + 1):
        record(store, f"202601010000{n:05d}", until=f"202512010000{n:05d}")
    ledger.fold(store, "landing", everything)
    untils = [c.until for _, c in ledger.history(store, "landing", everything)]
    assert max(untils) == f"202512010000{ledger.FOLD_ABOVE:05d}"


def test_what_was_read_of_a_table_source_stays_known_through_a_fold(store):
    times = [f"202601010000{n:05d}" for n in range(ledger.FOLD_ABOVE + 1)]
    for before, time in zip([None, *times], times, strict=False):
        record(store, time, since=before, until=time)
    entries = ledger.history(store, "landing", everything)
    assert [(c.since, c.until) for _, c in entries] == list(zip([None, *times[:-1]], times, strict=True))
    ledger.fold(store, "landing", everything)
    assert ledger.history(store, "landing", everything) == entries


def test_entries_that_do_not_say_since_are_read(store):
    times = [f"202601010000{n:05d}" for n in range(ledger.FOLD_ABOVE + 1)]
    record(store, times[0], until="5")
    path = ledger.entry_path("landing", times[0])
    document = json.loads(store.read(path))
    del document["since"]
    store.put(path, json.dumps(document).encode())
    folded = {"instant": [times[1]], "until": ["6"], "query_id": [None], "batch_id": [None], "path": [None]}
    files = {"size_bytes": [None], "modified_ms": [None], "etag": [None]}
    sink = io.BytesIO()
    pq.write_table(pa.table(folded | files), sink)
    store.put(f"{LEDGER_FOLDER}/landing/{times[1]}.x.folded", sink.getvalue())
    entries = ledger.history(store, "landing", everything)
    assert [(c.since, c.until) for _, c in entries] == [(None, "5"), (None, "6")]
    assert ledger.newest_read(entries).until == "6"


def test_a_ledger_that_cannot_be_read_whole_is_not_taken_for_empty(store):
    """Else every file would be ingested a second time."""
    record(store, "20260101000000001", source_file("a"))

    class Vanishing(WrappedStore):
        def read(self, path):
            raise NotFoundError(path)

    with pytest.raises(ConflictError, match="changed each time it was read; run again"):
        consumed(Vanishing(store), "landing", everything)


def test_an_etag_decides_where_both_sides_have_one():
    before = source_file("a", modified=1, etag="x")
    assert source_file("a", modified=2, etag="x").is_same_as(before)
    assert not source_file("a", modified=1, etag="y").is_same_as(before)
    assert not source_file("a", modified=2, etag=None).is_same_as(before)


def test_the_ledger_of_a_table_has_all_sources_but_streams(store):
    record(store, "20260101000000002", source_file("b"), source="other")
    record(store, "20260101000000001", source_file("a"))
    record(store, "20260101000000003", source_file("c"), source=f"{ledger.STREAM}s")
    found = ledger.table_history(store, everything)
    assert [(entry.source, [f.path for f in entry.files]) for _, entry in found] == [
        ("landing", ["a"]),
        ("other", ["b"]),
    ]


def test_a_folded_ledger_says_what_its_entries_said(store):
    for n in range(ledger.FOLD_ABOVE + 1):
        files = (replace(source_file(f"f{n}", etag="e"), digest=f"d{n}"), source_file("g"))
        kind = EntryKind.SKIPPED if n % 2 else EntryKind.INGESTED
        read = {"table_id": f"t{n}", "until": f"{n}", "until_time": f"{n - 1}"}
        entry = Consumption(source="landing", files=files if n else (), kind=kind, **read)
        ledger.record(store, f"202601010000{n:05d}", entry)
    before = ledger.history(store, "landing", everything)
    ledger.fold(store, "landing", everything)
    assert [info.path for info in store.list(f"{LEDGER_FOLDER}/landing") if info.path.endswith(".json")] == []
    assert ledger.history(store, "landing", everything) == before


def test_a_folded_ledger_that_is_spoilt_names_its_file_and_the_remedy(store):
    for n in range(ledger.FOLD_ABOVE + 10):
        record(store, f"202601010000{n:05d}", source_file(f"f{n}"))
    ledger.fold(store, "landing", everything)
    (path,) = (info.path for info in store.list(f"{LEDGER_FOLDER}/landing"))
    whole = store.read(path)
    told = []
    for spoilt in (b"", whole[:-9], *(_flipped(whole, place) for place in range(0, len(whole), 7))):
        store.delete(path)
        store.put(path, spoilt)
        try:
            consumed(store, "landing", everything)
        except CorruptTableError as error:
            told.append(str(error))
    assert len(told) > 2
    assert all(f"{path} is not a valid folded ledger" in text and "delete it" in text for text in told)


def _flipped(content, place):
    spoilt = bytearray(content)
    spoilt[place] ^= 0x80
    return bytes(spoilt)
