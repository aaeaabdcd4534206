"""Which tables a command is about: names, globs, tags and folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

from parquetry.errors import ParquetryError
from parquetry.project.diagnostics import did_you_mean
from parquetry.project.model import ResolvedTable


class SelectionError(ParquetryError):
    """A selector that cannot be understood or names a table that is not there."""

    exit_code: ClassVar[int] = 2


Method = Callable[[str], frozenset[str]]
"""The names of the tables that the value of a selector method stands for."""


def select(
    tables: Sequence[ResolvedTable],
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    methods: Mapping[str, Method] | None = None,
) -> tuple[ResolvedTable, ...]:
    """The tables that any of ``select`` matches (all without one) and none of ``exclude``.

    A selector is one or more terms with commas between them, all of which must match: a name,
    a glob, ``tag:x``, ``path:dir``, or ``method:value`` of ``methods``. The order of the tables
    stays.

    Raises:
        SelectionError: a plain name is no table, or a method is not known.

    """
    known = methods or {}
    wanted = _union(tables, select, known) if select else frozenset(table.name for table in tables)
    unwanted = _union(tables, exclude, known)
    return tuple(table for table in tables if table.name in wanted and table.name not in unwanted)


def _union(
    tables: Sequence[ResolvedTable], selectors: Sequence[str], methods: Mapping[str, Method]
) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for selector in selectors:
        terms = [term.strip() for term in selector.split(",")]
        matches = [_matches(tables, term, selector, methods) for term in terms]
        found |= frozenset.intersection(*matches)
    return found


def _matches(
    tables: Sequence[ResolvedTable], term: str, selector: str, methods: Mapping[str, Method]
) -> frozenset[str]:
    method, colon, value = term.partition(":")
    if not term or (colon and not value):
        message = f"selector {selector!r} has an empty term; write a name, a glob, tag:x or path:dir"
        raise SelectionError(message)
    if not colon:
        return _named(tables, term)
    match method:
        case "tag":
            return frozenset(
                table.name for table in tables if any(fnmatchcase(tag, value) for tag in table.tags)
            )
        case "path":
            return frozenset(table.name for table in tables if _below(table.file, value))
    if method not in methods:
        offered = sorted({"tag", "path", *methods})
        hint = did_you_mean(method, offered) or f"methods are {', '.join(offered)}"
        message = f"selector {selector!r} has the unknown method {method!r}; {hint}"
        raise SelectionError(message)
    return methods[method](value)


def _named(tables: Sequence[ResolvedTable], term: str) -> frozenset[str]:
    names = [table.name for table in tables]
    found = frozenset(name for name in names if fnmatchcase(name, term))
    if not found and not any(sign in term for sign in "*?["):
        hint = did_you_mean(term, names) or (
            f"tables are {', '.join(names[:10])}" if names else "the project has no tables"
        )
        message = f"there is no table {term!r}; {hint}"
        raise SelectionError(message)
    return found


def _below(file: str, path: str) -> bool:
    """Whether a file is, or lies below, a path; the path may leave out ``tables/`` and be a glob."""
    wanted = path.removeprefix("./").rstrip("/")
    for candidate in (wanted, f"tables/{wanted}"):
        if fnmatchcase(file, candidate) or fnmatchcase(file, f"{candidate}/*"):
            return True
    return False
