"""Characters that nobody sees are refused where YAML is read, wherever they come from."""

from __future__ import annotations

import json

import pytest

from parquetry import project
from parquetry.project.diagnostics.model import render_github, render_text
from parquetry.project.validation.definitions import Kind, bundled
from parquetry.project.validation.validators import validator
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder

ESCAPE, TURN, ZERO_WIDTH = "\x1b[31m", "\u202e", "\u200b"
SIGNS = [
    "\n",
    "\t",
    "\r",
    "\x00",
    "\x1b",
    "\x7f",
    "\x85",
    "\u2028",
    TURN,
    "\u2066",
    ZERO_WIDTH,
    "\ufeff",
    "\xad",
]


def found(tmp_path, *, table=None, file=None, **options):
    folder = ProjectFolder.create(tmp_path)
    for path, document in (("tables/orders.yml", table), ("parquetry.yml", file)):
        if document is not None:
            # JSON is YAML in which every such sign is an escape.
            (folder.root / path).write_text(json.dumps(document))
    return project.load(folder.root, **options).diagnostics


def codes(diagnostics):
    return {one.code for one in diagnostics}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    "changes",
    [
        {"location": "/lake/orders{}"},
        {"location": {"dev": "/lake/{}orders"}},
        {"tags": ["a{}"]},
        {"policy": "hot{}"},
        {"ordering": "revision{}"},
        {"record_key": ["order_id{}"]},
        {"columns": [{"name": "order_id{}", "type": "bigint"}]},
        {"columns": [{"name": "order_id", "type": "bigint{}"}]},
        {"sizing": {"max_file_size": "1MiB{}"}},
        {"files": {"encryption_key": "env:KEY{}"}},
        {"sources": [{"name": "landing{}", "format": "csv", "path": "x"}]},
        {"sources": [{"name": "landing", "format": "csv", "path": "x{}"}]},
        {"queries": [{"name": "q{}", "where": "items > 1"}]},
        {"clustering": {"plan": {"partitions": {"regex": "a{}"}}}},
        {"un{}known": 1},
    ],
    ids=lambda changes: json.dumps(changes)[:40],
)
def test_a_name_a_place_or_a_setting_holds_none(tmp_path, changes, sign):
    table = json.loads(json.dumps(ORDERS | changes).replace("{}", json.dumps(sign)[1:-1]))
    diagnostics = found(tmp_path, table=table)
    (one,) = [one for one in diagnostics if one.code == "PQ017"]
    assert f"U+{ord(sign):04X}" in one.summary
    assert one.hint
    assert one.file == "tables/orders.yml"
    for shown in (render_text(diagnostics, files=1), render_github(diagnostics)):
        assert sign not in shown.replace("\n", "") or sign == "\n"
        assert not [line for line in shown.splitlines() if line.startswith("known")]


@pytest.mark.parametrize("key", ["name", "default_target"])
def test_a_name_of_the_project_takes_no_end_of_a_line(tmp_path, key):
    assert "PQ017" in codes(found(tmp_path, file=PROJECT | {key: f"{PROJECT[key]}\n"}))


def test_targets_variables_and_allowed_findings(tmp_path):
    spark = {"warehouse": "./w", "spark": {"submit_args": ["--x\ny"]}}
    for document in (
        PROJECT | {"targets": {"dev\n": {"warehouse": "./w"}}},
        PROJECT | {"targets": {"dev": {"warehouse": "./w\x1b"}}},
        PROJECT | {"targets": {"dev": spark}},
        PROJECT | {"vars": {"x\n": "y"}},
        PROJECT | {"allow": [{"code": "SC310\n", "table": "orders", "reason": "x"}]},
        PROJECT | {"allow": [{"code": "SC310", "table": "orders\u2066", "reason": "x"}]},
    ):
        assert "PQ017" in codes(found(tmp_path / str(len(json.dumps(document))), file=document)), document


def test_texts_for_people_sql_and_separators_hold_what_they_need(tmp_path):
    table = ORDERS | {
        "description": "two\nlines\tand \u05e9\u200f \u200d",
        "queries": [{"name": "q", "where": "items > 1\n\tAND items < 9"}],
        "sources": [
            {
                "name": "landing",
                "format": "csv",
                "path": "landing/*.csv",
                "options": {"sep": "\x01", "lineSep": "\r\n"},
            }
        ],
    }
    spark = {"conf": {"spark.x": "-----BEGIN\nEND"}}
    file = PROJECT | {"targets": {"dev": {"warehouse": "./w", "spark": spark}}}
    assert "PQ017" not in codes(found(tmp_path, table=table, file=file))


@pytest.mark.parametrize("sign", ["\x1b", "\r", TURN, "\u2028", "\x9b"])
def test_texts_hold_no_escapes_and_nothing_that_turns_a_line_round(tmp_path, sign):
    for place, table in enumerate((ORDERS | {"description": f"a{sign}"}, ORDERS | {"owner": sign})):
        assert "PQ017" in codes(found(tmp_path / str(place), table=table))
    allow = [{"code": "SC310", "table": "orders", "reason": f"x{sign}"}]
    assert "PQ017" in codes(found(tmp_path / "allow", file=PROJECT | {"allow": allow}))


def test_what_a_variable_or_the_environment_gives_is_looked_at_too(tmp_path):
    table = ORDERS | {"location": "/lake/{{ var('place') }}"}
    file = PROJECT | {"vars": {"place": "x"}}
    assert "PQ017" not in codes(found(tmp_path / "a", table=table, file=file))
    given = found(tmp_path / "b", table=table, file=file, variables={"place": "x\n::error::"})
    assert "PQ017" in codes(given)


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\r", TURN, "\u2066"])
def test_a_comment_cannot_hide_a_line(tmp_path, sign):
    """YAML ends a line where an editor shows none: what looks like a comment would be a key."""
    folder = ProjectFolder.create(tmp_path)
    file = folder.root / "tables/orders.yml"
    file.write_bytes(file.read_bytes() + f"# a comment{sign}location: /elsewhere\n".encode())
    assert codes(project.load(folder.root).diagnostics) == {"PQ003"}


def test_an_avro_schema_holds_none_either(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    fields = [
        {"name": "order_id", "type": "long", "doc": "x"},
        {"name": "at", "type": {"type": "record", "name": "r", "fields": [{"name": "b", "type": "int"}]}},
    ]
    for change in (("doc", f"a{ESCAPE}"), ("name", "b\u202e")):
        broken = json.loads(json.dumps(fields))
        (broken[0] if change[0] == "doc" else broken[1]["type"]["fields"][0])[change[0]] = change[1]
        (folder.root / "x.avsc").write_text(json.dumps({"type": "record", "name": "r", "fields": broken}))
        folder.orders(columns={"file": "x.avsc"}, sizing=None, ordering=None, partition_by=None)
        messages = [one.message for one in project.load(folder.root).diagnostics]
        assert any("the invisible character" in message for message in messages), messages


def test_a_pattern_ends_where_the_text_does():
    """JSON Schema's `$` is no end of a line: editors and this reader agree."""
    for kind, name in ((Kind.TABLE, "orders\n"), (Kind.PROJECT, "shop\n"), (Kind.POLICY, "hot\n")):
        wrong = [tuple(error.absolute_path) for error in validator(kind).iter_errors({"name": name})]
        assert ("name",) in wrong, kind
    assert r"\Z" not in json.dumps([bundled(kind) for kind in Kind]), "editors know no such sign"
