"""The results of tests in SARIF 2.1.0, for code scanning.

Source: Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard. Viewers show every
result as a finding, so tests that passed are left out; those that were not executed are notifications.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from parquetry.cli.views.diagnostics import annotation_position
from parquetry.cli.views.tests.text import finding
from parquetry.compiler.testing.model import Outcome, Status, TableTests
from parquetry.text.printable import json_text
from parquetry.version import VERSION

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {Status.WARNED: "warning", Status.FAILED: "error", Status.UNMEASURED: "error"}


def render(tests: TableTests, *, prefix: str) -> str:
    """Return the document; ``prefix`` is the project's path in the repository."""
    kinds = sorted({outcome.kind for outcome in tests.outcomes})
    unexecuted = [outcome for outcome in tests.outcomes if outcome.status is Status.NOT_EXECUTED]
    run = {
        "tool": {
            "driver": {
                "name": "parquetry",
                "version": VERSION,
                "rules": [{"id": kind, "shortDescription": {"text": f"Test {kind}"}} for kind in kinds],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "note", "message": {"text": _message(outcome)}} for outcome in unexecuted
                ],
            }
        ],
        "results": [
            _result(outcome, kinds.index(outcome.kind), prefix)
            for outcome in tests.outcomes
            if outcome.status in _LEVELS
        ],
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(outcome: Outcome, rule: int, prefix: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": outcome.kind,
        "ruleIndex": rule,
        "level": _LEVELS[outcome.status],
        "message": {"text": _message(outcome)},
        "partialFingerprints": {"parquetryTest/v1": f"{outcome.table}/{outcome.test}"},
    }
    position = annotation_position(outcome.origin, prefix=prefix)
    if position:
        result["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(position["file"])},
                    "region": {"startLine": int(position["line"]), "startColumn": int(position["col"])},
                }
            }
        ]
    return result


def _message(outcome: Outcome) -> str:
    return f"{outcome.table}, {outcome.test}: {finding(outcome)}"
