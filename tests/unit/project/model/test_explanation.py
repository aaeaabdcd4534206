from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquetry import project
from parquetry.compiler.plan.changes import CODES as CHANGES
from parquetry.compiler.plan.drift import CODES as DRIFTS
from parquetry.compiler.reports.code_texts import TEXTS
from parquetry.compiler.reports.explain import UnknownCodeError, explain_code, is_code
from parquetry.project.diagnostics.codes import CODES
from parquetry.project.diagnostics.model import errors
from parquetry.project.model.explanation import UnknownSettingError, explain_table
from tests.support.effort import examples
from tests.support.spec_cases import CASES, POLICY, PROJECT, TABLE, diagnostics_of, write_project

LAYERED = {
    "parquetry.yml": PROJECT.replace(
        "dev: {warehouse: ./warehouse}",
        "dev: {warehouse: ./warehouse, overrides: {sizing: {max_file_size: 90MiB}, tags: [d]}}",
    )
    + "defaults: {tags: [a], sizing: {max_file_size: 130MiB, small_file_limit: 50MiB}}\n",
    "policies/standard.yml": POLICY + "sizing: {max_file_size: 140MiB}\n",
    "tables/flights.yml": TABLE + 'policy: standard\ntags: [b]\nsizing: {max_file_size: "{{ 3 * 50 }}MiB"}\n',
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    result = project.load(write_project(tmp_path_factory.mktemp("explained"), LAYERED))
    assert result.project is not None, result.diagnostics
    return result.project.tables[0]


def test_a_setting_has_all_its_layers_with_their_places(table):
    found = explain_table(table, "sizing.max_file_size")
    assert [(one.value, one.origin.layer.value, str(one.origin)) for one in found.layers] == [
        ("120MiB", "default", "default"),
        ("130MiB", "defaults", "parquetry.yml:7:32"),
        ("140MiB", "policy", "policies/standard.yml:5:10"),
        ("150MiB", "table", "tables/flights.yml:9:10"),
        ("90MiB", "overrides", "parquetry.yml:6:54"),
    ]
    (setting,) = found.settings
    assert (setting.value, setting.origin) == ("90MiB", found.layers[-1].origin)
    assert found.description.hudi == "hoodie.parquet.max.file.size"
    assert not found.is_united


def test_the_strongest_layer_is_the_value_everywhere(table):
    history = table.history()
    for path, value in table.settings.items():
        if path == "tags":
            assert value == ["a", "b", "d"]
            assert [entry.value for entry in history[path]] == [["a"], ["b"], ["d"]]
        else:
            assert history[path][-1].value == value
            assert history[path][-1].origin == table.origin(path)


@pytest.mark.parametrize("path", ["columns.id.type", "columns[id].type", "columns.id"])
def test_entries_of_lists_go_by_their_names(table, path):
    assert ("columns.id.type", "string") in [(s.path, s.value) for s in explain_table(table, path).settings]


def test_a_known_key_without_a_value_says_its_default(table):
    found = explain_table(table, "clustering.plan.target_file_size")
    assert (found.settings, found.layers) == ((), ())
    assert found.description.default == "sizing.max_file_size"


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("sizing.max_file", "did you mean 'sizing.max_file_size'?"),
        ("sizng", "did you mean 'sizing'?"),
        ("columns.nosuch.type", "setting 'columns.nosuch.type'"),
        ("queries.first.where", "setting 'queries.first.where'"),
        ("x.y.z", "keys are"),
        ("columns.nope", "no setting 'columns.nope'; 'columns' has id"),
        ("columns.idd", "did you mean 'columns.id'?"),
        ("columns.id.tpye", "did you mean 'columns.id.type'?"),
        ("clustering.strategy", "did you mean 'clustering.plan.strategy'?"),
        ("clustering.plan.stratgy", "did you mean 'clustering.plan.strategy'?"),
        ("sizing.x", "; 'sizing' has insert_split_size, max_file_size"),
        ("name.x", "'name' has no settings below it"),
    ],
)
def test_an_unknown_setting_is_named(table, path, hint):
    with pytest.raises(UnknownSettingError) as caught:
        explain_table(table, path)
    assert hint in str(caught.value)


def test_what_a_hint_names_can_be_explained(table):
    for wrong in ("sizing.max_file", "columns.idd", "columns.id.tpye", "clustering.strategy", "descripton"):
        with pytest.raises(UnknownSettingError) as caught:
            explain_table(table, wrong)
        (meant,) = re.findall(r"did you mean '(.+)'", str(caught.value))
        assert explain_table(table, meant).path == meant


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if (case.verdict, case.kind) == ("positive", "table")],
    ids=lambda case: case.path.stem,
)
def test_every_written_setting_can_be_explained(case, tmp_path):
    assert not errors(diagnostics_of(case, tmp_path))
    for table in project.load(tmp_path).project.tables:
        assert [s.path for s in explain_table(table).settings] == list(table.settings)
        for path in table.settings:
            found = explain_table(table, path)
            assert found.settings[0].value == table.settings[path]
            assert found.description is not None, path


@pytest.mark.parametrize("code", [*CODES, *CHANGES, *DRIFTS])
def test_every_code_has_words(code):
    found = explain_code(code)
    assert found.title
    assert found.kind in {"error", "warning", "change", "drift"}
    for part in map(str, (found.explanation, found.remedy)):
        assert part.endswith("."), part
        assert len(part.split()) > 2, part
    assert found.explanation != found.remedy


def test_there_are_words_only_for_codes_that_exist():
    assert set(TEXTS) == {*CHANGES, *DRIFTS}


@pytest.mark.parametrize("word", ["PQ102", "pq102", "Sc310", "dr201"])
def test_codes_go_in_any_case_of_letters(word):
    assert is_code(word)
    assert explain_code(word).code == word.upper()


@pytest.mark.parametrize(
    ("word", "said"), [("PQ999", True), ("pq999", False), ("ab123", False), ("AB12", False)]
)
def test_what_looks_like_a_code_may_be_a_table(word, said):
    assert is_code(word) is said


def test_an_unknown_code_is_refused():
    with pytest.raises(UnknownCodeError, match="there is no code PQ999"):
        explain_code("PQ999")


@given(
    st.lists(
        st.sampled_from(["sizing", "columns", "id", "type", "0", "tags", "sources", "options", "", "x", "é"])
        | st.text(max_size=4),
        max_size=5,
    ).map(".".join)
)
@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_path_is_explained_or_refused(table, path):
    try:
        found = explain_table(table, path)
    except UnknownSettingError:
        return
    assert found.settings or found.description
