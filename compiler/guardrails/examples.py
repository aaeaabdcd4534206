"""Evaluation of guardrails on the example plans beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from parquetry.compiler.guardrails.verdicts import findings
from parquetry.errors import ParquetryError
from parquetry.message import in_full
from parquetry.project.diagnostics.model import Diagnostic
from parquetry.project.guardrails.model import Example, Guardrail, RuleOutcome
from parquetry.project.yaml.folder import GUARDRAILS, ProjectFiles
from parquetry.runtime.spec.codec import parsed_json

_SEVERITIES: Final = tuple(RuleOutcome)
_NOT_A_PLAN: Final = (ValueError, KeyError, TypeError, AttributeError)
"""The errors that a file causes if it is not a plan."""


class DifferentOutcomeError(ParquetryError):
    """An example plan has another outcome than expected, or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOutcome:
    """The outcome of a guardrail on an example plan. ``outcome`` is None if the file is not a plan.

    ``messages`` are those of the violating actions, or the reason why the file is not a plan.
    """

    guardrail: str
    example: Example
    outcome: RuleOutcome | None
    messages: tuple[str, ...] = ()

    @property
    def as_expected(self) -> bool:
        """True if the outcome is the expected one."""
        return self.outcome is self.example.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOutcomes:
    """All outcomes by guardrail, in the order of the examples. ``without`` are guardrails that have none."""

    outcomes: tuple[ExampleOutcome, ...]
    without: tuple[str, ...]

    @property
    def failure(self) -> DifferentOutcomeError | None:
        """The error of the command if an outcome is not the expected one, else None."""
        different = sum(not outcome.as_expected for outcome in self.outcomes)
        if not different:
            return None
        return DifferentOutcomeError(
            "{different} of {examples} example plans have an unexpected outcome; correct the expression, "
            "the example or the expected outcome",
            different=different,
            examples=len(self.outcomes),
        )


def evaluate_examples(guardrails: Sequence[Guardrail], files: ProjectFiles) -> ExampleOutcomes:
    """Evaluate each guardrail on its examples, which ``files`` contains below guardrails/."""
    return ExampleOutcomes(
        outcomes=tuple(_outcomes(guardrails, files)),
        without=tuple(guardrail.name for guardrail in guardrails if not guardrail.examples),
    )


def _outcomes(guardrails: Sequence[Guardrail], files: ProjectFiles) -> Iterator[ExampleOutcome]:
    """Yield the outcome of each example of each guardrail."""
    for guardrail in guardrails:
        for example in guardrail.examples:
            data = files.read(f"{GUARDRAILS}/{example.plan}")
            outcome, messages = _outcome(guardrail, example, data)
            yield ExampleOutcome(
                guardrail=guardrail.name, example=example, outcome=outcome, messages=messages
            )


def _outcome(
    guardrail: Guardrail, example: Example, data: bytes | Diagnostic
) -> tuple[RuleOutcome | None, tuple[str, ...]]:
    """Return the gravest outcome in an example plan with the messages, or None if the file is not a plan."""
    if isinstance(data, Diagnostic):
        return None, (in_full(data.summary),)
    try:
        plan = parsed_json(data)
        found = findings([guardrail], plan, now_ms=_now_ms(example, plan))
    except _NOT_A_PLAN as error:
        return None, (f"the file is not a plan: {type(error).__name__}: {error}",)
    outcomes = [RuleOutcome.FULFILLED, *(finding.outcome for finding in found)]
    return max(outcomes, key=_SEVERITIES.index), tuple(f"{f.table}: {f.message}" for f in found)


def _now_ms(example: Example, plan: dict[str, Any]) -> int:
    """Return the time of the example, else the time of its plan, else 0."""
    if example.now is not None:
        return int(datetime.fromisoformat(example.now).timestamp() * 1000)
    made: int = plan.get("evidence", {}).get("created_ms", 0)
    return made
