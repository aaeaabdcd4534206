"""What files will look like when they are clustered, by statistics alone."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.clustering.forecast.by_statistics import estimated_files
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, DeclaredQuery
from parquetry.runtime.layout.clustering.model import ClusteringFile, PlannedGroup
from parquetry.runtime.layout.skipping.files import reads_of
from parquetry.runtime.layout.skipping.predicate import AnyOf, Comparison, Null, Operator, Unknown
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.spec.table_spec import FilesPolicy

TYPES = {"n": "bigint", "x": "double", "d": "decimal(10,2)"}


def asking(*predicates):
    """Queries with these conditions."""
    queries = tuple(DeclaredQuery(name=str(n), where="", predicate=p) for n, p in enumerate(predicates))
    return DeclaredQueries(queries=queries, types=TYPES)


@pytest.mark.parametrize(
    ("nulls", "values_in", "nulls_in"), [(None, 2, 2), (0, 2, 0), (50, 2, 2), (60, 2, 2), (100, 0, 2)]
)
def test_nulls_of_all_files_are_not_taken_for_those_of_each(nulls, values_in, nulls_in):
    bounds = ColumnStatistics(type="bigint", minimum=0, maximum=9, nulls=nulls)
    group = RowGroupStatistics(rows=100, data_bytes=1000, columns={"n": bounds})
    file = ClusteringFile(partition="", file_id="a", instant="1", path="a", size_bytes=1000)
    planned = PlannedGroup(partition="", files=(file,), output_files=2, benefit=1, reasons={})
    known = FileStatistics(path="a", size_bytes=1000, row_groups=(group,))
    equal = Comparison(column="n", operator=Operator.EQUAL, value=3)
    null = Null(column="n", negated=False)
    made = list(estimated_files(planned, [known], asking(equal, null), ExecutionPolicy(), FilesPolicy()))
    assert reads_of(made, equal, TYPES).files == values_in
    assert reads_of(made, null, TYPES).files == nulls_in


@given(
    number=st.integers(-50, 1050),
    operator=st.sampled_from(Operator),
    column=st.sampled_from(("n", "x", "d")),
    nulls=st.sampled_from((None, 0, 1_000_000)),
    rows=st.sampled_from((7, 1_000_000)),
    execution=st.sampled_from(
        (
            ExecutionPolicy(),
            *(ExecutionPolicy(strategy="sort", columns=(name,)) for name in ("n", "X", "d")),
            ExecutionPolicy(strategy="zorder", columns=("n", "x")),
        )
    ),
)
def test_what_no_query_reads_is_estimated_roughly_and_counts_the_same(
    number, operator, column, nulls, rows, execution
):
    values = {"n": (0, 1000), "x": (0.0, 1000.0), "d": (Decimal(0), Decimal(1000))}
    columns = {
        name: ColumnStatistics(type=TYPES[name], minimum=low, maximum=high, nulls=nulls, nan_free=True)
        for name, (low, high) in values.items()
    }
    group = RowGroupStatistics(rows=rows, data_bytes=10**9, columns=columns)
    file = ClusteringFile(partition="", file_id="a", instant="1", path="a", size_bytes=10**9)
    planned = PlannedGroup(partition="", files=(file,), output_files=10, benefit=1, reasons={})
    known = [FileStatistics(path="a", size_bytes=10**9, row_groups=(group,))]
    value = Decimal(number) if column == "d" else number if column == "n" else float(number)
    predicate = Comparison(column=column, operator=operator, value=value)

    def read(queries):
        return reads_of(estimated_files(planned, known, queries, execution, FilesPolicy()), predicate, TYPES)

    # A query that reads everything has every row group and every page made.
    assert read(asking(predicate)) == read(asking(predicate, AnyOf(parts=(predicate, Unknown()))))


def test_only_files_and_row_groups_that_a_query_reads_are_estimated_in_detail():
    bounds = ColumnStatistics(type="bigint", minimum=0, maximum=1000, nulls=0)
    group = RowGroupStatistics(rows=1_000_000, data_bytes=10**9, columns={"n": bounds, "other": bounds})
    file = ClusteringFile(partition="", file_id="a", instant="1", path="a", size_bytes=10**9)
    planned = PlannedGroup(partition="", files=(file,), output_files=10, benefit=1, reasons={})
    known = [FileStatistics(path="a", size_bytes=10**9, row_groups=(group,))]
    queries = asking(Comparison(column="n", operator=Operator.EQUAL, value=555))
    execution = ExecutionPolicy(strategy="sort", columns=("n",))
    made = list(estimated_files(planned, known, queries, execution, FilesPolicy()))
    assert len(made) == 10
    assert sum(file.rows for file in made) == 1_000_000
    (read,) = [file for file in made if len(file.row_groups) > 1]
    (paged,) = [group for group in read.row_groups if group.pages is not None]
    assert paged.pages.columns.keys() == {"n"}
