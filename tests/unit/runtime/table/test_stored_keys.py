"""Keys computed from key columns: the same rows are found, and bounds leave no key out."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics
from parquetry.runtime.parquet.footer import row_groups_of
from parquetry.runtime.spark.lookup.key_match import any_between, find_in_file
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.partition_path import KeyRules
from parquetry.runtime.table.stored_keys import StoredKeys, record_keys, text_bounds_of_numbers

TYPES = {
    "s": "string",
    "i": "int",
    "l": "bigint",
    "b": "boolean",
    "d": "date",
    "t": "timestamp",
}
VALUES = {
    "s": st.text(st.sampled_from("ab,:+-!_~é\U0001f600"), max_size=4)
    | st.sampled_from(["", "__null__", None]),
    "i": st.integers(-(2**31), 2**31 - 1) | st.integers(-20, 120) | st.none(),
    "l": st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 120) | st.none(),
    "b": st.booleans() | st.none(),
    "d": st.dates() | st.none(),
    "t": st.datetimes(timezones=st.just(dt.UTC)) | st.none(),
}
SCHEMA = arrow_schema(Column(name=name, type=kind) for name, kind in TYPES.items())
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=30)
KEYS = st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True)


def computed(key):
    rules = KeyRules(
        record_key=tuple(key), partition_by=(), hive_style=True, url_encode=True, named_key=len(key) > 1
    )
    return StoredKeys(schema=SCHEMA, rules=rules)


def stored_in(path, rows, key):
    """A file of the rows that have a key, with the key stored."""
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    texts = record_keys(computed(key).rules, [table.column(name).combine_chunks() for name in key])
    table = table.append_column(RECORD_KEY, texts).filter(texts.is_valid())
    pq.write_table(table, path, row_group_size=4, store_schema=False)
    return table.column(RECORD_KEY).combine_chunks()


@settings(max_examples=200, deadline=None)
@given(ROWS, KEYS, st.data())
def test_a_lookup_by_key_columns_finds_what_one_by_stored_keys_finds(rows, key, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.parquet"
        texts = stored_in(path, rows, key)
        others = data.draw(st.lists(st.sampled_from(["a", "1", "s:a,i:1", "s:__null__,b:true"]), max_size=3))
        some = data.draw(st.lists(st.sampled_from(texts.to_pylist() or ["a"]), max_size=5))
        wanted = pa.array(sorted({*others, *some}, key=str.encode), pa.string())
        file = FileSlice(
            partition="", file_id="f", instant="1", path=path.name, size_bytes=path.stat().st_size
        )
        store = open_store(folder)
        by_text, by_column = (
            [batch.to_pydict() for batch in find_in_file(store, file, wanted, keys, None)]
            for keys in (StoredKeys(schema=SCHEMA), computed(key))
        )
        assert by_text == by_column
        assert sum(len(found["__position"]) for found in by_text) == sum(
            text in {*others, *some} for text in texts.to_pylist()
        )


@settings(max_examples=200, deadline=None)
@given(ROWS, KEYS)
def test_no_key_is_outside_of_the_bounds_of_its_file_or_row_group(rows, key):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.parquet"
        stored_in(path, rows, key)
        keys = computed(key)
        with pq.ParquetFile(path) as file:
            for number, group in enumerate(row_groups_of(file.metadata)):
                texts = keys.of_rows(file.read_row_group(number))
                for bounds in (keys.bounds_of_group(file.metadata, number), keys.bounds_in(group.columns)):
                    for text in texts.to_pylist():
                        assert bounds is None or any_between(pa.array([text]), *bounds)


@given(st.integers(-2000, 2000), st.integers(0, 1500))
def test_bounds_of_numbers_are_those_of_their_texts(low, count):
    texts = [str(number) for number in range(low, low + count + 1)]
    assert text_bounds_of_numbers(low, low + count) == (min(texts), max(texts))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (ColumnStatistics(type="int", minimum=95, maximum=105, nulls=0), ("100", "99")),
        (ColumnStatistics(type="date", minimum=0, maximum=1, nulls=0), ("1970-01-01", "1970-01-02")),
        (ColumnStatistics(type="date", minimum=0, maximum=10**7, nulls=0), None),
        (ColumnStatistics(type="double", minimum=0.0, maximum=1.0, nulls=0), None),
        (ColumnStatistics(type="int", nulls=0), None),
    ],
)
def test_bounds_that_texts_do_not_follow_are_unknown(known, expected):
    assert computed(["i"]).bounds_in({"i": known}) == expected


def test_files_without_a_wanted_key_are_not_read(tmp_path):
    path = tmp_path / "file.parquet"
    stored_in(path, [{**dict.fromkeys(TYPES), "i": n} for n in range(100, 112)], ["i"])
    with pq.ParquetFile(path) as file:
        bounds = [computed(["i"]).bounds_of_group(file.metadata, n) for n in range(file.num_row_groups)]
    assert bounds == [("100", "103"), ("104", "107"), ("108", "111")]


@pytest.mark.parametrize(
    ("kind", "here"),
    [("double", False), ("decimal(9,2)", False), ("timestamp_ntz", False), ("timestamp", True)],
)
def test_only_spark_spells_some_types(kind, here):
    schema = arrow_schema([Column(name="a", type=kind)])
    rules = KeyRules(record_key=("a",), partition_by=(), hive_style=True, url_encode=True, named_key=False)
    assert StoredKeys(schema=schema, rules=rules).are_spelled_here is here
