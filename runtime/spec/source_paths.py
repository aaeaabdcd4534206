"""Paths of sources: their base folder, and comparison of their spellings."""

from __future__ import annotations

import os
import re

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_LOCAL_HOST = re.compile(r"^//(localhost)?(?=/)")


def join_base(base: str, path: str) -> str:
    """Return ``path`` if it is absolute or a URI, or else the path below ``base``.

    An empty path gives ``base``.
    """
    if path.startswith("/") or _SCHEME.match(path):
        return path
    return f"{base.rstrip('/')}/{path}" if path else base


def normalised_path(path: str, base: str) -> str:
    """Return one path for all spellings of the same file.

    Examples are ``in/a``, ``./in/a`` and ``file:/base/in/a``.
    """
    joined = join_base(base, path)
    scheme, _, rest = joined.partition(":") if _SCHEME.match(joined) else ("", "", joined)
    if scheme.lower() in ("s3", "s3a", "gs"):
        bucket, _, key = rest.removeprefix("//").partition("/")
        return f"{scheme.lower().removesuffix('a')}://{bucket}/{key.lstrip('/')}"
    # Links are not resolved, as in the local store.
    return os.path.abspath(_LOCAL_HOST.sub("", rest))  # noqa: PTH100
