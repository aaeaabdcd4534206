"""The canonical form of a YAML file, which `parquetry fmt` writes.

Keys keep their order and comments their text. A flow collection (``{..}``, ``[..]``) stays in brackets
if it fits on one line and contains no comment. Indentation is two spaces, quoted strings have double
quotes, and at most one blank line separates entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from parquetry.project.diagnostics.source import LINE_END, SourceText
from parquetry.project.yaml.document import parse_text
from parquetry.project.yaml.syntax import Alias, Collection, Entry, Remark, ScalarNode, Tree, read_tree

WIDTH = 120
_STEP = 2
_ODD_BREAK = re.compile("[\x85\u2028\u2029]")
_ESCAPED = re.compile('[\x00-\x1f"\\\\\x7f-\xa0\u2028\u2029\ufeff]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class NotCanonicalError(Exception):
    """A file that cannot be written in canonical form without a change of its meaning."""


def canonical(source: SourceText) -> str:
    """Return a YAML text in canonical form, with the same values and the same comments.

    The text must parse without diagnostics, see :func:`parquetry.project.yaml.document.parse_text`.

    Raises:
        NotCanonicalError: if the canonical text would not have the same values and comments.

    """
    try:
        root, comments = read_tree(source)
        text = "".join(f"{line}\n" for line in _root(root))
        kept = _meaning(SourceText(path=source.path, text=text)) == _meaning(source)
        same = kept and sorted(read_tree(SourceText(path=source.path, text=text))[1]) == sorted(comments)
    except yaml.YAMLError:
        same = False
    if not same:
        raise NotCanonicalError("the file has no canonical form")
    return text


def _meaning(source: SourceText) -> str | None:
    """Return the document's values as a text that distinguishes 1, 1.0 and true, or None if it has errors."""
    document = parse_text(source)
    if document.diagnostics or document.root is None:
        return None
    return repr(document.root.value)


def _root(root: Entry) -> Iterator[str]:
    """Yield the lines of a document, without blank lines at its beginning."""
    lines = [*_remarks(root.comments_above, 0)]
    if isinstance(root.value, Collection) and not _flat(root.value):
        if root.note:
            lines.append(root.note)
        lines += _children(root.value, 0, first=not lines)
    else:
        lines.append(_with_comment(_inline(root.value), root.note))
    while lines and not lines[0]:
        del lines[0]
    yield from lines


def _children(collection: Collection, indent: int, *, first: bool = True) -> Iterator[str]:
    """Yield the lines of a collection's entries; if ``first``, the first line is not blank."""
    for entry in collection.entries:
        lines = [
            *_remarks(entry.comments_above, indent),
            *_blank_line_before(entry),
            *_entry(entry, collection, indent),
        ]
        yield from lines[1:] if first and not lines[0] else lines
        first = False
    yield from _remarks(collection.comments_below, indent)


def _blank_line_before(entry: Entry) -> Iterator[str]:
    """Yield an empty line if one is above the entry in the source."""
    if entry.after_blank_line:
        yield ""


def _remarks(remarks: list[Remark], indent: int) -> Iterator[str]:
    """Yield the lines of comments."""
    for remark in remarks:
        if remark.after_blank_line:
            yield ""
        yield f"{' ' * indent}{remark.text}"


def _entry(entry: Entry, collection: Collection, indent: int) -> Iterator[str]:
    """Yield the lines of an entry of a mapping or list."""
    margin = " " * indent
    if collection.is_mapping:
        assert entry.key is not None, "entries of mappings have keys"
        yield from _value_lines(entry, f"{margin}{_anchored(entry.key, _key(entry.key))}:", indent)
        return
    value = entry.value
    if isinstance(value, Collection) and _begins_on_dash(value, indent + _STEP):
        yield from (f"{margin}{note}" for note in _notes_before(entry, indent))
        below = _children(value, indent + _STEP)
        yield f"{margin}- {next(below)[indent + _STEP :]}"
        yield from below
        return
    yield from _value_lines(entry, f"{margin}-", indent)


def _begins_on_dash(value: Collection, indent: int) -> bool:
    """Return whether the first entry of a nested collection is written on the line of the item's dash."""
    return not value.anchor and not _fits(value, indent)


def _notes_before(entry: Entry, indent: int) -> Iterator[str]:
    """Yield and remove the comments of items that have no line of their own, the outermost first."""
    value = entry.value
    if not isinstance(value, Collection) or not _begins_on_dash(value, indent + _STEP):
        return
    if entry.note:
        yield entry.note
        entry.note = None
    if not value.is_mapping:
        yield from _notes_before(value.entries[0], indent + _STEP)


