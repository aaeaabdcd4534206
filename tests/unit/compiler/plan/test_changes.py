"""Differences between specs: found, named in the words of the YAML, and classed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.compiler.plan.changes import CODES, column_changes, highest, spec_changes
from parquetry.compiler.plan.model import ChangeClass
from parquetry.compiler.spec_words import document, flatten, format_age, format_size
from parquetry.project.validation.units import duration_seconds, size_bytes
from parquetry.runtime.spec.clustering import ClusteringSpec, PlanPolicy
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import (
    Column,
    Extra,
    FilesPolicy,
    KeyScope,
    Query,
    RetentionPolicy,
    Source,
    TableSpec,
)

SPEC = TableSpec(
    name="t",
    columns=(Column(name="a", type="int"), Column(name="s", type="struct<x:int,y:array<struct<z:int>>>")),
    record_key=("a",),
    sources=(Source(name="in", format="csv", path="in/*"),),
    extra=Extra(
        description="d",
        queries=(Query(name="q", where="a = 1"),),
        clustering=ClusteringSpec(plan=PlanPolicy(target_file_size_bytes=2**20)),
    ),
)


def nowhere(_path):
    return None


def changes(new, old=SPEC):
    return spec_changes(old, new, origin=nowhere)


def codes(old, new):
    return {(c.path, c.code) for c in column_changes(old, new)}


@pytest.mark.parametrize(
    ("new", "path", "old_word", "new_word", "code"),
    [
        (
            {"sizing": SizingPolicy(max_file_size_bytes=64 * 2**20)},
            "sizing.max_file_size",
            "120MiB",
            "64MiB",
            "SC201",
        ),
        ({"sizing": SizingPolicy(insert_split_size=500)}, "sizing.insert_split_size", "auto", 500, "SC201"),
        ({"sizing": SizingPolicy(record_size_bytes=77)}, "sizing.record_size", "auto", "77B", "SC201"),
        (
            {"retention": RetentionPolicy(max_age_seconds=2_160_000)},
            "retention.clean.max_age",
            None,
            "25d",
            "SC201",
        ),
        (
            {"retention": RetentionPolicy(archive_keep_commits=40)},
            "retention.archive.keep_commits",
            30,
            40,
            "SC201",
        ),
        ({"files": FilesPolicy(compression="snappy")}, "files.compression", "zstd", "snappy", "SC201"),
        (
            {"files": FilesPolicy(meta_columns=MetaColumns.NONE)},
            "files.meta_columns",
            "all",
            "none",
            "SC263",
        ),
        ({"sources": ()}, "sources.in.format", "csv", None, "SC201"),
        ({"record_key": ()}, "record_key", ["a"], [], "SC401"),
        ({"partition_by": ("a",)}, "partition_by", [], ["a"], "SC402"),
        ({"url_encode": False}, "partitioning.url_encode", True, False, "SC402"),
        ({"ordering": "a"}, "ordering", None, "a", "SC404"),
        ({"key_scope": KeyScope.TABLE}, "key_scope", "partition", "table", "SC314"),
        ({"extra": replace(SPEC.extra, description="e")}, "description", "d", "e", "SC101"),
        (
            {"extra": replace(SPEC.extra, queries=(Query(name="q", where="a = 2"),))},
            "queries.q.where",
            "a = 1",
            "a = 2",
            "SC201",
        ),
        (
            {
                "extra": replace(
                    SPEC.extra, clustering=ClusteringSpec(plan=PlanPolicy(target_file_size_bytes=2**21))
                )
            },
            "clustering.plan.target_file_size",
            "1MiB",
            "2MiB",
            "SC201",
        ),
    ],
)
def test_rules_are_named_and_shown_as_they_are_written(new, path, old_word, new_word, code):
    found = {change.path: change for change in changes(replace(SPEC, **new))}
    assert (found[path].old, found[path].new, found[path].code) == (old_word, new_word, code)


def test_a_wider_key_scope_is_breaking_and_a_narrower_one_a_policy():
    table = replace(SPEC, key_scope=KeyScope.TABLE)
    assert highest(changes(table)) is ChangeClass.BREAKING
    assert highest(changes(SPEC, old=table)) is ChangeClass.POLICY


@pytest.mark.parametrize(
    ("old", "new", "path", "code"),
    [
        ("int", "bigint", "columns.s.type", "SC302"),
        ("bigint", "int", "columns.s.type", "SC311"),
        ("string", "int", "columns.s.type", "SC311"),
        ("float", "double", "columns.s.type", "SC302"),
        ("struct<x:int>", "struct<x:int,y:string>", "columns.s.y", "SC301"),
        ("struct<x:int>", "struct<x:int,y:string NOT NULL>", "columns.s.y", "SC313"),
        ("struct<x:int,y:int>", "struct<x:int>", "columns.s.y", "SC310"),
        ("struct<x:int>", "struct<x:bigint>", "columns.s.x.type", "SC302"),
        ("struct<x:int>", "struct<x:int NOT NULL>", "columns.s.x.nullable", "SC312"),
        ("struct<x:int NOT NULL>", "struct<x:int>", "columns.s.x.nullable", "SC303"),
        ("array<struct<x:int>>", "array<struct<x:int,y:int>>", "columns.s.element.y", "SC301"),
        ("map<string,int>", "map<string,bigint>", "columns.s.value.type", "SC302"),
        ("array<int>", "map<string,int>", "columns.s.type", "SC311"),
        ("struct<x:int,y:int>", "struct<y:int,x:int>", "columns.s", "SC304"),
        ("array<struct<x:int,y:int>>", "array<struct<y:int,x:int>>", "columns.s.element", "SC304"),
        ("struct<x:int>", "struct<X:int>", "columns.s.X", "SC315"),
    ],
)
def test_types_are_compared_to_their_leaves(old, new, path, code):
    assert codes((Column(name="s", type=old),), (Column(name="s", type=new),)) == {(path, code)}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "decimal(10,2)",
            "decimal(20,4)",
            "a widening that is not supported: files hold 5 bytes with 2 digits",
        ),
        ("decimal(10,2)", "decimal(18,2)", "in place decimal(10,2) may become decimal(11,2)"),
        ("decimal(10,2)", "decimal(6,2)", "a narrowing: decimal(6,2) does not hold every decimal(10,2)"),
        ("decimal(10,2)", "decimal(10,4)", "another type: files contain decimal(10,2)"),
        ("decimal(5,0)", "bigint", "a widening that is not supported: bigint holds every decimal(5,0)"),
        ("decimal(10,0)", "int", "a narrowing"),
        ("int", "decimal(12,2)", "in place int may become bigint or double"),
        ("int", "decimal(10,2)", "another type"),
        ("smallint", "float", "a widening that is not supported: float holds every smallint"),
        ("bigint", "double", "another type: files contain bigint"),
        ("bigint", "int", "a narrowing"),
        ("double", "float", "a narrowing"),
        ("int", "float", "another type"),
        ("float", "decimal(10,2)", "in place float may become double"),
        ("date", "timestamp", "another type"),
        ("timestamp", "date", "another type"),
        ("struct<x:decimal(10,2)>", "struct<x:decimal(20,4)>", "a widening that is not supported"),
    ],
)
def test_a_type_that_files_cannot_take_says_of_which_kind_it_is(old, new, reason):
    (change,) = column_changes((Column(name="s", type=old),), (Column(name="s", type=new),))
    assert change.code == "SC311"
    assert reason in change.reason


def test_columns_that_come_go_move_and_change_their_attributes():
    a, b = Column(name="a", type="int"), Column(name="b", type="int")
    assert codes((a,), (a, b)) == {("columns.b", "SC301")}
    assert codes((a, b), (a,)) == {("columns.b", "SC310")}
    assert codes((a, b), (b, a)) == {("columns", "SC304")}
    assert codes((a,), (replace(a, name="A"),)) == {("columns.A", "SC315")}
    assert codes((a,), (a, replace(b, nullable=False))) == {("columns.b", "SC313")}
    assert codes((a,), (replace(a, nullable=False),)) == {("columns.a.nullable", "SC312")}
    assert codes((replace(a, nullable=False),), (a,)) == {("columns.a.nullable", "SC303")}
    assert codes((a,), (replace(a, description="x"),)) == {("columns.a.description", "SC101")}
    assert codes((a,), (replace(a, generated="1"),)) == {("columns.a.generated", "SC201")}


leaf_types = st.sampled_from(
    ["int", "bigint", "float", "double", "string", "decimal(10,2)", "date", "timestamp"]
)


def structs(inner):
    fields = st.dictionaries(st.sampled_from("xyz"), inner, min_size=1, max_size=3)
    return fields.map(lambda f: f"struct<{','.join(f'{name}:{t}' for name, t in f.items())}>")


types = st.recursive(
    leaf_types,
    lambda inner: (
        inner.map(lambda t: f"array<{t}>") | inner.map(lambda t: f"map<string,{t}>") | structs(inner)
    ),
    max_leaves=4,
)
columns = st.dictionaries(
    st.sampled_from("abcd"), st.tuples(types, st.booleans()), min_size=1, max_size=4
).map(lambda cs: tuple(Column(name=n, type=t, nullable=null) for n, (t, null) in cs.items()))


@given(columns, columns)
def test_there_are_changes_exactly_when_columns_differ(old, new):
    assert (not list(column_changes(old, new))) == (old == new)


@given(columns, columns)
def test_every_change_has_a_documented_code_and_breaking_ones_a_reason(old, new):
    for change in column_changes(old, new):
        assert change.code in CODES
        assert (change.change_class is ChangeClass.BREAKING) == (change.reason is not None)


@given(columns, columns)
def test_what_evolves_one_way_breaks_the_other_way_unless_order_or_nullability_alone_changed(old, new):
    forth = list(column_changes(old, new))
    if forth and all(c.code in ("SC301", "SC302") for c in forth):
        assert highest(column_changes(new, old)) is ChangeClass.BREAKING


@given(st.integers(0, 10**15))
def test_sizes_are_written_as_they_are_read(size):
    assert size_bytes(format_size(size)) == size


@given(st.integers(1, 10**8))
def test_ages_are_written_as_they_are_read(seconds):
    assert duration_seconds(format_age(seconds)) == seconds


def test_a_document_names_every_field_that_the_record_has():
    words = flatten(document(SPEC))
    assert {
        "sizing.min_fill",
        "files.bloom_filter",
        "retention.clean.keep_versions",
        "columns.a.type",
    } <= set(words)
    assert not [path for path in words if path.endswith(("_bytes", "_seconds"))]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("7d", None, "the next clean deletes the orphans in the quarantine"),
        ("7d", "36h", "the next clean deletes the orphans that have been in the quarantine for 36h"),
        ("36h", "7d", None),
        (None, "7d", None),
    ],
)
def test_a_shorter_quarantine_says_what_is_deleted(old, new, reason):
    def spec(age):
        seconds = None if age is None else duration_seconds(age)
        return replace(SPEC, retention=RetentionPolicy(quarantine_seconds=seconds))

    (change,) = changes(spec(new), spec(old))
    assert (change.path, change.old, change.new, change.reason) == ("retention.quarantine", old, new, reason)


META = {meta: replace(SPEC, files=FilesPolicy(meta_columns=meta)) for meta in MetaColumns}


@pytest.mark.parametrize(
    ("old", "new", "code", "change_class", "lost"),
    [
        (
            "all",
            "commit_time",
            "SC263",
            ChangeClass.FORMAT,
            "takes away Hudi's incremental queries and its Bloom index",
        ),
        (
            "commit_time",
            "none",
            "SC263",
            ChangeClass.FORMAT,
            "takes away Hudi's incremental queries and its Bloom index, since and until",
        ),
        ("none", "commit_time", "SC317", ChangeClass.BREAKING, "lack what commit_time promises"),
        ("none", "all", "SC317", ChangeClass.BREAKING, "lack what all promises"),
        ("commit_time", "all", "SC317", ChangeClass.BREAKING, "lack what all promises"),
    ],
)
def test_meta_columns_become_fewer_and_never_more(old, new, code, change_class, lost):
    (change,) = changes(META[MetaColumns(new)], META[MetaColumns(old)])
    assert (change.code, change.change_class) == (code, change_class)
    assert lost in change.reason


@pytest.mark.parametrize("kind", ["float", "double"])
def test_keys_of_floating_point_numbers_stay_stored(kind):
    """Their texts depend on the Java that stored them."""
    columns = tuple(replace(column, type=kind) if column.name == "a" else column for column in SPEC.columns)
    stored = replace(SPEC, columns=columns)
    (change,) = changes(replace(stored, files=FilesPolicy(meta_columns=MetaColumns.NONE)), stored)
    assert (change.code, change.change_class) == ("SC317", ChangeClass.BREAKING)
    assert "the text of a, a floating-point number" in change.reason


def test_the_type_of_a_key_column_stays_if_files_store_no_keys():
    for meta, spec in META.items():
        narrow = tuple(replace(c, type="int") if c.name == "a" else c for c in spec.columns)
        wide = tuple(replace(c, type="bigint") if c.name == "a" else c for c in spec.columns)
        (change,) = changes(replace(spec, columns=wide), replace(spec, columns=narrow))
        assert change.code == ("SC302" if meta is MetaColumns.ALL else "SC401")


def test_of_entries_that_come_and_go_only_what_they_say_is_a_change():
    renamed = replace(
        SPEC,
        sources=(Source(name="feed", format="csv", path="in/*", read="full"),),
        extra=replace(SPEC.extra, queries=(Query(name="r", where="a = 1"),)),
    )
    found = {change.path: (change.old, change.new) for change in changes(renamed)}
    assert found == {
        "queries.q.where": ("a = 1", None),
        "queries.r.where": (None, "a = 1"),
        "sources.in.format": ("csv", None),
        "sources.in.operation": ("upsert", None),
        "sources.in.path": ("in/*", None),
        "sources.feed.format": (None, "csv"),
        "sources.feed.operation": (None, "upsert"),
        "sources.feed.path": (None, "in/*"),
        "sources.feed.read": (None, "full"),
    }
