"""Edits in the text of a spec: the values are those wanted, and the rest of the text stays."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parquetry.compiler.spec_files.edit import NotEditableError, with_document, with_values

TEXT = """\
# the head
apiVersion: parquetry/v1
kind: table
name: trips
description: |
  Several
  lines.
columns:
  - {name: id, type: bigint} # the key
  - name: city # in capitals
    type: string
    description: >-
      Where it
      began.
  # the last one
  - {name: day, type: date}
record_key: [
  id,
]
partition_by:
  - day # by day
sizing: {max_file_size: 64MiB} # small
# the end
"""


def values():
    return yaml.safe_load(TEXT)


def test_the_same_values_are_the_same_text():
    assert with_document(TEXT, values(), file="t.yml") == TEXT


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_each_part_changes_in_its_place(line_end):
    wanted = values()
    wanted["columns"][0]["nullable"] = False
    wanted["columns"][1] |= {"type": "int", "pii": True}
    wanted["columns"][2] = {"name": "hour", "type": "timestamp"}
    wanted["record_key"] = ["id", "hour"]
    wanted["partition_by"] = ["hour"]
    wanted["sizing"]["min_fill"] = 0.5
    wanted |= {"owner": "me", "queries": [{"name": "q", "where": "id = 1"}], "ordering": "hour"}
    text = with_document(TEXT.replace("\n", line_end), wanted, file="t.yml")
    assert yaml.safe_load(text) == wanted
    assert text.count(line_end) == text.count("\n")
    lines = text.splitlines()
    for line in (
        "  - {name: id, type: bigint, nullable: false} # the key",
        "  - name: city # in capitals",
        "    type: int",
        "    pii: true",
        "  id, hour,",
        "ordering: hour",
        "sizing: {max_file_size: 64MiB, min_fill: 0.5} # small",
        "queries:",
        "# the end",
    ):
        assert line in lines
    assert "  # the last one" not in lines  # It was about the entry that is gone.
    assert lines.index("owner: me") == lines.index("  lines.") + 1


def test_a_canonical_file_stays_canonical():
    text = "name: a\ncolumns:\n  - {name: a, type: int}\nrecord_key: [a]\n"
    wanted = {**yaml.safe_load(text), "sizing": {"max_file_size": "1MiB"}, "description": "a: b"}
    new = with_document(text, wanted, file="t.yml")
    assert new == (
        'name: a\ndescription: "a: b"\ncolumns:\n  - {name: a, type: int}\nrecord_key: [a]\n'
        "sizing: {max_file_size: 1MiB}\n"
    )


COMMENTED = """\
name: a
tags:
  - gold # the best
  # not yet
  - silver
  - tin # cheap
record_key: [
  id, # of the shop
  # of the day
  hour, # in UTC
  day # local
]
partition_by: [ # few
  day, hour ]
"""


@pytest.mark.parametrize(
    ("key", "value", "removed", "added"),
    [
        ("tags", ["gold", "tin"], {"# not yet"}, ()),
        ("tags", ["gold", "silver", "tin", "new"], set(), ("  - new",)),
        ("tags", ["silver", "tin"], {"# the best"}, ()),
        ("record_key", ["id", "day"], {"# of the day", "# in UTC"}, ()),
        ("record_key", ["id", "hour"], {"# local"}, ()),
        ("record_key", ["id", "hour", "day", "x"], set(), ("  day, x # local",)),
    ],
)
def test_comments_go_with_the_entries_that_they_are_about(key, value, removed, added):
    wanted = {**yaml.safe_load(COMMENTED), key: value}
    text = with_document(COMMENTED, wanted, file="t.yml")
    assert yaml.safe_load(text) == wanted
    comments = {line[line.index("#") :] for line in COMMENTED.splitlines() if "#" in line}
    assert {each for each in comments if each not in text} == removed
    assert set(added) <= {*text.splitlines()}


def test_no_other_comment_is_lost():
    wanted = {**yaml.safe_load(COMMENTED), "partition_by": ["hour"]}
    with pytest.raises(NotEditableError) as raised:
        with_document(COMMENTED, wanted, file="t.yml")
    assert "# few" in str(raised.value)


def test_aliases_are_refused():
    text = "name: &n a\ncolumns:\n  - {name: *n, type: int}\n"
    with pytest.raises(NotEditableError):
        with_document(text, {"name": "b", "columns": [{"name": "a", "type": "int"}]}, file="t.yml")


NAMES = st.sampled_from(["a", "b", "c", "no", "1", "x: y"])
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | NAMES
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=3), max_leaves=8
)
ENTRIES = st.lists(
    st.fixed_dictionaries({"name": NAMES, "type": SCALARS}, optional={"pii": VALUES}),
    max_size=4,
    unique_by=lambda e: e["name"],
)
DOCUMENTS = st.fixed_dictionaries(
    {"name": NAMES},
    optional={"columns": ENTRIES, "sizing": VALUES, "tests": ENTRIES | VALUES, "owner": SCALARS},
)


@given(DOCUMENTS, DOCUMENTS, st.sampled_from([None, False, True]))
def test_the_values_are_those_wanted(before, wanted, style):
    text = yaml.safe_dump(before, default_flow_style=style, sort_keys=False)
    try:
        new = with_document(text, wanted, file="t.yml")
    except NotEditableError:
        return
    assert yaml.safe_load(new) == wanted or "\x85" in repr(wanted)


def test_a_value_with_an_alias_is_replaced_once():
    text = "a:\n- {where: &w long}\n- {where: *w}\nb: 1\n"
    masked = {("a", number, "where"): "'?'" for number in (0, 1)}
    assert with_values(text, masked, file="t.yml") == "a:\n- {where: '?'}\n- {where: *w}\nb: 1\n"
