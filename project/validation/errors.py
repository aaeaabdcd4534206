"""Violations of a schema as diagnostics at their positions, in the words of the spec."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from parquetry.message import Text
from parquetry.project.diagnostics.model import Diagnostic, diagnostic, did_you_mean
from parquetry.project.diagnostics.source import SourceText, Span
from parquetry.project.validation.acceptance import accepts
from parquetry.project.validation.definitions import Kind
from parquetry.project.validation.template_syntax import is_template
from parquetry.project.validation.units import unit_hint
from parquetry.project.yaml.document import Node, Path

if TYPE_CHECKING:
    from jsonschema import ValidationError

MOST_VIOLATIONS = 200
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_MOST_CHARACTERS = re.compile(r"\{0,([0-9]+)\}")
_KEY_REFERENCES = frozenset(
    {"encryption_key", "former_encryption_keys", "encryption_keys", "signing_key", "former_signing_keys"}
)
"""Keys whose value refers to an encryption or signing key; users may paste the key itself by mistake."""
_BOOLEAN_WORDS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A diagnostic and the path of the part that must not be used because of it.

    ``of_structure`` is True if the schema needs a mapping or list there, which no template can produce.
    """

    path: Path
    diagnostic: Diagnostic
    of_structure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """An error of jsonschema: the keyword, its value and schema, and the value that fails.

    ``of_key`` is True if the error is in the name of a key.
    """

    keyword: str
    demand: Any
    schema: Mapping[str, Any]
    instance: Any
    text: str
    path: Path
    of_key: bool

    @classmethod
    def of(cls, error: ValidationError) -> _Failure:
        return cls(
            keyword=str(error.validator),
            demand=error.validator_value,
            schema=error.schema if isinstance(error.schema, Mapping) else {},
            instance=error.instance,
            text=error.message,
            path=tuple(step for step in error.absolute_path if isinstance(step, (str, int))),
            of_key="propertyNames" in error.absolute_schema_path,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A diagnostic without its position, which is the key or the value at ``path``."""

    code: str
    summary: Text
    path: Path
    hint: Text | None = None
    at_key: bool = False


def violations(kind: Kind, value: Any, *, node: Node, source: SourceText) -> list[Violation]:
    """Return what violates the schema of ``kind`` in a value, as at most 200 violations and a note.

    Texts that are still templates pass, unless the schema needs a mapping or list.

    Args:
        kind: the kind of the file.
        value: the file's values, with secrets in printable form.
        node: the root node of the file, for positions.
        source: the file.

    """
    if accepts(kind)(value):
        return []
    # The import of jsonschema takes as long as a few hundred valid files.
    from parquetry.project.validation.validators import validator  # noqa: PLC0415

    failures = (_Failure.of(error) for error in validator(kind).iter_errors(value))
    messages = (
        (failure, message)
        for failure in failures
        if not is_template(failure.instance) or _wants_structure(failure)
        for message in _messages(failure)
    )
    found = []
    for failure, message in islice(messages, MOST_VIOLATIONS):
        made = diagnostic(
            message.code,
            message.summary,
            source=source,
            span=_place(node, message),
            hint=message.hint,
            shows_lines=not _is_secret(failure.path),
        )
        found.append(Violation(path=message.path, diagnostic=made, of_structure=_wants_structure(failure)))
    if next(messages, None) is not None:
        summary = f"only the first {MOST_VIOLATIONS} findings of this file are shown"
        note = diagnostic("PQ015", summary, source=source, hint="fix those first")
        found.append(Violation(path=(), diagnostic=note))
    return found


def _wants_structure(failure: _Failure) -> bool:
    return failure.keyword == "type" and failure.demand in ("object", "array")


def _place(node: Node, message: _Message) -> Span:
    """Return the position of a message; a missing key is shown at the key of the mapping that lacks it."""
    if message.code == "PQ101":
        around = message.path[:-1]
        return node.key_span(around) if around else Span(node.span.start, node.span.start)
    return node.key_span(message.path) if message.at_key else node.at(message.path).span


def path_text(path: Path) -> str:
    """Return a path as people write it, such as ``columns[2].type``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def quoted_value(value: Any) -> str:
    """Return a value as messages quote it, cut to 60 characters."""
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(_cut(value))
    return _cut(str(value))


def _messages(failure: _Failure) -> Iterator[_Message]:
    path = failure.path
    if failure.of_key:
        title = failure.schema.get("title", "a text that is not empty")
        key = failure.instance
        yield _Message(
            code="PQ103", summary=f"key {quoted_value(key)} is not {title}", path=(*path, key), at_key=True
        )
    elif failure.keyword in _TRANSLATIONS:
        yield from _TRANSLATIONS[failure.keyword](failure, path)
    else:
        yield _Message(code="PQ103", summary=f"{_subject(path)}: {_cut(failure.text)}", path=path)


def _unknown_keys(failure: _Failure, path: Path) -> Iterator[_Message]:
    known = failure.schema.get("properties", {})
    inside = f" in {path_text(path)}" if path else ""
    cut = _cut_off(failure.instance)
    for key in failure.instance:
        if key not in known and key not in cut:
            hint = did_you_mean(key, known) or f"known keys are {', '.join(sorted(known))}"
            if "conf" in known:
                hint += "; Spark's own settings go under conf, such as spark.driver.memory"
            yield _Message(
                code="PQ102",
                summary=f"unknown key '{_cut(key)}'{inside}",
                path=(*path, key),
                hint=hint,
                at_key=True,
            )


def is_cut_off(text: str) -> bool:
    """Return whether a type ends within brackets.

    YAML reads an unquoted ``decimal(10,2)`` in ``{..}`` as two entries, and the type ends at the comma.
    """
    return text.count("(") > text.count(")") or text.count("<") > text.count(">")


def _cut_off(value: Any) -> tuple[str, ...]:
    """Return the keys that are the rest of an unquoted type such as ``decimal(10,2)`` in ``{..}``."""
    type_ = value.get("type") if isinstance(value, dict) else None
    if not isinstance(type_, str) or not is_cut_off(type_):
        return ()
    return tuple(key for key, rest in value.items() if rest is None)


def _missing_key(failure: _Failure, path: Path) -> Iterator[_Message]:
    inside = f" in {path_text(path)}" if path else ""
    missing = [key for key in failure.demand if key not in failure.instance]
    # jsonschema reports each missing key in an error of its own that names it first.
    for key in missing:
        if failure.text.startswith(f"{key!r} "):
            yield _Message(
                code="PQ101",
                summary=f"missing key '{key}'{inside}",
                path=(*path, key),
                hint=f"add {key}: {failure.schema.get('properties', {}).get(key, {}).get('const', '...')}",
            )


def _not_among(failure: _Failure, path: Path) -> Iterator[_Message]:
    demand = failure.demand if failure.keyword == "enum" else [failure.demand]
    if "type" in failure.schema and type(failure.instance) not in map(type, demand):
        return  # a finding about the type says so
    words = [str(word) for word in demand]
    choice = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    guess = isinstance(failure.instance, str) and len(words) > 1
    near = did_you_mean(failure.instance, words) if guess else None
    yield _Message(
        code="PQ104",
        summary=f"{_subject(path)} is {quoted_value(failure.instance)}, not {choice}",
        path=path,
        hint=near,
    )


def _wrong_value(failure: _Failure, path: Path) -> Iterator[_Message]:
    schema = failure.schema
    expected = schema.get("title", "something else")
    value = failure.instance
    sized = _size_without_unit(schema, value, path)
    if sized:
        yield sized
        return
    hint = _remedy(schema, value, expected)
    quoted = "the value (not shown)" if _is_secret(path) else quoted_value(value)
    summary = f"{_subject(path)} must be {expected}, not {quoted}"
    yield _Message(code="PQ103", summary=summary, path=path, hint=hint)


def _remedy(schema: Mapping[str, Any], value: Any, expected: str) -> str | None:
    """Return a hint of how to write the value in the type of the schema, or None without a good guess."""
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    hint = None
    if value is None:
        hint = "give it a value or remove the key"
    elif isinstance(value, (dict, list)):
        pass
    elif "array" in kinds:
        if schema.get("items", {}).get("type") == "string" and not is_template(value):
            hint = f"write [{_cut(str(value))}]"
    elif isinstance(value, str):
        hint = _unquoted_hint(value.strip(), kinds) or unit_hint(value, expected) or _name_hint(schema, value)
    elif isinstance(value, float) and "integer" in kinds and value.is_integer():
        hint = f"write {int(value)}"
    elif expected.startswith(("a size", "a duration")):
        hint = unit_hint(quoted_value(value), expected)
    elif kinds == ["string"]:
        hint = "quote it if it is a string"
    return hint


def _unquoted_hint(text: str, kinds: Sequence[str]) -> str | None:
    """Return the hint to write a text without quotes, if it is a boolean or a number then."""
    if "boolean" in kinds and text.lower() in ("true", "false"):
        return f"write {text.lower()} without quotes"
    if "boolean" in kinds and text.lower() in _BOOLEAN_WORDS:
        return f"write {_BOOLEAN_WORDS[text.lower()]}"
    if ("integer" in kinds and text.isdecimal()) or ("number" in kinds and _NUMBER.fullmatch(text)):
        return f"write {text} without quotes"
    return None


def _name_hint(schema: Mapping[str, Any], value: str) -> str | None:
    """Return a hint for a text that is too long or begins wrongly to be a name, or None."""
    most = _MOST_CHARACTERS.search(schema.get("pattern", ""))
    if most is None or not re.fullmatch(r"[\w.-]+", value, re.ASCII):
        return None
    if len(value) > int(most[1]) + 1:
        return f"use at most {int(most[1]) + 1} characters"
    return "begin it with a letter" if value[0].isdecimal() else None


def _repeated(_: _Failure, path: Path) -> Iterator[_Message]:
    yield _Message(
        code="PQ105",
        summary=f"{_subject(path)} has a duplicate entry",
        path=path,
        hint="remove one of the two",
    )


def _out_of_range(failure: _Failure, path: Path) -> Iterator[_Message]:
    sized = _size_without_unit(failure.schema, failure.instance, path)
    if sized:
        yield sized
        return
    word = "least" if failure.keyword == "minimum" else "most"
    summary = f"{_subject(path)} must be at {word} {failure.demand:,}, not {quoted_value(failure.instance)}"
    yield _Message(code="PQ105", summary=summary, path=path)


def _wrong_count(failure: _Failure, path: Path) -> Iterator[_Message]:
    title = failure.schema.get("title", "")
    if title.startswith("exactly"):
        yield _Message(
            code="PQ105",
            summary=f"{_subject(path)} must hold {title}",
            path=path,
            hint="write one entry per test",
        )
        return
    word = "least" if failure.keyword.startswith("min") else "most"
    noun = _COUNTED[failure.keyword[3:]]
    hint = f"it is {title}" if noun == "key" else None
    counted = f"{failure.demand:,} {noun if failure.demand == 1 else _PLURALS[noun]}"
    summary = f"{_subject(path)} must have at {word} {counted}"
    yield _Message(code="PQ105", summary=summary, path=path, hint=hint)


_COUNTED = {"Items": "entry", "Properties": "key", "Length": "character"}
_PLURALS = {"entry": "entries", "key": "keys", "character": "characters"}
_TRANSLATIONS: Mapping[str, Callable[[_Failure, Path], Iterator[_Message]]] = {
    "additionalProperties": _unknown_keys,
    "required": _missing_key,
    "enum": _not_among,
    "const": _not_among,
    "type": _wrong_value,
    "pattern": _wrong_value,
    "uniqueItems": _repeated,
    "minimum": _out_of_range,
    "maximum": _out_of_range,
    "minItems": _wrong_count,
    "maxItems": _wrong_count,
    "minProperties": _wrong_count,
    "maxProperties": _wrong_count,
    "minLength": _wrong_count,
    "maxLength": _wrong_count,
}


def _size_without_unit(schema: Any, value: Any, path: Path) -> _Message | None:
    """Return the message for a bare number in place of a size, or None."""
    if not str(schema.get("title", "")).startswith("a size") or isinstance(value, bool):
        return None
    digits = value if isinstance(value, str) else str(value)
    if not digits.isdecimal() or digits == "0":
        return None
    return _Message(
        code="PQ106",
        summary=f"{_subject(path)} is {digits}, a size without a unit",
        path=path,
        hint=f"write {digits}B for bytes, or a size such as 120MiB",
    )


def _is_secret(path: Path) -> bool:
    return not _KEY_REFERENCES.isdisjoint(path[-2:])


def _subject(path: Path) -> str:
    return path_text(path) or "the file"


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - half a terminal's width
