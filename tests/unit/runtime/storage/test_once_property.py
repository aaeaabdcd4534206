"""A property that makes requests is computed once for an object, and for two objects at the same time."""

from __future__ import annotations

import threading

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
