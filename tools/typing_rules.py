"""A plugin of mypy: the sentence of a message is a literal, and messages are not formatted into texts.

In a text, a message loses its fields, among them values that must be masked. It has to be a field of another message
(:mod:`parquetry.message`). The same holds for exceptions that have a message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy.nodes import FuncDef, StrExpr
from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, Type, UnionType, get_proper_type

_MESSAGE: Final = "parquetry.message.Message"
_WITH_MESSAGE: Final = frozenset({_MESSAGE, "parquetry.errors.MessageError"})
_EXCEPTION: Final = frozenset({"parquetry.errors.MessageError"})
_SHOWN: Final = (
    "The text of an exception shows all values; use its message, which hides them until they are cleared"
)
_FORMATTED: Final = "A message loses its fields in a text; make it a field of a message"
_NOT_LITERAL: Final = "The sentence of a message is a literal; its values are fields"


class _Rules(Plugin):
    """The rules for ``str.format``, by which mypy also checks f-strings, and for calls of classes with messages."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """Return the check of calls of ``str.format``, None for other methods."""
        return _check_format if fullname == "builtins.str.format" else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Return the check of calls of our classes."""
        if fullname == "builtins.str":
            return _check_text
        return partial(_check_sentence, fullname) if fullname.startswith("parquetry.") else None


def _check_format(context: MethodContext) -> Type:
    for kind in (each for kinds in context.arg_types for each in kinds):
        if _any_of(kind, _WITH_MESSAGE):
            context.api.fail(_FORMATTED, context.context)
    return context.default_return_type


def _check_text(context: FunctionContext) -> Type:
    for kind in (each for kinds in context.arg_types[:1] for each in kinds):
        if _any_of(kind, _EXCEPTION):
            context.api.fail(_SHOWN, context.context)
    return context.default_return_type


def _check_sentence(called: str, context: FunctionContext) -> Type:
    if _takes_sentence(called, context.default_return_type) and not any(
        map(_is_sentence, context.arg_types[0], context.args[0])
    ):
        context.api.fail(_NOT_LITERAL, context.context)
    return context.default_return_type


def _takes_sentence(called: str, made: Type) -> bool:
    """Return whether a class is called whose constructor takes a sentence first."""
    proper = get_proper_type(made)
    if not isinstance(proper, Instance) or proper.type.fullname != called or not _any_of(made, _WITH_MESSAGE):
        return False
    constructor = proper.type.get_method("__init__")
    return isinstance(constructor, FuncDef) and "sentence" in constructor.arg_names[1:2]


def _is_sentence(kind: Type, argument: object) -> bool:
    return isinstance(argument, StrExpr) or _all_of(kind, _MESSAGE)


def _any_of(kind: Type, names: frozenset[str]) -> bool:
    proper = get_proper_type(kind)
    if isinstance(proper, UnionType):
        return any(_any_of(each, names) for each in proper.items)
    return isinstance(proper, Instance) and any(base.fullname in names for base in proper.type.mro)


def _all_of(kind: Type, name: str) -> bool:
    proper = get_proper_type(kind)
    if isinstance(proper, UnionType):
        return all(_all_of(each, name) for each in proper.items)
    return isinstance(proper, Instance) and proper.type.fullname == name


def plugin(_: str) -> type[Plugin]:
    """Return the plugin's class, for the version of mypy that asks."""
    return _Rules
