"""Ranges of costs hold as often as they say: changes of tables drawn at random, predicted and then done."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from tests.support.costed_changes import CostedChange, costed_change


def changes(folder, *, first: int, wanted: int) -> list[CostedChange]:
    """The first so many changes from a number on that rewrite something; every second one with a sample."""
    found: list[CostedChange] = []
    for seed in count(first):
        change = costed_change(seed, folder / str(seed), sampled=len(found) % 2 == 1)
        if change.read_bytes:
            found.append(change)
        if len(found) == wanted:
            return found
    raise AssertionError("there is always a next one")


def test_what_is_rewritten_is_known_and_what_is_written_is_near(tmp_path):
    for change in changes(tmp_path, first=1, wanted=2):
        assert change.predicted_bytes == change.read_bytes
        (written,) = [held for held in change.held if held.what == "bytes"]
        assert 0.5 * written.predicted.low < written.measured < 2 * written.predicted.high


@pytest.mark.long
def test_of_60_changes_70_to_90_percent_lie_within(tmp_path):
    """The seeds are not those that the priors were measured with."""
    found = changes(tmp_path, first=1, wanted=60)
    within, measured = Counter[str](), Counter[str]()
    for number, change in enumerate(found, start=1):
        assert change.predicted_bytes == change.read_bytes
        for held in change.held:
            within[held.what] += held.is_within
            measured[held.what] += 1
        if number in (20, 60):
            print(f"{number} changes: {dict(within)} of {dict(measured)}")
    bytes_within, bytes_measured = within["bytes"] + within["scans"], measured["bytes"] + measured["scans"]
    assert 0.7 <= bytes_within / bytes_measured <= 0.9
    shares = {what: within[what] / measured[what] for what in measured}
    assert 0.7 <= shares["bytes"] <= 0.9, shares
    assert 0.7 <= shares["scans"] <= 0.9, shares
    assert shares["requests"] >= 0.7, shares
    # How long a task takes depends on what else the machine does.
    assert shares["time"] >= 0.5, shares
