from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from parquetry.message import Message, Text
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.clustering import ClusteringSpec, Trigger
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import (
    BloomFilter,
    Column,
    Extra,
    FilesPolicy,
    KeyScope,
    Operation,
    Query,
    RetentionPolicy,
    Source,
    TableSpec,
    TableTest,
)

SPEC = TableSpec(
    name="orders",
    columns=(
        Column(name="id", type="string", nullable=False),
        Column(name="d", type="decimal(38,4)", pii=True),
    ),
    record_key=("id", "a.b"),
    key_scope=KeyScope.TABLE,
    ordering="d",
    partition_by=("p",),
    hive_style=False,
    sizing=SizingPolicy(min_fill=0.5, insert_split_size=7),
    files=FilesPolicy(bloom_filter=BloomFilter.EXACT, page_size_bytes=1),
    retention=RetentionPolicy(keep_commits=None, keep_versions=3),
    sources=(
        Source(
            name="s",
            format="csv",
            path="x/*.csv",
            options={"header": "true"},
            operation=Operation.DELETE,
            drop=("c",),
        ),
    ),
    extra=Extra(
        tags=("gold",),
        clustering=ClusteringSpec(trigger=Trigger.INLINE),
        queries=(Query(name="q", where="a = 1", weight=0.5),),
        tests=(TableTest(kind="unique", arguments=["a", {"x": 1.5}], severity="warn"),),
    ),
)


def test_a_spec_survives_json_with_every_field():
    text = json.dumps(SPEC.to_json())
    assert TableSpec.from_json(json.loads(text)) == SPEC
    assert set(SPEC.to_json()) == {
        "name", "columns", "record_key", "key_scope", "ordering", "partition_by", "hive_style", "url_encode",
        "sizing", "files", "retention", "sources", "extra",
    }  # fmt: skip


def test_what_has_a_default_may_be_missing():
    spec = TableSpec.from_json({"name": "t", "columns": [{"name": "a", "type": "int"}]})
    assert spec == TableSpec(name="t", columns=(Column(name="a", type="int"),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wonder": 1}, r"^spec\.wonder: unknown key; TableSpec has name, columns"),
        ({"columns": [{"name": "a", "typ": "int"}]}, r"^spec\.columns\[0\]\.typ: unknown key"),
        ({"columns": [{"name": "a"}]}, r"^spec\.columns\[0\]\.type: missing"),
        ({"columns": [{"name": "a", "type": 3}]}, r"^spec\.columns\[0\]\.type: text was expected, not 3"),
        ({"columns": "a"}, r"^spec\.columns: a list was expected, not 'a'"),
        ({"hive_style": 1}, r"^spec\.hive_style: true or false was expected, not 1"),
        (
            {"sizing": {"max_file_size_bytes": True}},
            r"^spec\.sizing\.max_file_size_bytes: a whole number was expected",
        ),
        ({"sizing": {"min_fill": "much"}}, r"^spec\.sizing\.min_fill: a number was expected"),
        ({"key_scope": "world"}, r"^spec\.key_scope: one of partition, table was expected, not 'world'"),
        (
            {"sources": [{"name": "s", "format": "f", "path": "p", "options": {"a": 1}}]},
            r"^spec\.sources\[0\]\.options\.a: text",
        ),
        ({"files": []}, r"^spec\.files: an object was expected"),
        ({"ordering": 3}, r"^spec\.ordering: text was expected"),
        ({"key_scope": ["table"]}, r"^spec\.key_scope: one of"),
    ],
)
def test_anything_else_is_refused_by_place(change, message):
    with pytest.raises(InvalidDataError, match=message):
        TableSpec.from_json({**SPEC.to_json(), **change})


def test_the_place_may_be_a_file():
    with pytest.raises(InvalidDataError, match=r"^job\.json: an object was expected, not \[\]"):
        TableSpec.from_json([], place="job.json")


@dataclass(frozen=True, slots=True, repr=False)
class _Reported(Brief):
    reason: Text


def test_a_short_repr_shortens_messages_as_texts():
    shown = repr(_Reported(Message("it ends with {end}", end="z" * 90)))
    assert shown == repr(_Reported(f"it ends with {'z' * 90}"))
    assert shown.endswith("zz...)")
