"""A declared guardrail: a rule that every action of a plan has to fulfil."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from parquetry.project.guardrails.expression import Expression, compiled

_PLACE: Final = re.compile(r"\{([^{}]*)\}")


class RuleOutcome(StrEnum):
    """The outcome of a guardrail for an action; for an example plan, the worst outcome of its actions."""

    FULFILLED = "pass"
    WARN = "warn"
    DENY = "deny"


class Override(StrEnum):
    """The choice of whether an entry of ``allow`` can override a denial."""

    ALLOW = "allow"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMessage:
    """A text with values: ``parts`` are texts and the expressions between them."""

    text: str
    parts: tuple[str | Expression, ...]

    @classmethod
    def of(cls, text: str) -> RuleMessage:
        """Parse a text with ``{expression}`` parts.

        Raises:
            Problem: if one of them is not an expression.

        """
        pieces = _PLACE.split(text)
        parts = (piece if number % 2 == 0 else compiled(piece) for number, piece in enumerate(pieces))
        return cls(text=text, parts=tuple(part for part in parts if part != ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example plan in the file ``plan``, and the expected outcome at the time ``now``."""

    plan: str
    expected: RuleOutcome
    now: str | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """A rule over each action of a plan. If ``expression`` is not true, the outcome is ``severity``."""

    name: str
    expression: Expression
    severity: RuleOutcome
    message: RuleMessage
    override: Override
    origin: str
    description: str | None = None
    examples: tuple[Example, ...] = ()

    @property
    def file(self) -> str:
        """The file that declares the guardrail, relative to the project."""
        return self.origin.partition(":")[0]

    @property
    def variables(self) -> frozenset[str]:
        """The variables that the expression and the message read."""
        read = (part.variables for part in self.message.parts if isinstance(part, Expression))
        return self.expression.variables.union(*read)
