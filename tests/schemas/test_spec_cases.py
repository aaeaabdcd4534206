from __future__ import annotations

import pytest

from parquetry import project
from parquetry.compiler.spec_files.adopt import declared_location
from parquetry.compiler.spec_files.recorded import settled_text
from parquetry.compiler.spec_files.yaml import structure
from parquetry.compiler.workspace.opened import open_workspace
from parquetry.project.diagnostics.model import errors
from tests.support.spec_cases import CASES, diagnostics_of, name_of


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict == "positive"], ids=name_of)
def test_accepted(case, tmp_path):
    assert [*diagnostics_of(case, tmp_path)] == []


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.verdict == "positive" and case.kind == "table"],
    ids=name_of,
)
def test_the_text_of_a_resolved_spec_declares_the_same_table(case, tmp_path):
    """A recorded spec is put back as it was, whatever it contains."""
    diagnostics_of(case, tmp_path)
    workspace = open_workspace(tmp_path, target=None, variables={}, environment=None)
    (table,) = workspace.tables
    document = structure(table.spec, location=declared_location(workspace, table.location, table.name))
    text = settled_text(workspace, table.spec, document, environment=None)
    (tmp_path / "tables/flights.yml").write_text(text, encoding="utf-8")
    again = project.load(tmp_path)
    assert (again.diagnostics, again.tables[0].spec) == ((), table.spec)
    assert again.tables[0].location == table.location


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict == "negative"], ids=name_of)
def test_found_at_its_place(case, tmp_path):
    found = diagnostics_of(case, tmp_path)
    assert case.expected, f"{case.path} does not say what it expects"
    assert [(one.file, one.line, one.column, one.code) for one in found] == case.expected
    for one in errors(found):
        says_what_is_accepted = one.code in {"PQ103", "PQ104", "PQ105"}
        assert one.hint or says_what_is_accepted, f"no remedy in {one.message}"
