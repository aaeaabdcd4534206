"""No page with a matching row is skipped, of files as pyarrow writes them, judged by the rows themselves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.base_file.encoding import page_options
from parquetry.runtime.layout.skipping.files import bounds_of, parse_where, rows_to_read
from parquetry.runtime.layout.skipping.predicate import may_hold
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.parquet.page_index import file_pages
from parquetry.runtime.storage.local import LocalStore
from tests.support.conditions import CONDITIONS, ROW_SCHEMA, ROWS, TYPES
from tests.support.effort import examples

ROWS_OF_A_PAGE, ROWS_OF_A_GROUP = 2, 7
SCHEMA = ROW_SCHEMA.append(pa.field("wide", pa.list_(pa.int64())))
SHAPES = st.sampled_from([{}, {"store_decimal_as_integer": True}, {"use_dictionary": False}])


def row_groups(folder, rows, **shape):
    """The row groups of a file of the rows, with their pages; lists beside them have pages of their own."""
    table = pa.Table.from_pylist(
        [
            {**row, "ts": row["ts"] and row["ts"].replace(tzinfo=UTC), "wide": [number] * (number % 4)}
            for number, row in enumerate(rows)
        ],
        schema=SCHEMA,
    )
    options = {"row_group_size": ROWS_OF_A_GROUP, "store_schema": False, "write_page_index": True}
    pq.write_table(table, folder / "f", **options, **page_options(ROWS_OF_A_PAGE), **shape)
    store = LocalStore(str(folder))
    file = file_statistics("f", read_metadata(store, "f"), size_bytes=1)
    pages = file_pages(store, file, range(len(file.row_groups)), TYPES)
    assert len(pages) == len(file.row_groups)
    return [replace(group, pages=pages[number]) for number, group in enumerate(file.row_groups)]


@given(
    st.lists(ROWS, min_size=1, max_size=20),
    st.lists(CONDITIONS, min_size=1, max_size=20),
    SHAPES,
)
@settings(max_examples=examples(40))
def test_no_page_with_a_matching_row_is_skipped(tmp_path_factory, rows, conditions, shape):
    groups = row_groups(tmp_path_factory.mktemp("f"), rows, **shape)
    for condition in conditions:
        predicate = parse_where(condition.text, types=TYPES, time_zone=ZoneInfo("UTC"))
        for number, group in enumerate(groups):
            first = number * ROWS_OF_A_GROUP
            of_group = rows[first : first + ROWS_OF_A_GROUP]
            matching = {n for n, row in enumerate(of_group) if condition.holds(row) is True}
            left = rows_to_read(group, predicate, TYPES)
            # What a file's own decoder gives for a row of the page has to be read together with it.
            assert matching <= {row for part in left.ranges for row in part}, condition.text
            assert left.rows <= group.rows
            assert (left.data_bytes == group.data_bytes) if left.rows == group.rows else True
            assert 0 < left.data_bytes <= group.data_bytes if left.rows else left.data_bytes == 0
            if not may_hold(predicate, bounds_of(group, TYPES)):
                assert not matching


def test_pages_do_skip(tmp_path):
    """The law above is not kept by skipping nothing."""
    rows = [
        {**dict.fromkeys(TYPES), "i": number, "s": "abcdefg"[number], "x": float(number)}
        for number in range(ROWS_OF_A_GROUP)
    ]
    (group,) = row_groups(tmp_path, rows)
    for where, ranges in {
        "i = 3": (range(2, 4),),
        "i < 2 OR s >= 'g'": (range(2), range(6, 7)),
        "i > 1 AND s < 'e' AND d IS NULL": (range(2, 4),),
        "x < 1D": (range(2),),
        "i > 1 AND s < 'b'": (),
        "d IS NOT NULL": (),
    }.items():
        left = rows_to_read(group, parse_where(where, types=TYPES), TYPES)
        assert left.ranges == ranges, where
