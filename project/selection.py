"""Which tables a command is about: names, globs, tags and folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

from parquetry.errors import ParquetryError
from parquetry.project.diagnostics import did_you_mean, one_of
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
    stays. What ``methods`` say may be nothing; the other terms, and selectors without methods,
    must match a table, as one that does not is misspelt.

    Raises:
        SelectionError: a selector matches no table, or a method is not known.

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
        matches = frozenset.intersection(*(_matches(tables, term, selector, methods) for term in terms))
        if not matches and not any(term.partition(":")[0] in methods for term in terms):
            message = f"selector {selector!r} matches no table: no table is in all of its terms"
            raise SelectionError(f"{message}; repeat the option for tables that are in any")
        found |= matches
    return found


def _matches(
    tables: Sequence[ResolvedTable], term: str, selector: str, methods: Mapping[str, Method]
) -> frozenset[str]:
    method, colon, value = term.partition(":")
    if not term or (colon and not value):
        message = f"selector {selector!r} has an empty term; write a name, a glob, tag:x or path:dir"
        raise SelectionError(message)
    if not colon:
        names = [table.name for table in tables]
        return _found(term, "table", names, frozenset(name for name in names if fnmatchcase(name, term)))
    match method:
        case "tag":
            tagged = {table.name for table in tables if any(fnmatchcase(tag, value) for tag in table.tags)}
            return _found(term, "tag", {tag for table in tables for tag in table.tags}, frozenset(tagged))
        case "path":
            below = {table.name for table in tables if _below(table.file, value)}
            return _found(term, "file", [table.file for table in tables], frozenset(below))
    if method not in methods:
        offered = sorted({"tag", "path", *methods})
        hint = did_you_mean(method, offered) or f"methods are {', '.join(offered)}"
        message = f"selector {selector!r} has the unknown method {method!r}; {hint}"
        raise SelectionError(message)
    return methods[method](value)


def _found(term: str, noun: str, known: Iterable[str], found: frozenset[str]) -> frozenset[str]:
    """What a term matches, which is at least one table."""
    if found:
        return found
    hint = one_of(noun, term.partition(":")[2] or term, known)
    is_name = noun == "table" and not any(sign in term for sign in "*?[")
    what = f"there is no table {term!r}" if is_name else f"selector {term!r} matches no table"
    raise SelectionError(f"{what}; {hint}")


def _below(file: str, path: str) -> bool:
    """Whether a file is, or lies below, a path; the path may leave out ``tables/`` and be a glob."""
    wanted = path.removeprefix("./").rstrip("/")
    for candidate in (wanted, f"tables/{wanted}"):
        if fnmatchcase(file, candidate) or fnmatchcase(file, f"{candidate}/*"):
            return True
    return False
