"""Specs are applied while others write: nobody's rows or columns are lost, whoever is faster."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from parquetry.runtime.apply import table_change
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.errors import ConflictError, InvalidDataError, StalePlanError
from parquetry.runtime.services.clean import clean, clean_if_due
from parquetry.runtime.spec.clustering import ClusteringSpec, Trigger
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, FilesPolicy, KeyScope, RetentionPolicy
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.schema import live_columns
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
            wanted = change(table, replace(spec, extra=Extra(description=name)), alters_schema=False)
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


def with_a_column_more(table):
    spec = read_applied(table.store).spec
    wider = spec.with_columns((*spec.columns, Column(name="secret", type="string")))
    apply_change(table.store, change(table, wider, alters_schema=True), timing=PATIENT)
    return change(table, spec, alters_schema=True)


def test_an_added_column_with_a_name_of_hudis_is_refused(table):
    spec = read_applied(table.store).spec
    wider = spec.with_columns((*spec.columns, Column(name="_Hoodie_x", type="string")))
    before = live_names(table)
    with pytest.raises(InvalidDataError, match=r"'_Hoodie_x' belongs to the table format; rename it"):
        apply_change(table.store, change(table, wider, alters_schema=True), timing=PATIENT)
    assert live_names(table) == before
    assert read_applied(table.store).spec == spec


def live_names(table):
    handle = table.handle
    return [c.name for c in live_columns(table.store, handle.timeline(), handle.config)]


def test_a_write_between_schema_and_record_does_not_bring_a_dropped_column_back(table, monkeypatch):
    dropping = with_a_column_more(table)
    pending = [lambda: table.upsert({"k": (1, "a")})]
    record = table_change._record_locked

    def recorded(*arguments):
        if pending:
            pending.pop()()
            assert live_names(table)[-1] == "secret"
        return record(*arguments)

    monkeypatch.setattr(table_change, "_record_locked", recorded)
    assert apply_change(table.store, dropping, timing=PATIENT).applied_number == 3
    assert live_names(table) == [column.name for column in COLUMNS]


def test_a_write_that_ends_behind_the_record_does_not_bring_a_dropped_column_back(
    table, tmp_path, monkeypatch
):
    """It began when the schema was committed already, so the commits alone tell nothing of a conflict."""
    dropping = with_a_column_more(table)
    record = table_change._record_locked
    numbers, written = [], []

    def recorded(*arguments):
        def before_publish(_):
            if not numbers:
                numbers.append(record(*arguments))

        written.append(replace(table, before_publish=before_publish).upsert({"k": (1, "a")}))
        return numbers[0]

    monkeypatch.setattr(table_change, "_record_locked", recorded)
    assert apply_change(table.store, dropping, timing=PATIENT).applied_number == 3
    assert [result.retries for result in written] == [1]
    assert "record 3 was applied meanwhile" in written[0].retry_reasons[0]
    assert live_names(table) == [column.name for column in COLUMNS]
    assert view_rows(tmp_path / "t") == {"k": (1, "a")}


@pytest.mark.parametrize(
    ("settings", "retries"),
    [
        ({"files": FilesPolicy(encryption_key="env:KEY")}, 1),
        ({"key_scope": KeyScope.TABLE}, 1),
        ({"sizing": SizingPolicy(max_file_size_bytes=2**20)}, 0),
        ({"extra": Extra(clustering=ClusteringSpec(trigger=Trigger.ASYNC))}, 0),
    ],
)
def test_what_files_have_to_be_is_told_by_the_spec_in_force_when_they_are_published(table, settings, retries):
    """A file in the clear, say, may not follow the spec that wants it encrypted."""
    applying = [change(table, replace(read_applied(table.store).spec, **settings), alters_schema=False)]

    def before_publish(_):
        if applying:
            apply_change(table.store, applying.pop(), timing=PATIENT)

    result = replace(table, before_publish=before_publish).upsert({"k": (1, "a")})
    assert result.retries == retries


def test_a_clean_behind_a_write_keeps_what_was_applied_meanwhile(table):
    keeping = replace(read_applied(table.store).spec, retention=RetentionPolicy(keep_commits=1))
    apply_change(table.store, change(table, keeping, alters_schema=False), timing=PATIENT)
    opened = table.handle
    for number in range(4):
        table.upsert({"k": (number, "a")})
    longer = replace(keeping, retention=RetentionPolicy(keep_commits=50))
    apply_change(table.store, change(table, longer, alters_schema=False), timing=PATIENT)
    assert clean_if_due(opened, timing=PATIENT) is None
    assert clean(opened, timing=PATIENT).files_deleted == 0
    assert clean(opened, policy=keeping.retention, timing=PATIENT).files_deleted > 0
