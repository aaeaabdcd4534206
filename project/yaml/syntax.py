"""YAML text as a tree with what plain values lack: styles, anchors, comments and blank lines.

:mod:`parquetry.project.yaml.canonical` rewrites files with it. Each comment is attached to an entry of a
mapping or list: above the entry, or at the end of its first line. The last comments of a collection may
be below its entries.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from parquetry.project.diagnostics.source import LINE_END, SourceText

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_COMMENT = re.compile(r"(?:(?<=[ \t\r\n\x85\u2028\u2029])|\A)#[^\r\n\x85\u2028\u2029]*")
_HEADER_COMMENT = re.compile(r"[|>][-+0-9]*[ \t]+(#[^\r\n\x85\u2028\u2029]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A comment on a line of its own; ``after_blank_line`` is True if the line above it is blank."""

    text: str
    after_blank_line: bool


@dataclass(slots=True, kw_only=True)
class ScalarNode:
    """A string, number, boolean or null; ``raw`` is its text in the file, without an anchor."""

    raw: str
    value: str
    style: str | None
    anchor: str | None


@dataclass(slots=True, kw_only=True)
class Alias:
    """A reference to an anchor above it."""

    name: str


@dataclass(slots=True, kw_only=True)
class Collection:
    """A mapping or a list.

    ``column`` is the column of its first character. ``span`` has the offsets of its brackets, or is None for
    a block collection. ``comments_below`` has the comments below its entries.
    """

    is_mapping: bool
    flow: bool
    start: int
    column: int
    anchor: str | None
    span: tuple[int, int] | None = None
    entries: list[Entry] = field(default_factory=list)
    comments_below: list[Remark] = field(default_factory=list)
    has_comment: bool = False


Tree: TypeAlias = ScalarNode | Alias | Collection


@dataclass(slots=True, kw_only=True)
class Entry:
    """A key with its value, or an item of a list; the root of a file is an entry too.

    ``note`` is the comment at the end of its line. ``inside`` is the collection that contains it, with that
    collection's own entry.
    """

    start: int
    value: Tree
    key: ScalarNode | None = None
    after_blank_line: bool = False
    comments_above: list[Remark] = field(default_factory=list)
    note: str | None = None
    inside: tuple[Collection, Entry] | None = None

    def remark(self, text: str) -> None:
        """Set the comment at the end of the line; an earlier one moves above the entry."""
        if self.note is not None:
            _above(self).append(Remark(text=self.note, after_blank_line=False))
        self.note = text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comment:
    index: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Between:
    """The root of the tree, and the entries before and after a comment."""

    root: Entry
    previous: Entry | None
    following: Entry | None


def read_tree(source: SourceText) -> tuple[Entry, tuple[str, ...]]:
    """Parse a text into its tree, and return the tree and the texts of all comments in order.

    The text must hold a single document whose keys are scalars.

    Raises:
        yaml.YAMLError: if the text is not YAML.

    """
    reader = _Reader(source)
    root = reader.root()
    comments = sorted(reader.comments(), key=lambda comment: comment.index)
    _attach(root, comments, source)
    return root, tuple(comment.text.rstrip() for comment in comments)


class _Reader:
    """A builder of the tree from the parser's events, which also notes the offsets of scalars."""

    def __init__(self, source: SourceText) -> None:
        self._text = source.text
        self._events: Iterator[Any] = iter(yaml.parse(source.text, Loader=_LOADER))
        self._scalars: list[tuple[int, int]] = []
        self._in_headers: list[_Comment] = []

    def root(self) -> Entry:
        """Read the whole document, and return its tree."""
        event = next(self._events)
        while isinstance(event, (yaml.StreamStartEvent, yaml.DocumentStartEvent)):
            event = next(self._events)
        root = Entry(start=event.start_mark.index, value=self._tree(event))
        for event in self._events:
            assert isinstance(event, (yaml.DocumentEndEvent, yaml.StreamEndEvent)), "one document"
        return root

    def comments(self) -> Iterator[_Comment]:
        """Yield the comments outside of scalars, and those after the signs | and >."""
        yield from self._in_headers
        end = 0
        for begin, following in [*self._scalars, (len(self._text), 0)]:
            for match in _COMMENT.finditer(self._text, end, begin):
                yield _Comment(index=match.start(), text=match.group())
            end = following

    def _tree(self, event: Any) -> Tree:
        """Return the tree of an event with all that belongs to it."""
        if isinstance(event, yaml.AliasEvent):
            return Alias(name=str(event.anchor))
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        mapping = isinstance(event, yaml.MappingStartEvent)
        made = Collection(
            is_mapping=mapping,
            flow=bool(event.flow_style),
            start=event.start_mark.index,
            column=event.start_mark.column,
            anchor=event.anchor,
        )
        ends = yaml.MappingEndEvent if mapping else yaml.SequenceEndEvent
        while not isinstance(item := next(self._events), ends):
            key = self._scalar(item) if mapping else None
            value = next(self._events) if mapping else item
            made.entries.append(Entry(start=item.start_mark.index, key=key, value=self._tree(value)))
        if made.flow:
            made.span = made.start, self._index(item)
        return made

    @staticmethod
    def _index(event: Any) -> int:
        """Return the offset at which an event ends."""
        end: int = event.end_mark.index
        return end

    def _scalar(self, event: Any) -> ScalarNode:
        """Return the scalar of an event as it is written, and note where it is in the text."""
        begin, end = event.start_mark.index, event.end_mark.index
        raw = self._text[begin:end]
        if event.anchor:
            behind = raw.removeprefix(f"&{event.anchor}").lstrip(" \t")
            begin += len(raw) - len(behind)
            raw = behind
        if raw:
            self._scalars.append((begin, end))
        style = event.style or None
        header = _HEADER_COMMENT.match(raw) if style in ("|", ">") else None
        if header:
            self._in_headers.append(_Comment(index=begin + header.start(1), text=header[1]))
        return ScalarNode(raw=raw, value=event.value, style=style, anchor=event.anchor)


