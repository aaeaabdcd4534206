"""Objects of a bucket as files: the same bytes as the object, by few requests, in bounded memory."""

from __future__ import annotations

import io
from concurrent.futures import Future
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.storage import ranged_input
from parquetry.runtime.storage.ranged_input import RangedFile, RangedInput

LIMITS = {
    "TAIL_BYTES": 16,
    "GAP_BYTES": 8,
    "REQUEST_BYTES": 32,
    "KEPT_BYTES": 64,
    "_AHEAD_BYTES": 32,
    "_LEAST_BYTES": 4,
}


@contextmanager
def small_limits():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LIMITS.items():
            patch.setattr(ranged_input, name, value)
        yield


class Served:
    """An object, what was requested of it, and the most bytes that were held of it at once."""

    def __init__(self, size: int, *, fails: int = 0) -> None:
        self.content = bytes(n * n % 251 for n in range(size))
        self.requests: list[range] = []
        self.fails = fails
        tail = self.content[-LIMITS["TAIL_BYTES"] :]
        self.file = RangedFile(tail, size, self._fetch)

    @property
    def held(self) -> int:
        answers = self.file._requested.values()
        return sum(len(answer.result()) for answer in answers)

    def _fetch(self, start: int, stop: int) -> Future[bytes]:
        assert 0 <= start < stop <= len(self.content)
        self.requests.append(range(start, stop))
        answer: Future[bytes] = Future()
        if self.fails:
            self.fails -= 1
            answer.set_exception(ConnectionError("lost"))
        else:
            answer.set_result(self.content[start:stop])
        return answer


numbers = st.integers(min_value=-(2**63), max_value=2**63 - 1) | st.integers(-20, 600)
steps = st.lists(
    st.tuples(st.just("announce"), st.lists(st.builds(range, numbers, numbers), max_size=8))
    | st.tuples(st.just("read"), st.tuples(st.integers(0, 600), st.integers(-1, 200))),
    max_size=20,
)


@given(size=st.integers(0, 500), steps=steps)
def test_any_reads_after_any_announcements_return_the_bytes_of_the_object(size, steps):
    with small_limits():
        served = Served(size)
        model = io.BytesIO(served.content)
        for step, given_ in steps:
            if step == "announce":
                served.file.announce(given_)
                continue
            at, count = given_
            assert served.file.seek(at) == model.seek(at)
            assert served.file.read(count) == model.read(count)
            # What was read may span five requests; kept before it and ahead of it are two and one.
            assert served.held <= LIMITS["KEPT_BYTES"] + LIMITS["_AHEAD_BYTES"] + max(count, 0) + 2 * 32
            assert served.file.tell() == at + len(served.content[at:][: count if count >= 0 else None])


@given(size=st.integers(17, 2000), count=st.integers(1, 40))
def test_an_announced_object_is_read_once_by_requests_of_half_the_largest_at_least(size, count):
    with small_limits():
        served = Served(size)
        served.file.announce([range(size)])
        most = 0
        while served.file.read(count):
            most = max(most, served.held)
        before_tail = size - LIMITS["TAIL_BYTES"]
        assert [request.start for request in served.requests[1:]] == [r.stop for r in served.requests[:-1]]
        assert (served.requests[0].start, served.requests[-1].stop) == (0, before_tail)
        assert len(served.requests) == -(-before_tail // 32)
        if len(served.requests) > 1:
            assert {16 <= len(request) <= 32 for request in served.requests} == {True}
        assert most <= LIMITS["KEPT_BYTES"] + LIMITS["_AHEAD_BYTES"] + count + 2 * 32


def test_small_gaps_are_fetched_and_large_ones_are_not():
    with small_limits():
        served = Served(500)
        served.file.announce([range(200, 210), range(100, 110), range(118, 120), range(129, 131)])
        for start, stop in ((100, 110), (118, 120), (129, 131), (200, 210)):
            served.file.seek(start)
            assert served.file.read(stop - start) == served.content[start:stop]
        assert served.requests == [range(100, 120), range(129, 131), range(200, 210)]


def test_what_is_read_twice_within_the_kept_bytes_is_requested_once():
    with small_limits():
        served = Served(1000)
        served.file.announce([range(1000)])
        for start in range(0, 900, 60):
            for _ in range(2):
                served.file.seek(start)
                assert served.file.read(60) == served.content[start : start + 60]
        assert len(served.requests) == len({request.start for request in served.requests})


def test_requests_are_sent_before_the_bytes_are_read_but_only_a_few():
    with small_limits():
        served = Served(1000)
        served.file.announce([range(1000)])
        assert len(served.requests) == 1
        served.file.read(1)
        assert len(served.requests) == 2
        many = Served(1000)
        many.file.announce([range(at, at + 1) for at in range(0, 900, 20)])
        assert len(many.requests) == 8


def test_the_end_of_the_object_is_not_requested():
    served = Served(500)
    served.file.announce([range(484, 600)])
    served.file.seek(-16, io.SEEK_END)
    assert served.file.read() == served.content[-16:]
    assert served.requests == []


def test_a_large_read_is_one_request_and_is_not_kept():
    with small_limits():
        served = Served(500)
        served.file.announce([range(100, 165), range(300, 310)])
        served.file.seek(100)
        assert served.file.read(65) == served.content[100:165]
        assert range(100, 165) in served.requests
        assert served.file._unannounced == (0, b"")


def test_a_failed_request_is_raised_and_sent_again():
    with small_limits():
        served = Served(500, fails=1)
        served.file.announce([range(100, 110)])
        served.file.seek(100)
        assert served.file.read(10) == served.content[100:110]
        assert served.requests == [range(100, 110)] * 2
        served = Served(500, fails=2)
        served.file.seek(100)
        for _ in range(2):
            with pytest.raises(ConnectionError):
                served.file.read(10)
        assert served.file.read(10) == served.content[100:110]


def test_arrow_reads_it_as_a_file():
    served = Served(500)
    with RangedInput(served.file) as content:
        content.announce([range(10, 20)])
        assert (content.size(), content.read_at(5, 12)) == (500, served.content[12:17])
        assert content.seekable()
        assert not content.writable()
    assert served.file.closed
    assert served.held == 0
