"""What plans and specs say of a key: the reference, once, and what it makes due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.compiler.plan.changes import spec_changes
from parquetry.compiler.plan.model import ChangeClass
from parquetry.runtime.clustering.plan.survey import FurtherSteps, clustering_file
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import ExclusionReason, Situation
from parquetry.runtime.layout.clustering.strategies import BUILT_IN
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.spec.clustering import (
    MIB,
    ClusteringSpec,
    ExecutionPolicy,
    Existing,
    PlanPolicy,
    Trigger,
)
from parquetry.runtime.spec.table_spec import Column, Extra, FilesPolicy, TableSpec

PLAIN = TableSpec(name="t", columns=(Column(name="id", type="string"),))


def with_key(key, existing=Existing.GRADUAL, then=("encrypt",)):
    execution = ExecutionPolicy(then=then, encryption_key=key if "encrypt" in then else None)
    section = ClusteringSpec(trigger=Trigger.ASYNC, existing=existing, execution=execution)
    return replace(PLAIN, files=FilesPolicy(encryption_key=key), extra=Extra(clustering=section))


def changes(old, new):
    found = spec_changes(old, new, origin=lambda path: None)
    return {change.path: (change.old, change.new, change.change_class) for change in found}


@pytest.mark.parametrize(
    ("existing", "then", "change_class"),
    [
        (Existing.GRADUAL, ("encrypt",), ChangeClass.POLICY),
        (Existing.NOW, ("encrypt",), ChangeClass.REWRITE),
        (Existing.NOW, ("prune",), ChangeClass.POLICY),
    ],
)
def test_another_key_is_one_change(existing, then, change_class):
    old, new = (with_key(key, existing, then) for key in ("env:A", "env:B"))
    assert changes(old, new) == {"files.encryption_key": ("env:A", "env:B", change_class)}


def test_a_first_key_is_a_change():
    new = replace(PLAIN, files=FilesPolicy(encryption_key="env:A"))
    assert changes(PLAIN, new) == {"files.encryption_key": (None, "env:A", ChangeClass.POLICY)}


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_files_in_the_clear_are_due_whatever_picks_files(strategy):
    plan = PlanPolicy(strategy=strategy, small_file_limit_bytes=MIB, target_file_size_bytes=10 * MIB)
    execution = ExecutionPolicy(strategy="sort", columns=("n",), then=("encrypt",), encryption_key="env:A")
    spec = ClusteringSpec(plan=plan, execution=execution)

    def due(steps, **known):
        files = []
        for number in range(2):
            part = FileSlice(
                partition="",
                file_id=f"f{number}",
                instant="20260101000000000",
                path=f"f{number}",
                size_bytes=9 * MIB,
            )
            bounds = ColumnStatistics(type="int", minimum=number, maximum=number, nulls=0)
            group = RowGroupStatistics(rows=9, data_bytes=9, columns={"n": bounds})
            found = FileStatistics(path=part.path, size_bytes=9 * MIB, row_groups=(group,), **known)
            files.append(clustering_file(part, found, steps))
        owed = compute_debt(spec, files, Situation(max_file_size_bytes=10 * MIB))
        return {file.file_id for group in owed.groups for file in group.files}

    # What overlap takes for sorted files it leaves.
    assert due(FurtherSteps()) == (set() if strategy == "overlap" else {"f0", "f1"})
    steps = FurtherSteps(encrypted=True)
    assert due(steps) == {"f0", "f1"}
    assert due(steps, clustering=execution.digest) == {"f0", "f1"}
    assert due(steps, clustering=execution.digest, encrypted=True) == set()
    dropped = FurtherSteps(unpruned_until="20260101000000000")
    assert due(dropped, clustering=execution.digest) == {"f0", "f1"}
    assert due(FurtherSteps(unpruned_until="20251231000000000"), clustering=execution.digest) == set()


def test_files_that_owe_a_step_are_due_whatever_is_kept():
    execution = ExecutionPolicy(then=("encrypt", "prune"), encryption_key="env:A")
    spec = ClusteringSpec(existing=Existing.KEEP, execution=execution)
    group = RowGroupStatistics(rows=9, data_bytes=9, columns={})

    def kept(steps):
        files = []
        for name, encrypted in (("clear", False), ("encrypted", True)):
            part = FileSlice(
                partition="", file_id=name, instant="20260101000000000", path=name, size_bytes=110 * MIB
            )
            known = FileStatistics(
                path=name, size_bytes=110 * MIB, row_groups=(group,), encrypted=encrypted, clustering="older"
            )
            files.append(clustering_file(part, known, steps))
        owed = compute_debt(
            spec, files, Situation(max_file_size_bytes=120 * MIB, kept_until="20260102000000000")
        )
        assert {file.file_id for group in owed.groups for file in group.files}.isdisjoint(
            entry.file.file_id for entry in owed.excluded
        )
        return {entry.file.file_id: entry.reason for entry in owed.excluded}

    assert kept(FurtherSteps()) == {"clear": ExclusionReason.KEPT, "encrypted": ExclusionReason.KEPT}
    assert kept(FurtherSteps(encrypted=True)) == {"encrypted": ExclusionReason.KEPT}
    assert kept(FurtherSteps(encrypted=True, unpruned_until="20260101000000000")) == {}


def test_specs_without_a_key_stay_what_they_were():
    assert "encryption_key" not in PLAIN.to_json()["files"]
    keyed = with_key("env:A")
    assert TableSpec.from_json(keyed.to_json()) == keyed


def test_digests_of_policies_that_encrypt_nothing_stay_what_footers_carry():
    stitched, a, b = (
        ExecutionPolicy(),
        *(ExecutionPolicy(then=("encrypt",), encryption_key=key) for key in ("env:A", "env:B")),
    )
    # The digest of the first release.
    assert stitched.digest == "03595f5025677caa"
    assert len({stitched.digest, a.digest, b.digest}) == 3
