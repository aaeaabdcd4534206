"""Small objects that a process has read or put, so that its next operations do not read them again."""

from __future__ import annotations

from typing import Final

_MOST_BYTES: Final = 16 * 1024 * 1024


class ObjectCache:
    """The contents of objects by path, each with the ETag of its version.

    A content is only returned for its own ETag, so that an object that was replaced, damaged or deleted since
    is noticed: a listing shows another ETag, or none. The contents have at most 16 MiB; those that were put
    first are dropped first. A pickled cache is empty.
    """

    def __init__(self) -> None:
        self._contents: dict[str, tuple[str, bytes]] = {}

    def __reduce__(self) -> tuple[type[ObjectCache], tuple[()]]:
        return ObjectCache, ()

    def get(self, path: str, etag: str | None) -> bytes | None:
        """Return the content of that version of the object, or None if it is not here."""
        cached, content = self._contents.get(path, (None, b""))
        return content if etag and etag == cached else None

    def put(self, path: str, etag: str, content: bytes) -> None:
        """Keep the content of that version of the object, unless it has more than 16 MiB."""
        self._contents.pop(path, None)
        if len(content) > _MOST_BYTES:
            return
        # Threads share the cache. A copy of the dictionary does not change while it is read.
        others = [(other, len(kept)) for other, (_, kept) in self._contents.copy().items()]
        excess = sum(size for _, size in others) + len(content) - _MOST_BYTES
        for other, size in others:
            if excess <= 0:
                break
            self._contents.pop(other, None)
            excess -= size
        self._contents[path] = etag, content