def _value_lines(entry: Entry, head: str, indent: int) -> Iterator[str]:
    """Yield the lines of a value: the first after ``head`` (``key:`` or a dash), the others below it."""
    value = entry.value
    if isinstance(value, Collection) and not _fits(value, len(head) + 1):
        yield _with_comment(_anchored(value, head, behind=True), entry.note)
        yield from _children(value, indent + _STEP)
        return
    if isinstance(value, ScalarNode):
        first, *rest = _scalar(value)
        yield _with_comment(" ".join(part for part in (head, _anchored(value, first)) if part), entry.note)
        yield from (f"{' ' * (indent + _STEP)}{line}" if line else "" for line in rest)
        return
    yield _with_comment(f"{head} {_inline(value)}", entry.note)


def _with_comment(line: str, note: str | None) -> str:
    return f"{line}  {note}" if note else line


def _anchored(value: ScalarNode | Collection, text: str, *, behind: bool = False) -> str:
    """Return the text of a value with its anchor, if it has one: before the text, or ``behind`` it."""
    if not value.anchor:
        return text
    return f"{text} &{value.anchor}" if behind else f"&{value.anchor} {text}".rstrip()


def _fits(value: Collection, column: int) -> bool:
    """Return whether a collection is written in brackets on the line on which it begins."""
    return _flat(value) and (not value.entries or column + len(_inline(value)) <= WIDTH)


def _flat(value: Tree) -> bool:
    """Return whether a value can be written on one line; a collection must be in brackets for that."""
    match value:
        case Collection():
            if not value.entries:
                return True
            if not value.flow or value.has_comment:
                return False
            return all(_flat(entry.value) and _is_short(entry.key) for entry in value.entries)
        case ScalarNode():
            return _is_short(value)
        case Alias():
            return True


def _is_short(value: ScalarNode | None) -> bool:
    """Return whether a scalar is on one line."""
    return value is None or (value.style not in ("|", ">") and len(LINE_END.split(value.raw)) == 1)


def _inline(value: Tree) -> str:
    match value:
        case Alias():
            return f"*{value.name}"
        case ScalarNode():
            return _anchored(value, "\n".join(_scalar(value)) or "null")
    parts = [
        f"{_anchored(entry.key, _key(entry.key))}: {_inline(entry.value)}"
        if entry.key
        else _inline(entry.value)
        for entry in value.entries
    ]
    opening, closing = "{}" if value.is_mapping else "[]"
    return _anchored(value, f"{opening}{', '.join(parts)}{closing}")


def _key(key: ScalarNode) -> str:
    """Return a key on one line."""
    return _scalar(key)[0] if _is_short(key) else _quoted(key.value)


def _scalar(value: ScalarNode) -> list[str]:
    """Return the lines of a scalar; the lines after the first have no indentation."""
    if _ODD_BREAK.search(value.raw):
        return [_quoted(value.value)]
    lines = LINE_END.split(value.raw)
    match value.style:
        case "|" | ">":
            return _block(value, lines)
        case "'" if not re.search(r'["\\\n]', value.value) and len(lines) == 1:
            return [_quoted(value.value)]
    return [lines[0], *(line.lstrip(" \t") for line in lines[1:])]


def _block(value: ScalarNode, lines: list[str]) -> list[str]:
    """Return the lines of a block scalar (| or >).

    It becomes a quoted string if its indentation or its last lines are part of the value.
    """
    signs = value.raw[1 : len(value.raw) - len(value.raw[1:].lstrip("-+0123456789"))]
    content = lines[1:]
    while content and not content[-1].strip():
        content.pop()
    first = next((line for line in content if line.strip()), "")
    indent = len(first) - len(first.lstrip(" "))
    plain = first and signs in ("", "-") and content[0].strip() and "\t" not in first[: indent + 1]
    if not plain or any(line.strip() and line[:indent].strip() for line in content):
        return [_quoted(value.value)]
    return [f"{value.style}{signs}", *(line[indent:] for line in content)]


def _quoted(text: str) -> str:
    def escape(match: re.Match[str]) -> str:
        sign = match.group()
        return _ESCAPES.get(sign) or f"\\u{ord(sign):04x}"

    return f'"{_ESCAPED.sub(escape, text)}"'
