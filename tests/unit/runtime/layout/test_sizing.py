"""Write-time sizing by example."""

from __future__ import annotations

import dataclasses

import pytest

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.simulation import simulate_sizing, sizing_json
from parquetry.runtime.layout.sizing import is_small, plan_inserts, split_size
from parquetry.runtime.spec.sizing import SizingPolicy
from tests.support.clustering_model import maximum_for

MB = 1_000_000
POLICY = SizingPolicy(
    max_file_size_bytes=maximum_for(120 * MB), small_file_limit_bytes=100 * MB, insert_split_size=120_000
)
FILES = [
    ("File_1", 40 * MB),
    ("File_2", 80 * MB),
    ("File_3", 90 * MB),
    ("File_4", 130 * MB),
    ("File_5", 105 * MB),
]


def policy(**changes) -> SizingPolicy:
    return dataclasses.replace(POLICY, **changes)


def quotas(plan) -> dict[str | None, int | list[int]]:
    existing = {a.slice.file_id: a.inserts for a in plan.assignments if a.slice}
    new = [a.inserts for a in plan.new_files]
    return {**existing, **({None: new} if new else {})}


def simulate(inserts, *, files=FILES, record=1000, sizing=POLICY):
    return simulate_sizing(files, record_size_bytes=record, inserts=inserts, policy=sizing)


@pytest.mark.parametrize("split", [120_000, None])
def test_the_worked_example_to_the_row(split):
    plan = simulate(450_000, sizing=policy(insert_split_size=split))
    shown = sizing_json(plan)
    for file in shown["files"]:
        assert file.pop("reason")
    assert shown == {
        "files": [
            {
                "file": "File_1",
                "size_bytes": 40 * MB,
                "small": True,
                "inserts": 80_000,
                "size_after_bytes": 120 * MB,
            },
            {
                "file": "File_2",
                "size_bytes": 80 * MB,
                "small": True,
                "inserts": 40_000,
                "size_after_bytes": 120 * MB,
            },
            {
                "file": "File_3",
                "size_bytes": 90 * MB,
                "small": True,
                "inserts": 30_000,
                "size_after_bytes": 120 * MB,
            },
            {
                "file": "File_4",
                "size_bytes": 130 * MB,
                "small": False,
                "inserts": 0,
                "size_after_bytes": 130 * MB,
            },
            {
                "file": "File_5",
                "size_bytes": 105 * MB,
                "small": False,
                "inserts": 0,
                "size_after_bytes": 105 * MB,
            },
            {"file": None, "inserts": 120_000, "size_after_bytes": 120 * MB},
            {"file": None, "inserts": 120_000, "size_after_bytes": 120 * MB},
            {"file": None, "inserts": 60_000, "size_after_bytes": 60 * MB},
        ],
        "record_size_bytes": 1000,
    }


def test_the_rest_of_a_batch_is_small_at_the_next_write():
    assert quotas(simulate(70_000, files=[("File_8", 60 * MB)])) == {"File_8": 60_000, None: [10_000]}


@pytest.mark.parametrize(
    ("size", "small"), [(0, True), (100 * MB - 1, True), (100 * MB, False), (120 * MB, False)]
)
def test_a_file_is_small_below_the_limit(size, small):
    assert is_small(size, POLICY) is small
    assert is_small(size, policy(small_file_limit_bytes=0)) is False
    assert is_small(size, policy(small_file_limit_bytes=500 * MB)) is (size < 120 * MB)


def test_limit_zero_turns_filling_off():
    plan = simulate(450_000, sizing=policy(small_file_limit_bytes=0))
    assert quotas(plan) == {None: [120_000, 120_000, 120_000, 90_000]}
    assert {d.reason for d in plan.decisions} == {
        "not filled: filling small files is off (small_file_limit 0)"
    }


def test_files_that_cost_least_per_byte_gained_are_filled_first():
    assert quotas(simulate(30_000)) == {"File_1": 30_000}
    assert quotas(simulate(100_000)) == {"File_1": 80_000, "File_2": 20_000}


def test_a_file_that_is_rewritten_for_updates_is_filled_before_any_other():
    slices = simulate(0).decisions
    plan = plan_inserts(
        slices=[d.slice for d in slices],
        inserts=30_000,
        record_size_bytes=1000,
        policy=POLICY,
        updates={"File_3": 7, "File_4": 1},
    )
    assert quotas(plan) == {"File_3": 30_000}
    decision = plan.decisions[2]
    assert (decision.updates, decision.inserts) == (7, 30_000)
    assert decision.reason == "filled up: it is rewritten for its updates anyway"


