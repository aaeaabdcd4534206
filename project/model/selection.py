"""Selection of tables by names, globs, tags, folders and further methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import ClassVar

from parquetry.errors import ParquetryError
from parquetry.project.diagnostics.model import did_you_mean, one_of
from parquetry.project.model.resolved import ResolvedTable


class SelectionError(ParquetryError):
    """A selector is malformed, or names a table that does not exist."""

    exit_code: ClassVar[int] = 2


_FORMS = {"tag": "tag:NAME", "path": "path:DIR", "state": "state:changed", "git": "git:REF"}

Method = Callable[[str], frozenset[str]]
"""A function from the value of a selector's method to the names of tables."""


def select(
    tables: Sequence[ResolvedTable],
    *,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    methods: Mapping[str, Method] | None = None,
    root: Path | None = None,
) -> tuple[ResolvedTable, ...]:
    """Return the tables that match a selector of ``select`` (all if there is none) and none of ``exclude``.

    A selector is one or more terms with commas between them, all of which must match: a name, a glob,
    ``tag:x``, ``path:dir``, or ``method:value`` of ``methods``. The order of the tables stays. A method may
    match no table; the other terms, and selectors without methods, must match a table, as one that does not
    is misspelt.

    Args:
        tables: the tables to choose from.
        select: selectors to include.
        exclude: selectors to leave out.
        methods: further methods by name.
        root: the project's folder, to which absolute folders in selectors are made relative.

    Raises:
        SelectionError: if a selector matches no table, or a method is unknown.

    """
    known = methods or {}
    wanted = _union(tables, select, known, root) if select else frozenset(table.name for table in tables)
    unwanted = _union(tables, exclude, known, root)
    return tuple(table for table in tables if table.name in wanted and table.name not in unwanted)


def _union(
    tables: Sequence[ResolvedTable],
    selectors: Sequence[str],
    methods: Mapping[str, Method],
    root: Path | None,
) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for selector in selectors:
        terms = [term.strip() for term in selector.split(",")]
        _check_terms(selector, terms, methods)
        matches = frozenset.intersection(*(_matches(tables, term, selector, methods, root) for term in terms))
        if not matches and not any(term.partition(":")[0] in methods for term in terms):
            raise SelectionError(
                "selector {selector!r} matches no table: no table matches all of its terms; repeat the "
                "option for tables that match any of them",
                selector=selector,
            )
        found |= matches
    return found


def _check_terms(selector: str, terms: Sequence[str], methods: Mapping[str, Method]) -> None:
    """Raise SelectionError for an empty term, or for a method without a value."""
    forms = {name: _FORMS.get(name, f"{name}:VALUE") for name in ("tag", "path", *methods)}
    for term in terms:
        method, colon, value = term.partition(":")
        if colon and not value and method in forms:
            raise SelectionError(
                "selector {selector!r} has nothing after '{term}'; write {form}",
                selector=selector,
                term=term,
                form=forms[method],
            )
        if not term or term == ":":
            *most, last = ("a name", "a glob", *forms.values())
            raise SelectionError(
                "selector {selector!r} has an empty term; write {forms} or {last_form}",
                selector=selector,
                forms=most,
                last_form=str(last),
            )


def _matches(
    tables: Sequence[ResolvedTable],
    term: str,
    selector: str,
    methods: Mapping[str, Method],
    root: Path | None,
) -> frozenset[str]:
    method, colon, value = term.partition(":")
    if not colon:
        names = [table.name for table in tables]
        return _require_match(
            term, "table", names, frozenset(name for name in names if fnmatchcase(name, term))
        )
    match method:
        case "tag":
            tagged = {table.name for table in tables if any(fnmatchcase(tag, value) for tag in table.tags)}
            return _require_match(
                term, "tag", {tag for table in tables for tag in table.tags}, frozenset(tagged)
            )
        case "path":
            place = _relative_to_project(value, root)
            below = {table.name for table in tables if _below(table.file, place)}
            return _require_match(term, "file", [table.file for table in tables], frozenset(below))
    if method not in methods:
        offered = sorted({"tag", "path", *methods})
        hint = did_you_mean(method, offered) or f"methods are {', '.join(offered)}"
        raise SelectionError(
            "selector {selector!r} has the unknown method {method!r}; {hint}",
            selector=selector,
            method=method,
            hint=hint,
        )
    return methods[method](value)


def _require_match(term: str, noun: str, known: Iterable[str], found: frozenset[str]) -> frozenset[str]:
    """Return the tables that a term matches; raise SelectionError with a hint if there is none."""
    if found:
        return found
    hint = one_of(noun, term.partition(":")[2] or term, known)
    is_name = noun == "table" and not any(sign in term for sign in "*?[")
    what = f"there is no table {term!r}" if is_name else f"selector {term!r} matches no table"
    raise SelectionError("{reason}; {hint}", reason=what, hint=hint)


def _relative_to_project(path: str, root: Path | None) -> str:
    """Return a path relative to the project's folder; ``.`` is the folder itself."""
    if root is not None and path.startswith("/"):
        for base in (Path(root).absolute(), Path(root).resolve()):
            if PurePosixPath(path).is_relative_to(base):
                return PurePosixPath(path).relative_to(base).as_posix()
    return normpath(path)


def _below(file: str, path: str) -> bool:
    """Return whether a file is at or below a path; the path may omit ``tables/`` and be a glob."""
    candidates = (path, f"tables/{path}")
    return path == "." or any(fnmatchcase(file, c) or fnmatchcase(file, f"{c}/*") for c in candidates)
