"""Guardrails against the example plans beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from parquetry.compiler.guardrails.verdicts import findings
from parquetry.errors import ParquetryError
from parquetry.project.diagnostics.model import Diagnostic
from parquetry.project.guardrails.model import Example, Guardrail, RuleOutcome
from parquetry.project.yaml.folder import GUARDRAILS, ProjectFiles
from parquetry.runtime.spec.codec import parsed_json

_GRAVITY: Final = tuple(RuleOutcome)
_WRONG: Final = (ValueError, KeyError, TypeError, AttributeError)
"""What a file raises that is no plan."""


class DifferentOutcomeError(ParquetryError):
    """An example plan has another outcome than is expected, or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOutcome:
    """What a guardrail says of an example plan. ``outcome`` is None where the file is no plan.

    ``messages`` are those of the actions that do not fulfil it, or why the file is no plan.
    """

    guardrail: str
    example: Example
    outcome: RuleOutcome | None
    messages: tuple[str, ...] = ()

    @property
    def as_expected(self) -> bool:
        """Whether it is the expected outcome."""
        return self.outcome is self.example.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOutcomes:
    """All outcomes by guardrail, in the order of the examples; ``without`` are guardrails that have none."""

    outcomes: tuple[ExampleOutcome, ...]
    without: tuple[str, ...]

    @property
    def failure(self) -> DifferentOutcomeError | None:
        """What the command ends with where an outcome is not the expected one."""
        different = sum(not outcome.as_expected for outcome in self.outcomes)
        if not different:
            return None
        return DifferentOutcomeError(
            f"{different} of {len(self.outcomes)} example plans have another outcome than is expected; "
            "correct the expression, the example or what is expected"
        )


def examine(guardrails: Sequence[Guardrail], files: ProjectFiles) -> ExampleOutcomes:
    """Evaluate each guardrail over its examples, which ``files`` has below guardrails/."""
    return ExampleOutcomes(
        outcomes=tuple(_outcomes(guardrails, files)),
        without=tuple(guardrail.name for guardrail in guardrails if not guardrail.examples),
    )


def _outcomes(guardrails: Sequence[Guardrail], files: ProjectFiles) -> Iterator[ExampleOutcome]:
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
    if isinstance(data, Diagnostic):
        return None, (data.summary,)
    try:
        plan = parsed_json(data)
        found = findings([guardrail], plan, now_ms=_now_ms(example, plan))
    except _WRONG as error:
        return None, (f"the file is no plan: {type(error).__name__}: {error}",)
    outcomes = [RuleOutcome.FULFILLED, *(finding.outcome for finding in found)]
    return max(outcomes, key=_GRAVITY.index), tuple(f"{f.table}: {f.message}" for f in found)


def _now_ms(example: Example, plan: dict[str, Any]) -> int:
    """The time of the example; else when its plan was made, or 1970 where it does not say."""
    if example.now is not None:
        return int(datetime.fromisoformat(example.now).timestamp() * 1000)
    made: int = plan.get("evidence", {}).get("created_ms", 0)
    return made
