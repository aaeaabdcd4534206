"""The files that a source's path means at this moment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.sources import SourceFile
from parquetry.runtime.storage import ObjectInfo, ObjectStore, open_store

_GLOB = re.compile(r"[*?\[{]")
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def split_pattern(path: str) -> tuple[str, str]:
    """The folder before the first part with a wildcard, and the rest (empty without wildcards)."""
    parts = path.rstrip("/").split("/")
    for index, part in enumerate(parts):
        if _GLOB.search(part):
            return "/".join(parts[:index]) or "/", "/".join(parts[index:])
    return path.rstrip("/") or "/", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file of a source: what the ledger calls it, and how Spark addresses it.

    The ledger's path starts as the source's path was declared, so that another checkout of the
    project knows the same files by the same names.
    """

    file: SourceFile
    uri: str
    spark_uri: str


def list_files(
    path: str, *, base: str = ".", options: Mapping[str, Any] | None = None
) -> tuple[FoundFile, ...]:
    """The files that ``path`` matches (``*``, ``?``, ``[..]``, ``{a,b}``, ``**``), sorted by path.

    A relative path starts at ``base``. A path without wildcards is one file, or a folder read
    with everything below it. Names that begin with ``_`` or ``.`` are left out, as Spark does.
    Raises :class:`InvalidDataError` when a path without wildcards does not exist, and for a name
    that is no UTF-8.
    """
    root, pattern = split_pattern(path)
    store, infos = _files_below(join_base(base, root), options)
    if not infos and not pattern:
        folder, _, name = root.rpartition("/")
        store = open_store(join_base(base, folder or ("/" if root.startswith("/") else ".")), options)
        one = store.stat(name)
        if one is None and name not in store.list_folders(""):
            raise InvalidDataError(f"there is no file or folder {path}; correct the path of the source")
        root, infos = folder, [one] if one else []
    expression = glob_expression(pattern) if pattern else None
    found = [
        info
        for info in sorted(infos, key=lambda i: i.path)
        if not _is_hidden(info.path) and (expression is None or expression.fullmatch(info.path))
    ]
    for info in found:
        _check_spelling(info.path, path)
    return tuple(
        FoundFile(
            file=SourceFile(
                path=f"{root.rstrip('/')}/{info.path}" if root else info.path,
                size_bytes=info.size_bytes,
                modified_ms=info.modified_ms,
                etag=info.etag,
            ),
            uri=f"{store.uri}/{info.path}",
            spark_uri=store.spark_uri(info.path),
        )
        for info in found
    )


def open_file(found: FoundFile, options: Mapping[str, Any] | None = None) -> Any:
    """A seekable pyarrow file over the source file, to be closed by the caller."""
    folder, _, name = found.uri.rpartition("/")
    return open_store(folder or "/", options).open_input(name)


def join_base(base: str, path: str) -> str:
    """``path`` as it is when absolute or a URI, else below ``base``."""
    if path.startswith("/") or _SCHEME.match(path):
        return path
    return f"{base.rstrip('/')}/{path}"


def _files_below(root: str, options: Mapping[str, Any] | None) -> tuple[ObjectStore, list[ObjectInfo]]:
    store = open_store(root, options)
    try:
        return store, store.list("", recursive=True)
    except NotADirectoryError:
        return store, []


@lru_cache(maxsize=64)
def glob_expression(pattern: str) -> re.Pattern[str]:
    """The regular expression of a path pattern; ``*`` stays within a folder, ``**`` does not."""
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if pattern.startswith("**/", i):
            out.append("(?:.*/)?")
            i += 3
            continue
        if pattern.startswith("**", i):
            out.append(".*")
            i += 2
            continue
        if char == "[" and (end := pattern.find("]", i + 2)) > 0:
            out.append(_character_class(pattern[i + 1 : end]))
            i = end + 1
            continue
        if char == "{" and (end := pattern.find("}", i)) > 0:
            choices = pattern[i + 1 : end].split(",")
            out.append("(?:" + "|".join(glob_expression(c).pattern for c in choices) + ")")
            i = end + 1
            continue
        out.append({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)))
        i += 1
    try:
        return re.compile("".join(out))
    except re.error as error:
        raise InvalidDataError(
            f"the path pattern {pattern!r} cannot be understood ({error}); write ranges as [a-z]"
        ) from error


def _character_class(body: str) -> str:
    negated = body[0] in "!^"
    members = re.escape(body[negated:]).replace("\\-", "-")
    return f"[^/{members}]" if negated else f"[{members}]"


def _check_spelling(name: str, path: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        spelled = name.encode(errors="surrogateescape")
        raise InvalidDataError(
            f"{path} matches a file called {spelled!r}, which is no UTF-8, so Spark cannot open it; rename it"
        ) from error


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))
