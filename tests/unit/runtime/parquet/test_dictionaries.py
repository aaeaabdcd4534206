"""Row groups whose dictionaries lack what a condition asks for, as readers such as Spark skip them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.layout.skipping.files import parse_where, reads_of
from parquetry.runtime.layout.skipping.predicate import value_conditions
from parquetry.runtime.parquet.dictionaries import with_dictionaries
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.storage.local import LocalStore
from tests.support.stores import CountingStore, Kind

TYPES = {
    "i": "int",
    "l": "bigint",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "x": "double",
    "m": "decimal(7,2)",
}
DAY = date(2024, 1, 1)
TIME = datetime(2024, 1, 1, tzinfo=UTC)
VALUES = {
    "i": (lambda n: n - 3, pa.int32(), "i = {0}"),
    "l": (lambda n: 2**40 - n, pa.int64(), "l = {0}"),
    "s": (lambda n: "ä" * (n % 3) + str(n), pa.string(), "s = '{0}'"),
    "d": (lambda n: DAY + timedelta(n), pa.date32(), "d = DATE '{0}'"),
    "t": (lambda n: TIME + timedelta(hours=n), pa.timestamp("us", "UTC"), "t = TIMESTAMP '{0}'"),
    "x": (lambda n: n / 4, pa.float64(), "x = {0}"),
    "m": (lambda n: Decimal(n - 4).scaleb(-2), pa.decimal128(7, 2), "m = {0}"),
}
NUMBERS = st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=12)


def written(store, rows, path="f", **options):
    with store.create_file(path) as sink:
        pq.write_table(rows, sink, **options)
    return file_statistics(path, read_metadata(store, path), size_bytes=store.stat(path).size_bytes)


def known(store, files, *conditions, **limits):
    predicates = [parse_where(where, types=TYPES, time_zone=UTC) for where in conditions]
    found = with_dictionaries(store, {file.path: file for file in files}, predicates, TYPES, **limits)
    return [reads_of(found.values(), predicate, TYPES) for predicate in predicates]


def table(numbers):
    return pa.table(
        {
            name: pa.array([None if n is None else value(n) for n in numbers], kind)
            for name, (value, kind, _) in VALUES.items()
        }
    )


@settings(deadline=None)
@given(
    numbers=NUMBERS,
    asked=st.integers(0, 9),
    per_group=st.integers(1, 12),
    codec=st.sampled_from(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
)
def test_row_groups_are_skipped_that_lack_the_value_and_no_others(numbers, asked, per_group, codec):
    with TemporaryDirectory() as folder:
        file = written(LocalStore(folder), table(numbers), row_group_size=per_group, compression=codec)
        groups = [numbers[first : first + per_group] for first in range(0, len(numbers), per_group)]
        conditions = [where.format(value(asked)) for value, _, where in VALUES.values()]
        for found in known(LocalStore(folder), [file], *conditions):
            held = sum(len(group) for group in groups if asked in group)
            assert found.fewest_rows == held
            # By bounds nothing is known of row groups without a value.
            assert found.rows >= held


ROWS = pa.table({"i": pa.array([1, 5, 1, 9, 3, 5], pa.int32()), "s": ["a", "z", "b", "z", "a", "zz"]})
"""In row groups of two rows: 1 and 5, 1 and 9, 3 and 5."""


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("i = 5", 4),
        ("i IN (3, 9)", 4),
        ("i IN (4, 6)", 0),
        ("i = 5 AND s = 'b'", 0),
        ("i = 5 OR s = 'b'", 6),
        ("i = 5 AND s LIKE 'b%'", 0),
        ("i = 5 AND length(s) = 1", 4),
        ("i = 4 OR length(s) = 1", 6),
        ("s LIKE 'zz%'", 2),
        ("i = 5 AND s IS NOT NULL", 4),
    ],
)
def test_conditions_are_joined_as_parquet_mr_joins_them(tmp_path, where, rows):
    store = LocalStore(str(tmp_path))
    (found,) = known(store, [written(store, ROWS, row_group_size=2)], where)
    assert found.fewest_rows == rows


@pytest.mark.parametrize(
    "options",
    [{"use_dictionary": False}, {"dictionary_pagesize_limit": 1, "data_page_size": 1, "write_batch_size": 1}],
)
def test_a_column_with_other_pages_than_those_of_its_dictionary_is_not_skipped(tmp_path, options):
    store = LocalStore(str(tmp_path))
    (found,) = known(store, [written(store, ROWS, row_group_size=2, **options)], "i = 4")
    assert found.fewest_rows == found.rows > 0


def test_ranges_ask_no_dictionary_and_open_no_file(tmp_path):
    store = CountingStore(LocalStore(str(tmp_path)), tmp_path / "log")
    file = written(store, ROWS, row_group_size=2)
    store.reset()
    (found,) = known(store, [file], "i BETWEEN 6 AND 8")
    assert found.dictionary_rows is None
    assert found.fewest_rows == found.rows
    assert store.calls() == ()


def test_one_file_is_opened_once_within_limits_and_of_the_others_nothing_is_known(tmp_path):
    store = CountingStore(LocalStore(str(tmp_path)), tmp_path / "log")
    files = [written(store, ROWS, path, row_group_size=2) for path in ("a", "b")]
    files += [replace(files[0], path="gone"), replace(files[0], path="encrypted", encrypted=True)]
    store.reset()
    (found,) = known(store, files, "i = 4")
    # Their bounds rule out no row group; the dictionaries of two files all of theirs.
    opened = [path for kind, path in store.calls() if kind is Kind.OPEN_INPUT]
    assert sorted(opened) == ["a", "b", "gone"]
    assert (found.rows, found.dictionary_rows) == (24, 12)
    (found,) = known(store, files, "i = 4", most_files=1)
    assert found.dictionary_rows == 18


def test_a_file_of_other_types_is_not_compared_by_its_dictionary(tmp_path):
    store = LocalStore(str(tmp_path))
    rows = ROWS.set_column(0, "i", ROWS["i"].cast(pa.int64()))
    (found,) = known(store, [written(store, rows, row_group_size=2)], "i = 4")
    assert found.fewest_rows == found.rows > 0


def test_decimals_of_38_digits_are_found_exactly(tmp_path):
    store = LocalStore(str(tmp_path))
    texts = [f"1234567890123456789012345678.12345678{end}" for end in (90, 91, 99)]
    file = written(store, pa.table({"w": pa.array(map(Decimal, texts), pa.decimal128(38, 10))}))
    types = {"w": "decimal(38,10)"}
    for text, rows in ((texts[1], 3), (texts[1][:-1] + "2", 0)):
        predicate = parse_where(f"w = {text}", types=types)
        found = with_dictionaries(store, {file.path: file}, [predicate], types)
        assert reads_of(found.values(), predicate, types).fewest_rows == rows


def test_nan_is_a_value_that_is_not_looked_for(tmp_path):
    store = LocalStore(str(tmp_path))
    (found,) = known(store, [written(store, pa.table({"x": [1.0, float("nan")]}))], "x = 'NaN'")
    assert found.fewest_rows == found.rows


def test_equality_and_prefixes_are_what_values_answer():
    assert len(value_conditions(parse_where("i = 1 AND (s LIKE 'a%' OR l > 3)", types=TYPES))) == 2
