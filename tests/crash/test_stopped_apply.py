"""Apply that ends at any storage operation: the spec in force is the old one or the new one, and doing it again finishes it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial

import pytest

from parquetry.compiler.workspace.observation import observe
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import Column, Extra, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import create_table, open_table
from tests.support.small_table import FAST
from tests.support.stores import FaultyStore, Stop, Stopped

# The dead writer is this process, which lives on: silence alone has to tell.
TIMING = replace(FAST, heartbeat_seconds=0.05, dead_after_seconds=0.2)
OLD = TableSpec(name="t", columns=(Column(name="id", type="int"),), record_key=("id",))
NEW = replace(OLD, columns=(Column(name="id", type="bigint"), Column(name="note", type="string")))


def change_to(spec, store):
    """What a plan made now would ask for."""
    observation = observe(store)
    applied = observation.handle.applied if observation else None
    return TableChange(
        spec=spec,
        requirements=Requirements(
            exists=observation is not None,
            applied_number=applied.number if applied else 0,
            applied_digest=applied.digest if applied else None,
        ),
        alters_schema=applied is not None,
        project="p",
        plan_id="plan",
    )


def apply(store, spec):
    return apply_change(store, change_to(spec, store), timing=TIMING)


def evolved(store):
    """Whether the commits say the new columns."""
    schema = json.loads(open_table(store).timeline().commit_metadata(_newest(store)).schema)
    return [field["name"] for field in schema["fields"]] == ["id", "note"]


def _newest(store):
    return open_table(store).timeline().completed_writes[-1].time


def prepared(path, *, exists):
    store = open_store(path)
    if exists:
        apply(store, OLD)
    return store


def operations(tmp_path, *, exists):
    store = prepared(tmp_path / "whole", exists=exists)
    counting = FaultyStore(store, tmp_path / "count")
    apply_change(counting, change_to(NEW if exists else OLD, store), timing=TIMING)
    return counting.operations()


@pytest.mark.parametrize("exists", [False, True], ids=["create", "evolve"])
@pytest.mark.parametrize("stop", [Stop.HALFWAY, Stop.AFTER])
def test_stopped_anywhere_and_done_again(tmp_path, exists, stop):
    spec = NEW if exists else OLD
    count = operations(tmp_path, exists=exists)
    assert count > 3
    if exists:
        prepared(tmp_path / "base", exists=True)
    for number in range(1, count + 1):
        path = tmp_path / f"stopped{number}"
        if exists:
            shutil.copytree(tmp_path / "base", path)
        store = open_store(path)
        faulty = FaultyStore(store, tmp_path / f"counter{number}", stop_at=number, stop=stop)
        with pytest.raises(Stopped):
            apply_change(faulty, change_to(spec, store), timing=TIMING)
        before = read_applied(store)
        assert before is None or before.spec in (OLD, spec)
        if before is None or before.spec != spec:
            apply(store, spec)
        handle = open_table(store)
        assert handle.spec == spec
        assert handle.applied.number == (2 if exists else 1)
        assert not exists or evolved(store)
        assert handle.timeline().pending_writes == () or before is not None


def without_schema(kind, store):
    """A change that commits nothing: another policy, the end of the project's record, properties put back."""
    change = change_to(replace(OLD, extra=Extra(description=kind)), store)
    if kind == "record":
        return replace(change, alters_schema=False)
    if kind == "forget":
        return replace(change, spec=OLD, alters_schema=False, forgets=True)
    return replace(change, spec=OLD, alters_schema=False, restores=True, records=False)


def drifted(path):
    """A table whose ordering another program has set."""
    store = prepared(path, exists=True)
    properties = path / ".hoodie/hoodie.properties"
    properties.write_text(f"{properties.read_text()}hoodie.table.precombine.field=id\n")
    return store


@pytest.mark.parametrize("kind", ["record", "forget", "restore"])
@pytest.mark.parametrize("stop", [Stop.HALFWAY, Stop.AFTER])
def test_changes_without_a_commit_stopped_anywhere_and_done_again(tmp_path, kind, stop):
    prepare = drifted if kind == "restore" else partial(prepared, exists=True)
    store = prepare(tmp_path / "whole")
    counting = FaultyStore(store, tmp_path / "count")
    apply_change(counting, without_schema(kind, store), timing=TIMING)
    count = counting.operations()
    prepare(tmp_path / "base")
    assert count > 3
    for number in range(1, count + 1):
        path = tmp_path / f"stopped{number}"
        shutil.copytree(tmp_path / "base", path)
        store = open_store(path)
        change = without_schema(kind, store)
        faulty = FaultyStore(store, tmp_path / f"counter{number}", stop_at=number, stop=stop)
        with pytest.raises(Stopped):
            apply_change(faulty, change, timing=TIMING)
        before = read_applied(store).ref
        assert before.number in (1, 2)
        if before.number == 1:
            apply_change(store, change, timing=TIMING)
        after = read_applied(store)
        assert (after.ref.number, after.ref.forgotten) == (1 if kind == "restore" else 2, kind == "forget")
        assert after.spec == (change.spec if change.records else OLD)
        assert open_table(store).config.ordering is None
        assert len(open_table(store).timeline().completed_writes) == 1


def test_a_creation_begun_with_another_spec_is_finished_so_that_the_next_plan_sees_it(tmp_path):
    store = open_store(tmp_path / "t")
    faulty = FaultyStore(store, tmp_path / "counter", stop_at=4, stop=Stop.AFTER)
    with pytest.raises(Stopped):
        create_table(faulty, OLD, project="p")
    assert observe(store) is None
    with pytest.raises(Exception, match="plan again"):
        apply(store, NEW)
    assert observe(store).spec == OLD
    apply_change(
        store,
        replace(change_to(NEW, store), alters_schema=True, requirements=Requirements(exists=True)),
        timing=TIMING,
    )
    assert open_table(store).spec == NEW
