"""Outcomes of guardrails for their example plans, in text and JSON."""

from __future__ import annotations

from typing import Any

from parquetry.cli.terminal.format import columns
from parquetry.cli.terminal.output import Paint
from parquetry.compiler.guardrails.examples import ExampleOutcome, ExampleOutcomes

_HEADER = ("", "guardrail", "plan", "expected", "outcome")


class ExamplesView:
    """A line for each example, then the messages of those with an unexpected outcome."""

    def text(self, outcome: ExampleOutcomes, paint: Paint) -> str:
        """Return the examples and messages, and at the end the names of guardrails without an example."""
        if not outcome.outcomes and not outcome.without:
            return "There are no guardrails: no file guardrails/NAME.yml."
        rows = [
            (
                "ok" if one.as_expected else "differs",
                one.guardrail,
                one.example.plan,
                one.example.expected.value,
                _outcome(one),
            )
            for one in outcome.outcomes
        ]
        different = [one for one in outcome.outcomes if not one.as_expected]
        lines = [f"{one.example.origin}: {'; '.join(one.messages) or 'fulfilled'}" for one in different]
        without = [f"Without an example: {', '.join(outcome.without)}"] if outcome.without else []
        return "\n".join([*([columns(_HEADER, rows, paint=paint)] if rows else []), *lines, *without])

    def json(self, outcome: ExampleOutcomes) -> Any:
        """Return the document that the schema of ``guardrails-test`` describes."""
        return {
            "examples": [
                {
                    "guardrail": one.guardrail,
                    "plan": one.example.plan,
                    "expected": one.example.expected,
                    "outcome": one.outcome,
                    "as_expected": one.as_expected,
                    "messages": list(one.messages),
                    "origin": one.example.origin,
                }
                for one in outcome.outcomes
            ],
            "without": list(outcome.without),
        }


def _outcome(one: ExampleOutcome) -> str:
    return "unreadable" if one.outcome is None else one.outcome.value
