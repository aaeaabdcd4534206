"""CEL expressions of guardrails, compiled once and limited in cost before evaluation.

CEL (https://cel.dev) has no recursion, no side effects, and no loops except its macros over lists and maps.
The nesting of macros is limited, and so is the number of ``+``, each of which may double a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from parquetry.project.diagnostics.model import Problem, one_of

VARIABLES: Final = (
    "action",
    "costs",
    "figures",
    "now",
    "project",
    "rewrite_bytes",
    "spec",
    "table",
    "target",
)
"""The variables that an expression may read."""

MOST_STEPS: Final = 100_000
_MOST_NESTED: Final = 2
_MOST_SUMS: Final = 8
_MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
_DATE_PARTS: Final = ("Date", "DayOfMonth", "DayOfWeek", "DayOfYear", "FullYear", "Month")
_TIME_PARTS: Final = ("Hours", "Milliseconds", "Minutes", "Seconds")
_DATES: Final = frozenset(f"get{part}" for part in (*_DATE_PARTS, *_TIME_PARTS))
_TEXTS: Final = frozenset({"contains", "endsWith", "size", "startsWith"})
"""`matches` is missing: it compiles its pattern at each call, which may take a second."""
_TYPES: Final = frozenset({"double", "duration", "has", "int", "string", "timestamp", "type", "uint"})
_FUNCTIONS: Final = _DATES | _TEXTS | _TYPES
_CODE: Final = "PQ107"
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<name>[A-Za-z_]\w*)|(?P<sign>\S)""", re.ASCII
)
_PREFIXED: Final = re.compile(r"""["'A-Za-z0-9_]\Z""")
_FAILURES: Final = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError)
"""The library's exceptions for a text that is not an expression, or an expression without a value."""


class EvaluationError(Exception):
    """An expression has no value for this action; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """The cost of an expression: the number and nesting of its macros, its sums and its literal entries."""

    loops: int
    nested: int
    sums: int
    entries: int

    def steps(self, longest: int) -> int:
        """Return an upper bound of the steps if the longest list or map has ``longest`` entries."""
        width = max(longest, self.entries, 1) << self.sums
        return max(self.loops, 1) * int(width**self.nested)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A compiled expression; ``variables`` are the names of :data:`VARIABLES` that it reads."""

    text: str
    variables: frozenset[str]
    size: _Size = field(compare=False, repr=False)
    program: Any = field(compare=False, repr=False)

    def value(self, context: Any, *, longest: int) -> Any:
        """Evaluate the expression.

        Args:
            context: a result of :func:`context_of`.
            longest: the number of entries of the context's longest list or map.

        Raises:
            EvaluationError: if the expression has no value, or may take too many steps.

        """
        if self.size.steps(longest) > MOST_STEPS:
            raise EvaluationError(
                f"it may take more than {MOST_STEPS:,} steps, as a list of the action has {longest:,} entries"
            )
        try:
            return self.program.execute(context)
        except _FAILURES as error:
            raise EvaluationError(_first_sentence(error)) from error


def context_of(values: Mapping[str, Any]) -> Any:
    """Convert variables into a context that any number of expressions can read.

    Raises:
        EvaluationError: if CEL has no value for one of them.

    """
    try:
        return _cel().Context(variables=dict(values))
    except _FAILURES as error:
        raise EvaluationError(_first_sentence(error)) from error


def compiled(text: str) -> Expression:
    """Compile an expression.

    Raises:
        Problem: if the text is not an expression, reads unknown names, or may take too long.

    """
    size, loop_variables = _measured(text)
    try:
        program = _cel().compile(text)
    except _FAILURES as error:
        raise Problem(_CODE, f"not a CEL expression: {_complaint(error)}") from error
    references = program.references()
    read = frozenset(references["variables"]) - loop_variables
    for name in sorted(read.difference(VARIABLES)):
        raise Problem(_CODE, f"there is no variable '{name}'", one_of("variable", name, VARIABLES))
    named = {name for name in references["functions"] if name.isidentifier() and not name.startswith("_")}
    for name in sorted(named - _FUNCTIONS):
        raise Problem(_CODE, f"there is no function '{name}'", one_of("function", name, sorted(_FUNCTIONS)))
    return Expression(text=text, variables=read, size=size, program=program)


def longest_in(value: Any) -> int:
    """Return the number of entries of the longest list or map in a JSON value."""
    if not isinstance(value, dict | list) or not value:
        return 0
    children = value.values() if isinstance(value, dict) else value
    return max(len(value), *(longest_in(child) for child in children))


@cache
def _cel() -> Any:
    """Import the CEL library; only projects with guardrails need it, and it brings a command line along."""
    import cel  # noqa: PLC0415  # only projects with guardrails need it

    return cel


def _measured(text: str) -> tuple[_Size, frozenset[str]]:
    """Return the cost of an expression, and the names that its macros bind."""
    opened: list[bool] = []
    words: list[str] = []
    loops = nested = sums = commas = 0
    bound: set[str] = set()
    for token in _TOKEN.finditer(text):
        word = token[0]
        if token["sign"]:
            _check_sign(text, token.start())
            if word == "(":
                is_loop = len(words) > 1 and words[-1] in _MACROS and words[-2] == "."
                opened.append(is_loop)
                loops += is_loop
                nested = max(nested, sum(opened))
            elif word == ")" and opened:
                opened.pop()
            sums += word == "+"
            commas += word == ","
        elif token["text"] and _PREFIXED.search(text, 0, token.start()):
            raise Problem(_CODE, "raw strings, bytes and strings in triple quotes are not accepted")
        elif token["name"] and len(words) > 1 and words[-1] == "(" and opened[-1]:
            bound.add(word)
        words.append(word)
    if nested > _MOST_NESTED or sums > _MOST_SUMS:
        summary = f"an expression may nest at most {_MOST_NESTED} macros and contain at most {_MOST_SUMS} `+`"
        raise Problem(_CODE, summary, "split the guardrail")
    size = _Size(loops=loops, nested=nested, sums=sums, entries=commas + 1)
    return size, frozenset(bound)


def _check_sign(text: str, start: int) -> None:
    """Raise Problem for a quote that nothing closes on its line, and for a comment.

    Both would hide a part of the expression from the count of its steps.
    """
    if text[start] in "\"'":
        raise Problem(_CODE, "a text is not closed, or spans lines")
    if text.startswith("//", start):
        raise Problem(_CODE, "comments of CEL are not accepted", "write comments of YAML")


def _complaint(error: Exception) -> str:
    """Return the parser's error message without the excerpt below it."""
    found = re.search(r"ERROR: <input>:\d+:\d+: ([^\n]+)", str(error))
    return found[1] if found else _first_sentence(error)


def _first_sentence(error: Exception) -> str:
    """Return the first sentence of an error's message, at most 200 characters."""
    text = " ".join(str(error).split())
    return text.partition(". ")[0].partition(": the operation")[0][:200]
