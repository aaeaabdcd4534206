from __future__ import annotations

import stat
import sys

import pytest

from parquetry.project.diagnostics.source import SourceText
from parquetry.project.yaml.canonical import NotCanonicalError, canonical
from parquetry.project.yaml.fmt import format_project
from tests.support.repository import ROOT
from tests.support.spec_cases import CASES, PROJECT, TABLE, write_project

EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/parquetry.yml"))


def formatted(text):
    return canonical(SourceText(path="x.yml", text=text))


UNTIDY = """\
# The table.
---


name:   'flights'   # as the file
columns:
- {name: id,type: string}
-   name: x   # a column

    type: 'say "hi"'
# about the key


record_key: [ id ]
sizing:
      max_file_size: 1MiB
      # small_file_limit: 3MiB
description: |
      Line one.
        Line two.

sources: [
  {name: a,  # first
   select: "SELECT *
     FROM source"},
]
# the end
"""
TIDY = """\
# The table.

name: "flights"  # as the file
columns:
  - {name: id, type: string}
  - name: x  # a column

    type: 'say "hi"'
# about the key

record_key: [id]
sizing:
  max_file_size: 1MiB
  # small_file_limit: 3MiB
description: |
  Line one.
    Line two.

sources:
  - name: a  # first
    select: "SELECT *
      FROM source"
# the end
"""


def test_one_style_for_all():
    assert formatted(UNTIDY) == TIDY
    assert formatted(TIDY) == TIDY


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:   1\r\nb: 2\r\n", "a: 1\nb: 2\n"),
        ("a: &x [1]\nb: *x\n", "a: &x [1]\nb: *x\n"),
        ("a: &x\n    b: 1\nc: *x\n", "a: &x\n  b: 1\nc: *x\n"),
        ("? a\n: b\n", "a: b\n"),
        ("a:\n-\n- ~\n- - 1\n  - 2\n", "a:\n  -\n  - ~\n  - - 1\n    - 2\n"),
        ("{a: {}, b: []}\n", "{a: {}, b: []}\n"),
        ("a: # none\nb: {  # open\n}\n", "a:  # none\nb: {}  # open\n"),
        ("a: >-\n     one\n     two\n", "a: >-\n  one\n  two\n"),
        ("a: |+\n  one\n\nb: 1\n", 'a: "one\\n\\n"\n\nb: 1\n'),
        ("a: 'it''s'\n", 'a: "it\'s"\n'),
        ("a: [b, # one\n    # two\n  c]\n", "a:\n  - b  # one\n  # two\n  - c\n"),
    ],
)
def test_written_as(text, expected):
    assert formatted(text) == expected


def test_brackets_that_do_not_fit_become_lines():
    names = ", ".join(f"column_number_{number}" for number in range(9))
    made = formatted(f"partition_by: [{names}]\n")
    assert made.splitlines()[:2] == ["partition_by:", "  - column_number_0"]


def test_what_has_no_form_is_refused():
    with pytest.raises(NotCanonicalError):
        formatted(f"? {'k' * 2000}\n: 1\n")


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.verdict == "positive"], ids=lambda c: f"{c.kind}/{c.path.stem}"
)
def test_valid_specs_have_a_form_that_stays(case):
    made = formatted(case.path.read_text(encoding="utf-8"))
    assert formatted(made) == made


def test_a_project_is_formatted_as_a_whole(tmp_path):
    files = {
        "tables/flights.yml": TABLE.replace("record_key: [id]", "record_key:   [id]"),
        "tables/broken.yml": "a: [1\n",
        "policies/standard.yml": "kind:  policy\n",
    }
    write_project(tmp_path, files)
    (tmp_path / "tables/flights.yml").chmod(0o640)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.yml")}

    checked = format_project(tmp_path, write=False)
    assert checked.changed == ("policies/standard.yml", "tables/flights.yml")
    assert [(one.code, one.file) for one in checked.diagnostics] == [("PQ002", "tables/broken.yml")]
    assert checked.failed
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.yml")} == before

    assert format_project(tmp_path, write=True) == checked
    assert (tmp_path / "tables/flights.yml").read_text() == TABLE
    assert (tmp_path / "tables/broken.yml").read_text() == "a: [1\n"
    assert stat.S_IMODE((tmp_path / "tables/flights.yml").stat().st_mode) == 0o640
    assert format_project(tmp_path, write=True).changed == ()
    assert sorted(path.name for path in tmp_path.rglob(".*")) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_in_canonical_form(example):
    result = format_project(example, write=False)
    assert (result.changed, result.diagnostics) == ((), ())


def test_a_folder_without_a_project(tmp_path):
    (found,) = format_project(tmp_path, write=True).diagnostics
    assert found.code == "PQ001"


def test_a_link_that_leads_out_is_left_alone(tmp_path):
    outside = tmp_path / "outside.yml"
    outside.write_text("a:   1\n")
    root = write_project(tmp_path / "project", {"parquetry.yml": PROJECT})
    (root / "tables").mkdir()
    (root / "tables/out.yml").symlink_to(outside)
    assert [one.code for one in format_project(root, write=True).diagnostics] == ["PQ011"]
    assert outside.read_text() == "a:   1\n"


def test_a_file_without_a_form_is_left_alone_and_named(tmp_path):
    text = f"{PROJECT}? {'k' * 2000}\n: 1\n"
    write_project(tmp_path, {"parquetry.yml": text})
    (found,) = format_project(tmp_path, write=True).diagnostics
    assert (found.code, found.file) == ("PQ016", "parquetry.yml")
    assert (tmp_path / "parquetry.yml").read_text() == text


@pytest.mark.parametrize(
    "entry",
    ["# c\nk{}: v\n", "k{}: [a, b] # c\n", "k{}:\n  - a # c\n  # d\n\n", "k{}: {{a: 1, # c\n  b: [2]}}\n"],
)
def test_formatting_takes_as_many_steps_for_each_entry_however_many_there_are(entry):
    def calls(entries):
        return calls_of(lambda: formatted("".join(map(entry.format, range(entries)))))

    calls(10)
    assert calls(400) < 5 * calls(100)


def calls_of(action):
    counted = 0

    def count(_frame, event, _argument):
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
    return counted
