"""Locations of tables and sources: relative paths, local folders and buckets, in one spelling."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from parquetry.project.diagnostics.model import Problem

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKETS = {"s3": "s3", "s3a": "s3", "gs": "gs"}
"""The schemes of object stores, each with its spelling in parquetry."""


class LocationProblem(Problem):
    """A path that is not accepted."""


def is_relative(path: str) -> bool:
    """Return whether a path has no scheme and no leading slash."""
    return not _SCHEME.match(path) and not path.startswith("/")


def is_in_bucket(path: str) -> bool:
    """Return whether a normalised path or URI is that of objects in a bucket."""
    return _SCHEME.match(path) is not None


def joined(base: str, path: str) -> str:
    """Return ``path`` below ``base`` if it is relative, or else ``path`` itself, normalised.

    Both are relative paths, absolute paths, or URIs of files or buckets. ``s3a`` becomes ``s3``, a ``file:``
    URI becomes a path; doubled and trailing slashes and ``.`` are removed.

    Raises:
        LocationProblem: if the scheme is unknown, or if ``..`` leads out of the base folder.

    """
    if path.startswith("~"):
        raise LocationProblem(
            "PQ306", f"'{path}' begins with '~', which differs between users", "write it out"
        )
    if is_relative(path):
        return _within(normalised(base), path)
    return normalised(path)


def normalised(path: str) -> str:
    """Return the one spelling of a path or URI, see :func:`joined`.

    Raises:
        LocationProblem: if the scheme is unknown, or if ``..`` leads out of the bucket or folder.

    """
    scheme = _SCHEME.match(path)
    if scheme is None:
        return _clean(path)
    name = scheme[1].lower()
    if name == "file":
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            raise LocationProblem("PQ306", f"'{path}' is on another machine", "write file:///folder")
        return _clean(unquote(parts.path)) if "%" in parts.path else _clean(parts.path)
    if name not in _BUCKETS:
        raise LocationProblem(
            "PQ306", f"storage '{name}:' is not supported", "use a local path, s3://, s3a:// or gs://"
        )
    rest = path[scheme.end() :]
    bucket, _, key = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not bucket:
        raise LocationProblem("PQ306", f"'{path}' names no bucket", f"write {name}://bucket/folder")
    below = _within("", key) if key.strip("/") else ""
    return f"{_BUCKETS[name]}://{bucket}/{below}".rstrip("/")


def absolute(root: Path, path: str) -> str:
    """Return a normalised path; a relative one starts at ``root``."""
    return posixpath.normpath(posixpath.join(root.as_posix(), path)) if is_relative(path) else path


def contains(outer: str, inner: str) -> bool:
    """Return whether the absolute location ``inner`` is ``outer`` or is below it."""
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _within(base: str, path: str) -> str:
    """Return ``path`` below ``base``; raise LocationProblem if ``..`` leads out of it."""
    clean = posixpath.normpath(path.lstrip("/")) if path.strip("/") else ""
    if clean == ".." or clean.startswith("../"):
        raise LocationProblem(
            "PQ011", f"'{path}' leaves the folder it starts from", "write an absolute path, or stay inside"
        )
    if clean in ("", "."):
        return base
    return f"{base.rstrip('/')}/{clean}" if base not in ("", ".") else clean


def _clean(path: str) -> str:
    """Return a normalised path; raise LocationProblem if ``..`` leads a relative one out of its folder."""
    if is_relative(path):
        return _within("", path) or "."
    return posixpath.normpath("/" + path.lstrip("/"))
