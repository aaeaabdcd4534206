"""Messages as data: a sentence with named fields, which is turned into text where it leaves the program.

A sentence is a literal in the source (tests/unit/parquetry/test_sentences.py), so it contains no values. They
are its fields: names, numbers, commands, and values that may be personal data. Where a message leaves the
program, personal values are masked, the command line completes commands with the options that were typed, and
Python names the calls that do the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache, lru_cache
from operator import is_
from pathlib import PurePath
from string import Formatter
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias, TypedDict, TypeVar

from parquetry.text import shell
from parquetry.text.secret_names import MASK


@dataclass(frozen=True, slots=True)
class Command:
    """A command for the reader to type, as words without the program's name.

    If ``imperative``, the message asks the reader to run it: "run `parquetry apply`".
    """

    words: tuple[str, ...]
    imperative: bool = False

    def __str__(self) -> str:
        return f"{'run ' if self.imperative else ''}{shell.named('parquetry', *self.words)}"


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that depend on the reader: ``typed`` on a command line, ``called`` in Python."""

    typed: str
    called: str

    def __str__(self) -> str:
        return self.typed


class ValueKind(StrEnum):
    """The kind of a value in a message, which decides whether it may be personal data."""

    PARTITION = "partition"
    """The path of a partition."""
    RECORD_KEY = "record_key"
    FILE = "file"
    """The path of a file or folder, relative to its table."""
    URI = "uri"
    """The location of a file or folder, in a table or elsewhere."""
    QUOTE = "quote"
    """The words of a library, or of a cell. They may contain whole rows or parts of them."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a table, or of data read for it, that may be personal; ``mask`` then replaces it.

    If ``quoted``, it is written between quotation marks, with escapes. ``is_cleared`` says that it was masked
    where that was necessary, so that a message may show it.
    """

    kind: ValueKind
    text: str
    mask: str = MASK
    quoted: bool = False
    is_cleared: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return repr(self.text) if self.quoted else self.text

    @classmethod
    def partition(cls, path: str) -> Value:
        """Return the value for a partition's path, quoted."""
        return cls(ValueKind.PARTITION, path, quoted=True)

    @classmethod
    def record_key(cls, key: str) -> Value:
        """Return the value for a record key, quoted."""
        return cls(ValueKind.RECORD_KEY, key, quoted=True)

    @classmethod
    def file(cls, path: str, *, quoted: bool = False) -> Value:
        """Return the value for the path of a file or folder of the table."""
        return cls(ValueKind.FILE, path, quoted=quoted)

    @classmethod
    def uri(cls, uri: str, *, quoted: bool = False) -> Value:
        """Return the value for the location of a file or folder."""
        return cls(ValueKind.URI, uri, quoted=quoted)

    @classmethod
    def quote(cls, text: str, mask: str = MASK) -> Value:
        """Return the value for words of another program."""
        return cls(ValueKind.QUOTE, text, mask)


_KIND: Final = "parquetry.kind"
PARTITION_FIELD: Final = MappingProxyType({_KIND: ValueKind.PARTITION})
"""The metadata of a field of a result that has the path of a partition, or a tuple of such paths, as text."""

FILE_FIELD: Final = MappingProxyType({_KIND: ValueKind.FILE})
"""The metadata of a field of a result that has the path of a file of the table as text."""

RECORD_KEY_FIELD: Final = MappingProxyType({_KIND: ValueKind.RECORD_KEY})
"""The metadata of a field of a result that has a record key as text."""

Part: TypeAlias = str | Command | Phrase | Value
"""A piece of a message in the order of its text."""

Writer: TypeAlias = Callable[[Command | Phrase], str]
"""A function with which an exit turns commands and phrases into text."""

Field: TypeAlias = (
    "str | int | float | PurePath | Command | Phrase | Value | Message | Sequence[Field] | None"
)
"""A value of a message. A sequence is written with commas, and None as "none"."""