def test_a_batch_that_can_fill_all_but_one_leaves_one_small_file():
    """The costliest one that may be left is; without that two would stay small."""
    assert quotas(simulate(70_000)) == {"File_2": 40_000, "File_3": 30_000}
    assert quotas(simulate(75_000)) == {"File_2": 40_000, "File_3": 30_000, "File_1": 5_000}
    assert quotas(simulate(69_999)) == {"File_1": 69_999}


def test_when_the_cheap_order_leaves_one_small_file_it_stands():
    files = [("a", 60 * MB), ("b", 90 * MB)]
    assert quotas(simulate(40_000, files=files)) == {"a": 40_000}


def test_min_fill_keeps_a_nearly_full_file_from_being_rewritten_for_a_handful():
    files = [("a", 40 * MB), ("b", 99 * MB)]
    spare = policy(min_fill=0.25)
    assert quotas(simulate(110_000, files=files, sizing=spare)) == {"a": 80_000, None: [30_000]}
    assert quotas(simulate(9_999, files=files, sizing=spare)) == {None: [9_999]}
    assert quotas(simulate(10_000, files=files, sizing=spare)) == {"a": 10_000}
    assert "min_fill (0.25)" in simulate(9_999, files=files, sizing=spare).decisions[0].reason


def test_min_fill_does_not_matter_to_a_file_that_is_rewritten_anyway():
    slices = [d.slice for d in simulate(0).decisions]
    plan = plan_inserts(
        slices=slices,
        inserts=5,
        record_size_bytes=1000,
        policy=policy(min_fill=0.5),
        updates={"File_3": 1},
    )
    assert quotas(plan) == {"File_3": 5}


def test_excluded_files_are_left_out_and_the_reason_is_kept():
    slices = [d.slice for d in simulate(0).decisions]
    plan = plan_inserts(
        slices=slices,
        inserts=90_000,
        record_size_bytes=1000,
        policy=POLICY,
        updates={"File_1": 3},
        excluded={"File_1": "in a pending clustering"},
    )
    assert quotas(plan) == {"File_2": 40_000, "File_3": 30_000, None: [20_000]}
    assert plan.decisions[0].reason == "small, left out: in a pending clustering"
    assert plan.decisions[0].updates == 3


def test_a_fractional_record_size_is_planned_exactly():
    record = 1000 / 3
    plan = simulate(1_000_000, files=[("a", 20 * MB)], record=record, sizing=policy(insert_split_size=None))
    assert quotas(plan) == {"a": 300_000, None: [360_000, 340_000]}
    assert sizing_json(plan)["record_size_bytes"] == record


@pytest.mark.parametrize(
    ("configured", "record", "rows"),
    [
        (None, 1000, 120_000),
        (None, 999.5, 120_060),
        (50_000, 1000, 50_000),
        (500_000, 1000, 120_000),
        (None, 10**9, 1),
    ],
)
def test_the_split_size_is_the_configured_one_unless_it_exceeds_the_maximum(configured, record, rows):
    assert split_size(policy(insert_split_size=configured), record) == rows


def test_a_record_that_does_not_fit_leaves_the_file_alone():
    plan = simulate(2, files=[("a", 99 * MB)], record=30 * MB, sizing=policy(insert_split_size=None))
    assert quotas(plan) == {None: [2]}
    assert plan.decisions[0].reason == "small, but a whole record does not fit below the maximum"


def test_no_inserts_make_no_file():
    plan = simulate(0)
    assert plan.assignments == ()
    assert all(d.inserts == 0 and d.size_after_bytes == d.slice.size_bytes for d in plan.decisions)
    assert simulate(0, files=[]).decisions == ()


@pytest.mark.parametrize(("inserts", "record"), [(-1, 1000), (1, 0), (1, -5)])
def test_nonsense_is_refused(inserts, record):
    with pytest.raises(ValueError, match="must be positive"):
        simulate(inserts, record=record)


def test_every_decision_has_its_reason():
    reasons = [d.reason for d in simulate(100_000).decisions]
    assert reasons == [
        "filled up: small",
        "filled in part: no rows were left",
        "small, not filled: no rows were left",
        "not small: 130000000 B, the limit is 100000000 B",
        "not small: 105000000 B, the limit is 100000000 B",
    ]
    assert [a.reason for a in simulate(130_000, files=[]).assignments] == [
        "new file, full: insert_split_size rows",
        "new file, for the rest: 10000 of 120000 rows",
    ]


def test_file_ids_of_one_partition_are_kept_apart_from_names():
    slices = [
        FileSlice(partition="d=1", file_id="x-0", instant="1", path="d=1/x-0_0-0-0_1.parquet", size_bytes=5)
    ]
    plan = plan_inserts(slices=slices, inserts=3, record_size_bytes=10, policy=POLICY)
    assert plan.assignments[0].slice is slices[0]
