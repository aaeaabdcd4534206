"""Requests side by side: what ends them, and properties that make some."""

from __future__ import annotations

import threading
import time

import pytest

from parquetry.runtime.errors import StorageError
from parquetry.runtime.storage.parallel import OnceProperty, map_each


class Listing:
    def __init__(self, meeting: threading.Barrier) -> None:
        self.meeting = meeting
        self.computed = 0

    @OnceProperty
    def files(self) -> int:
        """The files."""
        self.meeting.wait(timeout=20)
        self.computed += 1
        return self.computed


def test_objects_do_not_wait_for_each_other():
    meeting = threading.Barrier(5)
    listings = [Listing(meeting) for _ in range(5)]
    assert map_each(listings, lambda listing: listing.files) == [1] * 5


def test_it_is_computed_once_for_an_object():
    listing = Listing(threading.Barrier(1))
    assert (listing.files, listing.files) == (1, 1)
    assert listing.computed == 1
    assert Listing.files.__doc__ == "The files."


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), StorageError("full")], ids=repr)
def test_after_a_failure_the_others_ask_for_nothing_more(failure):
    asked = []
    failed = threading.Event()

    def of_table(number: int) -> list[int]:
        if number == 0:
            failed.set()
            raise failure
        failed.wait(timeout=20)
        # The caller knows of the failure when all that came before has ended.
        time.sleep(0.2)
        return map_each(range(5), asked.append)

    with pytest.raises(type(failure)):
        map_each(range(100), of_table)
    assert asked == []


def test_a_call_after_one_that_failed_asks_again():
    with pytest.raises(ZeroDivisionError):
        map_each(range(10), lambda number: 1 // number)
    assert map_each(range(10), lambda number: sum(map_each(range(5), lambda one: one * number))) == [
        10 * number for number in range(10)
    ]
