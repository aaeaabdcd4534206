"""YAML text parsed into plain values, with the position of each key and value.

The language is YAML 1.2's core schema on libyaml's parser. Only ``true`` and ``false`` are booleans
(``yes``, ``no``, ``on`` and ``off`` are strings). Only ``null``, ``~`` and an empty value are null. Numbers
are decimal, ``0o`` or ``0x``; there are no dates and no base-60 numbers. Tags, merge keys, keys that are
not strings, duplicate keys and further documents are reported as diagnostics. Nodes are built from the
event stream, so size, depth and aliases are limited before an alias is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from parquetry.project.diagnostics.model import Diagnostic, diagnostic
from parquetry.project.diagnostics.source import Position, SourceText, Span
from parquetry.project.yaml.scalar import NotUsable, scalar

Path: TypeAlias = tuple[str | int, ...]
"""The path from a document's root to a value: keys and indices."""

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_ALIASES = 100
MAX_NODES = 50_000
_SHOWN = 80
_YAML_TAGS = "tag:yaml.org,2002:"

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BARE_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_TEMPLATE_VALUE = re.compile(r"[:,\[-]\s*\{\{")
_NOT_TEXT = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U000dffff\U000e0080-\U0010ffff]|\r(?!\n)"
)
"""Control characters, characters that reverse the writing direction, and line ends that no editor shows."""


