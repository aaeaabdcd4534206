"""Partitions go by the day in their path: which ones, how many at once, and what no clock can make go."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace

import pytest

from parquetry.message import in_full
from parquetry.runtime.layout.skipping.predicate import Bounds
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spec.table_spec import PartitionRetention
from parquetry.runtime.write.partition_retention import (
    day_of,
    delete_expired_partitions,
    expired_partitions,
    first_kept_day,
    too_many,
)
from tests.support.small_table import FAST, make_table, rows_of, view_rows

TODAY = dt.date(2026, 3, 10)
TEN_DAYS = PartitionRetention(column="p", keep_days=10, at_most=1.0)


@pytest.mark.parametrize(
    ("kind", "value", "day"),
    [
        ("date", 1, dt.date(1970, 1, 2)),
        ("timestamp", 86_400_000_000 * 2 - 1, dt.date(1970, 1, 2)),
        ("timestamp", -1, dt.date(1969, 12, 31)),
        ("int", 20260228, dt.date(2026, 2, 28)),
        ("bigint", 20260228, dt.date(2026, 2, 28)),
        ("string", "2026-02-28", dt.date(2026, 2, 28)),
        ("int", 20260230, None),
        ("int", 2026, None),
        ("bigint", 1_772_236_800_000, None),
        ("string", "20260228", None),
        ("string", "2026-02-30", None),
        ("string", "2026-02-28T00", None),
        ("double", 20260228.0, None),
        ("date", 10**12, None),
    ],
)
def test_a_value_has_a_day_or_none(kind, value, day):
    assert day_of(Bounds(type=kind, minimum=value, maximum=value)) == day


def test_null_has_no_day():
    assert day_of(None) is None
    assert day_of(Bounds(type="string", minimum="", maximum="2026-01-01")) is None


@pytest.mark.parametrize("today", [TODAY, TODAY + dt.timedelta(days=900)])
def test_a_clock_that_is_ahead_makes_nothing_older(today):
    days = [dt.date(2026, 1, 1), dt.date(2026, 3, 9)]
    assert first_kept_day(days, TEN_DAYS, today=today) == dt.date(2026, 2, 27)


def test_a_day_that_is_to_come_makes_nothing_older():
    days = [dt.date(2026, 1, 1), dt.date(2026, 3, 9), dt.date(2062, 1, 1)]
    assert first_kept_day(days, TEN_DAYS, today=TODAY) == dt.date(2026, 2, 27)
    assert first_kept_day(days, TEN_DAYS, today=dt.date(2020, 1, 1)) is None
    assert first_kept_day([], TEN_DAYS, today=TODAY) is None
    assert first_kept_day([dt.date(1, 1, 5)], TEN_DAYS, today=TODAY) is None


@pytest.mark.parametrize(
    ("expired", "partitions", "at_most", "is_withheld"),
    [
        (1, 2, 0.1, False),
        (1, 1, 0.0, False),
        (2, 19, 0.1, True),
        (2, 20, 0.1, False),
        (3, 20, 0.1, True),
        (29, 100, 0.29, False),
    ],
)
def test_more_than_a_share_does_not_go_at_once(expired, partitions, at_most, is_withheld):
    rule = PartitionRetention(column="p", keep_days=1, at_most=at_most)
    assert (too_many(expired, partitions, rule) is not None) == is_withheld


@pytest.mark.parametrize(("expired", "partitions"), [(2, 10), (29, 100), (57, 100), (2, 3), (7, 7)])
def test_the_named_share_lets_the_expired_partitions_go(expired, partitions):
    rule = PartitionRetention(column="p", keep_days=7, at_most=0.1)
    named = re.search(r"raise at_most to ([0-9.]+) until", in_full(too_many(expired, partitions, rule)))
    assert too_many(expired, partitions, replace(rule, at_most=float(named[1]))) is None


def test_expired_partitions_go_in_one_commit_and_savepoints_keep_their_rows(tmp_path):
    table = make_table(tmp_path / "t", keep_commits=1, partitions=TEN_DAYS)
    days = ["2020-01-01", "2020-01-20", "2020-01-21", "2020-01-30", "nobody", "2222-01-01"]
    table.insert({f"k{day}": (1, day) for day in days})
    saved = create_savepoint(table.handle, None, comment="").instant
    predicted = expired_partitions(table.handle)
    assert [one.partition.rpartition("=")[2] for one in predicted.partitions] == ["2020-01-01"]
    assert predicted.partitions[0].files == 1
    assert [path.rpartition("=")[2] for path in predicted.unread] == ["nobody"]
    before = len(table.handle.timeline().completed_writes)
    assert delete_expired_partitions(table.handle, timing=FAST) == predicted
    assert len(table.handle.timeline().completed_writes) == before + 1
    kept = {f"k{day}": (1, day) for day in days[1:]}
    assert rows_of(tmp_path / "t") == kept
    table.upsert({"k2020-01-20": (2, "2020-01-20")})
    table.upsert({"k2020-01-20": (3, "2020-01-20")})
    clean(table.handle, timing=FAST)
    assert view_rows(tmp_path / "t", as_of=saved) == {f"k{day}": (1, day) for day in days}
    again = delete_expired_partitions(table.handle, timing=FAST)
    assert again.partitions == ()
    assert len(table.handle.timeline().completed_writes) == before + 3


def test_too_many_expired_partitions_are_kept_with_the_reason(tmp_path):
    rule = PartitionRetention(column="p", keep_days=2, at_most=0.5)
    table = make_table(tmp_path / "t", partitions=rule)
    table.insert({f"k{day}": (1, f"2020-01-{day:02}") for day in range(1, 7)})
    assert expired_partitions(table.handle).withheld is None
    table.insert({"k7": (1, "2020-01-07")})
    withheld = delete_expired_partitions(table.handle, timing=FAST)
    assert (len(withheld.partitions), withheld.deleted) == (4, ())
    assert "4 of 7 partitions have expired" in in_full(withheld.warnings[0])
    assert len(rows_of(tmp_path / "t")) == 7


def test_a_folder_without_files_is_neither_the_newest_day_nor_a_partition(tmp_path):
    table = make_table(tmp_path / "t", partitions=replace(TEN_DAYS, at_most=0.5))
    days = ["2020-01-01", "2020-01-09", "2020-01-20"]
    table.insert({day: (1, day) for day in days})
    table.delete_partition("p=2020-01-09")
    rollback(table.handle, table.insert({"bad": (1, "2020-03-01")}).instant, timing=FAST)
    view = table.handle.view(table.handle.timeline())
    assert [path.rpartition("=")[2] for path in view.partitions()] == [*days, "2020-03-01"]
    expiry = expired_partitions(table.handle)
    assert [each.partition for each in expiry.deleted] == ["p=2020-01-01"]
    table.insert({"old": (1, "2020-01-02")})
    assert "2 of 3 partitions have expired" in in_full(expired_partitions(table.handle).warnings[0])


def test_without_a_rule_no_partition_expires(tmp_path):
    table = make_table(tmp_path / "t")
    table.insert({"a": (1, "1999-01-01"), "b": (1, "2020-01-01")})
    assert expired_partitions(table.handle).partitions == ()
