"""The present files that match a source's path."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from parquetry.confined_folder import ConfinedFolder, FileIdentity, LinkInTheWayError
from parquetry.errors import message_of
from parquetry.message import Field, Value
from parquetry.runtime.errors import InvalidDataError, MissingSourceError, NotFoundError
from parquetry.runtime.sources.landing import is_hidden, open_landing
from parquetry.runtime.sources.ledger import SourceFile
from parquetry.runtime.spec.source_paths import join_base
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore
from parquetry.runtime.storage.os_errors import storage_error
from parquetry.text.linear_regex import LinearRegex, RegexError

_GLOB = re.compile(r"[*?\[{]")
# The limit of a local path; keys of objects are shorter.
_MOST_CHARACTERS = 4_096


def split_pattern(path: str) -> tuple[str, str]:
    """Return the folder before the first part with a wildcard, and the rest (empty without wildcards).

    The folder is empty if a relative path has a wildcard in its first part.
    """
    top = "/" if path.startswith("/") else ""
    parts = path.rstrip("/").split("/")
    for index, part in enumerate(parts):
        if _GLOB.search(part):
            return "/".join(parts[:index]) or top, "/".join(parts[index:])
    return path.rstrip("/") or top, ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file of a source: its name in the ledger, and its address for Spark.

    The ledger's path begins like the declared path of the source, so that another checkout of the project
    recognises the files by the same names. ``landing`` is the folder below which the file was found and that
    no link leaves. ``identity`` distinguishes it from a later file at the same path.
    """

    file: SourceFile
    uri: str
    spark_uri: str
    landing: str | None = None
    identity: FileIdentity | None = None


def list_files(
    path: str, *, base: str = ".", options: Mapping[str, Any] | None = None, must_exist: bool = False
) -> tuple[FoundFile, ...]:
    """Return the files that ``path`` matches (``*``, ``?``, ``[..]``, ``{a,b}``, ``**``), sorted by path.

    A path without wildcards is one file, or a folder with everything below it. Names that begin with ``_`` or
    ``.`` are left out, as Spark does. A link to a file is left out if the file matches by its own name or by
    an earlier link.

    Args:
        path: The path or pattern.
        base: The folder to which a relative path refers.
        options: The options of the file system.
        must_exist: Whether the folder before the first wildcard must exist.

    Raises:
        MissingSourceError: If a path without wildcards does not exist, or a folder that must exist does not.
        InvalidDataError: If the path can only match hidden names, if it matches folders, or if a name is not
            valid UTF-8.
        StorageError: If a link leads out of the folder before the first wildcard, or out of the base on the
            way there.
    """
    root, pattern = split_pattern(path)
    _check_visible(pattern, path)
    _check_links(base, root)
    store, infos = _files_below(join_base(base, root), options, deep=_is_deep(pattern))
    if not infos and not pattern:
        folder, _, name = root.rpartition("/")
        store = open_landing(join_base(base, folder or ("/" if root.startswith("/") else ".")), options)
        one = store.stat(name)
        if one is None and not _exists(store, name):
            raise MissingSourceError(
                "there is no file or folder {path}; correct the path of the source", path=path
            )
        if one is not None:
            _check_visible(name, path)
        root, infos = folder, [one] if one else []
    if must_exist and pattern and not infos and not _exists(store):
        raise MissingSourceError(
            "{path} matches nothing: there is no folder {folder}; correct the path of the source",
            path=path,
            folder=root,
        )
    visible = [info for info in sorted(infos, key=lambda i: i.path) if not is_hidden(info.path)]
    paths = [info.path for info in visible]
    matching = glob_expression(pattern).matching(paths) if pattern else frozenset(paths)
    found = [info for info in visible if info.path in matching]
    found = _without_duplicate_links(found)
    for info in found:
        _check_spelling(info.path, path, is_local=isinstance(store, LocalStore))
    if pattern and not (found and pattern.endswith("*")):
        _check_no_folder(store, infos, pattern, path, found=[info.path for info in found])
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
            landing=store.uri,
            identity=info.identity,
        )
        for info in found
    )


def open_file(found: FoundFile, options: Mapping[str, Any] | None = None) -> Any:
    """Return a seekable pyarrow file of the source file; the caller closes it."""
    landing = found.uri.rpartition("/")[0] if found.landing is None else found.landing
    return open_landing(landing or "/", options).open_input(found.uri[len(landing) + 1 :])


def deleted_file_error(file: Field) -> NotFoundError:
    """Return the error for a file that was deleted after its source was listed."""
    return NotFoundError("{file} was deleted after the source was listed; run again", file=file)


def _is_deep(pattern: str) -> bool:
    """Return whether matches may be in subfolders of the root."""
    return not pattern or "/" in pattern or "**" in pattern


def _files_below(
    root: str, options: Mapping[str, Any] | None, *, deep: bool
) -> tuple[ObjectStore, list[ObjectInfo]]:
    store = open_landing(root, options)
    try:
        return store, store.list("", recursive=deep)
    except NotADirectoryError:
        return store, []


