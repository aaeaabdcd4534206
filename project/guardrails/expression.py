"""CEL expressions of guardrails: compiled once, and bounded before they are evaluated.

CEL (https://cel.dev) has no loops but its macros over lists and maps, no recursion and no side effects. How
macros nest is bounded, and how often ``+`` may double what they go over.
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
"""What an expression may read."""

MOST_STEPS: Final = 100_000
_MOST_NESTED: Final = 2
_MOST_SUMS: Final = 8
_MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
_DATE_PARTS: Final = ("Date", "DayOfMonth", "DayOfWeek", "DayOfYear", "FullYear", "Month")
_TIME_PARTS: Final = ("Hours", "Milliseconds", "Minutes", "Seconds")
_DATES: Final = frozenset(f"get{part}" for part in (*_DATE_PARTS, *_TIME_PARTS))
_TEXTS: Final = frozenset({"contains", "endsWith", "size", "startsWith"})
"""Without `matches`: it compiles its pattern each time, which may take a second."""
_TYPES: Final = frozenset({"double", "duration", "has", "int", "string", "timestamp", "type", "uint"})
_FUNCTIONS: Final = _DATES | _TEXTS | _TYPES
_CODE: Final = "PQ107"
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<name>[A-Za-z_]\w*)|(?P<sign>\S)""", re.ASCII
)
_PREFIXED: Final = re.compile(r"""["'A-Za-z0-9_]\Z""")
_FAILURES: Final = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError)
"""What the library raises for an expression that is none, or has no value."""


class EvaluationError(Exception):
    """An expression that has no value for this action; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """How much an expression may do: its macros, how deep they nest, its sums, and its entries."""

    loops: int
    nested: int
    sums: int
    entries: int

    def steps(self, longest: int) -> int:
        """At most so many steps over values whose longest list or map has so many entries."""
        width = max(longest, self.entries, 1) << self.sums
        return max(self.loops, 1) * int(width**self.nested)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A compiled expression; ``variables`` are those of :data:`VARIABLES` that it reads."""

    text: str
    variables: frozenset[str]
    size: _Size = field(compare=False, repr=False)
    program: Any = field(compare=False, repr=False)

    def value(self, context: Any, *, longest: int) -> Any:
        """What it evaluates to; EvaluationError where it has no value, or would take too long.

        ``context`` is of :func:`context_of`, ``longest`` the entries of its longest list or map.
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
    """The variables for any number of expressions; EvaluationError for what CEL has no value for."""
    try:
        return _cel().Context(variables=dict(values))
    except _FAILURES as error:
        raise EvaluationError(_first_sentence(error)) from error


def compiled(text: str) -> Expression:
    """The expression; raises :class:`Problem` where it is none, reads what is not there, or is too large."""
    size, loop_variables = _measured(text)
    try:
        program = _cel().compile(text)
    except _FAILURES as error:
        raise Problem(_CODE, f"no CEL expression: {_complaint(error)}") from error
    references = program.references()
    read = frozenset(references["variables"]) - loop_variables
    for name in sorted(read.difference(VARIABLES)):
        raise Problem(_CODE, f"there is no variable '{name}'", one_of("variable", name, VARIABLES))
    named = {name for name in references["functions"] if name.isidentifier() and not name.startswith("_")}
    for name in sorted(named - _FUNCTIONS):
        raise Problem(_CODE, f"there is no function '{name}'", one_of("function", name, sorted(_FUNCTIONS)))
    return Expression(text=text, variables=read, size=size, program=program)


def longest_in(value: Any) -> int:
    """The entries of the longest list or map in a value of JSON."""
    if not isinstance(value, dict | list) or not value:
        return 0
    children = value.values() if isinstance(value, dict) else value
    return max(len(value), *(longest_in(child) for child in children))


@cache
def _cel() -> Any:
    """The library: imported when there is a guardrail, since it brings a command line of its own."""
    import cel  # noqa: PLC0415  # only where there is a guardrail

    return cel


def _measured(text: str) -> tuple[_Size, frozenset[str]]:
    """How much the expression may do, and the names that its macros bind."""
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
            raise Problem(_CODE, "raw texts, bytes and texts in triple quotes are not accepted")
        elif token["name"] and len(words) > 1 and words[-1] == "(" and opened[-1]:
            bound.add(word)
        words.append(word)
    if nested > _MOST_NESTED or sums > _MOST_SUMS:
        summary = (
            f"at most {_MOST_NESTED} macros may nest, and at most {_MOST_SUMS} `+` stand in an expression"
        )
        raise Problem(_CODE, summary, "split the guardrail")
    size = _Size(loops=loops, nested=nested, sums=sums, entries=commas + 1)
    return size, frozenset(bound)


def _check_sign(text: str, start: int) -> None:
    """Problem for what would hide a part of the expression from its measuring."""
    if text[start] in "\"'":
        raise Problem(_CODE, "a text is not closed, or spans lines")
    if text.startswith("//", start):
        raise Problem(_CODE, "comments of CEL are not accepted", "write comments of YAML")


def _complaint(error: Exception) -> str:
    """The parser's own words, without the excerpt below them."""
    found = re.search(r"ERROR: <input>:\d+:\d+: ([^\n]+)", str(error))
    return found[1] if found else _first_sentence(error)


def _first_sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text.partition(". ")[0].partition(": the operation")[0][:200]
