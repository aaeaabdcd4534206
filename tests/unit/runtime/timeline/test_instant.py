from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.instant import (
    NAMES_OF_LAYOUT_1,
    NAMES_OF_LAYOUT_2,
    Action,
    State,
    Timezone,
    format_instant,
    next_instant,
    parse_instant_ms,
)
from tests.support.timelines import instant_of

T = "20260101101010123"


@pytest.fixture
def zone(monkeypatch, request):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        (f"{T}.commit.requested", Action.COMMIT, State.REQUESTED),
        (f"{T}.inflight", Action.COMMIT, State.INFLIGHT),
        (f"{T}.commit", Action.COMMIT, State.COMPLETED),
        (f"{T}.replacecommit.inflight", Action.REPLACECOMMIT, State.INFLIGHT),
        (f"{T}.savepoint", Action.SAVEPOINT, State.COMPLETED),
        (f"{T}.deltacommit", Action.DELTACOMMIT, State.COMPLETED),
    ],
)
def test_state_files_have_the_names_hudi_gives_them(name, action, state):
    instant = instant_of(T, action, state)
    assert instant.file_name == name
    assert NAMES_OF_LAYOUT_1.parse(name) == instant
    assert instant.path == f".hoodie/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        f".{T}.commit.crc",
        f"{T}.commit.requested.tmp",
        f"{T}.inflight.requested",
        f"{T}.commit.completed",
        f"{T}.wonder",
        f"{T}_{T}.commit",
        "archived",
        f"{T}",
        f"{T}.commit.0b1c",
    ],
)
def test_other_files_of_the_timeline_folder_are_no_instants(name):
    assert NAMES_OF_LAYOUT_1.parse(name) is None


@pytest.mark.parametrize("action", ["commit", "savepoint", "replacecommit"])
def test_a_completed_instant_of_layout_2_has_a_completion_time(action):
    completed = NAMES_OF_LAYOUT_2.parse(f"{T}_{T}.{action}")
    assert (completed.time, completed.completed_at, completed.is_completed) == (T, T, True)
    with pytest.raises(CorruptTableError, match=rf"timeline/{T}.{action}: .*has no completion time"):
        NAMES_OF_LAYOUT_2.parse(f"{T}.{action}")


@given(
    ms=st.integers(min_value=0, max_value=253_402_300_799_999),
    action=st.sampled_from(Action),
    state=st.sampled_from(State),
)
def test_a_moment_survives_its_instant_in_utc(ms, action, state):
    text = format_instant(ms, Timezone.UTC)
    assert len(text) == 17
    assert parse_instant_ms(text, Timezone.UTC) == ms
    instant = instant_of(text, action, state)
    assert NAMES_OF_LAYOUT_1.parse(instant.file_name) == instant


@given(one=st.integers(0, 4_000_000_000_000), other=st.integers(0, 4_000_000_000_000))
def test_instants_in_utc_are_ordered_as_moments(one, other):
    assert (format_instant(one, Timezone.UTC) < format_instant(other, Timezone.UTC)) == (one < other)


@pytest.mark.parametrize("zone", ["America/Los_Angeles"], indirect=True)
def test_local_instants_are_in_the_zone_of_the_machine(zone):
    noon_utc = parse_instant_ms("20260701120000000", Timezone.UTC)
    assert format_instant(noon_utc, Timezone.LOCAL) == "20260701050000000"
    assert parse_instant_ms("20260701050000000", Timezone.LOCAL) == noon_utc


@pytest.mark.parametrize("zone", ["America/Los_Angeles"], indirect=True)
def test_a_local_instant_in_the_hour_that_does_not_exist_still_has_a_successor(zone):
    assert next_instant("20260308023000999", 0, Timezone.LOCAL) == "20260308023001000"


def test_fourteen_digits_mean_the_end_of_the_second():
    assert parse_instant_ms("20260101101010", Timezone.UTC) == parse_instant_ms(
        "20260101101010999", Timezone.UTC
    )


def test_longer_instants_of_metadata_tables_are_read_to_the_millisecond():
    assert parse_instant_ms(T + "001", Timezone.UTC) == parse_instant_ms(T, Timezone.UTC)


@pytest.mark.parametrize(
    "text", ["", "1", "00000000000002", "20261301000000000", "2026010110101012x", "٢٠٢٦٠١٠١١٠١٠١٠١٢٣"]
)
def test_text_that_is_no_time_is_named(text):
    with pytest.raises(CorruptTableError, match=r"not a time.*move its files out"):
        parse_instant_ms(text, Timezone.UTC)


@given(after=st.integers(0, 4_000_000_000_000), now=st.integers(0, 4_000_000_000_000))
def test_the_next_instant_is_greater_and_not_needlessly_ahead(after, now):
    last = format_instant(after, Timezone.UTC)
    following = next_instant(last, now, Timezone.UTC)
    assert following > last
    assert parse_instant_ms(following, Timezone.UTC) == max(now, after + 1)


def test_the_first_instant_is_now():
    assert next_instant(None, 0, Timezone.UTC) == "19700101000000000"