def _check_links(base: str, root: str) -> None:
    """Raise an error if the path leads through a link out of the base.

    A project may contain such a link, because links can be committed.
    """
    if join_base(base, root) == root or join_base("/", base) != base:
        return
    remedy = "a link in a checkout may lead anywhere; declare the path that it leads to"
    try:
        ConfinedFolder(Path(base), remedy=remedy).without_links(root)
    except LinkInTheWayError as error:
        raise InvalidDataError(error.message) from error
    except OSError as error:
        raise storage_error("check", Value.uri(join_base(base, root)), error) from error


def _exists(store: ObjectStore, name: str = "") -> bool:
    """Return whether the folder exists, even if it has no file.

    In an object store, return whether an object is below it.
    """
    if isinstance(store, LocalStore):
        return store.is_folder(name)
    return name in store.list_folders("") if name else bool(store.list_folders(""))


def _without_duplicate_links(found: list[ObjectInfo]) -> list[ObjectInfo]:
    """Return the files without the links to files that are listed too."""
    if not any(info.is_link for info in found):
        return found
    seen, kept = set[FileIdentity | None](), list[ObjectInfo]()
    for info in sorted(found, key=lambda info: (info.is_link, info.path)):
        if not (info.is_link and info.identity in seen):
            kept.append(info)
        seen.add(info.identity)
    return sorted(kept, key=lambda info: info.path)


def _check_visible(pattern: str, path: str) -> None:
    """Raise an error if the pattern can only match hidden names, which are left out."""
    hidden = next((part for part in pattern.split("/") if is_hidden(part)), None)
    if hidden is not None:
        raise InvalidDataError(
            "{path} never matches a file: like Spark, sources leave out names that begin with '_' or "
            "'.', such as {hidden_name}; rename the files, or correct the path of the source",
            path=path,
            hidden_name=hidden,
        )


def _check_no_folder(
    store: ObjectStore, infos: Sequence[ObjectInfo], pattern: str, path: str, *, found: Collection[str]
) -> None:
    """Raise an error if the path matches a folder with files, but no file in that folder.

    These files would never be read. A path that ends in ``*`` alone is accepted, even if it matches no file
    yet: it means the files beside any folders.
    """
    if not pattern.rpartition("/")[2].strip("*"):
        return
    expression = glob_expression(pattern)
    if not _is_deep(pattern):
        folders = expression.matching(store.list_folders(""))
        infos = [info for name in sorted(folders) for info in store.list(name, recursive=True)]
    else:
        folders = expression.matching({name for info in infos for name in _above(info.path)})
    for info in infos:
        folder = next((name for name in _above(info.path) if name in folders), None)
        if folder is None or is_hidden(info.path):
            continue
        if not any(name.startswith(f"{folder}/") for name in found):
            declared = path.rstrip("/")
            raise InvalidDataError(
                "{path} matches the folder {folder}, and {matched}; write {declared_path}/* for the "
                "files in such folders, or {declared_path}/** for all below them{separate_source}",
                path=path,
                folder=Value.uri(f"{store.uri}/{folder}"),
                matched="files" if found else "no file",
                declared_path=declared,
                separate_source=", in a source of their own" if found else "",
            )


def _above(path: str) -> Iterator[str]:
    """Yield the parent folders of a file, the outermost first."""
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))


@lru_cache(maxsize=64)
def glob_expression(pattern: str) -> LinearRegex:
    """Return the regular expression of a path pattern; ``*`` stays within a folder, ``**`` does not."""
    if len(pattern) > _MOST_CHARACTERS:
        raise InvalidDataError(
            "the path pattern {begin!r}... has {found_characters:,} characters, but a path has at most "
            "{limit:,}; shorten it, or divide it into several sources",
            begin=pattern[:40],
            found_characters=len(pattern),
            limit=_MOST_CHARACTERS,
        )
    try:
        return LinearRegex(f"(?s:{_translated(pattern)})")
    except RegexError as error:
        raise InvalidDataError(
            "the path pattern {pattern!r} is not valid ({reason}); write ranges as [a-z]",
            pattern=pattern,
            reason=message_of(error),
        ) from error


def _translated(pattern: str) -> str:
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
            if "{" in pattern[i + 1 : end]:
                raise InvalidDataError(
                    "the path pattern {pattern!r} has braces within braces; write each choice out: {{a,b,c}}",
                    pattern=pattern,
                )
            out.append("(?:" + "|".join(map(_translated, pattern[i + 1 : end].split(","))) + ")")
            i = end + 1
            continue
        out.append({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)))
        i += 1
    return "".join(out)


def _character_class(body: str) -> str:
    negated = body[0] in "!^"
    members = re.escape(body[negated:]).replace("\\-", "-")
    return f"[^/{members}]" if negated else f"[{members}]"


def _check_spelling(name: str, path: str, *, is_local: bool) -> None:
    """Raise an error if Spark cannot open a file with this name."""
    if is_local and ":" in name.rpartition("/")[2]:
        raise InvalidDataError(
            "{path} matches the file {file}, but Spark cannot open a local file whose name contains "
            "':'; rename it",
            path=path,
            file=Value.uri(name, quoted=True),
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidDataError(
            "{path} matches the file {file}, but Spark cannot open a file whose name is not valid "
            "UTF-8; rename it",
            path=path,
            file=Value.quote(repr(name.encode(errors="surrogateescape"))),
        ) from error
