from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import parquetry.project
from parquetry import project
from parquetry.cli.main import command_line
from parquetry.project.diagnostics.codes import CODES
from parquetry.project.diagnostics.model import (
    diagnostic,
    did_you_mean,
    in_order,
    render_github,
    render_json,
    render_text,
)
from parquetry.project.diagnostics.source import Position, SourceText, Span
from tests.support.repository import TESTS
from tests.support.spec_cases import CASES, TABLE, write_project

BROKEN = TABLE + "clustering:\n  execution:\n    colums: [id]\n  trigger: offf\n"


@pytest.fixture
def result(tmp_path):
    array = TABLE.replace("name: flights", "name: other").replace(
        "record_key", "  - {name: xs, type: array<int>}\nrecord_key"
    )
    return project.load(write_project(tmp_path, {"tables/flights.yml": BROKEN, "tables/other.yml": array}))


def test_text(result):
    assert render_text(result.diagnostics, files=result.files) == (
        "tables/flights.yml:9:5: PQ102 unknown key 'colums' in clustering.execution; did you mean 'columns'?\n"
        "    8 |   execution:\n"
        "    9 |     colums: [id]\n"
        "      |     ^^^^^^\n"
        "tables/flights.yml:10:12: PQ104 clustering.trigger is 'offf', not off, async or inline; did you mean 'off'?\n"
        "    9 |     colums: [id]\n"
        "   10 |   trigger: offf\n"
        "      |            ^^^^\n"
        "tables/other.yml:6:22: PQ703 warning: column 'xs' contains arrays: merges by Hudi itself fail if they have null elements\n"
        "    5 |   - {name: id, type: string, nullable: false}\n"
        "    6 |   - {name: xs, type: array<int>}\n"
        "      |                      ^^^^^^^^^^\n"
        "2 errors, 1 warning in 2 of 3 files\n"
    )


def test_no_findings_are_no_text():
    assert render_text((), files=12) == ""


def test_json(result):
    document = render_json(result.diagnostics, files=result.files)
    assert json.loads(json.dumps(document)) == document
    assert {key: document[key] for key in ("valid", "files", "errors", "warnings")} == {
        "valid": False,
        "files": 3,
        "errors": 2,
        "warnings": 1,
    }
    assert document["diagnostics"][0] == {
        "severity": "error",
        "code": "PQ102",
        "summary": "unknown key 'colums' in clustering.execution",
        "detail": CODES["PQ102"].explanation,
        "hint": "did you mean 'columns'?",
        "file": "tables/flights.yml",
        "range": {"start": {"line": 9, "column": 5}, "end": {"line": 9, "column": 11}},
    }


def test_github(result):
    first, _, last = render_github(result.diagnostics, prefix="lake").splitlines()
    assert first == (
        "::error file=lake/tables/flights.yml,line=9,col=5,endLine=9,endColumn=11,title=PQ102::"
        "unknown key 'colums' in clustering.execution; did you mean 'columns'?"
    )
    assert last.startswith("::warning file=lake/tables/other.yml,line=6,")


def test_github_escapes():
    found = diagnostic("PQ102", "50%\nof it", source=SourceText(path="a,b:c.yml", text="x\n"))
    assert render_github([found]).startswith("::error file=a%2Cb%3Ac.yml,")
    assert render_github([found]).endswith("::50%25%0Aof it\n")


@pytest.mark.parametrize(
    ("text", "span", "carets"),
    [
        ("a: b\n", Span(Position(1, 4), Position(1, 5)), "   ^"),
        ("a: b", Span(Position(1, 5), Position(1, 5)), "    ^"),
        ("a: [\n1]\n", Span(Position(1, 4), Position(2, 3)), "   ^"),
        ("\ta: b\n", Span(Position(1, 2), Position(1, 3)), " ^"),
        ("a: b\n", Span(Position(2, 1), Position(2, 1)), "^"),
        ("a: b\n", Span(Position(1, 40), Position(1, 50)), "    ^"),
    ],
)
def test_carets_stand_below_what_they_mean(text, span, carets):
    found = diagnostic("PQ102", "x", source=SourceText(path="f", text=text), span=span)
    assert render_text([found], files=1).splitlines()[-2] == f"      | {carets}"


