"""Messages as data: texts that keep their commands and values as separate parts until they are printed.

The printer of a message writes its parts: the command line completes commands with the options that were
typed, and Python names the calls that do the same. Values that are personal data are masked before that. No
code searches the finished text for them, as it contains words of other programs too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self, TypeAlias, TypedDict

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

    If ``quoted``, it is written between quotation marks, with escapes.
    """

    kind: ValueKind
    text: str
    mask: str = MASK
    quoted: bool = False

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


MessagePart: TypeAlias = str | Command | Phrase | Value
Writer: TypeAlias = Callable[[Command | Phrase], str]
"""A function with which a printer turns commands and phrases into text."""


class Message(str):
    """A text together with its parts. As a text it is what a reader sees if nothing is completed.

    Sums of texts and messages are messages. A message formatted into another text loses its parts.
    """

    __slots__ = ("parts",)
    parts: tuple[MessagePart, ...]

    def __new__(cls, *parts: MessagePart) -> Self:
        """Return the message with these parts; messages among them are replaced by their own parts."""
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
    """Return a message that names the command with these words."""
    return Message(Command(words))


def run(*words: str) -> Message:
    """Return a message that asks the reader to run the command with these words."""
    return Message(Command(words, imperative=True))


def phrase(typed: str, *, called: str) -> Message:
    """Return a message with one wording for a command line and another for Python."""
    return Message(Phrase(typed, called))


def joined(separator: str, texts: Iterable[str]) -> str:
    """Return the texts with the separator between them, as a message if one of them is a message."""
    parts: list[str] = []
    for text in texts:
        parts += [separator, text] if parts else [text]
    return Message(*parts) if any(isinstance(part, Message) for part in parts) else "".join(parts)


def written(text: str, writer: Writer | None) -> str:
    """Return the text; in a message, ``writer`` writes the commands and phrases."""
    if writer is None or not isinstance(text, Message):
        return str(text)
    return "".join(writer(part) if isinstance(part, Command | Phrase) else str(part) for part in text.parts)


def changed(text: str, change: Callable[[str], str]) -> str:
    """Return the result of ``change``, which is applied to each part of a message separately."""
    if not isinstance(text, Message):
        return change(text)
    return Message(*(_changed(part, change) for part in text.parts))


def with_values(text: str, change: Callable[[Value], Value]) -> str:
    """Return the text; in a message, ``change`` replaces each value."""
    if not isinstance(text, Message):
        return text
    return Message(*(change(part) if isinstance(part, Value) else part for part in text.parts))


def parts_json(text: str) -> list[Any]:
    """Return the parts of a text as JSON values, which :func:`from_parts_json` reads."""
    return [_part_json(part) for part in (text.parts if isinstance(text, Message) else (text,))]


def from_parts_json(parts: Iterable[Any]) -> Message:
    """Return the message with the parts that :func:`parts_json` wrote.

    Raises:
        ValueError, KeyError, TypeError: The values are not parts of a message.

    """
    return Message(*map(_part, parts))


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
            raise ValueError(f"{part!r:.80} is not part of a message")


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
        raise ValueError(_ELSEWHERE)  # noqa: TRY004 - the document is wrong, not its type
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


_ELSEWHERE: Final = "a text does not contain its command at the recorded position"
