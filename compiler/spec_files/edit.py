"""Small edits in the text of a table's file, which keep the rest of the text as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from parquetry.compiler.errors import UnacceptableDriftError
from parquetry.compiler.spec_files.yaml import KEY_ORDER, VERSION, column_entry
from parquetry.compiler.spec_words import flow
from parquetry.project.diagnostics.source import LINE_END, Position, SourceText
from parquetry.project.yaml.document import Node, Path, parse_text
from parquetry.runtime.spec.table_spec import Column


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
    """Return the text with the values at these paths replaced by other texts."""
    root = parse_text(SourceText(path=file, text=text)).root
    assert root is not None, "the file is valid"
    places = sorted(values, key=lambda path: root.at(path).span.start, reverse=True)
    for path in places:
        text = _replaced(text, root.at(path), values[path])
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
