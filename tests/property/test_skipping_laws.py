"""What is skipped holds no matching row."""

from __future__ import annotations

import math
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.layout.skipping.files import files_to_read, parse_where, reads_of
from parquetry.runtime.layout.skipping.statistics import (
    TEXT_LIMIT,
    ColumnStatistics,
    FileStatistics,
    RowGroupStatistics,
    merge_columns,
    truncated,
)
from tests.support.conditions import CONDITIONS, ROWS, TYPES, stored
from tests.support.effort import examples

UTC = ZoneInfo("UTC")


def group_of(rows, *, limit=TEXT_LIMIT, own=False):
    """Statistics as a writer makes them: without nulls and NaN; ``own`` ones tell of no column with a NaN."""
    columns = {}
    for name, kind in TYPES.items():
        values = [stored(name, row[name]) for row in rows if row[name] is not None]
        ordered = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
        tells = not own or len(ordered) == len(values)
        statistics = ColumnStatistics(
            type=kind,
            minimum=min(ordered, default=None) if tells else None,
            maximum=max(ordered, default=None) if tells else None,
            nulls=len(rows) - len(values),
            nan_free=own and kind == "double" and tells and bool(ordered),
        )
        columns[name] = truncated(statistics, limit=limit)
    return RowGroupStatistics(rows=len(rows), data_bytes=1, columns=columns)


groups = st.lists(ROWS, min_size=1, max_size=4)


@given(
    CONDITIONS, st.lists(groups, min_size=1, max_size=3), st.sampled_from([1, 2, TEXT_LIMIT]), st.booleans()
)
@settings(max_examples=examples(800))
def test_no_row_group_with_a_matching_row_is_skipped(condition, row_groups, limit, own):
    predicate = parse_where(condition.text, types=TYPES, time_zone=UTC)
    for rows in row_groups:
        file = FileStatistics(path="p", size_bytes=1, row_groups=(group_of(rows, limit=limit, own=own),))
        if any(condition.holds(row) is True for row in rows):
            assert files_to_read([file], predicate, TYPES), condition.text
    groups_of_file = tuple(group_of(rows, limit=limit, own=own) for rows in row_groups)
    whole = FileStatistics(path="p", size_bytes=1, row_groups=groups_of_file)
    merged = RowGroupStatistics(rows=whole.rows, data_bytes=1, columns=whole.columns)
    if any(condition.holds(row) is True for rows in row_groups for row in rows):
        file = FileStatistics(path="p", size_bytes=1, row_groups=(merged,))
        assert files_to_read([file], predicate, TYPES), condition.text


@given(CONDITIONS, st.lists(groups, min_size=1, max_size=3))
def test_a_file_is_read_if_one_of_its_row_groups_is(condition, row_groups):
    predicate = parse_where(condition.text, types=TYPES, time_zone=UTC)
    parts = [group_of(rows) for rows in row_groups]
    whole = FileStatistics(path="p", size_bytes=1, row_groups=tuple(parts))
    single = [FileStatistics(path="p", size_bytes=1, row_groups=(part,)) for part in parts]
    counted = reads_of([whole], predicate, TYPES)
    assert counted.row_groups == len(files_to_read(single, predicate, TYPES))
    assert counted.files == bool(counted.row_groups)
    merged = RowGroupStatistics(rows=whole.rows, data_bytes=1, columns=merge_columns(parts))
    together = FileStatistics(path="p", size_bytes=1, row_groups=(merged,))
    assert len(files_to_read([together], predicate, TYPES)) >= counted.files


@given(st.lists(groups, min_size=1, max_size=4))
def test_merged_statistics_are_those_of_all_rows(row_groups):
    whole = group_of([row for rows in row_groups for row in rows])
    for name, merged in merge_columns(map(group_of, row_groups)).items():
        known = whole.columns[name]
        assert merged.nulls == known.nulls
        assert merged.minimum in (known.minimum, None)
        assert merged.maximum in (known.maximum, None)
        if name != "x":  # a group of NaN alone has no bounds
            assert merged == known


@given(st.text(max_size=12) | st.binary(max_size=12), st.integers(1, 6))
def test_shortened_bounds_are_bounds(value, limit):
    shortened = truncated(ColumnStatistics(type="string", minimum=value, maximum=value), limit=limit)
    assert shortened.minimum <= value
    assert len(shortened.minimum) <= limit
    if shortened.maximum is not None:
        assert shortened.maximum >= value
        assert len(shortened.maximum) <= limit
        if isinstance(value, str):
            shortened.maximum.encode()


@given(st.text(alphabet="iabsx='()<>! ANDORNTBEWLK%0159.-,\"`\\", max_size=40))
def test_any_text_is_parsed_without_an_error(text):
    parse_where(text, types=TYPES, time_zone=UTC)


def test_conditions_do_skip():
    """The law above is not kept by skipping nothing."""
    rows = [{**dict.fromkeys(TYPES), "i": 3, "s": "b"}]
    file = FileStatistics(path="p", size_bytes=1, row_groups=(group_of(rows),))
    for where in ("i > 3", "i <> 3", "s < 'b'", "x = 1", "i IN (1, 2) OR b"):
        predicate = parse_where(where, types=TYPES, time_zone=UTC)
        assert files_to_read([file], predicate, TYPES) == [], where
    group = group_of([{**rows[0], "x": 1.0}], own=True)
    file = FileStatistics(path="p", size_bytes=1, row_groups=(group,))
    for where in ("x > 1", "x BETWEEN 2 AND 3", "x = 'NaN'", "x <> 1"):
        predicate = parse_where(where, types=TYPES, time_zone=UTC)
        assert files_to_read([file], predicate, TYPES) == [], where
