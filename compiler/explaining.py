"""What a code means: of a finding in the project's files, of a change in a plan, of a drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from parquetry.compiler.changes import CODES as CHANGES
from parquetry.compiler.code_texts import TEXTS
from parquetry.compiler.drift import CODES as DRIFTS
from parquetry.errors import ParquetryError
from parquetry.project.codes import CODES as FINDINGS


class UnknownCodeError(ParquetryError):
    """There is no such code."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExplanation:
    """A code in words; ``kind`` is error, warning, change or drift."""

    code: str
    kind: str
    title: str
    explanation: str
    remedy: str


def explain_code(code: str) -> CodeExplanation:
    """The meaning of a code such as PQ102 or SC310.

    Raises:
        UnknownCodeError: nothing has this code.

    """
    finding = FINDINGS.get(code)
    if finding is not None:
        return CodeExplanation(
            code=code,
            kind="warning" if finding.warning else "error",
            title=finding.title,
            explanation=finding.explanation,
            remedy=finding.remedy,
        )
    for kind, codes in (("change", CHANGES), ("drift", DRIFTS)):
        if code in codes:
            text = TEXTS[code]
            return CodeExplanation(
                code=code,
                kind=kind,
                title=codes[code],
                explanation=text.explanation,
                remedy=text.remedy,
            )
    raise UnknownCodeError(
        f"there is no code {code}; findings in files have PQ codes, changes in plans SC, drifts DR"
    )