def _attach(root: Entry, comments: list[_Comment], source: SourceText) -> None:
    """Attach each comment to an entry, and set ``after_blank_line`` of the entries below a blank line."""
    lines = _Lines(source)
    _mark_commented(root, [comment.index for comment in comments])
    entries = list(_attachable(root, None))
    starts = [entry.start for entry in entries]
    for entry in entries[1:]:
        entry.after_blank_line = lines.is_apart(entry.start)
    for comment in comments:
        after = bisect_right(starts, comment.index)
        between = _Between(
            root=root,
            previous=entries[after - 1] if after else None,
            following=entries[after] if after < len(entries) else None,
        )
        text = comment.text.rstrip()
        if between.previous is not None and not lines.is_alone(comment.index):
            _owner(between.previous, comment.index).remark(text)
            continue
        remark = Remark(text=text, after_blank_line=lines.is_apart(comment.index))
        _comment_list(comment, lines.column(comment.index), between=between).append(remark)


def _mark_commented(entry: Entry, offsets: Sequence[int]) -> None:
    """Set ``has_comment`` of the bracketed collections that contain a comment; ``offsets`` are sorted.

    The entries of such a collection are written below each other, as one line has no room for comments.
    """
    value = entry.value
    if not isinstance(value, Collection):
        return
    if value.span is not None:
        if bisect_right(offsets, value.span[0]) == bisect_left(offsets, value.span[1]):
            return
        value.has_comment = bool(value.entries)
    for inner in value.entries:
        _mark_commented(inner, offsets)


def _attachable(entry: Entry, inside: tuple[Collection, Entry] | None) -> Iterator[Entry]:
    """Yield the entries to which comments can be attached, in the order of the text; set their ``inside``."""
    entry.inside = inside
    yield entry
    value = entry.value
    if isinstance(value, Collection) and (not value.flow or value.has_comment):
        for inner in value.entries:
            yield from _attachable(inner, (value, entry))


def _owner(entry: Entry, index: int) -> Entry:
    """Return the entry whose line a comment ends: a parent if brackets close before the comment."""
    while entry.inside is not None:
        collection, parent = entry.inside
        if collection.span is None or index < collection.span[1]:
            break
        entry = parent
    return entry


def _comment_list(comment: _Comment, column: int, *, between: _Between) -> list[Remark]:
    """Return the list for a comment on its own line: above the next entry, or at the foot of a collection."""
    previous, following = between.previous, between.following
    if previous is None:
        return between.root.comments_above
    owner = _owner(previous, comment.index)
    if following is not None and following.inside is not None and following.inside[1] is owner:
        return _above(following)
    outer = following.inside[0] if following is not None and following.inside is not None else None
    chain = _open_collections(owner)
    for collection, indent in chain:
        if collection is outer:
            break
        if collection.span is not None or indent <= column or collection is chain[-1][0]:
            return collection.comments_below
    return between.root.comments_above if following is None else _above(following)


def _above(entry: Entry) -> list[Remark]:
    """Return the comments above an entry; for the first key of a list item, those above the item."""
    while entry.inside is not None:
        collection, parent = entry.inside
        if entry is not collection.entries[0] or parent.key is not None or collection.anchor:
            break
        entry = parent
    return entry.comments_above


def _open_collections(entry: Entry) -> list[tuple[Collection, int]]:
    """Return the collections around an entry, innermost first, with the lowest column of their comments."""
    found = []
    while entry.inside is not None:
        collection, parent = entry.inside
        around = parent.inside[0] if parent.inside else None
        level = not collection.is_mapping and around is not None and around.column == collection.column
        found.append((collection, collection.column + level))
        entry = parent
    return found


class _Lines:
    """The lines of a text, for questions about the text around an offset."""

    def __init__(self, source: SourceText) -> None:
        self._lines = source.lines
        self._begins = [0, *(match.end() for match in LINE_END.finditer(source.text))]

    def column(self, index: int) -> int:
        """Return the column of an offset, counted from 0."""
        return index - self._begins[self._number(index)]

    def is_alone(self, index: int) -> bool:
        """Return whether only blanks are before an offset on its line."""
        number = self._number(index)
        return not self._lines[number][: index - self._begins[number]].strip()

    def is_apart(self, index: int) -> bool:
        """Return whether a blank line is above the line of an offset."""
        number = self._number(index)
        return number > 0 and not self._lines[number - 1].strip()

    def _number(self, index: int) -> int:
        """Return the number of an offset's line, counted from 0."""
        return bisect_right(self._begins, index) - 1
