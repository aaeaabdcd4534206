"""A writer that ends at any storage operation leaves the old table or the new one.

Stopping before an operation leaves the same store as stopping after the one before it, so each
operation is tried done-but-unanswered, and half done.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.storage.open import open_store
from tests.support.effort import in_full
from tests.support.orphans import leftovers
from tests.support.s3_server import BUCKET
from tests.support.small_table import FAST, Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped
from tests.support.table_changes import CASES, ESSENTIAL, is_undoing

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
"""For the clean at the end: unfinished files need no time of grace, as nobody writes."""


@pytest.mark.parametrize(
    ("name", "table_version", "meta_columns", "stop", "every"),
    [
        *((name, 6, MetaColumns.ALL, Stop.AFTER, 3) for name in CASES),
        *((name, 9, MetaColumns.ALL, Stop.AFTER, 5) for name in ESSENTIAL),
        ("upsert", 9, MetaColumns.NONE, Stop.AFTER, 5),
        *(
            pytest.param(name, table_version, meta_columns, stop, 1, marks=pytest.mark.long)
            for name in CASES
            for table_version in (6, 9)
            for meta_columns in (MetaColumns.ALL, MetaColumns.NONE)
            for stop in (Stop.AFTER, Stop.HALFWAY)
        ),
    ],
)
def test_a_writer_stopped_anywhere_leaves_the_old_table_or_the_new_one(
    name: str, table_version: int, meta_columns: MetaColumns, stop: Stop, every: int, tmp_path: Path
) -> None:
    case = CASES[name]
    template = tmp_path / "template"
    prepared = make_table(
        template,
        table_version=table_version,
        meta_columns=meta_columns,
        keep_commits=2,
        archive_keep_commits=4,
    )
    old = dict(case.prepare(prepared))
    assert rows_of(template) == view_rows(template) == old
    new = dict(case.after(old))
    allowed = [old, new, *case.between(template)]

    seen = []
    for number in range(1, 1000, every):
        path = tmp_path / f"t{number}"
        shutil.copytree(template, path)
        store = FaultyStore(open_store(path), tmp_path / f"count{number}", stop_at=number, stop=stop)
        try:
            case.act(SmallTable(store=store))
        except Stopped:
            pass
        else:
            assert store.operations() < number
            assert rows_of(path) == view_rows(path) == new
            assert leftovers(path) == [] or case.leaves
            break
        seen.append(_survives(path, allowed, new, number))
        shutil.rmtree(path)
    print(f"{name}: stopped at {number - 1} operations, new state in {sum(state == new for state in seen)}")
    assert len(seen) > 1
    assert seen[0] == old
    if stop is Stop.AFTER and every == 1:
        assert seen[-1] == new


@pytest.mark.parametrize(
    ("scheme", "options", "stop"),
    [
        ("s3", "s3_options", Stop.AFTER),
        pytest.param("s3", "s3_options", Stop.HALFWAY, marks=pytest.mark.long),
        pytest.param("gs", "gcs_options", Stop.AFTER, marks=pytest.mark.long),
        ("gs", "gcs_options", Stop.HALFWAY),
    ],
)
def test_a_writer_stopped_in_a_bucket_leaves_the_old_table_or_the_new_one(
    scheme: str, options: str, stop: Stop, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    old: Rows = {"k1": (1, "a"), "k2": (2, "b")}
    new: Rows = {**old, "k1": (9, "a"), "n": (1, "c")}
    seen = []
    for number in range(1, 1000, 7 if in_full() else 12):
        root = f"{scheme}://{BUCKET}/stopped/{stop.name}{number}"
        table = make_table(open_store(root, request.getfixturevalue(options)))
        table.upsert(old)
        faulty = FaultyStore(table.store, tmp_path / f"count{number}", stop_at=number, stop=stop)
        try:
            SmallTable(store=faulty).upsert({"k1": (9, "a"), "n": (1, "c")})
        except Stopped:
            seen.append(view_rows(table.store))
        else:
            break
        assert seen[-1] in (old, new), f"operation {number}"
        assert replace(table, timing=AT_ONCE).upsert({"next": (1, "e")}).retries == 0
        assert view_rows(table.store) == {**seen[-1], "next": (1, "e")}, f"operation {number}: the next write"
    assert len(seen) > 1
    assert seen[0] == old


def _survives(path: Path, allowed: list[Rows], new: Rows, number: int) -> Rows:
    state = rows_of(path)
    assert view_rows(path) == state, f"operation {number}: hudi-rs and our view disagree"
    assert state in allowed, f"operation {number}: {state}"
    table = SmallTable(store=open_store(path))
    expected = new if is_undoing(table) else state
    result = table.upsert({"k1": (999, "b"), "next": (1, "e")})
    assert result.retries == 0
    expected = {**expected, "k1": (999, "b"), "next": (1, "e")}
    assert rows_of(path) == view_rows(path) == expected, f"operation {number}: the next write"
    clean(table.handle, timing=AT_ONCE)
    assert rows_of(path) == view_rows(path) == expected
    assert leftovers(path) == [], f"operation {number}"
    return state
