"""Explanations of codes: of diagnostics in files, of changes in plans and of drift."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from parquetry.compiler.plan.changes import CODES as CHANGES
from parquetry.compiler.plan.drift import CODES as DRIFTS
from parquetry.compiler.reports.code_texts import TEXTS
from parquetry.errors import ParquetryError
from parquetry.message import Text
from parquetry.project.diagnostics.codes import CODES as FINDINGS


class UnknownCodeError(ParquetryError):
    """No diagnostic, change or drift has this code."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExplanation:
    """A code in words; ``kind`` is error, warning, change or drift."""

    code: str
    kind: str
    title: str
    explanation: str
    remedy: Text


def is_code(word: str) -> bool:
    """Return whether a word is a known code in any case, or has the form of one in capitals (``PQ999``)."""
    known = word.upper() in FINDINGS or word.upper() in CHANGES or word.upper() in DRIFTS
    return known or re.fullmatch(r"[A-Z]{2}\d{3}", word) is not None


def explain_code(code: str) -> CodeExplanation:
    """Return the explanation of a code such as PQ102 or SC310, in any case.

    Raises:
        UnknownCodeError: if nothing has this code.

    """
    code = code.upper()
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
        "there is no code {code}; diagnostics have PQ codes, changes in plans SC codes, and drift DR codes",
        code=code,
    )
