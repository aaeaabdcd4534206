"""A source whose path is spelled anew: what was taken by the former spelling stays taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.sources import due as ingestion
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.due import DueBatch, find_due
from parquetry.runtime.sources.ledger import Consumption, SourceFile
from parquetry.runtime.spec.source_paths import normalised_path
from parquetry.runtime.spec.table_spec import Operation, Source
from parquetry.runtime.storage.open import open_store
from tests.support.handmade import HandmadeTable, at
from tests.support.small_table import make_table

SPELLINGS = (
    "in/*.csv",
    "./in/*.csv",
    "in/../in/*.csv",
    "{base}/in/*.csv",
    "file://{base}/in/*.csv",
    "in",
    "i*/a.csv",
)


@pytest.fixture
def mine(tmp_path: Path) -> HandmadeTable:
    made = HandmadeTable(tmp_path / "mine")
    made.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id\n1\n")
    return made


def due(mine: HandmadeTable, path: str) -> DueBatch | None:
    base = mine.folder.parent
    source = Source(name="s", format="csv", path=path.format(base=base), operation=Operation.INSERT)
    return find_due(mine.open(), source, directory=str(base), storage={})


def take(mine: HandmadeTable, batch: DueBatch | None, time: str = "1") -> None:
    assert batch is not None
    assert batch.consumption is not None
    ledger.record(open_store(mine.folder), at(time), batch.consumption)


@pytest.mark.parametrize("before", SPELLINGS)
def test_a_file_that_was_taken_stays_taken_when_its_path_is_spelled_anew(mine, before):
    take(mine, due(mine, before))
    assert [due(mine, after) for after in SPELLINGS] == [None] * len(SPELLINGS)


def test_a_file_that_changed_is_known_by_another_spelling_too(mine):
    take(mine, due(mine, "in/*.csv"))
    (mine.folder.parent / "in/a.csv").write_text("id\n1\n2\n")
    with pytest.raises(InvalidDataError, match=r"\./in/a\.csv changed after commit \d+ ingested it"):
        due(mine, "./in/*.csv")


def test_what_another_run_took_by_another_spelling_meanwhile_is_left_to_it(mine):
    """Both listed the file before either of them wrote it."""
    one, two = due(mine, "in/*.csv"), due(mine, "{base}/in/*.csv")
    table = make_table(mine.folder.parent / "other")
    taken = [table.upsert({"k": (1, "a")}, consumed=[batch.consumption]).superseded for batch in (one, two)]
    assert taken == [False, True]


def test_only_files_that_may_be_named_in_another_way_cost_more_than_a_look_up(mine, monkeypatch):
    take(mine, due(mine, "in/*.csv"))
    (mine.folder.parent / "in/b.csv").write_text("id\n2\n")
    asked = []
    monkeypatch.setattr(
        ingestion, "normalised_path", lambda path, base: asked.append(path) or normalised_path(path, base)
    )
    assert [f.file.path for f in due(mine, "in/*.csv").files] == ["in/b.csv"]
    assert set(asked) == {"in/b.csv"}


@pytest.mark.parametrize("newest", ["./in/a.csv", "in/a.csv"])
def test_the_newest_of_two_spellings_counts(mine, newest):
    """As a ledger has them that was kept while spellings were told apart."""
    found = due(mine, "in/*.csv").consumption.files[0]
    for time, path in enumerate(sorted(["in/a.csv", "./in/a.csv"], key=lambda path: path == newest)):
        size_bytes = found.size_bytes + time
        file = SourceFile(path=path, size_bytes=size_bytes, modified_ms=found.modified_ms + time)
        take(mine, DueBatch(consumption=Consumption(source="s", files=(file,))), str(time))
    (mine.folder.parent / "in/a.csv").write_text("id\n11\n")
    os.utime(mine.folder.parent / "in/a.csv", ns=(0, (found.modified_ms + 1) * 1_000_000))
    assert due(mine, "in/*.csv") is None


def test_the_same_name_below_another_folder_is_new(mine):
    take(mine, due(mine, "in/*.csv"))
    (mine.folder.parent / "else").mkdir()
    (mine.folder.parent / "else/a.csv").write_text("id\n2\n")
    assert [f.file.path for f in due(mine, "else/*.csv").files] == ["else/a.csv"]
