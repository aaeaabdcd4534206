"""What the page index of files says, and what is read to know it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.base_file.encoding import page_options
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.layout.skipping.files import parse_where, reads_of
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, RowGroupPages
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.bounds import page_bounds
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.parquet.page_index import file_pages, page_locations, with_pages
from parquetry.runtime.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    List,
    decode_struct,
    encode_struct,
)
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.local import LocalStore
from tests.support.base_files import SECOND, Incoming, bucket, context, slice_of, write
from tests.support.stores import CountingStore, Kind

TYPES = {"n": "bigint", "s": "string", "x": "double"}
ROWS = 50_000
BIG = st.integers(0, 2**61)


@given(st.lists(st.tuples(BIG, st.integers(0, 2**31 - 1), BIG), max_size=40), st.booleans())
def test_page_locations_are_those_of_the_offset_index(pages, more):
    """As many as there are, of any size; newer writers' further fields do not matter."""
    structs = [{1: (I64, at), 2: (I32, size), 3: (I64, first)} for at, size, first in pages]
    index = {1: (LIST, List(STRUCT, structs))}
    if more:
        index[2] = (LIST, List(I64, [7] * len(pages)))
    firsts, sizes = page_locations(encode_struct(index))
    assert firsts.tolist() == [first for _, _, first in pages]
    assert sizes.tolist() == [size for _, size, _ in pages]


def test_page_locations_with_other_fields_are_read_one_by_one():
    structs = [{1: (I64, 4), 2: (I32, 5), 3: (I64, n), 9: (BINARY, b"new")} for n in (0, 6)]
    firsts, sizes = page_locations(encode_struct({1: (LIST, List(STRUCT, structs))}))
    assert (firsts.tolist(), sizes.tolist()) == ([0, 6], [5, 5])


def column_index(lows, highs, null_pages, nulls=None):
    index = {
        1: (LIST, List(TRUE, null_pages)),
        2: (LIST, List(BINARY, lows)),
        3: (LIST, List(BINARY, highs)),
        4: (I32, 0),
    }
    if nulls is not None:
        index[5] = (LIST, List(I64, nulls))
    return decode_struct(encode_struct(index))[0]


def column(kind):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": pa.array([], kind)}), sink)
    return pq.read_metadata(pa.BufferReader(sink.getvalue())).schema.column(0)


def test_bounds_of_pages_may_be_cut_or_missing():
    """Texts cut by their writer, a page of nulls, one without a readable bound; nulls not counted."""
    known = ColumnStatistics(type="string", minimum="a", maximum=None, nulls=3)
    index = column_index([b"aa", b"", b"\xff"], [b"ab", b"", b"z"], [False, True, False])
    found = page_bounds(known, column(pa.string()), index, [2, 3, 4])
    assert [(page.minimum, page.maximum, page.nulls) for page in found] == [
        ("aa", "ab", None),
        (None, None, 3),
        (None, "z", None),
    ]


def test_bounds_of_pages_are_not_believed_where_the_footer_gives_none():
    """As where a writer did not know how the values are ordered."""
    known = ColumnStatistics(type="double", nulls=None)
    one = np.array([1.0]).tobytes()
    (found,) = page_bounds(known, column(pa.float64()), column_index([one], [one], [False], [0]), [5])
    assert found == ColumnStatistics(type="double", nulls=0)
    nan = np.array([np.nan]).tobytes()
    known = replace(known, minimum=0.0, maximum=9.0)
    (found,) = page_bounds(known, column(pa.float64()), column_index([one], [nan], [False], [0]), [5])
    assert (found.minimum, found.maximum) == (1.0, None)


@pytest.fixture
def store(tmp_path):
    return CountingStore(LocalStore(str(tmp_path)), tmp_path / "log")


def ordered_file(store, path="f", **options):
    """A file of one row group whose numbers ascend, and of which only some pages hold a NaN."""
    n = np.arange(ROWS)
    x = np.where(n == ROWS - 1, np.nan, n.astype(float))
    table = pa.table({"n": n, "s": [f"{number:08d}" for number in n], "x": x})
    with store.create_file(path) as sink:
        pq.write_table(
            table,
            sink,
            **{"write_page_index": True, "use_dictionary": False, **page_options(2048), **options},
        )
    return file_statistics(path, read_metadata(store, path), size_bytes=store.stat(path).size_bytes)


def predicate(where):
    return parse_where(where, types=TYPES)


