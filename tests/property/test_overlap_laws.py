from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.layout.clustering.depth import overlap_depth

RANGES = st.lists(
    st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda ends: (min(ends), max(ends))),
    max_size=30,
)


@given(RANGES)
def test_the_depth_is_that_of_the_worst_value(ranges):
    def holds(bound, value):
        return bound is None or bound[0] <= value <= bound[1]

    assert overlap_depth(ranges) == max(sum(holds(bound, value) for bound in ranges) for value in range(31))


@given(RANGES, RANGES)
def test_more_files_are_never_less_deep_and_order_says_nothing(some, more):
    both = overlap_depth(some + more)
    assert max(overlap_depth(some), overlap_depth(more)) <= both <= overlap_depth(some) + overlap_depth(more)
    assert overlap_depth(more + some) == both


def test_files_that_touch_share_a_value():
    assert overlap_depth([(1, 2), (2, 3)]) == 2
    assert overlap_depth([(1, 2), (3, 4)]) == 1
    assert overlap_depth([]) == 0
