"""Messages as data: texts that know which of their parts are commands and values, until somebody prints them.

Who prints a message writes its parts: the command line completes commands with the options that were typed,
Python names the calls that do the same. Values of a table are masked before, where they are personal data.
Nobody looks for them in the text, which holds words of others too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias, TypedDict

from parquetry import shell
from parquetry.secret_names import MASK


@dataclass(frozen=True, slots=True)
class Command:
    """A command of parquetry by its words without the program's name, to be typed by the reader.

    ``imperative`` says that the message asks for it: "run `parquetry apply`".
    """

    words: tuple[str, ...]
    imperative: bool = False

    def __str__(self) -> str:
        return f"{'run ' if self.imperative else ''}{shell.named('parquetry', *self.words)}"


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that differ by who reads them: ``typed`` on a command line, ``called`` in Python."""

    typed: str
    called: str

    def __str__(self) -> str:
        return self.typed


class ValueKind(StrEnum):
    """What a value in a message is, which decides whether it may be personal data."""

    PARTITION = "partition"
    """The path of a partition."""
    RECORD_KEY = "record_key"
    FILE = "file"
    """The path of a file or folder, relative to its table."""
    URI = "uri"
    """Where a file or folder is: of the table, or of something else."""
    QUOTE = "quote"
    """The words of a library, or of a cell: they may hold parts of rows, and whole ones."""


@dataclass(frozen=True, slots=True)
class Value:
    """Something of a table, or of what was read for it, that may be personal data; ``mask`` then replaces it.

    ``quoted`` is written between quotation marks, with escapes.
    """

    kind: ValueKind
    text: str
    mask: str = MASK
    quoted: bool = False

    def __str__(self) -> str:
        return repr(self.text) if self.quoted else self.text

    @classmethod
    def partition(cls, path: str) -> Value:
        """The partition with this path, quoted."""
        return cls(ValueKind.PARTITION, path, quoted=True)

    @classmethod
    def record_key(cls, key: str) -> Value:
        """The record key, quoted."""
        return cls(ValueKind.RECORD_KEY, key, quoted=True)

    @classmethod
    def file(cls, path: str, *, quoted: bool = False) -> Value:
        """The file or folder of the table at this path."""
        return cls(ValueKind.FILE, path, quoted=quoted)

    @classmethod
    def uri(cls, uri: str, *, quoted: bool = False) -> Value:
        """The file or folder that is there."""
        return cls(ValueKind.URI, uri, quoted=quoted)

    @classmethod
    def quote(cls, text: str, mask: str = MASK) -> Value:
        """The words of somebody else."""
        return cls(ValueKind.QUOTE, text, mask)


MessagePart: TypeAlias = str | Command | Phrase | Value
Writer: TypeAlias = Callable[[Command | Phrase], str]
"""How a printer writes the parts that are not plain text."""


class Message(str):
    """A text and the parts that it is made of; as a text it is what everybody reads who completes nothing.

    Sums of texts and messages are messages. Formatted into another text a message is that text alone.
    """

    __slots__ = ("parts",)
    parts: tuple[MessagePart, ...]

    def __new__(cls, *parts: MessagePart) -> Self:
        """The message with these parts, those of messages among them in their place."""
        flat = tuple(_flat(parts))
        made = super().__new__(cls, "".join(map(str, flat)))
        made.parts = flat
        return made

    def __add__(self, other: str) -> Message:
        return Message(self, other)

    def __radd__(self, other: str) -> Message:
        return Message(other, self)

    def __reduce__(self) -> tuple[type[Message], tuple[MessagePart, ...]]:
        return Message, self.parts


def command(*words: str) -> Message:
    """The command with these words, as a sentence names it."""
    return Message(Command(words))


def run(*words: str) -> Message:
    """The request to run the command."""
    return Message(Command(words, imperative=True))


def phrase(typed: str, *, called: str) -> Message:
    """What to do, in words for a command line and in words for Python."""
    return Message(Phrase(typed, called))


def joined(separator: str, texts: Iterable[str]) -> str:
    """The texts with the separator between them: a message where one of them is."""
    parts: list[str] = []
    for text in texts:
        parts += [separator, text] if parts else [text]
    return Message(*parts) if any(isinstance(part, Message) for part in parts) else "".join(parts)


