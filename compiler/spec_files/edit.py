"""Small edits in the text of a table's file, which keep the rest of the text as it is."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from parquetry.compiler.errors import UnacceptableDriftError
from parquetry.compiler.spec_files.yaml import KEY_ORDER, VERSION, column_entry, entry_text
from parquetry.compiler.spec_words import flow
from parquetry.errors import ParquetryError
from parquetry.project.diagnostics.source import LINE_END, Position, SourceText, Span
from parquetry.project.yaml.canonical import NotCanonicalError, canonical
from parquetry.project.yaml.document import Node, Path, parse_text
from parquetry.project.yaml.syntax import read_tree
from parquetry.runtime.spec.table_spec import Column

_REST: Final = re.compile(r"[ \t]*,?[ \t]*(#.*)?")


class NotEditableError(ParquetryError):
    """The text of a spec cannot be changed in place without a change of its other values."""


def with_column(text: str, column: Column, *, file: str) -> str:
    """Return the text with the column added after the last listed one.

    Raises:
        UnacceptableDriftError: if the file does not list the columns.

    """
    columns = _columns(text, file)
    last = columns.children[len(columns.children) - 1]
    entry = flow(column_entry(column))
    if _character(text, columns.span.start) == "[":
        offset = _offset(text, last.span.end)
        return f"{text[:offset]}, {entry}{text[offset:]}"
    dash = _line(text, last.span.start.line)
    indent = dash[: dash.index("-")]
    end = max(leaf.span.end for leaf in _leaves(last))
    offset = _offset(text, Position(end.line, len(_line(text, end.line)) + 1))
    return f"{text[:offset]}\n{indent}- {entry}{text[offset:]}"


def with_type(text: str, column: Column, *, file: str) -> str:
    """Return the text with the type of ``column`` for the listed column of its name."""
    return _replaced(text, _column(text, column.name, file).children["type"], flow(column.type))


def with_nullable(text: str, name: str, *, file: str) -> str:
    """Return the text with a nullable column."""
    return _replaced(text, _column(text, name, file).children["nullable"], "true")


def with_version(text: str, version: int, *, file: str) -> str:
    """Return the text with a table version, in the place of the declared one or after the keys before it."""
    root = parse_text(SourceText(path=file, text=text)).root
    assert root is not None, "the file is valid"
    if VERSION in root.children:
        return with_values(text, {(VERSION,): str(version)}, file=file)
    before = KEY_ORDER[: KEY_ORDER.index(VERSION)]
    after = next(key for key in reversed(before) if key in root.children)
    return with_keys(text, {VERSION: str(version)}, after=after, file=file)


def with_values(text: str, values: Mapping[Path, str], *, file: str) -> str:
    """Return the text with the values at these paths replaced by other texts; aliases share one value."""
    root = parse_text(SourceText(path=file, text=text)).root
    assert root is not None, "the file is valid"
    places = {root.at(path).span.start: path for path in values}
    for start in sorted(places, reverse=True):
        text = _replaced(text, root.at(places[start]), values[places[start]])
    return text


def with_keys(text: str, entries: Mapping[str, str], *, after: str, file: str) -> str:
    """Return the text with entries added after one of the top-level keys."""
    root = parse_text(SourceText(path=file, text=text)).root
    assert root is not None, "the file is valid"
    lines = [f"{key}: {value}" for key, value in entries.items()]
    end = max(leaf.span.end for leaf in _leaves(root.children[after]))
    if _character(text, root.span.start) == "{":
        offset, new = _offset(text, end), "".join(f", {line}" for line in lines)
    else:
        offset = _offset(text, Position(end.line, len(_line(text, end.line)) + 1))
        new = "".join(f"\n{line}" for line in lines)
    return f"{text[:offset]}{new}{text[offset:]}"


def _columns(text: str, file: str) -> Node:
    """Return the node of the listed columns; raise UnacceptableDriftError if the file lists none."""
    document = parse_text(SourceText(path=file, text=text))
    columns = None if document.root is None else document.root.children.get("columns")
    if columns is None or not isinstance(columns.value, list):
        raise UnacceptableDriftError(
            "{file}: the columns are not listed in this file; change the file that lists them, then apply",
            file=file,
        )
    return columns


def _column(text: str, name: str, file: str) -> Node:
    """Return the node of the column with this name."""
    entries = _columns(text, file).children.values()
    return next(entry for entry in entries if entry.value["name"] == name)


def _replaced(text: str, node: Node, new: str) -> str:
    """Return the text with another text in place of a node."""
    start, end = _offset(text, node.span.start), _offset(text, node.span.end)
    return f"{text[:start]}{new}{text[end:]}"


def _leaves(node: Node) -> Iterator[Node]:
    """Yield the nodes without children at or below a node."""
    if not node.children:
        yield node
    for child in node.children.values():
        yield from _leaves(child)


def _line(text: str, number: int) -> str:
    """Return a line of the text, counted from 1."""
    return LINE_END.split(text)[number - 1]


def _character(text: str, position: Position) -> str:
    """Return the character at a position."""
    return text[_offset(text, position)]


def _offset(text: str, position: Position) -> int:
    """Return the offset of a position in the text."""
    ends = [0, *(found.end() for found in LINE_END.finditer(text))]
    return ends[position.line - 1] + position.column - 1


def with_document(text: str, wanted: Mapping[str, Any], *, file: str) -> str:
    """Return the text of a table's file with the values of ``wanted``; comments and layout of the rest stay.

    Entries of lists are found again by their ``name``, and scalars by their value. New entries follow the
    others. Comments stay, except those above and beside an entry that is removed.

    Raises:
        NotEditableError: if the text cannot be changed in place, for example because of aliases, or not
            without a loss of other comments.

    """
    root = parse_text(SourceText(path=file, text=text)).root
    assert root is not None, "the file is valid"
    edits = _Edits(text)
    edits.change(root, wanted, order=KEY_ORDER)
    new = edits.applied()
    if canonical_form(text, file) == text:
        new = canonical_form(new, file) or new
    check_document(new, wanted, file=file)
    _check_comments(_comments(edits.with_removals(), file), _comments(new, file), file)
    return new


def check_document(text: str, wanted: Mapping[str, Any], *, file: str) -> None:
    """Raise NotEditableError if the text of a file does not have exactly these values."""
    document = parse_text(SourceText(path=file, text=text))
    found = None if document.root is None or document.diagnostics else document.root.value
    if not _is_same(found, wanted):
        raise NotEditableError(
            "{file} cannot be changed in place; write it without anchors, aliases and control characters",
            file=file,
        )


def _comments(text: str, file: str) -> Counter[str]:
    """Return the comments of a text; raise NotEditableError if an anchor is missing."""
    try:
        return Counter(read_tree(SourceText(path=file, text=text))[1])
    except yaml.YAMLError as error:
        raise NotEditableError(
            "{file} cannot be changed in place; write it without anchors and aliases", file=file
        ) from error


def _check_comments(before: Counter[str], after: Counter[str], file: str) -> None:
    """Raise NotEditableError if a comment is missing."""
    for comment in before - after:
        raise NotEditableError(
            "{file} cannot be changed in place without a loss of the comment {comment}; write it above the "
            "key of the value that it is in",
            file=file,
            comment=comment,
        )


def canonical_form(text: str, file: str) -> str | None:
    """Return the canonical form of a text, or None if it has none."""
    try:
        return canonical(SourceText(path=file, text=text))
    except NotCanonicalError:
        return None


def _with_replacements(text: str, found: Sequence[tuple[int, int, str]]) -> str:
    """Return the text with other texts between pairs of offsets; insertions at one place keep their order."""
    for _, (start, end, new) in sorted(
        enumerate(found), key=lambda each: (each[1][0], each[0]), reverse=True
    ):
        text = f"{text[:start]}{new}{text[end:]}"
    return text


class _Edits:
    """Replacements in a text, collected from the nodes of its document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0, *(found.end() for found in LINE_END.finditer(text))]
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._found: list[tuple[int, int, str]] = []
        self._removed: list[tuple[int, int, str]] = []

    def applied(self) -> str:
        """Return the text with all replacements; insertions at one place keep their order."""
        return _with_replacements(self._text, [*self._found, *self._removed])

    def with_removals(self) -> str:
        """Return the text without the removed entries; nothing else is replaced."""
        return _with_replacements(self._text, self._removed)

    def change(self, node: Node, wanted: Any, *, order: Sequence[str] = ()) -> None:
        """Change a node into ``wanted``; ``order`` is the usual order of the keys."""
        match node.value, wanted:
            case old, _ if _is_same(old, wanted):
                pass
            case dict(), Mapping() if node.value:
                self._change_mapping(node, wanted, order)
            case list(), list() if _can_be_matched(node.value, wanted):
                self._change_list(node, wanted)
            case _:
                self._replace(node, wanted)

    def _change_mapping(self, node: Node, wanted: Mapping[str, Any], order: Sequence[str]) -> None:
        kept = [key for key in node.value if key in wanted]
        removed = [key for key in node.value if key not in wanted]
        is_flow = self._is_flow(node)
        if not kept or (removed and (is_flow or any(not self._begins_line(node.keys[k]) for k in removed))):
            self._replace(node, wanted)
            return
        for key in kept:
            self.change(node.children[key], wanted[key])
        for key in removed:
            self._remove_lines(self._offset(node.keys[key].start), node.children[key])
        added = [key for key in wanted if key not in node.value]
        for key in sorted(added, key=order.index) if order else added:
            if is_flow:
                self._insert(self._end(node.children[kept[-1]]), f", {key}: {flow(wanted[key])}")
                continue
            before = order[: order.index(key)] if order else kept
            after = next((each for each in reversed(before) if each in kept), kept[-1])
            indent = " " * (node.keys[after].start.column - 1)
            lines = entry_text(key, wanted[key]).rstrip("\n").split("\n")
            new = "".join(f"{self._line_end}{indent}{line}" for line in lines)
            self._insert(self._line_of(self._end(node.children[after]))[1], new)

    def _change_list(self, node: Node, wanted: Sequence[Any]) -> None:
        new = {_identity(entry): entry for entry in wanted}
        numbers = {_identity(entry): number for number, entry in enumerate(node.value)}
        kept = [number for identity, number in numbers.items() if identity in new]
        removed = [number for identity, number in numbers.items() if identity not in new]
        is_flow = self._is_flow(node)
        is_apart = not is_flow or all(self._is_line(node.children[number]) for number in removed)
        if not kept or not is_apart or not (is_flow or self._has_dashes(node)):
            self._replace(node, wanted)
            return
        for identity, number in numbers.items():
            if identity in new:
                self.change(node.children[number], new[identity])
        for number in removed:
            child = node.children[number]
            self._remove_lines(self._offset(child.span.start), child)
        last = node.children[kept[-1]]
        start = self._offset(last.span.start)
        dash = self._text[self._line_of(start)[0] : start]
        for identity, entry in new.items():
            if identity not in numbers and is_flow:
                self._insert(self._end(last), f", {flow(entry)}")
            elif identity not in numbers:
                self._insert(self._line_of(self._end(last))[1], f"{self._line_end}{dash}{flow(entry)}")

    def _replace(self, node: Node, value: Any) -> None:
        start, end = self._offset(node.span.start), self._end(node)
        blank = " " if start and self._text[start - 1] in ":-" else ""
        self._found.append((start, max(start, end), f"{blank}{flow(value)}"))

    def _insert(self, offset: int, new: str) -> None:
        self._found.append((offset, offset, new))

    def _remove_lines(self, start: int, node: Node) -> None:
        """Remove the lines from the one at an offset to the one in which a node ends, and comments above."""
        first, end = self._line_of(start)[0], self._line_of(self._end(node))[1]
        line = self._text[slice(*self._line_of(start))]
        indent = " " * (len(line) - len(line.lstrip(" ")))
        while first and self._text.startswith(f"{indent}#", self._line_of(first - 1)[0]):
            first = self._line_of(first - 1)[0]
        following = LINE_END.match(self._text, end)
        self._removed.append((first, following.end() if following else end, ""))

    def _is_flow(self, node: Node) -> bool:
        return self._text[self._offset(node.span.start)] in "[{"

    def _begins_line(self, key: Span) -> bool:
        start = self._offset(key.start)
        return not self._text[self._line_of(start)[0] : start].strip()

    def _is_line(self, node: Node) -> bool:
        """Return whether lines have a node of a flow list, and beside it only its comma and a comment."""
        start, end = self._offset(node.span.start), self._end(node)
        first, last = self._line_of(start)[0], self._line_of(end)[1]
        return not self._text[first:start].strip() and bool(_REST.fullmatch(self._text[end:last]))

    def _has_dashes(self, node: Node) -> bool:
        """Return whether each entry of a list begins a line, after its dash."""
        starts = [self._offset(child.span.start) for child in node.children.values()]
        return all(self._text[self._line_of(start)[0] : start].strip() == "-" for start in starts)

    def _line_of(self, offset: int) -> tuple[int, int]:
        """Return the offsets of the start and the end of a line, without its line end."""
        found = LINE_END.search(self._text, offset)
        number = bisect_right(self._lines, offset) - 1
        return self._lines[number], found.start() if found else len(self._text)

    def _end(self, node: Node) -> int:
        """Return the offset after the last character of a node, without blank lines."""
        if node.children and not self._is_flow(node):
            return max(map(self._end, node.children.values()))
        start, end = self._offset(node.span.start), self._offset(node.span.end)
        return start + len(self._text[start:end].rstrip())

    def _offset(self, position: Position) -> int:
        return self._lines[position.line - 1] + position.column - 1


def _can_be_matched(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Return whether entries have identities, and the new list begins with those of the old one, in order."""
    before, after = list(map(_identity, old)), list(map(_identity, new))
    is_distinct = len({*before}) == len(before) and len({*after}) == len(after)
    kept = [identity for identity in before if identity in after]
    return (
        is_distinct
        and (
            all(isinstance(entry, Mapping) for entry in [*old, *new])
            or not any(isinstance(entry, Mapping | list) for entry in [*old, *new])
        )
        and after[: len(kept)] == kept
    )


def _identity(entry: Any) -> str:
    """Return what an entry of a list is found again by: its name, or all of it."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return f"name {name}" if isinstance(name, str) else json.dumps(entry, sort_keys=True)


def _is_same(left: Any, right: Any) -> bool:
    """Return whether two values are equal, and 1, 1.0 and true are not."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
