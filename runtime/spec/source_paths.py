"""Paths of sources: where they lie, and whether two of them mean the same file."""

from __future__ import annotations

import os
import re

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_LOCAL_HOST = re.compile(r"^//(localhost)?(?=/)")


def join_base(base: str, path: str) -> str:
    """``path`` as it is when absolute or a URI, else below ``base``; ``base`` for an empty one."""
    if path.startswith("/") or _SCHEME.match(path):
        return path
    return f"{base.rstrip('/')}/{path}" if path else base


def place_of(path: str, base: str) -> str:
    """Which file a path means, the same however it is spelled: ``in/a``, ``./in/a``, ``file:/base/in/a``."""
    joined = join_base(base, path)
    scheme, _, rest = joined.partition(":") if _SCHEME.match(joined) else ("", "", joined)
    if scheme.lower() in ("s3", "s3a", "gs"):
        bucket, _, key = rest.removeprefix("//").partition("/")
        return f"{scheme.lower().removesuffix('a')}://{bucket}/{key.lstrip('/')}"
    # As the local store opens it: links are not followed.
    return os.path.abspath(_LOCAL_HOST.sub("", rest))  # noqa: PTH100