def written(text: str, writer: Writer | None) -> str:
    """The text with the parts of a message as ``writer`` writes them."""
    if writer is None or not isinstance(text, Message):
        return str(text)
    return "".join(writer(part) if isinstance(part, Command | Phrase) else str(part) for part in text.parts)


def changed(text: str, change: Callable[[str], str]) -> str:
    """The text after ``change``; of a message each text, value and word of a command for itself."""
    if not isinstance(text, Message):
        return change(text)
    return Message(*(_changed(part, change) for part in text.parts))


def with_values(text: str, change: Callable[[Value], Value]) -> str:
    """The text; of a message with what ``change`` gives for each of its values."""
    if not isinstance(text, Message):
        return text
    return Message(*(change(part) if isinstance(part, Value) else part for part in text.parts))


def parts_json(text: str) -> list[Any]:
    """The parts of a text as values of JSON, from which :func:`from_parts_json` makes it again."""
    return [_part_json(part) for part in (text.parts if isinstance(text, Message) else (text,))]


def from_parts_json(parts: Iterable[Any]) -> Message:
    """The text with these parts; ValueError, KeyError or TypeError where they are none."""
    return Message(*map(_part, parts))


class NamedCommand(TypedDict):
    """A command in a text of a JSON document: ``place`` leads to the text, in which it begins ``at``."""

    place: list[str | int]
    at: int
    words: list[str]
    imperative: bool


def commands_of(document: Any) -> list[NamedCommand]:
    """The commands in the messages of a document that is to become JSON, which keeps only their texts."""
    return list(_commands(document, ()))


def with_commands(document: Any, named: Sequence[NamedCommand]) -> Any:
    """The document with the messages that :func:`commands_of` found in it.

    ValueError where a text is not the one that named the command.
    """
    by_place: dict[tuple[str | int, ...], list[NamedCommand]] = {}
    for each in named:
        by_place.setdefault(tuple(each["place"]), []).append(each)
    for place, here in by_place.items():
        document = _replaced(document, place, here)
    return document


def _flat(parts: Iterable[MessagePart]) -> Iterator[MessagePart]:
    for part in parts:
        if isinstance(part, Message):
            yield from part.parts
        elif part:
            yield part


def _changed(part: MessagePart, change: Callable[[str], str]) -> MessagePart:
    match part:
        case Command(words, imperative):
            return Command(tuple(map(change, words)), imperative)
        case Phrase(typed, called):
            return Phrase(change(typed), change(called))
        case Value(_, text, mask):
            return replace(part, text=change(text), mask=change(mask))
        case _:
            return change(part)


def _part_json(part: MessagePart) -> Any:
    match part:
        case Command(words, imperative):
            return {"command": list(words), "imperative": imperative}
        case Phrase(typed, called):
            return {"typed": typed, "called": called}
        case Value(kind, text, mask, quoted):
            return {"value": text, "kind": kind.value, "mask": mask, "quoted": quoted}
        case _:
            return str(part)


def _part(part: Any) -> MessagePart:
    match part:
        case str():
            return part
        case {"command": [*words], "imperative": bool(imperative)}:
            return Command(tuple(map(str, words)), imperative)
        case {"typed": str(typed), "called": str(called)}:
            return Phrase(typed, called)
        case {"value": str(text), "kind": str(kind), "mask": str(mask), "quoted": bool(quoted)}:
            return Value(ValueKind(kind), text, mask, quoted)
        case _:
            raise ValueError(f"{part!r:.80} is no part of a message")


def _commands(value: Any, place: tuple[str | int, ...]) -> Iterator[NamedCommand]:
    if isinstance(value, Message):
        at = 0
        for part in value.parts:
            if isinstance(part, Command):
                words = list(part.words)
                yield NamedCommand(place=list(place), at=at, words=words, imperative=part.imperative)
            at += len(str(part))
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
        raise ValueError(_ELSEWHERE)  # noqa: TRY004 - of whoever wrote the document
    parts: list[MessagePart] = []
    done = 0
    for each in named:
        found = Command(tuple(each["words"]), imperative=each["imperative"])
        begin, end = each["at"], each["at"] + len(str(found))
        if not found.words or begin < done or text[begin:end] != str(found):
            raise ValueError(_ELSEWHERE)
        parts += [text[done:begin], found]
        done = end
    return Message(*parts, text[done:])


_ELSEWHERE: Final = "a command is not where it is said to be"
