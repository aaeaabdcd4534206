"""What clustering is good for, predicted from a sample and compared with what it was good for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.clustering.forecast import tried_encoding
from parquetry.runtime.clustering.forecast.by_sample import Forecaster
from parquetry.runtime.clustering.forecast.predicted_files import (
    RowSizes,
    arranged_files,
    expected_row_groups,
    stitched_files,
)
from parquetry.runtime.clustering.forecast.sample import GroupSample, SampleLimits, draw
from parquetry.runtime.clustering.forecast.tried_encoding import CompressionRatio, PageShape, TriedRows
from parquetry.runtime.clustering.rewrite.kept_sample import decode_sample, encode_samples
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.layout.clustering.model import ClusteringFile
from parquetry.runtime.layout.skipping.files import reads_of
from parquetry.runtime.layout.skipping.predicate import Comparison, Operator
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.parquet.page_index import USUAL_PAGE_ROWS
from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, FilesPolicy, Query, TableSpec
from parquetry.runtime.storage.local import LocalStore
from tests.support.base_files import FIRST, MIB, Incoming, bucket, context, write
from tests.support.clustering_model import maximum_for
from tests.support.predicted import KIB, KINDS, Kind, predicted
from tests.support.stores import CountingStore
from tests.support.stores import Kind as Operation

COLUMNS = (Column(name="n", type="bigint"), Column(name="word", type="string"))
WANTED = pa.schema([("n", pa.int64())])


def assert_near(found, *, median=0.10, ninetieth=0.25):
    """The promise; the figures are printed."""
    for kind in ("rows", "data_bytes", "row_groups"):
        errors = np.array([one.error(kind) for one in found])
        middle, high = np.percentile(errors, [50, 90])
        print(f"{kind}: {len(errors)} predicates, median {middle:.1%}, 90th percentile {high:.1%}")
        assert middle < median
        assert high < ninetieth


def test_predicates_drawn_by_row_read_what_was_foreseen(tmp_path):
    """Row groups have a few pages, the last of which is as small as it comes."""
    limits = SampleLimits(group_rows=12_288)
    found = [
        one
        for kind in KINDS
        for one in predicted(
            tmp_path / kind.name,
            kind,
            rows=100_000,
            files=12,
            predicates=40,
            seed=5,
            limits=limits,
            target_bytes=1024 * KIB,
            row_group_bytes=128 * KIB,
        )
    ]
    assert len(found) > 100
    assert_near(found)
    assert np.mean([one.measured.paged_row_groups / one.measured.row_groups for one in found]) > 0.9
    by_dictionaries = [one for one in found if one.measured.fewest_rows < one.measured.rows]
    errors = np.array([one.error("fewest_rows") for one in by_dictionaries])
    by_statistics = np.array([one.expected.rows / one.measured.fewest_rows - 1 for one in by_dictionaries])
    print(f"by dictionaries: {len(errors)} predicates, median {np.median(errors):.1%}")
    print(f"by statistics alone: median {np.median(by_statistics):.1%}")
    assert len(errors) >= 10
    assert np.median(errors) < 0.25 < np.median(by_statistics)


def events(rng, count):
    """In no order; one in 500 has failed, has no user, or tells of an error."""
    rare = iter(rng.random((3, count)) < 0.002)
    return {
        "event": pa.array(rng.integers(0, 10**9, count)),
        "user": pa.array(np.minimum(rng.zipf(1.3, count), 10**7), mask=next(rare)),
        "failed": pa.array(next(rare)),
        "error": pa.array([f"error {number % 20}" for number in range(count)], mask=~next(rare)),
        "amount": pa.array(rng.gamma(1, 1000, count)),
    }


EVENTS = Kind(
    name="events",
    columns=tuple(
        Column(name=name, type=kind)
        for name, kind in {
            "event": "bigint",
            "user": "bigint",
            "failed": "boolean",
            "error": "string",
            "amount": "double",
        }.items()
    ),
    rows=events,
    order=RowOrder(strategy="zorder", columns=("event", "user")),
    asked=(),
)


def test_what_is_rare_is_foreseen_too(tmp_path):
    """A page of the sample has a fifth of its rows, so most pages seem to have nothing of it."""
    conditions = [
        "user IS NULL",
        "failed",
        "error IS NOT NULL",
        "error = 'error 3'",
        "amount > 6500",
        "user = 1",
        "NOT failed AND event >= 0",
    ]
    found = predicted(
        tmp_path,
        EVENTS,
        rows=60_000,
        files=6,
        predicates=0,
        seed=1,
        limits=SampleLimits(group_rows=12_288),
        target_bytes=512 * KIB,
        row_group_bytes=128 * KIB,
        conditions=conditions,
    )
    for one in found:
        print(one.where, one.expected.rows, one.measured.rows)
    wrong = {one.where: one.expected.rows / one.measured.rows for one in found if one.error("rows") > 0.5}
    assert not wrong


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_predicates_on_large_tables_read_what_was_foreseen(tmp_path, seed):
    """Two million rows each, of which one in eight is in the sample; no row groups beyond the defaults."""
    found = [
        one
        for kind in KINDS
        for one in predicted(
            tmp_path / kind.name,
            kind,
            rows=2_000_000,
            files=60,
            predicates=40,
            seed=seed,
            limits=SampleLimits(row_groups=40),
            target_bytes=8 * 1024 * KIB,
            row_group_bytes=1024 * KIB,
        )
    ]
    assert_near(found)


@pytest.fixture
def small_files(tmp_path):
    """Six files of 500 rows whose numbers interleave."""
    store = CountingStore(LocalStore(str(tmp_path)), tmp_path / "log")
    ctx = context(store, COLUMNS)
    files = []
    for number in range(6):
        rows = [
            Incoming(key=f"{number}-{i}", values={"n": 6 * i + number, "word": f"w{i}"}) for i in range(500)
        ]
        files.append(written(ctx, number, rows))
    store.reset()
    return store, files


def written(ctx, number, rows):
    """The statistics of a new file of these rows, by its footer."""
    (file,) = write(ctx, bucket(ctx, number), rows).files
    path = file.stat.path
    return file_statistics(path, read_metadata(ctx.store, path), size_bytes=file.stat.file_size_bytes)


def further(store, count):
    """The statistics of a seventh file with that many rows, by its footer."""
    rows = [Incoming(key=f"6-{i}", values={"n": i, "word": f"w{i}"}) for i in range(count)]
    return written(context(store, COLUMNS), 6, rows)


def test_a_sample_has_every_row_where_it_may(small_files):
    store, files = small_files
    (sample,) = draw(store, [files], WANTED, SampleLimits())
    assert sorted(sample.rows.column("n").to_pylist()) == list(range(3000))
    assert sample.weight == 1


def test_a_sample_is_bounded_and_even(small_files):
    store, files = small_files
    (sample,) = draw(store, [files], WANTED, SampleLimits(group_rows=100, row_groups=4))
    assert sample.rows.num_rows == 100
    assert sample.weight == 30
    assert store.counts()[Operation.OPEN_INPUT] <= 5, "four files, and a footer"
    assert abs(np.mean(sample.rows.column("n").to_numpy()) - 1500) < 100


def test_a_sample_of_several_groups_shares_the_limits(small_files):
    store, files = small_files
    limits = SampleLimits(row_groups=1)
    draw(store, [files[:3], files[3:]], WANTED, limits.for_each_of(2))
    assert store.counts()[Operation.OPEN_INPUT] == 7


@pytest.mark.parametrize("limits", [SampleLimits(row_groups=4), SampleLimits(rows=2000)], ids=repr)
def test_groups_behind_those_that_spent_the_limits_have_no_sample(small_files, limits):
    store, files = small_files
    samples = draw(store, [[file] for file in files], WANTED, limits)
    assert [sample.rows.num_rows for sample in samples] == [500] * 4 + [0] * 2
    assert [sample.is_missing for sample in samples] == [False] * 4 + [True] * 2
    assert store.counts()[Operation.OPEN_INPUT] == 5, "four files, and a footer"
    every = draw(store, [[file] for file in files], WANTED, limits.for_each_of(6))
    assert [sample.rows.num_rows for sample in every] == [500] * 6


def test_of_groups_without_a_sample_nothing_is_foreseen(small_files):
    store, files = small_files
    spec = TableSpec(
        name="t",
        columns=COLUMNS,
        files=FilesPolicy(),
        extra=Extra(queries=(Query(name="few", where="n < 9"),)),
    )
    groups = [
        [ClusteringFile(partition="p=1", file_id=str(n), instant=FIRST, path=f.path, size_bytes=f.size_bytes)]
        for n, f in enumerate(files)
    ]
    order = RowOrder(strategy="hilbert", columns=("n", "word"))
    forecaster = Forecaster(store, spec, groups, columns=order.columns, limits=SampleLimits(rows=2000))
    execution = ExecutionPolicy(strategy="hilbert", columns=order.columns)
    found = forecaster.forecast(execution, target_bytes=2**20)
    assert [len(one.queries) for one in found] == [1] * 4 + [0] * 2
    assert [one.sample is None for one in found] == [False] * 4 + [True] * 2


def test_row_groups_beyond_a_size_are_not_decoded_to_try_them(small_files):
    store, files = small_files
    tried = {
        size: TriedRows(
            store, files, pa.schema([*WANTED, ("word", pa.string())]), SampleLimits(), row_group_bytes=size
        )
        for size in (1000, 2**20)
    }
    found = {
        size: rows.compression_ratio(
            None, WANTED.empty_table(), FilesPolicy(), target_bytes=2**20, of_rows=3000
        )
        for size, rows in tried.items()
    }
    assert found[1000] == CompressionRatio(pages=PageShape(usual_rows=USUAL_PAGE_ROWS))
    assert found[2**20].data != 1.0


@pytest.mark.parametrize(("decoded_bytes", "opened"), [(1, 1), (200_000, 2), (2**20, 6)])
def test_rows_are_tried_as_far_as_their_decoded_bytes_fit(small_files, decoded_bytes, opened):
    store, files = small_files
    schema = pa.schema([*WANTED, ("word", pa.string())])
    tried = TriedRows(store, files, schema, SampleLimits(), decoded_bytes=decoded_bytes)
    assert store.counts()[Operation.OPEN_INPUT] == opened
    found = tried.compression_ratio(
        None, WANTED.empty_table(), FilesPolicy(), target_bytes=2**20, of_rows=3000
    )
    assert found.data != 1.0


def test_a_row_group_that_is_skipped_does_not_lift_the_limit_of_decoded_bytes(small_files):
    store, files = small_files
    larger = further(store, 2000)
    metadata = read_metadata(store, larger.path)
    store.reset()
    tried = TriedRows(
        store,
        [larger, *files],
        pa.schema([*WANTED, ("word", pa.string())]),
        SampleLimits(),
        row_group_bytes=metadata.row_group(0).total_byte_size - 1,
        decoded_bytes=100_000,
    )
    assert store.counts()[Operation.OPEN_INPUT] == 2
    assert tried._rows.num_rows == 500


def test_a_small_first_row_group_does_not_lift_the_limit_of_decoded_bytes(small_files):
    store, files = small_files
    schema = pa.schema([*WANTED, ("word", pa.string())])
    tried = TriedRows(store, [further(store, 50), *files], schema, SampleLimits(), decoded_bytes=200_000)
    assert 50 < tried._rows.num_rows < 3050
    assert tried._rows.nbytes < 200_000


def test_row_groups_are_tried_as_large_as_the_writer_makes_them(tmp_path, monkeypatch):
    """Rows that lay in order take many times as much when they are put in another one."""
    sizes = []

    class Encoder(RowGroupEncoder):
        def encode(self, rows):
            encoded = super().encode(rows)
            sizes.append(encoded.size_bytes)
            return encoded

    monkeypatch.setattr(tried_encoding, "RowGroupEncoder", Encoder)
    columns = tuple(Column(name=name, type="int") for name in "abcdefg")
    ctx = context(tmp_path, columns)
    numbers = np.random.default_rng(1).permutation(20_000).tolist()
    rows = [
        Incoming(key="k", values=dict.fromkeys("abcdef", n // 100) | {"g": number})
        for n, number in enumerate(numbers)
    ]
    (file,) = write(ctx, bucket(ctx), rows).files
    tried = TriedRows(ctx.store, [file.statistics], ctx.schema, SampleLimits())
    tried.compression_ratio(
        RowOrder(strategy="sort", columns=("g",)),
        pa.table({"g": [1]}),
        FilesPolicy(row_group_size_bytes=32 * KIB),
        target_bytes=MIB,
        of_rows=20_000,
    )
    assert len(sizes) > 3
    assert all(abs(size / (32 * KIB) - 1) < 0.25 for size in sizes[1:])


def test_of_all_rows_bounds_are_exact(small_files):
    store, files = small_files
    (sample,) = draw(store, [files], WANTED, SampleLimits())
    size = sum(file.size_bytes for file in files)
    made = arranged_files(
        files,
        sample,
        RowOrder(strategy="sort", columns=("n",)),
        types={"n": "bigint"},
        target_bytes=size // 3,
        most_bytes=maximum_for(size // 3),
        row_group_size_bytes=size // 6,
        compression_ratio=CompressionRatio(),
    )
    bounds = [(g.columns["n"].minimum, g.columns["n"].maximum) for file in made for g in file.row_groups]
    assert [low for low, _ in bounds[1:]] == [high + 1 for _, high in bounds[:-1]]
    assert (bounds[0][0], bounds[-1][1]) == (0, 2999)
    assert sum(file.rows for file in made) == 3000
    assert all(file.columns["n"].nulls == 0 for file in made)


def at(value):
    return Comparison(column="n", operator=Operator.EQUAL, value=value)


@pytest.mark.parametrize(("every", "rows"), [(1, 100), (20, 200)])
def test_pages_are_foreseen_where_a_query_may_look(every, rows):
    """Of a sample with too few rows for a page, several pages count as one."""
    bounds = ColumnStatistics(type="bigint", minimum=0, maximum=9999, nulls=0)
    group = RowGroupStatistics(rows=10_000, data_bytes=100_000, columns={"n": bounds})
    (made,) = arranged_files(
        [FileStatistics(path="a", size_bytes=100_000, row_groups=(group,))],
        GroupSample(rows=pa.table({"n": pa.array(range(0, 10_000, every), pa.int64())}), of_rows=10_000),
        RowOrder(strategy="sort", columns=("n",)),
        types={"n": "bigint"},
        target_bytes=100_000,
        most_bytes=maximum_for(100_000),
        row_group_size_bytes=25_000,
        compression_ratio=CompressionRatio(pages=PageShape(usual_rows=100, dictionary_bytes=5000)),
        predicates=[at(150)],
    )
    assert [group.pages is not None for group in made.row_groups] == [True, False, False, False]
    found = reads_of([made], at(150), {"n": "bigint"})
    assert (found.row_groups, found.rows, found.paged_row_groups) == (1, rows, 1)
    assert found.data_bytes == 5000 + 20_000 * rows // 2500


def test_row_groups_that_grow_together_have_pages_of_several():
    """Of 50 rows each of five; rows of the row groups around a page's ends may be in it."""

    def group(first):
        bounds = ColumnStatistics(type="bigint", minimum=first, maximum=first + 39, nulls=first // 160 * 20)
        return RowGroupStatistics(rows=40, data_bytes=100, columns={"n": bounds})

    files = [FileStatistics(path=str(n), size_bytes=1, row_groups=(group(n * 40),)) for n in range(5)]
    (made,) = stitched_files(
        files,
        target_bytes=10_000,
        most_bytes=maximum_for(10_000),
        row_group_size_bytes=1000,
        compression_ratio=CompressionRatio(pages=PageShape(usual_rows=50)),
    )
    (whole,) = made.row_groups
    pages = whole.pages.columns["n"]
    assert [*pages.firsts] == [0, 50, 100, 150]
    found = [(page.minimum, page.maximum, page.nulls) for page in pages.bounds]
    assert found == [(0, 79, 0), (40, 119, 0), (80, 159, 0), (120, 199, None)]


def test_a_thin_sample_is_taken_to_lie_within_what_it_is_of():
    """Bounds of numbers move apart as far as rows that were not drawn are likely to lie, never beyond all."""
    whole = FileStatistics(
        path="a",
        size_bytes=10_000,
        row_groups=(
            RowGroupStatistics(
                rows=1000,
                data_bytes=10_000,
                columns={"n": ColumnStatistics(type="bigint", minimum=0, maximum=996, nulls=0)},
            ),
        ),
    )
    sample = GroupSample(rows=pa.table({"n": pa.array(range(5, 1000, 10), pa.int64())}), of_rows=1000)
    (made,) = arranged_files(
        [whole],
        sample,
        RowOrder(strategy="sort", columns=("n",)),
        types={"n": "bigint"},
        target_bytes=10_000,
        most_bytes=maximum_for(10_000),
        row_group_size_bytes=2_500,
        compression_ratio=CompressionRatio(),
    )
    first, *_, last = [group.columns["n"] for group in made.row_groups]
    assert (first.minimum, last.maximum) == (0, 996)
    assert 245 <= first.maximum <= 255


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_row_groups_of_infinities_have_them_as_bounds(value):
    whole = FileStatistics(
        path="a", size_bytes=10_000, row_groups=(RowGroupStatistics(rows=1000, data_bytes=10_000),)
    )
    sample = GroupSample(rows=pa.table({"x": pa.array([value] * 100)}), of_rows=1000)
    (made,) = arranged_files(
        [whole],
        sample,
        RowOrder(strategy="sort", columns=("x",)),
        types={"x": "double"},
        target_bytes=10_000,
        most_bytes=maximum_for(10_000),
        row_group_size_bytes=2_500,
        compression_ratio=CompressionRatio(),
    )
    assert {(group.columns["x"].minimum, group.columns["x"].maximum) for group in made.row_groups} == {
        (value, value)
    }


def test_stitched_files_keep_large_row_groups_and_merge_small_ones():
    def group(first, rows, size):
        bounds = ColumnStatistics(type="bigint", minimum=first, maximum=first + rows - 1, nulls=0)
        return RowGroupStatistics(rows=rows, data_bytes=size, columns={"n": bounds})

    groups = [group(0, 100, 1000), group(100, 10, 100), group(110, 10, 100), group(120, 100, 1000)]
    files = [FileStatistics(path=str(n), size_bytes=1, row_groups=(g,)) for n, g in enumerate(groups)]
    (made,) = stitched_files(
        files,
        target_bytes=3000,
        most_bytes=maximum_for(3000),
        row_group_size_bytes=1000,
        compression_ratio=CompressionRatio(data=0.5, written=0.5),
    )
    found = [(g.columns["n"].minimum, g.columns["n"].maximum, g.data_bytes) for g in made.row_groups]
    assert found == [(0, 99, 1000), (100, 119, 100), (120, 219, 1000)]


def test_cuts_are_those_of_the_writer():
    """Files of a target that the rows are a multiple of, and row groups of the size that was asked for."""
    row_groups = expected_row_groups(
        [1000],
        RowSizes(before=100, after=100),
        target_bytes=50_000,
        most_bytes=maximum_for(50_000),
        row_group_size_bytes=12_500,
    )
    assert [(cut.file, cut.first, cut.end) for cut in row_groups] == [
        (number // 4, first, first + 125) for number, first in enumerate(range(0, 1000, 125))
    ]
    apart = expected_row_groups(
        [300, 700],
        RowSizes(before=100, after=100),
        target_bytes=200_000,
        most_bytes=maximum_for(200_000),
        row_group_size_bytes=None,
    )
    assert [(cut.file, cut.first, cut.end) for cut in apart] == [(0, 0, 300), (1, 300, 1000)]


def test_the_sample_of_a_group_is_found_again():
    first, third = pa.table({"n": [1, 2]}), pa.table({"n": [3]})
    content = encode_samples([first, None, third])

    def decoded(number):
        source = pa.BufferReader(content)
        return decode_sample(source, number, first.schema, most_bytes=MIB, place="sample")

    assert decoded(0).equals(first)
    assert decoded(1) is None
    assert decoded(2).equals(third)
    assert encode_samples([None]) is None
