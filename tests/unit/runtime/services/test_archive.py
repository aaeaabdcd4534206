"""Which instants may leave the timeline: laws, and the rules one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.services.archive import Obstacles, archivable_writes, writes_to_keep

TIMES = [f"{n:03}" for n in range(100, 120)]
GROUP = ("p", "f1")

obstacles = st.builds(
    Obstacles,
    unsettled=st.sets(st.sampled_from(TIMES), max_size=2),
    savepoint=st.none() | st.sampled_from(TIMES),
    replaced=st.dictionaries(st.sampled_from(TIMES), st.just(frozenset({GROUP})), max_size=3),
    on_disk=st.sampled_from([frozenset(), frozenset({GROUP})]),
    cleaned_before=st.none() | st.sampled_from(TIMES),
)


@given(st.sets(st.sampled_from(TIMES)).map(sorted), st.integers(1, 8), obstacles)
def test_what_leaves_is_old_and_nothing_unsound_becomes_trusted(completed, keep, found) -> None:
    leaving = list(archivable_writes(completed, keep=keep, obstacles=found))
    assert leaving == completed[: len(leaving)]
    assert not leaving or len(completed) - len(leaving) >= keep
    first = completed[len(leaving)] if leaving else None
    for time in found.unsettled:
        assert not leaving or first < time
    for time in leaving:
        assert found.savepoint is None or time < found.savepoint
        if time in found.replaced:
            assert found.cleaned_before is not None
            assert time < found.cleaned_before
            assert not found.on_disk


@given(st.sets(st.sampled_from(TIMES)).map(sorted), st.integers(1, 8))
def test_without_obstacles_exactly_the_wanted_number_stays(completed, keep) -> None:
    leaving = archivable_writes(completed, keep=keep, obstacles=Obstacles())
    assert len(leaving) == max(len(completed) - keep, 0)


@pytest.mark.parametrize(
    ("found", "leaving"),
    [
        (Obstacles(), ["1", "2", "3", "5"]),
        # A file of 4 must not become older than the timeline: 3 stays.
        (Obstacles(unsettled=["4"]), ["1", "2"]),
        (Obstacles(unsettled=["0"]), []),
        (Obstacles(savepoint="3"), ["1", "2"]),
        (Obstacles(replaced={"2": frozenset({GROUP})}), ["1"]),
        (Obstacles(replaced={"2": frozenset({GROUP})}, cleaned_before="2"), ["1"]),
        (Obstacles(replaced={"2": frozenset({GROUP})}, cleaned_before="3"), ["1", "2", "3", "5"]),
        (
            Obstacles(replaced={"2": frozenset({GROUP})}, cleaned_before="3", on_disk=frozenset({GROUP})),
            ["1"],
        ),
    ],
)
def test_the_first_obstacle_ends_it(found, leaving) -> None:
    assert list(archivable_writes(["1", "2", "3", "5", "6", "7"], keep=2, obstacles=found)) == leaving


def test_clean_always_finds_what_it_needs() -> None:
    assert writes_to_keep(["1", "2", "3"], configured=1, earliest_retained="2") == 4
    assert writes_to_keep(["1", "2", "3"], configured=9, earliest_retained="2") == 9
    assert writes_to_keep(["1", "2", "3"], configured=0, earliest_retained=None) == 1
