"""What editors say about a spec, through yaml-language-server, and what `validate` says: the same places."""

from __future__ import annotations

import pytest

from parquetry.compiler.spec_files.scaffold import scaffold
from parquetry.project.validation.definitions import Kind, bundled, write_schemas
from parquetry.project.validation.template_syntax import is_template
from tests.interop.environment import yaml_language_server
from tests.support.spec_cases import CASES, name_of
from tests.support.yaml_language_server import ERROR, MODELINE, YamlLanguageServer

pytestmark = pytest.mark.interop
FORM = ("PQ101", "PQ102", "PQ103", "PQ104", "PQ105", "PQ106")


@pytest.fixture(scope="module")
def server():
    with YamlLanguageServer(yaml_language_server()) as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("editor")
    write_schemas(made / "schemas", {kind.value: bundled(kind) for kind in Kind})
    return made


def places(server, folder, case):
    """Where the server finds errors in a case, by the lines of the case itself."""
    file = folder / f"{case.verdict}-{case.kind}-{case.path.stem}.yml"
    modeline = f"{MODELINE}schemas/{case.kind}.json\n"
    file.write_text(modeline + case.path.read_text(encoding="utf-8"), encoding="utf-8")
    return sorted((one.line - 1, one.column) for one in server.findings(file) if one.severity == ERROR)


def has_templates(case):
    return is_template(case.path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", [case for case in CASES if case.verdict == "positive"], ids=name_of)
def test_nothing_is_wrong_with_what_is_valid(server, folder, case):
    assert places(server, folder, case) == []


# YAML that is refused, and templates, which an editor does not evaluate, are left to `validate`.
COMPARED = [
    case
    for case in CASES
    if case.verdict == "negative"
    and not has_templates(case)
    and not any(code.startswith(("PQ0", "PQ2")) for *_, code in case.expected)
]


@pytest.mark.parametrize("case", COMPARED, ids=name_of)
def test_errors_of_form_are_found_at_the_same_places(server, folder, case):
    ours = {(line, column) for _, line, column, code in case.expected if code in FORM}
    assert set(places(server, folder, case)) == ours


def test_enough_is_compared():
    assert sum(any(code in FORM for *_, code in case.expected) for case in COMPARED) >= 40


def test_a_new_project_is_right_in_an_editor(server, tmp_path):
    made = scaffold(tmp_path)
    specs = [path for path in made.files if path.endswith(".yml") and not path.startswith(".")]
    assert len(specs) == 3
    for path in specs:
        assert server.findings(tmp_path / path) == []
        wrong = (tmp_path / path).read_text().replace("apiVersion: parquetry/v1", "apiVersion: parquetry/v9")
        beside = (tmp_path / path).with_name("wrong.yml")
        beside.write_text(wrong)
        assert [one.severity for one in server.findings(beside)] == [ERROR]
