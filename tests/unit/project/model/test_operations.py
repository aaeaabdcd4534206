"""Windows by the clock of a time zone, also when clocks are changed, and the rules of a target."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.project.model.operations import MAX_DELAY_SECONDS, Operations, ServiceWindow

HOUR = 3600


def at(text):
    """The seconds since 1970 of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def span(window, now):
    return tuple(
        datetime.fromtimestamp(one, UTC).isoformat(" ", "minutes").removesuffix("+00:00")
        for one in ServiceWindow.parse(window).next_span(at(now))
    )


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        ("2026-01-15 12:00", "2026-01-16 00:00", "2026-01-16 04:00"),
        ("2026-01-15 23:59", "2026-01-16 00:00", "2026-01-16 04:00"),
        ("2026-01-16 00:00", "2026-01-16 00:00", "2026-01-16 04:00"),
        ("2026-01-16 03:59", "2026-01-16 00:00", "2026-01-16 04:00"),
        ("2026-01-16 04:00", "2026-01-17 00:00", "2026-01-17 04:00"),
        ("2026-07-16 12:00", "2026-07-16 23:00", "2026-07-17 03:00"),
    ],
)
def test_a_window_is_the_open_one_or_else_the_next(now, start, end):
    assert span("01:00-05:00 Europe/Rome", now) == (start, end)


@pytest.mark.parametrize("now", ["2026-01-15 21:30", "2026-01-16 02:00"])
def test_a_window_may_end_on_the_next_day(now):
    assert span("22:00-04:00 Europe/Rome", now) == ("2026-01-15 21:00", "2026-01-16 03:00")


@pytest.mark.parametrize(
    ("window", "now", "start", "end"),
    [
        # On 2026-03-29 at 01:00 UTC the clocks of Rome go from 02:00 to 03:00.
        ("01:00-05:00 Europe/Rome", "2026-03-28 22:00", "2026-03-29 00:00", "2026-03-29 03:00"),
        ("02:30-05:00 Europe/Rome", "2026-03-28 22:00", "2026-03-29 01:00", "2026-03-29 03:00"),
        ("02:30-03:15 Europe/Rome", "2026-03-28 22:00", "2026-03-29 01:00", "2026-03-29 01:15"),
        ("01:00-02:30 Europe/Rome", "2026-03-28 22:00", "2026-03-29 00:00", "2026-03-29 01:30"),
        ("02:15-02:45 Europe/Rome", "2026-03-28 22:00", "2026-03-29 01:00", "2026-03-29 01:45"),
        # On 2026-10-25 at 01:00 UTC they go from 03:00 to 02:00.
        ("01:00-05:00 Europe/Rome", "2026-10-24 22:00", "2026-10-24 23:00", "2026-10-25 04:00"),
        ("02:30-05:00 Europe/Rome", "2026-10-24 22:00", "2026-10-25 00:30", "2026-10-25 04:00"),
        ("01:00-02:30 Europe/Rome", "2026-10-24 22:00", "2026-10-24 23:00", "2026-10-25 01:30"),
        # A window that the clocks skip does not open.
        ("02:00-03:00 Europe/Rome", "2026-03-28 22:00", "2026-03-30 00:00", "2026-03-30 01:00"),
        # The window of the day before is still open, and ends 24 hours earlier.
        ("02:30-02:15 Europe/Rome", "2026-10-25 01:10", "2026-10-25 00:30", "2026-10-26 01:15"),
        # Lord Howe Island changes by half an hour, at 15:30 UTC from 02:00 to 02:30.
        ("02:15-04:00 Australia/Lord_Howe", "2026-10-03 15:00", "2026-10-03 15:30", "2026-10-03 17:00"),
    ],
)
def test_a_window_follows_the_clocks_when_they_change(window, now, start, end):
    assert span(window, now) == (start, end)


ZONES = st.sampled_from(["Europe/Rome", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])
CLOCK = st.times().map(lambda time: time.replace(second=0, microsecond=0))


@given(ZONES, CLOCK, CLOCK, st.integers(1_700_000_000, 1_900_000_000))
def test_windows_are_never_empty_and_the_next_one_opens_within_two_days(zone, first, last, now):
    if first == last:
        return
    window = ServiceWindow.parse(f"{first:%H:%M}-{last:%H:%M} {zone}")
    start, end = window.next_span(now)
    assert start < end
    assert end > now
    assert start - now <= 49 * HOUR
    later = window.next_span(end)
    assert later[0] >= start
    assert later[1] > end


@pytest.mark.parametrize(
    "text", ["01:00-05:00", "25:00-05:00 UTC", "01:00-05:00 Nowhere", "01:00-01:00 UTC", "01:00-05:00 ../UTC"]
)
def test_windows_that_no_clock_knows_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        ServiceWindow.parse(text)


def test_rules_have_units_and_defaults():
    rules = Operations.of(
        {
            "window": "01:00-05:00 Europe/Rome",
            "budget": {"rewrite": "2TiB", "hours": 3},
            "cooldown": "12h",
            "priorities": {"gold": 4, "slow": 0.5},
        }
    )
    assert str(rules.window) == "01:00-05:00 Europe/Rome"
    assert (rules.rewrite_bytes, rules.seconds) == (2 << 40, 3 * HOUR)
    assert (rules.cooldown_seconds, rules.max_delay_seconds) == (12 * HOUR, MAX_DELAY_SECONDS)
    assert [rules.priority(tags) for tags in ([], ["gold"], ["gold", "slow"], ["other"])] == [1, 4, 2, 1]
