from __future__ import annotations

import pytest

from parquetry.project.diagnostics.model import errors
from tests.support.spec_cases import CASES, diagnostics_of, name_of


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict == "positive"], ids=name_of)
def test_accepted(case, tmp_path):
    assert [*diagnostics_of(case, tmp_path)] == []


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict == "negative"], ids=name_of)
def test_found_at_its_place(case, tmp_path):
    found = diagnostics_of(case, tmp_path)
    assert case.expected, f"{case.path} does not say what it expects"
    assert [(one.file, one.line, one.column, one.code) for one in found] == case.expected
    for one in errors(found):
        says_what_is_accepted = one.code in {"PQ103", "PQ104", "PQ105"}
        assert one.hint or says_what_is_accepted, f"no remedy in {one.message}"
