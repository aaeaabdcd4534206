"""A guardrail as it is declared: what every action of a plan has to fulfil."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from parquetry.project.guardrails.expression import Expression, compiled

_PLACE: Final = re.compile(r"\{([^{}]*)\}")


class RuleOutcome(StrEnum):
    """What a guardrail says of an action, or of an example plan: the gravest of its actions."""

    FULFILLED = "pass"
    WARN = "warn"
    DENY = "deny"


class Override(StrEnum):
    """Whether an entry of ``allow`` overrides what a guardrail denies."""

    ALLOW = "allow"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMessage:
    """A text with values: ``parts`` are words and the expressions between them."""

    text: str
    parts: tuple[str | Expression, ...]

    @classmethod
    def of(cls, text: str) -> RuleMessage:
        """The message of a text with ``{expression}``; raises the Problem of the first that is none."""
        pieces = _PLACE.split(text)
        parts = (piece if number % 2 == 0 else compiled(piece) for number, piece in enumerate(pieces))
        return cls(text=text, parts=tuple(part for part in parts if part != ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A plan beside the rules, in the file ``plan``, and what the rule says of it at the time ``now``."""

    plan: str
    expected: RuleOutcome
    now: str | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrail:
    """A rule over each action of a plan. Where ``expression`` is not true, the outcome is ``severity``."""

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
        """The file that declares it, relative to the project."""
        return self.origin.partition(":")[0]

    @property
    def variables(self) -> frozenset[str]:
        """The variables that its expression and its message read."""
        read = (part.variables for part in self.message.parts if isinstance(part, Expression))
        return self.expression.variables.union(*read)