class Message:
    """A sentence with named fields, such as ``Message("{file} has {rows:,} rows", file=..., rows=...)``.

    The sentence has the form of :meth:`str.format`, with names alone. As a text, a message hides the values
    that may be personal; :meth:`in_full` shows them. It cannot be formatted into another text, as its fields
    would be lost: it is a field of the other message.
    """

    __slots__ = ("fields", "sentence")

    def __init__(self, sentence: str, **fields: Field) -> None:
        """Make a message of a literal sentence and a field for each name in it."""
        self.sentence: Final = sentence
        self.fields: Final[Mapping[str, Field]] = fields

    @staticmethod
    def of(*parts: Part) -> Message:
        """Return the message that consists of these parts, for a text that was put together elsewhere."""
        names = [f"part{number}" for number in range(1, len(parts) + 1)]
        return _made("".join(f"{{{name}}}" for name in names), dict(zip(names, parts, strict=True)))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The pieces of the message in the order of its text; texts beside each other are one piece."""
        parts: list[Part] = []
        for part in self._parts():
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            elif part:
                parts.append(part)
        return tuple(parts)

    def _parts(self) -> Iterator[Part]:
        for literal, name, conversion, spec in _parsed(self.sentence):
            yield literal
            if name:
                yield from _parts_of(self.fields[name], conversion, spec)

    @property
    def statements(self) -> tuple[Text, ...]:
        """The messages that :func:`joined` has put together with semicolons, or this one alone."""
        if not _STATEMENTS.fullmatch(self.sentence):
            return (self,)
        return tuple(each for each in self.fields.values() if isinstance(each, str | Message))

    def in_full(self, writer: Writer | None = None) -> str:
        """Return the text with all values, also personal ones. Only exits use it, after masking.

        Args:
            writer: Turns commands and phrases into text; by default they are as on a command line.

        """
        return "".join(
            writer(part) if writer and isinstance(part, Command | Phrase) else str(part)
            for part in self._parts()
        )

    def masked(self, mask: Callable[[Value], Value]) -> Message:
        """Return the message with the cleared result of ``mask`` for each value that may be personal."""
        return self._with_fields(
            lambda each: replace(mask(each), is_cleared=True) if isinstance(each, Value) else each
        )

    def changed(self, change: Callable[[str], str]) -> Message:
        """Return the message with ``change`` applied to each text, value and word of a command in it."""
        return self._with_fields(lambda each: _changed(each, change))

    def _with_fields(self, change: Callable[[Field], Field]) -> Message:
        return _made(self.sentence, {name: _each(each, change) for name, each in self.fields.items()})

    def __str__(self) -> str:
        return "".join(map(_shown, self._parts()))

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a message cannot be formatted into a text; make it a field of a message")

    def __eq__(self, other: object) -> bool:
        return str(self) == other if isinstance(other, str) else self.parts == getattr(other, "parts", None)

    def __hash__(self) -> int:
        return hash(str(self))

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self.sentence, dict(self.fields))


_STATEMENTS: Final = re.compile(r"\{\w+\}(?:; \{\w+\})+")
_SPEC: Final = re.compile(r"\+?,?0?\d?(?:\.\d{1,2})?[dfx%]?")
"""The formats of numbers and texts in sentences; none makes a text of a stranger's length."""

Text: TypeAlias = str | Message
"""A text without fields, or a message."""


def command(*words: str) -> Message:
    """Return a message that names the command with these words."""
    return Message("{command}", command=Command(words))


def run(*words: str) -> Message:
    """Return a message that asks the reader to run the command with these words."""
    return Message("{command}", command=Command(words, imperative=True))


def phrase(typed: str, *, called: str) -> Message:
    """Return a message with one wording for a command line and another for Python."""
    return Message("{phrase}", phrase=Phrase(typed, called))


def message(text: Text) -> Message:
    """Return the text as a message."""
    return text if isinstance(text, Message) else Message("{text}", text=text)


def joined(separator: str, texts: Iterable[Text]) -> Message:
    """Return the message of the texts with the separator between them."""
    named = {f"text{number}": text for number, text in enumerate(texts, 1)}
    escaped = separator.replace("{", "{{").replace("}", "}}")
    return _made(escaped.join(f"{{{name}}}" for name in named), named)


def in_full(text: Text, writer: Writer | None = None) -> str:
    """Return the text with all values; in a message, ``writer`` writes the commands and phrases."""
    return text.in_full(writer) if isinstance(text, Message) else text


_Outcome = TypeVar("_Outcome")

PartChange: TypeAlias = Callable[[Any, ValueKind | None], Any]
"""A function that returns what takes the place of a part of a result, given the kind of its field."""


