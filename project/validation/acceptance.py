"""A fast test of whether a value fits a schema, with checks that are built from the schema once.

Nearly all files fit, and this test takes a tenth of the time of jsonschema. For a value that does not
fit, jsonschema describes the errors. The two agree on every value, which a law compares on all cases of
`tests/schemas` and on random changes of them. If this test accepted more, a wrong file would pass; if it
accepted less, only time would be lost. A keyword that it does not know is an error at once.

fastjsonschema and jsonschema-rs would be fast too, but their errors have other words, another order and
other paths. A cache of checks on disk would be a second truth; compiling a schema takes a millisecond.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from parquetry.project.validation.definitions import Kind, compiled_pattern, inlined

Accepts: TypeAlias = Callable[[Any], bool]
_Sized: TypeAlias = str | list[Any] | dict[str, Any]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_NUMBERS: Final = frozenset(_TYPES["number"])
_ANNOTATIONS: Final = frozenset({"$id", "$schema", "default", "description", "title"})
_WITHIN_OTHERS: Final = frozenset({"additionalProperties", "else", "then"})


@cache
def accepts(kind: Kind) -> Accepts:
    """Return the check of a kind of file: a function that is True for values that fit the schema."""
    return check_of(inlined(kind))


def check_of(schema: Mapping[str, Any]) -> Accepts:
    """Build the check for a schema without references.

    Raises:
        KeyError: if the schema has a keyword that this module does not implement.

    """
    keywords = {"properties": {}, **schema} if "additionalProperties" in schema else schema
    checks = tuple(
        _KEYWORDS[keyword](demand, schema)
        for keyword, demand in keywords.items()
        if keyword not in _ANNOTATIONS and keyword not in _WITHIN_OTHERS
    )

    def fits(value: Any) -> bool:
        for check in checks:  # noqa: SIM110 - a generator takes twice the time
            if not check(value):
                return False
        return True

    return fits


def _type(names: str | list[str], _: object) -> Accepts:
    listed = [names] if isinstance(names, str) else names
    types = frozenset(kind for name in listed for kind in _TYPES[name])
    # The exact type: True is an int to isinstance, but not a number in JSON Schema.
    return lambda value: type(value) in types


def _members(properties: Mapping[str, Any], schema: Mapping[str, Any]) -> Accepts:
    """Return the check of ``properties`` together with ``additionalProperties``."""
    known = {name: check_of(below) for name, below in properties.items()}
    others = schema.get("additionalProperties", True)
    other = check_of(others) if isinstance(others, Mapping) else lambda _: bool(others)

    def fits(value: Any) -> bool:
        if type(value) is dict:
            for name, member in value.items():
                if not known.get(name, other)(member):
                    return False
        return True

    return fits


def _items(below: Mapping[str, Any], _: object) -> Accepts:
    check = check_of(below)
    return lambda value: type(value) is not list or all(map(check, value))


def _names(below: Mapping[str, Any], _: object) -> Accepts:
    check = check_of(below)
    return lambda value: type(value) is not dict or all(map(check, value))


def _required(names: list[str], _: object) -> Accepts:
    wanted = frozenset(names)
    return lambda value: type(value) is not dict or wanted <= value.keys()


def _enum(words: list[str] | list[int], schema: Mapping[str, Any]) -> Accepts:
    kinds = {type(word) for word in words}
    assert kinds == {str} or (kinds == {int} and schema.get("type") == "integer"), (
        "texts, or whole numbers with their type: numbers and flags may be equal"
    )
    wanted = frozenset(words)
    return lambda value: type(value) in kinds and value in wanted


def _unique(demand: bool, _: object) -> Accepts:  # noqa: FBT001 - the keyword's value
    def texts(value: list[Any]) -> set[str]:
        return {json.dumps(entry, sort_keys=True) for entry in value}

    return lambda value: not demand or type(value) is not list or len(texts(value)) == len(value)


def _pattern(pattern: str, _: object) -> Accepts:
    search = compiled_pattern(pattern).search
    return lambda value: type(value) is not str or search(value) is not None


def _condition(demand: Mapping[str, Any], schema: Mapping[str, Any]) -> Accepts:
    """Return the check of ``if`` together with ``then`` and ``else``."""
    holds, so, otherwise = (
        check_of(part) for part in (demand, schema.get("then", {}), schema.get("else", {}))
    )
    return lambda value: so(value) if holds(value) else otherwise(value)


def _at_least(kind: type[_Sized], demand: int) -> Accepts:
    return lambda value: type(value) is not kind or len(value) >= demand


def _at_most(kind: type[_Sized], demand: int) -> Accepts:
    return lambda value: type(value) is not kind or len(value) <= demand


_KEYWORDS: Final[Mapping[str, Callable[[Any, Any], Accepts]]] = {
    "const": lambda word, schema: _enum([word], schema),
    "enum": _enum,
    "if": _condition,
    "items": _items,
    "maxItems": lambda demand, _: _at_most(list, demand),
    "maxLength": lambda demand, _: _at_most(str, demand),
    "maxProperties": lambda demand, _: _at_most(dict, demand),
    "maximum": lambda demand, _: lambda value: type(value) not in _NUMBERS or value <= demand,
    "minItems": lambda demand, _: _at_least(list, demand),
    "minLength": lambda demand, _: _at_least(str, demand),
    "minProperties": lambda demand, _: _at_least(dict, demand),
    "minimum": lambda demand, _: lambda value: type(value) not in _NUMBERS or value >= demand,
    "pattern": _pattern,
    "properties": _members,
    "propertyNames": _names,
    "required": _required,
    "type": _type,
    "uniqueItems": _unique,
}
