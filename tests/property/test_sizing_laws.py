"""What holds for every sizing plan."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.sizing import full_file_bytes, is_small, plan_inserts
from parquetry.runtime.spec.sizing import SizingPolicy

MIB = 1024 * 1024


@st.composite
def policies(draw):
    maximum = draw(st.integers(1 * MIB, 256 * MIB))
    return SizingPolicy(
        max_file_size_bytes=maximum,
        small_file_limit_bytes=draw(st.integers(0, maximum)),
        insert_split_size=draw(st.none() | st.integers(1_000, 1_000_000)),
        min_fill=draw(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0])),
    )


@st.composite
def cases(draw):
    policy = draw(policies())
    largest = policy.max_file_size_bytes * 5 // 4
    slices = [
        FileSlice(partition="", file_id=f"f{number}", instant="1", path=f"f{number}", size_bytes=size)
        for number, size in enumerate(draw(st.lists(st.integers(0, largest), max_size=12)))
    ]
    ids = [s.file_id for s in slices]
    chosen = st.sets(st.sampled_from(ids)) if ids else st.just(set())
    return {
        "slices": slices,
        "inserts": draw(st.integers(0, 2_000_000)),
        "record_size_bytes": draw(st.floats(20, 5_000)),
        "policy": policy,
        "updates": dict.fromkeys(draw(chosen), 5),
        "excluded": dict.fromkeys(draw(chosen), "busy"),
    }


def quotas(plan):
    return {a.slice.file_id: a.inserts for a in plan.assignments if a.slice}


@given(cases())
def test_quotas_sum_to_the_inserts_and_each_is_positive(case):
    plan = plan_inserts(**case)
    assert plan.inserts == case["inserts"]
    assert all(a.inserts > 0 for a in plan.assignments)
    assert sum(d.inserts for d in plan.decisions) == sum(quotas(plan).values())


@given(cases())
def test_no_file_is_planned_above_the_ceiling(case):
    maximum = case["policy"].max_file_size_bytes
    for assignment in plan_inserts(**case).assignments:
        assert assignment.size_after_bytes <= maximum
        before = assignment.slice.size_bytes if assignment.slice else 0
        assert before + assignment.inserts * case["record_size_bytes"] <= maximum * (1 + 1e-12)


@given(cases())
def test_only_small_files_that_are_not_excluded_get_rows(case):
    plan = plan_inserts(**case)
    small = {s.file_id for s in case["slices"] if is_small(s.size_bytes, case["policy"])}
    assert quotas(plan).keys() <= small - case["excluded"].keys()
    assert all(d.reason for d in plan.decisions)


@given(cases(), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_the_files(case, shuffler: random.Random):
    plan = plan_inserts(**case)
    shuffled = [*case["slices"]]
    shuffler.shuffle(shuffled)
    other = plan_inserts(**{**case, "slices": shuffled})
    assert other.assignments == plan.assignments
    assert Counter(other.decisions) == Counter(plan.decisions)
    assert [d.slice for d in other.decisions] == shuffled


@given(cases(), st.integers(0, 500_000))
def test_more_rows_never_mean_fewer_in_small_files_or_fewer_new_files(case, more):
    case["policy"] = SizingPolicy(
        max_file_size_bytes=case["policy"].max_file_size_bytes,
        small_file_limit_bytes=case["policy"].small_file_limit_bytes,
        insert_split_size=case["policy"].insert_split_size,
    )
    plan = plan_inserts(**case)
    larger = plan_inserts(**{**case, "inserts": case["inserts"] + more})
    assert sum(quotas(larger).values()) >= sum(quotas(plan).values())
    assert len(larger.new_files) >= len(plan.new_files)


@given(cases())
def test_small_files_are_used_up_before_a_new_file_is_made(case):
    case["policy"] = SizingPolicy(
        max_file_size_bytes=case["policy"].max_file_size_bytes,
        small_file_limit_bytes=case["policy"].small_file_limit_bytes,
    )
    plan = plan_inserts(**case)
    if plan.new_files:
        record = case["record_size_bytes"]
        for decision in plan.decisions:
            if decision.small and decision.slice.file_id not in case["excluded"]:
                assert full_file_bytes(case["policy"]) - decision.size_after_bytes <= record + 1


@given(cases())
def test_all_new_files_but_the_last_are_full(case):
    plan = plan_inserts(**case)
    assert {a.inserts for a in plan.new_files[:-1]} <= {plan.split_size_rows}
    assert all(a.inserts <= plan.split_size_rows for a in plan.new_files)


@given(cases())
def test_a_batch_that_can_fill_the_others_leaves_at_most_one_small_file(case):
    maximum, limit = case["policy"].max_file_size_bytes, case["policy"].small_file_limit_bytes
    record = case["record_size_bytes"]
    full = full_file_bytes(case["policy"])
    # A record must fit between the limit and a full file, else that may still be small.
    limit = min(limit, int(full - record) - 2)
    case = {
        **case,
        "excluded": {},
        "policy": SizingPolicy(max_file_size_bytes=maximum, small_file_limit_bytes=limit),
    }
    plan = plan_inserts(**case)
    rooms = [(full - d.slice.size_bytes) / record for d in plan.decisions if d.small]
    if case["inserts"] >= sum(rooms) - max(rooms, default=0):
        after = [d.size_after_bytes for d in plan.decisions] + [a.size_after_bytes for a in plan.new_files]
        assert sum(is_small(size, case["policy"]) for size in after) <= 1


@given(cases())
def test_what_min_fill_promises(case):
    plan = plan_inserts(**case)
    for assignment in plan.assignments:
        if assignment.slice and assignment.slice.file_id not in case["updates"]:
            gained = assignment.inserts * case["record_size_bytes"]
            assert gained >= case["policy"].min_fill * assignment.slice.size_bytes * (1 - 1e-12)