def with_parts(outcome: _Outcome, change: PartChange) -> _Outcome:
    """Return the result with ``change`` applied to each message, text and other part in it.

    Its dataclasses, tuples, lists and mappings keep their forms; where nothing changes, they are the same
    objects. The kind is that which the metadata of the dataclass's field names, or None.
    """
    changed: _Outcome = _with_parts(outcome, change, None)
    return changed


def _with_parts(part: Any, change: PartChange, kind: ValueKind | None) -> Any:
    names = _kinds_by_field(type(part))  # type: ignore[arg-type]  # a type is hashable
    if names:
        old = {name: getattr(part, name) for name in names}
        new = {name: _with_parts(old[name], change, names[name]) for name in names}
        changed = {name: new[name] for name in names if new[name] is not old[name]}
        return replace(part, **changed) if changed else part
    if isinstance(part, Mapping):
        made = {key: _with_parts(value, change, kind) for key, value in part.items()}
        return part if all(made[key] is part[key] for key in made) else made
    if type(part) in (tuple, list):
        members = [_with_parts(member, change, kind) for member in part]
        return part if all(map(is_, members, part)) else type(part)(members)
    return change(part, kind)


@cache
def _kinds_by_field(record: type) -> Mapping[str, ValueKind | None]:
    """Return the kind of each field of a result's dataclass by name; empty for other types."""
    if not is_dataclass(record) or issubclass(record, Value | Command | Phrase):
        return {}
    return {each.name: each.metadata.get(_KIND) for each in fields(record) if each.init}


def message_json(text: Message) -> dict[str, Any]:
    """Return the message as JSON values, which :func:`message_from_json` reads."""
    return {"sentence": text.sentence, "fields": {name: _json(field) for name, field in text.fields.items()}}


def message_from_json(value: Any) -> Message:
    """Return the message that :func:`message_json` wrote, or that a stranger wrote in its place.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: The values are not a message.

    """
    made = _made(value["sentence"], {name: _field(each) for name, each in value["fields"].items()})
    for _, _, conversion, spec in _parsed(made.sentence):
        if conversion not in ("", "r") or not _SPEC.fullmatch(spec):
            raise ValueError(f"{made.sentence!r:.80} is not the sentence of a message")
    _ = made.parts
    return made


@lru_cache(maxsize=4096)
def _parsed(sentence: str) -> tuple[tuple[str, str, str, str], ...]:
    """Return a sentence's pieces: a literal, and the name, conversion and format of the field after it."""
    pieces = Formatter().parse(sentence)
    return tuple(
        (literal, name or "", conversion or "", spec or "") for literal, name, spec, conversion in pieces
    )


def _parts_of(field: Field, conversion: str, spec: str) -> Iterator[Part]:
    match field:
        case Message():
            yield from field._parts()  # noqa: SLF001 - its own class
        case Command() | Phrase() | Value():
            yield field
        case list() | tuple():
            for number, each in enumerate(field):
                yield ", " if number else ""
                yield from _parts_of(each, conversion, spec)
        case None:
            yield "none"
        case _:
            yield format(repr(field) if conversion == "r" else field, spec)


def _shown(part: Part) -> str:
    """Return the text of a part; a value that was not cleared is hidden."""
    return MASK if isinstance(part, Value) and not part.is_cleared else str(part)


def _each(field: Field, change: Callable[[Field], Field]) -> Field:
    """Return the field with ``change`` applied to it, or to its members."""
    if isinstance(field, Message):
        return field._with_fields(change)  # noqa: SLF001 - its own class
    if isinstance(field, list | tuple):
        return [_each(each, change) for each in field]
    return change(field)


def _changed(field: Field, change: Callable[[str], str]) -> Field:
    match field:
        case Command(words, imperative):
            return Command(tuple(map(change, words)), imperative)
        case Phrase(typed, called):
            return Phrase(change(typed), change(called))
        case Value(_, text, mask):
            return replace(field, text=change(text), mask=change(mask))
        case str():
            return change(field)
        case _:
            return field


def _made(sentence: str, fields: Mapping[str, Field]) -> Message:
    """Return a message of a sentence that was put together here, of literals and names of fields."""
    return Message(sentence, **fields)  # type: ignore[misc]  # the only place without a literal


