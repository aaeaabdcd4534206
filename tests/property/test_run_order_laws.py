"""Laws of the order of a run over many tables: it keeps its limits and has reasons, and nothing waits forever."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from parquetry.compiler.evidence.money import PlanPrices
from parquetry.compiler.evidence.run_order import (
    ASSUMED_BYTES_PER_SECOND,
    DeferralReason,
    DueRewrite,
    RateBasis,
    RunLimits,
    rank_rewrites,
    usual_throughput,
)
from parquetry.project.model.prices import Prices
from parquetry.runtime.layout.clustering.model import Debt, PlannedGroup
from parquetry.runtime.layout.clustering.run_budget import limited_to_budget
from tests.support.clustering_model import file
from tests.support.effort import examples

GROUPS = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 5)), min_size=1, max_size=8)
OPTIONAL_SECONDS = st.none() | st.floats(0, 100)


@st.composite
def due_rewrites(draw):
    """Tables with groups of up to 300 bytes, with and without gain, wait and throughput."""
    return [
        DueRewrite(
            table=f"t{number}",
            groups=tuple(draw(GROUPS)),
            max_groups=draw(st.integers(1, 6)),
            gain_bytes=draw(st.sampled_from([0.0, 10.0, 1e3, 1e6])),
            gain_requests=draw(st.sampled_from([0.0, 10.0, 1e3])),
            priority=draw(st.sampled_from([0.5, 1.0, 4.0])),
            delay_seconds=draw(st.floats(0, 20)),
            since_clustering_seconds=draw(OPTIONAL_SECONDS),
            has_failed=draw(st.booleans()),
            bytes_per_second=draw(st.none() | st.floats(1, 100)),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


PRICES = PlanPrices.of(Prices.of({"currency": "EUR", "scanned_tib": 5, "read_requests_million": 0.4}))
LIMITS = st.builds(
    RunLimits,
    rewrite_bytes=st.integers(0, 1500),
    spent_bytes=st.integers(0, 200),
    seconds=OPTIONAL_SECONDS,
    is_open=st.booleans(),
    parallel=st.integers(1, 3),
    cooldown_seconds=st.floats(0, 20),
    max_delay_seconds=st.floats(5, 30),
    usual_bytes_per_second=st.none() | st.floats(1, 100),
    prices=st.sampled_from([None, PRICES]),
)


@given(due_rewrites(), LIMITS)
@settings(max_examples=examples(200))
def test_each_table_is_ranked_once_and_what_is_not_taken_has_a_reason(due, limits):
    ranked = rank_rewrites(due, limits)
    by_name = {one.table: one for one in due}
    assert sorted(one.table for one in ranked) == sorted(by_name)
    for one in ranked:
        table = by_name[one.table]
        assert one.taken_groups + one.deferred_groups == len(table.groups)
        assert one.taken_bytes + one.deferred_bytes == table.size_bytes
        assert one.taken_groups <= table.max_groups
        assert (one.reason is None) == (one.deferred_groups == 0)
        if not limits.is_open:
            assert (one.taken_groups, one.reason) == (0, DeferralReason.WINDOW)


@given(due_rewrites(), LIMITS)
@settings(max_examples=examples(200))
def test_bytes_and_time_are_exceeded_by_one_group_at_most(due, limits):
    ranked = rank_rewrites(due, limits)
    taken = [one for one in ranked if one.taken_groups]
    is_single = len(taken) == 1 and taken[0].taken_groups == 1
    used = limits.spent_bytes + sum(one.taken_bytes for one in taken)
    assert not taken or used <= limits.rewrite_bytes or (is_single and not limits.spent_bytes)
    if limits.seconds is not None:
        seconds = sum(one.seconds for one in taken)
        first = max((size / taken[0].bytes_per_second for size, _ in due_of(due, taken)), default=0)
        assert all(one.seconds <= limits.seconds + 1e-6 for one in taken[1:])
        assert seconds <= limits.parallel * limits.seconds + 1e-6 + (0 if limits.spent_bytes else first)


def due_of(due, taken):
    return next(one.groups for one in due if one.table == taken[0].table) if taken else ()


@given(due_rewrites(), LIMITS)
@settings(max_examples=examples(200))
def test_overdue_tables_come_first_and_the_others_by_gain(due, limits):
    ranked = rank_rewrites(due, limits)
    by_name = {one.table: one for one in due}
    overdue = [one for one in ranked if one.is_overdue]
    others = [by_name[one.table] for one in ranked if not one.is_overdue]
    assert list(ranked[: len(overdue)]) == overdue
    assert [one.delay_seconds for one in overdue] == sorted(
        (one.delay_seconds for one in overdue), reverse=True
    )
    places = [(one.has_failed, -one.gain_per_byte(limits.prices)) for one in others]
    assert places == sorted(places)


@given(due_rewrites(), LIMITS)
@settings(max_examples=examples(100))
def test_the_order_does_not_depend_on_the_order_of_the_tables(due, limits):
    assert rank_rewrites(due, limits) == rank_rewrites(due[::-1], limits)


def debt_of(groups):
    """A debt of groups, each given by its bytes and its number of files, of which all but one are empty."""
    return Debt(
        groups=tuple(
            PlannedGroup(
                partition="",
                files=(file("f", size), *[file("f", 0)] * (files - 1)),
                output_files=1,
                benefit=1.0,
                reasons={},
            )
            for size, files in groups
        )
    )


@given(due_rewrites(), LIMITS)
@settings(max_examples=examples(200))
def test_jobs_rewrite_what_the_order_takes_of_their_tables_and_first_of_all_the_oldest_group(due, limits):
    by_name = {one.table: one for one in due}
    for one in rank_rewrites(due, limits):
        table = by_name[one.table]
        debt = debt_of(table.groups)
        job = limited_to_budget(debt, one.budget(limits.rewrite_bytes), max_groups=table.max_groups)
        if one.taken_groups:
            assert (len(job.groups), job.rewritten_bytes) == (one.taken_groups, one.taken_bytes)
            assert job.groups[0] is debt.groups[0]


def test_an_overdue_table_comes_first_with_its_oldest_group_and_the_others_compete_by_gain():
    overdue = DueRewrite(table="overdue", groups=((100, 1),) * 3, max_groups=3, delay_seconds=9)
    gainful = replace(overdue, table="gainful", gain_bytes=1e6, delay_seconds=1)
    older = replace(overdue, table="older", groups=((250, 1), (50, 1)), delay_seconds=10)

    def taken(*due, budget):
        limits = RunLimits(rewrite_bytes=budget, max_delay_seconds=8)
        return [(one.table, one.taken_bytes) for one in rank_rewrites(due, limits)]

    assert taken(overdue, gainful, budget=400) == [("overdue", 100), ("gainful", 300)]
    assert taken(overdue, gainful, budget=300) == [("overdue", 100), ("gainful", 200)]
    assert taken(overdue, gainful, budget=600) == [("overdue", 300), ("gainful", 300)]
    # Nothing is taken of a table whose oldest group does not fit, so that its wait does not begin again.
    assert taken(replace(older, delay_seconds=1), gainful, budget=400) == [("gainful", 300), ("older", 0)]
    assert taken(older, gainful, budget=400) == [("older", 300), ("gainful", 100)]


def test_prices_make_the_gain_an_amount_of_bytes_and_requests():
    scans = DueRewrite(table="scans", groups=((100, 1),), max_groups=3, gain_bytes=2**30, gain_requests=10)
    opens = replace(scans, table="opens", gain_bytes=2**29, gain_requests=1e6)
    by_bytes = rank_rewrites([scans, opens], RunLimits())
    assert [(one.table, one.gain_micros) for one in by_bytes] == [("scans", None), ("opens", None)]
    by_money = rank_rewrites([scans, opens], RunLimits(prices=PRICES))
    # 5 EUR / 2048 + 0.40 EUR, and 5 EUR / 1024 + 10 * 0.40 EUR / 1000000
    assert [(one.table, one.gain_micros) for one in by_money] == [("opens", 402441), ("scans", 4886)]
    weighed = rank_rewrites([replace(scans, priority=100), opens], RunLimits(prices=PRICES))
    assert [one.table for one in weighed] == ["scans", "opens"]


SLOW, UNKNOWN, FAST = (
    DueRewrite(table=name, groups=((size, 1),) * 8, max_groups=8, gain_bytes=gain, bytes_per_second=rate)
    for name, size, gain, rate in (("slow", 1, 800, 1.0), ("unknown", 10, 800, None), ("fast", 1, 1, 9.0))
)


@given(due_rewrites(), LIMITS)
@example([SLOW, UNKNOWN, FAST], RunLimits(seconds=17))  # without the slow one, the median would be 9, not 5
@settings(max_examples=examples(100))
def test_a_run_that_ranks_again_after_each_table_takes_the_same(due, limits):
    """With the predicted throughput, a run takes what the plan said: it ranks the rest by what is left."""
    limits = replace(limits, parallel=1, usual_bytes_per_second=usual_throughput(due))
    planned = [(one.table, one.taken_bytes) for one in rank_rewrites(due, limits) if one.taken_groups]
    left, ran = due, []
    while True:
        chosen = next((one for one in rank_rewrites(left, limits) if one.taken_groups), None)
        if chosen is None:
            break
        ran.append((chosen.table, chosen.taken_bytes))
        left = [one for one in left if one.table != chosen.table]
        seconds = None if limits.seconds is None else max(limits.seconds - chosen.seconds, 0)
        limits = replace(limits, spent_bytes=limits.spent_bytes + chosen.taken_bytes, seconds=seconds)
    assert ran == planned


NIGHT = 86_400.0


def limits_of_a_night(budget: int, seconds: float | None, delay_nights: int) -> RunLimits:
    """The limits of a run whose cooldown is half a night."""
    return RunLimits(
        rewrite_bytes=budget,
        seconds=seconds,
        cooldown_seconds=NIGHT / 2,
        max_delay_seconds=delay_nights * NIGHT,
    )


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
    st.integers(1, 500),
    st.floats(1, 40),
    st.integers(1, 5),
    st.sets(st.integers(1, 7)),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(100))
def test_nothing_starves(sizes, budget, seconds, delay_nights, failing, random):
    """Every table is begun within ``max_delay`` and as many nights as there are tables.

    The others have new debt of a better gain every night, and each may need more than a night's budget. Some
    of them fail each time, and only after they have used what was left of the night.
    """
    begun = dict.fromkeys(range(len(sizes)), 0)
    for night in range(1, delay_nights + 4 * len(sizes) + 2):
        due = [
            DueRewrite(
                table=f"t{number}",
                groups=tuple((random.randint(1, size), 1) for _ in range(random.randint(1, 4))),
                max_groups=random.randint(1, 3),
                gain_bytes=0 if number == 0 else random.choice([1.0, 1e9]),
                delay_seconds=(night - begun[number]) * NIGHT,
                since_clustering_seconds=None if number in failing else (night - begun[number]) * NIGHT,
                has_failed=number in failing and bool(begun[number]),
                bytes_per_second=10.0,
            )
            for number, size in enumerate(sizes)
        ]
        limits = limits_of_a_night(budget, seconds, delay_nights)
        for one in rank_rewrites(due, limits):
            if one.taken_groups:
                begun[int(one.table[1:])] = night
                if int(one.table[1:]) in failing:
                    break
        assert max(night - last for last in begun.values()) <= delay_nights + len(sizes)


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=5),
    st.integers(1, 500),
    st.floats(1, 40),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
@settings(max_examples=examples(100))
def test_no_group_waits_forever(sizes, budget, seconds, delay_nights, random):
    """Each group is rewritten when its table and those before it had their turns, however much arrives.

    A turn takes the oldest group of a table, and comes within ``max_delay`` and as many nights as there are
    tables. The other groups of a table are ordered by a benefit, and the first table gains least.
    """
    turn = delay_nights + len(sizes)
    waiting, served = [[] for _ in sizes], [0] * len(sizes)
    for night in range(1, 5 * turn):
        for groups, size in zip(waiting, sizes, strict=True):
            for _ in range(random.randint(0, 2)):
                due_by = night + (len(groups) + 1) * turn
                groups.append((night, due_by, random.random(), random.randint(1, size)))
            oldest = min(groups, default=None)
            groups.sort(key=lambda group, oldest=oldest: (group is not oldest, group[2]))
        due = [
            DueRewrite(
                table=f"t{number}",
                groups=tuple((size, 1) for *_, size in groups),
                max_groups=random.randint(1, 3),
                gain_bytes=0 if number == 0 else random.choice([1.0, 1e9]),
                delay_seconds=(night - max(groups[0][0], served[number])) * NIGHT,
                since_clustering_seconds=(night - served[number]) * NIGHT,
                bytes_per_second=10.0,
            )
            for number, groups in enumerate(waiting)
            if groups
        ]
        limits = limits_of_a_night(budget, seconds, delay_nights)
        for one in rank_rewrites(due, limits):
            number = int(one.table[1:])
            if one.taken_groups:
                served[number] = night
                waiting[number] = left_of(waiting[number], one, budget)
        assert all(due_by > night for groups in waiting for _, due_by, *_ in groups)


def left_of(groups, ranked, budget):
    """The groups that are left after a job, which are those that it defers."""
    debt = debt_of([(size, 1) for *_, size in groups])
    job = limited_to_budget(debt, ranked.budget(budget), max_groups=ranked.taken_groups)
    done = {id(group) for group in job.groups}
    return [mine for mine, group in zip(groups, debt.groups, strict=True) if id(group) not in done]


def test_the_first_throughput_is_assumed_and_then_that_of_other_tables():
    new = DueRewrite(table="new", groups=((100, 1),), max_groups=3)
    known = [replace(new, table=f"known{rate}", bytes_per_second=rate) for rate in (1.0, 5.0, 7.0)]
    (alone,) = rank_rewrites([new], RunLimits())
    assert (alone.bytes_per_second, alone.rate_basis) == (ASSUMED_BYTES_PER_SECOND, RateBasis.ASSUMED)
    limits = RunLimits(usual_bytes_per_second=usual_throughput([new, *known]))
    found = {one.table: one for one in rank_rewrites([new, *known], limits)}
    assert (found["new"].bytes_per_second, found["new"].rate_basis) == (5.0, RateBasis.TARGET)
    assert (found["known7.0"].bytes_per_second, found["known7.0"].rate_basis) == (7.0, RateBasis.TABLE)


def test_each_reason_is_given():
    base = DueRewrite(table="a", groups=((100, 1), (100, 1)), max_groups=3, bytes_per_second=10.0)

    def reason(limits, **changes):
        return rank_rewrites([replace(base, **changes)], limits)[0].reason

    assert reason(RunLimits(is_open=False)) is DeferralReason.WINDOW
    assert reason(RunLimits(cooldown_seconds=5), since_clustering_seconds=4.0) is DeferralReason.COOLDOWN
    assert reason(RunLimits(rewrite_bytes=150)) is DeferralReason.BUDGET
    assert reason(RunLimits(seconds=15)) is DeferralReason.TIME
    assert reason(RunLimits(), max_groups=1) is DeferralReason.GROUPS
    assert reason(RunLimits(rewrite_bytes=200, seconds=20, cooldown_seconds=5)) is None
