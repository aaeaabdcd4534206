"""The objects that a process has read: which version is returned, and when it is dropped."""

from __future__ import annotations

import pickle

from parquetry.runtime.storage.object_cache import ObjectCache

MIB = 1024 * 1024


def test_only_the_version_that_was_read_is_returned():
    cache = ObjectCache()
    cache.put("a", "1", b"one")
    assert (cache.get("a", "1"), cache.get("a", "2"), cache.get("b", "1")) == (b"one", None, None)
    cache.put("a", "2", b"two")
    assert (cache.get("a", "1"), cache.get("a", "2")) == (None, b"two")


def test_an_object_without_an_etag_is_not_returned():
    cache = ObjectCache()
    cache.put("a", "", b"one")
    assert cache.get("a", "") is cache.get("a", None) is None


def test_the_first_contents_are_dropped_when_there_are_16_mib():
    cache = ObjectCache()
    for number in range(17):
        cache.put(f"{number}", "1", bytes(MIB))
    assert [number for number in range(17) if cache.get(f"{number}", "1")] == list(range(1, 17))
    cache.put("large", "1", bytes(17 * MIB))
    assert cache.get("large", "1") is None
    assert cache.get("16", "1") is not None


def test_a_pickled_cache_is_empty():
    cache = ObjectCache()
    cache.put("a", "1", b"one")
    assert pickle.loads(pickle.dumps(cache)).get("a", "1") is None
