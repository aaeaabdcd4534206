"""Pauses grow to their longest and stay there, however long somebody waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.timing import Timing


@given(st.integers(0, 10**9))
def test_a_pause_between_two_looks_never_exceeds_the_longest(round_number):
    slept: list[float] = []
    Timing(poll_seconds=0.1, longest_poll_seconds=2.0, sleep=slept.append).poll(round_number)
    assert 0.05 <= slept[0] <= 2.0


@given(st.integers(1, 100))
def test_a_pause_before_a_retry_doubles_up_to_the_longest(attempt):
    slept: list[float] = []
    Timing(backoff_seconds=0.1, longest_backoff_seconds=10.0, sleep=slept.append).pause_before_retry(attempt)
    longest = min(0.1 * 2 ** (attempt - 1), 10.0)
    assert longest / 2 <= slept[0] <= longest