def test_rows_and_bytes_are_those_of_pages(store):
    file = ordered_file(store)
    (paged,) = with_pages(store, {"f": file}, [predicate("n = 5000")], TYPES).values()
    found = reads_of([paged], predicate("n = 5000"), TYPES)
    assert (found.files, found.row_groups, found.rows, found.paged_row_groups) == (1, 1, 2048, 1)
    assert file.data_bytes / 40 < found.data_bytes < file.data_bytes / 10
    dictionaries = reads_of(
        with_pages(
            store, {"g": ordered_file(store, "g", use_dictionary=True)}, [predicate("n = 5000")], TYPES
        ).values(),
        predicate("n = 5000"),
        TYPES,
    )
    assert dictionaries.rows == found.rows
    assert dictionaries.data_bytes > 5 * found.data_bytes, "they are read with any page"
    everything = reads_of([paged], predicate("n >= 0"), TYPES)
    assert (everything.rows, everything.data_bytes) == (ROWS, file.data_bytes)
    assert reads_of([paged], predicate("x > 1000"), TYPES).rows == ROWS, "there is a NaN somewhere"
    assert paged == file, "the record is the same"


def test_one_file_is_opened_once_and_only_where_its_pages_may_tell_something(store):
    files = {
        path: ordered_file(store, path, **options)
        for path, options in {
            "a": {},
            "b": {},
            "without": {"write_page_index": False},
            "one page": {"row_group_size": 20_000},
        }.items()
    }
    files["encrypted"] = replace(files["a"], path="encrypted", encrypted=True)
    files["gone"] = replace(files["a"], path="gone")

    def read(where, **limits):
        store.reset()
        found = with_pages(store, files, [predicate(where)], TYPES, **limits)
        assert list(found) == list(files)
        opened = [path for kind, path in store.calls() if kind is Kind.OPEN_INPUT]
        assert len(opened) == len(store.calls())
        return sorted(opened), {path for path, file in found.items() if file.row_groups[0].pages is not None}

    assert read("n = 5") == (["a", "b", "gone", "without"], {"a", "b"})
    assert read("n = 5", most_files=1) == (["a"], {"a"})
    assert read("n > 60000") == ([], set())
    assert read("length(s) = 3") == ([], set())


def test_row_groups_of_files_that_clustering_wrote_have_smaller_pages(store):
    file = ordered_file(store, row_group_size=5000)
    for clustering, pages in ((None, [None] * 10), ("sha256:1", [5000, *[None] * 9])):
        files = {"f": replace(file, clustering=clustering)}
        (found,) = with_pages(store, files, [predicate("n = 5")], TYPES).values()
        assert [group.pages and group.rows for group in found.row_groups] == pages


def test_a_page_index_that_cannot_be_read_leaves_the_row_group_whole(store, tmp_path):
    file = ordered_file(store)
    with store.open_input("f") as content:
        parts = ParquetParts(content)
        (column_place, offset_place) = parts.chunks(0)[0].index_ranges
    content = (tmp_path / "f").read_bytes()
    for place in (column_place, offset_place):
        broken = content[: place.start] + b"\xff" * len(place) + content[place.stop :]
        (tmp_path / "f").write_bytes(broken)
        assert file_pages(store, file, [0], ["n"]) == {}
    (tmp_path / "f").write_bytes(content[:-5])
    assert file_pages(store, file, [0], ["n"]) == {}
    (tmp_path / "f").write_bytes(content)
    assert isinstance(file_pages(store, file, [0], ["n"])[0], RowGroupPages)
    other = replace(file, row_groups=(replace(file.row_groups[0], rows=7),))
    assert file_pages(store, other, [0], ["n"]) == {}, "it is another file than the recorded one"


def test_of_files_that_clustering_sorted_one_page_holds_a_value(tmp_path):
    columns = (
        Column(name="n", type="bigint"),
        Column(name="s", type="string"),
        Column(name="x", type="double"),
    )
    ctx = context(tmp_path, columns)
    rows = [
        Incoming(
            key=f"{n}", values={"n": n * 7919 % 10_000, "s": f"{n % 10}", "x": np.nan if n == 5 else 1.0}
        )
        for n in range(10_000)
    ]
    parts = tuple(slice_of(file) for file in write(ctx, bucket(ctx), rows).files)
    work = GroupWork(
        index=0,
        partition="p=1",
        slices=parts,
        target_bytes=2**20,
        order=RowOrder(strategy="sort", columns=("n",)),
    )
    (file,) = rewrite_group(replace(ctx, instant=SECOND, clustering="sha256:1"), work).files
    asked = [predicate(where) for where in ("n = 4096", "s = '3'", "x = 2.0")]
    files = with_pages(ctx.store, {file.stat.path: file.statistics}, asked, TYPES).values()
    assert [reads_of(files, one, TYPES).rows for one in asked] == [2048, 10_000, 10_000]


@pytest.mark.parametrize("before", [b"\x19\xfc", b"\x19\x1c\x16"], ids=["count", "first place"])
def test_page_locations_with_an_integer_without_end_are_refused(before):
    with pytest.raises(ValueError, match="an integer has more than 10 bytes"):
        page_locations(before + b"\xff" * 400_000 + b"\x00" * 7)
