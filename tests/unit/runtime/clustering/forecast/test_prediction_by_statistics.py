"""What files will look like when they are clustered, by statistics alone."""

from __future__ import annotations

import pytest

from parquetry.runtime.clustering.forecast.by_statistics import estimated_files
from parquetry.runtime.layout.clustering.model import ClusteringFile, PlannedGroup
from parquetry.runtime.layout.skipping.files import touched
from parquetry.runtime.layout.skipping.predicate import Comparison, Null, Operator
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.spec.table_spec import FilesPolicy


@pytest.mark.parametrize(
    ("nulls", "values_in", "nulls_in"), [(None, 2, 2), (0, 2, 0), (50, 2, 2), (60, 2, 2), (100, 0, 2)]
)
def test_nulls_of_all_files_are_not_taken_for_those_of_each(nulls, values_in, nulls_in):
    bounds = ColumnStatistics(type="bigint", minimum=0, maximum=9, nulls=nulls)
    group = RowGroupStatistics(rows=100, data_bytes=1000, columns={"n": bounds})
    file = ClusteringFile(partition="", file_id="a", instant="1", path="a", size_bytes=1000)
    planned = PlannedGroup(partition="", files=(file,), output_files=2, benefit=1, reasons={})
    known = FileStatistics(path="a", size_bytes=1000, row_groups=(group,))
    made = list(estimated_files(planned, [known], ExecutionPolicy(), FilesPolicy()))
    equal = Comparison(column="n", operator=Operator.EQUAL, value=3)
    assert touched(made, equal, {"n": "bigint"}).files == values_in
    assert touched(made, Null(column="n", negated=False), {"n": "bigint"}).files == nulls_in
