"""Verdicts of guardrails on a plan: each rule is evaluated for each action in the plan's published JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from parquetry.compiler.spec_words import format_size
from parquetry.project.guardrails.expression import EvaluationError, Expression, context_of, longest_in
from parquetry.project.guardrails.model import Guardrail, RuleMessage, RuleOutcome
from parquetry.project.model.prices import cents
from parquetry.text.printable import one_line

_MAX_CHARACTERS: Final = 200
_NO_FIGURES: Final[Mapping[str, Any]] = {
    "files": 0,
    "size_bytes": 0,
    "queries": [],
    "debt": None,
    "retention": None,
}
_NO_AMOUNT: Final[Mapping[str, Any]] = {"low_micros": 0, "high_micros": 0}
_AMOUNTS: Final = ("one_off", "monthly", "compute", "requests", "old_versions", "storage", "queries")
_NO_COSTS: Final[Mapping[str, Any]] = {
    "currency": "",
    **dict.fromkeys(_AMOUNTS, _NO_AMOUNT),
    "pay_back": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A guardrail that an action violates, and the message for users."""

    table: str
    guardrail: Guardrail
    outcome: RuleOutcome
    message: str


def findings(
    guardrails: Sequence[Guardrail], document: Mapping[str, Any], *, now_ms: int
) -> tuple[Finding, ...]:
    """Return the findings by action and, within an action, by guardrail, each in its order.

    If an expression cannot be evaluated, or its value is not a boolean, the outcome is a denial whatever the
    severity of the guardrail is.

    Args:
        guardrails: The guardrails.
        document: The JSON of a plan with the keys ``intent`` and ``evidence``.
        now_ms: The time for expressions, in milliseconds since 1970.
    """
    intent, figures = document.get("intent", {}), document.get("evidence", {}).get("figures", {})
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    used_names = frozenset[str]().union(*(guardrail.variables for guardrail in guardrails))
    found: list[Finding] = []
    for action in intent.get("actions", ()):
        variables = _variables(action, figures.get(action["table"]), intent, now)
        used_variables = {name: value for name, value in variables.items() if name in used_names}
        found += _of_action(guardrails, used_variables, table=action["table"])
    return tuple(found)


def _of_action(
    guardrails: Sequence[Guardrail], variables: Mapping[str, Any], *, table: str
) -> Iterator[Finding]:
    """Yield a finding for each guardrail that an action does not fulfil."""
    longest = longest_in(variables)
    context: Any = None
    for guardrail in guardrails:
        outcome = guardrail.severity
        try:
            context = context or context_of(variables)
            if _is_fulfilled(guardrail, context, longest):
                continue
            message = _message(guardrail.message, context, longest)
        except EvaluationError as error:
            outcome = RuleOutcome.DENY
            message = f"the expression cannot be evaluated: {one_line(str(error))}"
        yield Finding(table=table, guardrail=guardrail, outcome=outcome, message=message)


def _is_fulfilled(guardrail: Guardrail, context: Any, longest: int) -> bool:
    """Return the value of the guardrail's expression; raise EvaluationError if it is not a boolean."""
    value = guardrail.expression.value(context, longest=longest)
    if not isinstance(value, bool):
        raise EvaluationError(f"its value is {_shown(value)} instead of true or false")
    return value


def _variables(
    action: Mapping[str, Any], figures: Mapping[str, Any] | None, intent: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return the variables of expressions. Lists and figures that a table lacks are empty, not missing."""
    spec = action.get("spec", {})
    extra = spec.get("extra", {})
    known = {**_NO_FIGURES, **(figures or {})}
    return {
        "action": {"changes": [], "steps": []} | {k: v for k, v in action.items() if k != "spec"},
        "spec": spec,
        "table": {
            "name": action["table"],
            "location": action.get("location", ""),
            "description": extra.get("description"),
            "owner": extra.get("owner"),
            "tags": extra.get("tags", []),
            "queries": extra.get("queries", []),
            "tests": extra.get("tests", []),
        },
        "figures": {name: value for name, value in known.items() if name != "costs"},
        "costs": {**_NO_COSTS, **(known.get("costs") or {})},
        "rewrite_bytes": 0 if known["debt"] is None else known["debt"]["rewrite_bytes"],
        "target": {"name": intent.get("target", ""), "settings": intent.get("settings", {})},
        "project": intent.get("project", ""),
        "now": now,
    }


def _message(message: RuleMessage, context: Any, longest: int) -> str:
    """Return the message with its values. An expression that cannot be evaluated is shown as written."""
    return one_line("".join(_part(part, context, longest) for part in message.parts))


def _part(part: str | Expression, context: Any, longest: int) -> str:
    """Return a part of a message as text, with bytes and amounts of money in their units.

    An expression that cannot be evaluated stays as written, in braces.
    """
    if isinstance(part, str):
        return part
    try:
        value = part.value(context, longest=longest)
    except EvaluationError:
        return f"{{{part.text}}}"
    if part.text.strip().endswith("_bytes") and isinstance(value, int):
        return format_size(value)
    if part.text.strip().endswith("_micros") and isinstance(value, int):
        return cents(value, up=part.text.strip().endswith("high_micros"))
    return _shown(value)


def _shown(value: Any) -> str:
    """Return a value as text for a message, cut if it is long."""
    if isinstance(value, list):
        text = ", ".join(_shown(entry) for entry in value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
