"""Specs are applied while others write: nobody's rows or columns are lost, whoever is faster."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from parquetry.runtime.applied import read_applied
from parquetry.runtime.apply import TableChange, apply_change
from parquetry.runtime.errors import ConflictError, StalePlanError
from parquetry.runtime.job import Requirements, digest_of
from parquetry.runtime.spec import Column
from parquetry.runtime.table_schema import live_columns
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table, view_rows

WRITES, APPLIES = 6, 4
PATIENT = replace(FAST, retries=50, live_lock_seconds=60.0)


class ByTheSpec(SmallTable):
    """Commits carry the columns of the spec in force, as those of real writes do."""

    __slots__ = ()

    def _run(self, action, operation, body):
        def declared(txn):
            columns = txn.table.effective_spec(txn.timeline).columns
            return replace(body(txn), schema_json=txn.table.schema_json(txn.timeline, columns))

        return super()._run(action, operation, declared)


@pytest.fixture
def table(tmp_path):
    return ByTheSpec(store=make_table(tmp_path / "t").store, timing=PATIENT)


def change(table, spec, *, alters_schema):
    applied = read_applied(table.store).ref
    return TableChange(
        spec=spec,
        requirements=Requirements(exists=True, applied_number=applied.number, applied_digest=applied.digest),
        alters_schema=alters_schema,
        project="tests",
    )


def side_by_side(*bodies):
    """Run the bodies in threads; their failures, if any, are raised here."""
    failures = []

    def guarded(body):
        try:
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_columns_are_added_while_rows_are_written(table, tmp_path):
    def write():
        for number in range(WRITES):
            table.upsert({f"k{number}": (number, "a"), "same": (number, "a")})

    def apply():
        for number in range(APPLIES):
            spec = read_applied(table.store).spec
            wider = spec.with_columns((*spec.columns, Column(name=f"c{number}", type="int")))
            apply_change(table.store, change(table, wider, alters_schema=True), timing=PATIENT)

    side_by_side(write, apply)
    rows = view_rows(tmp_path / "t")
    assert rows == {f"k{n}": (n, "a") for n in range(WRITES)} | {"same": (WRITES - 1, "a")}
    names = [column.name for column in COLUMNS] + [f"c{n}" for n in range(APPLIES)]
    handle = table.handle
    assert [c.name for c in live_columns(table.store, handle.timeline(), handle.config)] == names
    applied = read_applied(table.store)
    assert [column.name for column in applied.spec.columns] == names
    assert applied.ref.digest == digest_of(applied.spec.to_json())
    assert handle.timeline().pending_writes == ()


def test_of_two_applies_and_a_writer_one_apply_is_stale_and_nothing_is_lost(table, tmp_path):
    outcomes = []
    both_planned = threading.Barrier(2)

    def applying(name):
        def body():
            spec = read_applied(table.store).spec
            wanted = change(table, replace(spec, extra={"description": name}), alters_schema=False)
            both_planned.wait(60)
            try:
                outcomes.append(apply_change(table.store, wanted, timing=PATIENT).applied_number)
            except (StalePlanError, ConflictError) as error:
                outcomes.append(type(error))

        return body

    side_by_side(
        applying("first"),
        applying("second"),
        lambda: [table.upsert({f"k{n}": (n, "a")}) for n in range(WRITES)],
    )
    assert sorted(map(str, outcomes)) == sorted(map(str, [2, StalePlanError]))
    assert read_applied(table.store).ref.number == 2
    assert view_rows(tmp_path / "t") == {f"k{n}": (n, "a") for n in range(WRITES)}
