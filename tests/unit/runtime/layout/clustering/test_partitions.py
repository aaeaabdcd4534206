"""Which partitions clustering looks at: newest by value, not by path."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering.model import Partitioning
from parquetry.runtime.layout.clustering.partitions import chosen_partitions
from parquetry.runtime.spec.clustering import PartitionFilter

NULL = "__HIVE_DEFAULT_PARTITION__"


def newest(count, paths, *columns, skip=0, **spelling):
    policy = PartitionFilter(recent=count, skip_newest=skip)
    return chosen_partitions(paths, policy, Partitioning(columns=columns, **spelling))


def test_all_by_default():
    assert chosen_partitions(["a", "b"], PartitionFilter(), Partitioning()) == {"a", "b"}


def test_selected_partitions_are_those_named_that_exist():
    policy = PartitionFilter(selected=("a", "z"))
    assert chosen_partitions(["a", "b"], policy, Partitioning()) == {"a"}


def test_a_regular_expression_matches_the_whole_path():
    policy = PartitionFilter(regex="origin=E.*")
    assert chosen_partitions(["origin=EWR", "xorigin=EWR", "origin=JFK"], policy, Partitioning()) == {
        "origin=EWR"
    }
    with pytest.raises(InvalidDataError, match=r"partitions\.regex: '\('"):
        chosen_partitions(["a"], PartitionFilter(regex="("), Partitioning())


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "regex", ["(a+)+", "(a|aa)+b?c", "(a*)*b", "(.*)*x", "((a{0,9}){0,9}){0,9}x", "(a|a?)+$"]
)
def test_a_regular_expression_is_matched_at_once(regex):
    paths = [f"{'a' * 200}{number}!" for number in range(100)]
    assert chosen_partitions(paths, PartitionFilter(regex=regex), Partitioning()) == frozenset()
    assert chosen_partitions(["é/\udcff"], PartitionFilter(regex="./."), Partitioning()) == {"é/\udcff"}


@pytest.mark.parametrize("regex", ["a)|(b", r"(a)\1", "(?=a)a", "(a{0,999}){0,999}", "(" * 2000])
def test_a_regular_expression_without_bound_is_refused(regex):
    with pytest.raises(
        InvalidDataError, match=r"partitions\.regex: .* is not a regular expression .*; correct it"
    ):
        chosen_partitions(["a"], PartitionFilter(regex=regex), Partitioning())


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        ("int", ["-10", "-9", "0", "9", "10", "100"]),
        ("bigint", ["2", "10", str(2**62)]),
        ("date", ["0987-01-01", "1969-12-31", "2013-09-30", "2013-10-01", "+12013-01-01"]),
        ("date", ["2013-9-30", "2013-10-1"]),
        ("date", ["20130930", "20131001"]),
        ("double", ["-1.5E10", "-2.0", "0.25", "3.0", "1.0E10"]),
        ("decimal(10,2)", ["-1.50", "0.10", "9.90", "10.00"]),
        ("boolean", ["false", "true"]),
        ("string", ["2013-9-30", "2013-10-1"]),
        ("string", ["week 2", "week 10"]),
        ("string", ["a", "b"]),
        ("timestamp", ["-5", "9", "1357034400000000"]),
        ("timestamp", ["2013-01-01 9:00:00", "2013-01-01 10:00:00"]),
    ],
)
def test_newest_is_by_value(kind, ascending):
    paths = [f"d={value}" for value in ascending]
    for count in range(1, len(paths) + 1):
        assert newest(count, paths, ("d", kind)) == set(paths[-count:])
        assert newest(count, ascending, ("d", kind), hive_style=False) == set(ascending[-count:])


def test_newest_compares_column_by_column():
    paths = ["y=2013/m=9", "y=2013/m=10", "y=2012/m=12"]
    assert newest(1, paths, ("y", "int"), ("m", "int")) == {"y=2013/m=10"}
    assert newest(2, paths, ("y", "int"), ("m", "int")) == {"y=2013/m=10", "y=2013/m=9"}


def test_a_date_in_one_column_may_lie_in_several_folders():
    paths = ["2013/9/30", "2013/10/1", "2012/12/31"]
    assert newest(2, paths, ("d", "string"), hive_style=False) == {"2013/9/30", "2013/10/1"}


def test_folders_of_different_depth_are_no_error():
    paths = ["2013", "2013/9", "2013/9/30", "2014"]
    assert newest(2, paths, ("d", "string"), hive_style=False) == {"2014", "2013"}
    assert newest(4, paths, hive_style=False) == set(paths)


def test_the_newest_that_are_skipped_do_not_count_as_recent():
    paths = [f"d=2013-01-0{day}" for day in range(1, 10)]
    assert newest(2, paths, ("d", "date"), skip=1) == {"d=2013-01-07", "d=2013-01-08"}
    assert newest(None, paths, ("d", "date"), skip=7) == {"d=2013-01-01", "d=2013-01-02"}
    assert newest(None, paths, ("d", "date"), skip=20) == set()


def test_the_newest_are_those_of_the_partitions_that_match():
    policy = PartitionFilter(regex="d=2013-.*", recent=1)
    paths = ["d=2013-09-30", "d=2013-10-01", "d=2014-01-01"]
    assert chosen_partitions(paths, policy, Partitioning(columns=(("d", "date"),))) == {"d=2013-10-01"}


def test_null_is_the_oldest_and_encoded_values_are_decoded():
    paths = [f"t={NULL}", "t=10%3A00", "t=9%3A30"]
    assert newest(1, paths, ("t", "string")) == {"t=10%3A00"}
    assert newest(2, paths, ("t", "string")) == {"t=10%3A00", "t=9%3A30"}


@pytest.mark.parametrize("kind", ["int", "date", "boolean", "double", "decimal(4,1)", "timestamp", "string"])
def test_values_that_cannot_be_read_are_no_error(kind):
    paths = ["d=x", "d=2013-13-77", "d=NaN", "d=", f"d={NULL}", "d=1", "d=2013-01-01", "d=true"]
    assert len(newest(3, paths, ("d", kind))) == 3