@dataclass(slots=True)
class Node:
    """A value with its position, the positions of its keys, and the nodes of its entries."""

    value: Any
    span: Span
    keys: Mapping[str, Span]
    children: Mapping[str | int, Node]

    def at(self, path: Path) -> Node:
        """Return the node at ``path``, or the deepest existing node on the way to it."""
        node = self
        for step in path:
            child = node.children.get(step)
            if child is None:
                break
            node = child
        return node

    def key_span(self, path: Path) -> Span:
        """Return the position of the last key of ``path``, or of the value if there is no such key."""
        if path and isinstance(path[-1], str):
            parent = self.at(path[:-1])
            if path[-1] in parent.keys:
                return parent.keys[path[-1]]
        return self.at(path).span


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file; ``root`` is None if the file has no usable value."""

    source: SourceText
    root: Node | None
    diagnostics: tuple[Diagnostic, ...]


class _LimitError(Exception):
    """A limit on size, depth or aliases was exceeded at ``span``."""

    def __init__(self, summary: str, span: Span) -> None:
        super().__init__(summary)
        self.summary = summary
        self.span = span


def decode(path: str, data: bytes) -> tuple[SourceText, Diagnostic | None]:
    """Return the text of a file, and a diagnostic if the file is too large or is not text.

    If there is a diagnostic for the size or the encoding, the returned text is empty.
    """
    if len(data) > MAX_BYTES:
        source = SourceText(path=path, text="")
        return source, diagnostic(
            "PQ010",
            f"the file has {len(data):,} bytes; at most {MAX_BYTES:,} are read",
            source=source,
            hint="split it",
        )
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        before = SourceText(path=path, text=data[: error.start].decode("utf-8").removeprefix("\ufeff"))
        place = before.position(len(before.text))
        source = SourceText(path=path, text="")
        summary = f"byte 0x{data[error.start]:02x} is not UTF-8"
        return source, diagnostic(
            "PQ003", summary, source=source, span=Span(place, place), hint="save the file as UTF-8"
        )
    source = SourceText(path=path, text=text)
    wrong = _NOT_TEXT.search(text)
    if wrong:
        place = source.position(wrong.start())
        summary = f"character U+{ord(wrong.group()):04X} is not text"
        return source, diagnostic("PQ003", summary, source=source, span=Span(place, place), hint="remove it")
    return source, None


def parse(path: str, data: bytes) -> Document:
    """Parse the bytes of a file. The document has all diagnostics found before the parser had to stop."""
    source, problem = decode(path, data)
    if problem:
        return Document(source=source, root=None, diagnostics=(problem,))
    return parse_text(source)


def parse_text(source: SourceText) -> Document:
    """Parse a text. The document has all diagnostics found before the parser had to stop."""
    composer = _Composer(source)
    root: Node | None = None
    try:
        root = composer.document()
    except _LimitError as error:
        composer.report(
            "PQ010", error.summary, error.span, "split the file, or write out what aliases repeat"
        )
    except yaml.MarkedYAMLError as error:
        code, summary, span, hint = _syntax(error, source)
        line = span.start.line
        composer.found = [one for one in composer.found if (one.hint, one.line) != (hint, line)]
        composer.report(code, summary, span, hint)
    except yaml.YAMLError as error:
        composer.report("PQ002", f"not YAML: {error}", _beginning(source), "save it as YAML 1.2")
    finally:
        composer.dispose()
    return Document(source=source, root=root, diagnostics=tuple(composer.found))


class _Composer:
    """A builder of nodes from the parser's events."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.found: list[Diagnostic] = []
        self._parser = _LOADER(source.text)
        self._anchors: dict[str, tuple[Node, int] | None] = {}
        self._nodes = 0
        self._aliases = 0

    def dispose(self) -> None:
        """Free the parser."""
        self._parser.dispose()

    def report(self, code: str, summary: str, span: Span, hint: str | None = None) -> None:
        """Add a diagnostic."""
        self.found.append(diagnostic(code, summary, source=self.source, span=span, hint=hint))

    def document(self) -> Node | None:
        self._parser.get_event()
        event = self._parser.get_event()
        if isinstance(event, yaml.StreamEndEvent):
            self.report(
                "PQ009", "the file is empty", _beginning(self.source), "declare something in it or delete it"
            )
            return None
        root = self._node(self._parser.get_event(), 0)
        self._parser.get_event()
        event = self._parser.get_event()
        if not isinstance(event, yaml.StreamEndEvent):
            self.report(
                "PQ008", "a second document begins here", _span(event), "move it into a file of its own"
            )
        if root.value is None and not self.found:
            self.report(
                "PQ009",
                "the file declares nothing",
                _beginning(self.source),
                "declare something in it or delete it",
            )
            return None
        return root

    def _node(self, event: Any, depth: int) -> Node:
        """Return the node of an event with all that belongs to it; stop at the limits of size and depth."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _LimitError(f"more than {MAX_NODES:,} values, counting what aliases repeat", _span(event))
        if depth > MAX_DEPTH:
            raise _LimitError(f"more than {MAX_DEPTH} levels", _span(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        tagged = event.tag is not None
        if tagged:
            self.report(
                "PQ007",
                f"tag {_shown(event.tag.replace(_YAML_TAGS, '!!'))} is not accepted",
                _span(event),
                "remove it, or quote the value",
            )
        if event.anchor:
            self._anchors[event.anchor] = None
            before = self._nodes
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, tagged=tagged)
        elif isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(event, depth)
        else:
            node = self._sequence(event, depth)
        if event.anchor:
            self._anchors[event.anchor] = (node, self._nodes - before + 1)
        return node

    def _alias(self, event: Any) -> Node:
        """Return the node of the anchor that an alias names; report an alias without an anchor."""
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            raise _LimitError(f"more than {MAX_ALIASES} aliases", _span(event))
        entry = self._anchors.get(event.anchor)
        if entry is None:
            known = event.anchor in self._anchors
            summary = (
                f"alias *{event.anchor} is inside its own anchor"
                if known
                else f"alias *{event.anchor} has no anchor before it"
            )
            self.report("PQ002", summary, _span(event), "write the value out")
            return Node(None, _span(event), {}, {})
        node, weight = entry
        self._nodes += weight - 1
        return node

    def _scalar(self, event: Any, *, tagged: bool) -> Node:
        """Return the node of a scalar; report a number that is not usable."""
        value = event.value
        if not tagged and not event.style and event.implicit[0]:
            value = scalar(event.value)
            if isinstance(value, NotUsable):
                self.report(
                    "PQ014",
                    f"{_shown(event.value)} is not a usable number",
                    _span(event),
                    "quote it if it is a string",
                )
                value = 0
        return Node(value, _span(event), {}, {})

    def _sequence(self, event: Any, depth: int) -> Node:
        children: dict[str | int, Node] = {}
        values: list[Any] = []
        item = self._parser.get_event()
        while not isinstance(item, yaml.SequenceEndEvent):
            child = self._node(item, depth + 1)
            children[len(values)] = child
            values.append(child.value)
            item = self._parser.get_event()
        return Node(values, Span(_start(event), _end(item)), {}, children)

    def _mapping(self, event: Any, depth: int) -> Node:
        before = len(self.found)
        keys: dict[str, Span] = {}
        children: dict[str | int, Node] = {}
        values: dict[str, Any] = {}
        last = self._parser.get_event()
        while not isinstance(last, yaml.MappingEndEvent):
            key, span = self._key(last, depth)
            value = self._node(self._parser.get_event(), depth + 1)
            if key is not None and key in keys:
                first = keys[key].start.line
                self.report(
                    "PQ004",
                    f"key {_shown(key)} occurs twice, first in line {first}",
                    span,
                    "remove one of the two",
                )
            elif key is not None:
                keys[key] = span
                children[key] = value
                values[key] = value.value
            last = self._parser.get_event()
        span = Span(_start(event), _end(last))
        text = self._written(event, last) if event.flow_style else ""
        if _BARE_TEMPLATE.fullmatch(text):
            # YAML reads the braces as mappings; their diagnostics would only repeat this one.
            del self.found[before:]
            self.report("PQ006", "YAML reads a template without quotes as a mapping", span, _in_quotes(text))
            return Node(text, span, {}, {})
        return Node(values, span, keys, children)

    def _written(self, first: Any, last: Any) -> str:
        """Return the text from the start of one event to the end of another."""
        return self.source.text[first.start_mark.index : last.end_mark.index]

    def _key(self, event: Any, depth: int) -> tuple[str | None, Span]:
        """Return the key of an event and its position; report an unacceptable key and return None for it."""
        plain = isinstance(event, yaml.ScalarEvent) and not event.style
        if plain and event.value == "<<":
            hint = "write the keys out or share them through a policy"
            self.report("PQ005", "merge key '<<' is not accepted", _span(event), hint)
            return None, _span(event)
        aliased = isinstance(event, yaml.AliasEvent)
        node = self._node(event, depth + 1)
        if isinstance(event, yaml.ScalarEvent) and isinstance(node.value, str):
            return node.value, node.span
        if isinstance(event, yaml.MappingStartEvent) and isinstance(node.value, str):
            return None, node.span
        shown = f"*{event.anchor}" if aliased else _shown(event.value) if plain else "this key"
        self.report(
            "PQ006", f"{shown} is not a text, and keys are texts", _span(event), "put the key in quotes"
        )
        return None, _span(event)


def _syntax(error: yaml.MarkedYAMLError, source: SourceText) -> tuple[str, str, Span, str | None]:
    """Return the code, summary, position and hint for an error of the parser."""
    problem = " ".join(part for part in (error.context, error.problem) if part)
    # The parser notices an unclosed bracket or quote at the end of the file; the user fixes its beginning.
    unclosed = any(sign in (error.context or "") for sign in ("flow", "quoted")) and error.context_mark
    mark = error.context_mark if unclosed else error.problem_mark or error.context_mark
    place = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
    lines = source.lines
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    hint = "close what begins here" if unclosed else "fix this line, or the one before it"
    if "\t" in line[: place.column] and line[: place.column].lstrip(" ").startswith("\t"):
        hint = "indent with blanks, not with tabs"
    elif "mapping values are not allowed" in problem:
        hint = "check the indentation, and put texts that hold ': ' in quotes"
    elif _TEMPLATE_VALUE.search(line):
        hint = _in_quotes(line)
    elif "cannot start any token" in problem:
        hint = "put the text in quotes"
    return "PQ002", f"not YAML: {problem}", Span(place, place), hint


def _in_quotes(text: str) -> str:
    """Return the hint to quote a template, with the kind of quotes that the template does not contain."""
    quote = "'" if '"' in text else '"'
    return f"put the whole value in quotes: {quote}{{{{ ... }}}}{quote}"


def _start(event: Any) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)


def _end(event: Any) -> Position:
    return Position(event.end_mark.line + 1, event.end_mark.column + 1)


def _span(event: Any) -> Span:
    start, end = event.start_mark, event.end_mark
    return Span(Position(start.line + 1, start.column + 1), Position(end.line + 1, end.column + 1))


def _beginning(source: SourceText) -> Span:
    """Return the position of the first character of a file."""
    place = source.position(0)
    return Span(place, place)


def _shown(value: object) -> str:
    """Return a value as short text for a message."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