@pytest.mark.parametrize("at", [1, 30, 60, 500, 950, 996])
@pytest.mark.parametrize("span", [4, 400])
def test_of_a_long_line_the_part_around_the_place_is_shown(at, span):
    text = "x" * (at - 1) + "here" + "x" * (996 - at)
    place = Span(Position(1, at), Position(1, at + span))
    found = diagnostic("PQ102", "x", source=SourceText(path="f", text=text), span=place)
    _, line, carets, _ = render_text([found], files=1).splitlines()
    assert len(line) <= 140
    assert line[carets.index("^") :][:4] == "here"
    assert len(carets) <= len(line)
    above = SourceText(path="f", text="y" * 1000 + "\nx: 1\n")
    found = diagnostic("PQ102", "x", source=above, span=Span(Position(2, 1), Position(2, 2)))
    assert "\n    1 | " + "y" * 120 + "...\n    2 | x: 1\n      | ^\n" in render_text([found], files=1)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("q83vEjRWeJCrze8SNFZ4kA==", "PQ103"),
        ("q83vEjRWeJCrze8SNFZ4kAxy", "PQ505"),
        ("base64:q83vEjRWeJCrze8S", "PQ505"),
        ("'8412345678901234 '", "PQ103"),
        ("8412345678901234", "PQ103"),
        (">-\n      q83vEjRWeJCrze8S", "PQ505"),
    ],
)
def test_a_key_that_was_pasted_by_mistake_is_not_shown(tmp_path, key, code):
    text = TABLE + f"files:\n  encryption_key: {key}\n  compresion: zstd\n"
    text += "clustering: {execution: {then: [encrypt]}}\n"
    found = project.load(write_project(tmp_path, {"tables/flights.yml": text})).diagnostics
    assert sorted(one.code for one in found) == ["PQ102", code]
    shown = render_text(found, files=2) + render_github(found) + json.dumps(render_json(found, files=2))
    assert key.split(":")[-1].strip("'> -\n") not in shown
    assert "env:NAME" in shown or "env:FLIGHTS_KEY" in shown, "what to write instead"


def test_a_misspelt_name_beside_a_pasted_key_does_not_show_it(tmp_path):
    text = TABLE + "files: {encrypton_key: q83vEjRWeJCrze8S}\n"
    found = project.load(write_project(tmp_path, {"tables/flights.yml": text})).diagnostics
    assert "encrypton_key: ...\n" in render_text(found, files=2)
    for number, reference in enumerate(("'env:KEY'", "'{{ var(\"key\") }}'")):
        text = TABLE + f"files: {{encrypton_key: {reference}}}\n"
        folder = write_project(tmp_path / str(number), {"tables/flights.yml": text})
        assert f"encrypton_key: {reference}}}\n" in render_text(project.load(folder).diagnostics, files=2)


def test_order_and_duplicates():
    source = SourceText(path="b", text="x\n" * 20)
    late = diagnostic("PQ102", "x", source=source, span=Span(Position(10, 1), Position(10, 2)))
    early = diagnostic("PQ103", "x", source=source, span=Span(Position(9, 1), Position(9, 2)))
    other = diagnostic("PQ701", "x", source=SourceText(path="a", text=""))
    assert in_order([late, early, late, other]) == (other, early, late)


def test_did_you_mean():
    assert did_you_mean("colums", ["columns", "scope"]) == "did you mean 'columns'?"
    assert did_you_mean("Columns", ["columns"]) == "did you mean 'columns'?"
    assert did_you_mean("zzz", ["columns"]) is None
    assert did_you_mean("x", []) is None


def test_each_code_is_used_and_tested():
    folder = Path(parquetry.project.__file__).parent
    sources = "\n".join(path.read_text() for path in folder.rglob("*.py") if path.name != "codes.py")
    used = set(re.findall(r"\"(PQ\d{3})\"", sources))
    assert used == set(CODES)
    tests = "\n".join(path.read_text() for path in (TESTS / "unit").rglob("test_*.py"))
    tested = {expected[3] for case in CASES for expected in case.expected} | set(
        re.findall(r"PQ\d{3}", tests)
    )
    assert tested >= set(CODES)


def test_annotations_name_files_from_the_checkout(tmp_path, monkeypatch):
    root = tmp_path / "checkout" / "lake"
    (root / "tables").mkdir(parents=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "checkout"))
    assert "file=lake/parquetry.yml," in annotations()
    monkeypatch.setenv("GITHUB_WORKSPACE", "")
    assert "file=parquetry.yml," in annotations()
    monkeypatch.chdir(tmp_path)
    assert "file=checkout/lake/parquetry.yml," in annotations("--project", "checkout/lake")


def annotations(*arguments):
    done = CliRunner().invoke(command_line, ["validate", "--format", "github", *arguments])
    assert done.exit_code == 1
    return done.stdout