def _json(field: Field) -> Any:  # noqa: PLR0911 - a table
    match field:
        case Message():
            return {"message": message_json(field)}
        case Command(words, imperative):
            return {"command": list(words), "imperative": imperative}
        case Phrase(typed, called):
            return {"typed": typed, "called": called}
        case Value() if field.is_cleared:
            return str(field)
        case Value(kind, text, mask, quoted):
            return {"value": text, "kind": kind.value, "mask": mask, "quoted": quoted}
        case list() | tuple():
            return [_json(each) for each in field]
        case None | bool() | int() | float():
            return field
        case _:
            return str(field)


def _field(field: Any) -> Field:
    match field:
        case None | str() | int() | float():
            return field
        case [*members]:
            return [_field(each) for each in members]
        case {"message": text}:
            return message_from_json(text)
        case {"command": [*words], "imperative": bool(imperative)}:
            return Command(tuple(map(str, words)), imperative)
        case {"typed": str(typed), "called": str(called)}:
            return Phrase(typed, called)
        case {"value": str(text), "kind": str(kind), "mask": str(mask), "quoted": bool(quoted)}:
            return Value(ValueKind(kind), text, mask, quoted)
        case _:
            raise ValueError(f"{field!r:.80} is not a field of a message")


def texts(document: Any) -> Any:
    """Return the JSON document with the texts of its messages in their places.

    It is also the ``default`` of :func:`json.dumps`, which asks it for messages alone.

    Raises:
        TypeError: A value has no form in JSON.

    """
    match document:
        case Message():
            return str(document)
        case Mapping():
            return {key: texts(value) for key, value in document.items()}
        case list() | tuple():
            return [texts(value) for value in document]
        case None | str() | int() | float():
            return document
    raise TypeError(f"a {type(document).__name__} has no form in JSON")


class NamedCommand(TypedDict):
    """A command in a text of a JSON document.

    ``place`` has the keys and indexes that lead to the text, in which the command begins at ``at``.
    """

    place: list[str | int]
    at: int
    words: list[str]
    imperative: bool


def commands_of(document: Any) -> list[NamedCommand]:
    """Return the commands in the messages of a document, as JSON keeps only the texts of messages."""
    return list(_commands(document, ()))


def with_commands(document: Any, named: Sequence[NamedCommand]) -> Any:
    """Return the document with messages in place of the texts that contain these commands.

    Args:
        document: The document, as JSON values.
        named: The commands that :func:`commands_of` returned for it.

    Raises:
        ValueError: A text does not contain its command at the recorded position.

    """
    by_place: dict[tuple[str | int, ...], list[NamedCommand]] = {}
    for each in named:
        by_place.setdefault(tuple(each["place"]), []).append(each)
    for place, here in by_place.items():
        document = _replaced(document, place, here)
    return document


def _commands(value: Any, place: tuple[str | int, ...]) -> Iterator[NamedCommand]:
    if isinstance(value, Message):
        at = 0
        for part in value.parts:
            if isinstance(part, Command):
                words = list(part.words)
                yield NamedCommand(place=list(place), at=at, words=words, imperative=part.imperative)
            at += len(_shown(part))
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _commands(member, (*place, key))
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield from _commands(member, (*place, index))


def _replaced(value: Any, place: tuple[str | int, ...], named: Sequence[NamedCommand]) -> Any:
    if not place:
        return _message(value, named)
    key, rest = place[0], place[1:]
    if isinstance(value, Mapping) and key in value:
        return {**value, key: _replaced(value[key], rest, named)}
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return [*value[:key], _replaced(value[key], rest, named), *value[key + 1 :]]
    raise ValueError(_ELSEWHERE)


def _message(text: Any, named: Sequence[NamedCommand]) -> Message:
    if not isinstance(text, str):
        raise ValueError(_ELSEWHERE)  # noqa: TRY004 - the document is wrong, not its type
    parts: list[Part] = []
    done = 0
    for each in named:
        written = Command(tuple(each["words"]), imperative=each["imperative"])
        begin, end = each["at"], each["at"] + len(str(written))
        if not written.words or begin < done or text[begin:end] != str(written):
            raise ValueError(_ELSEWHERE)
        parts += [text[done:begin], written]
        done = end
    return Message.of(*parts, text[done:])


_ELSEWHERE: Final = "a text does not contain its command at the recorded position"
