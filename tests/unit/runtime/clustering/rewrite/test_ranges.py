"""A group that several tasks put in one order; what Spark's shuffle does is done here by a dictionary."""

from __future__ import annotations

import pickle
import random
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.errors import ParquetryError
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.base_file.result import read_results
from parquetry.runtime.base_file.task import BUCKET
from parquetry.runtime.clustering.rewrite import ranges
from parquetry.runtime.clustering.rewrite.input_sample import sample_share
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.ranges import (
    RANGE,
    RUN,
    Division,
    gatherer,
    merge_samples,
    read_sample,
    sampler,
    scatterer,
)
from parquetry.runtime.clustering.rewrite.task import readers_of, rewrite_group
from parquetry.runtime.spark.shuffle import shares_of, written_results
from tests.support.allocations import counted_allocations
from tests.support.base_files import MIB, SECOND, bucket, context, read, write
from tests.support.stores import CountingStore, Kind
from tests.unit.runtime.clustering.rewrite.test_task import COLUMNS, as_rows, some_rows, work

TASKS = 4
ORDERS = [
    RowOrder(strategy="sort", columns=("word", "n")),
    RowOrder(strategy="zorder", columns=("n", "word")),
    RowOrder(strategy="hilbert", columns=("x", "price", "day")),
    RowOrder(strategy="sort", columns=("n",), split_by=("place.city",)),
]


@pytest.fixture(scope="module")
def many_files(tmp_path_factory):
    """Eight files, and the context of a clustering after them whose tasks have little memory."""
    folder = tmp_path_factory.mktemp("table")
    rnd = random.Random(4)
    files = []
    for number in range(8):
        ctx = context(folder, COLUMNS, instant=SECOND)
        files += write(ctx, bucket(ctx, number), some_rows(rnd, 250 + number, 1000 * number)).files
    after = context(folder, COLUMNS, instant="20260103000000000", memory_budget_bytes=300_000)
    return after, files


def numbers(count):
    """What Spark hands to the tasks of ``range(count)``."""
    return [[pa.RecordBatch.from_pydict({"id": [number]})] for number in range(count)]


def shuffled(messages):
    """The messages of each task, sorted by range and run, in batches of four."""
    by_task = defaultdict(list)
    for message in messages:
        by_task[message.column(BUCKET)[0].as_py()].append(message)
    for task in sorted(by_task):
        ordered = sorted(by_task[task], key=lambda m: (m.column(RANGE)[0].as_py(), m.column(RUN)[0].as_py()))
        yield [pa.concat_batches(ordered[at : at + 4]) for at in range(0, len(ordered), 4)]


def rewritten(ctx, group, *, stride=7, spoil=None):
    """The results of all tasks, each given what travels to it."""
    shares = shares_of(group.slices, 3 * group.tasks)
    sample = sampler(ctx, group.order, shares, stride=stride)
    samples = [message for part in numbers(len(shares)) for message in sample(part)]
    (merged,) = merge_samples(samples)
    found = read_sample(merged.to_pylist())
    if found is None:
        return written_results(group, read_results([]), shares=len(shares))
    division = Division(
        order=group.order, sample=found.sample, ranks=found.sample, tasks=group.tasks, ranges=5 * group.tasks
    )
    messages = []
    for part in numbers(len(shares)):
        scatter = scatterer(ctx, pickle.loads(pickle.dumps(division)), shares)
        messages += scatter(part)
    messages = messages if spoil is None else spoil(messages)
    rows = []
    for part in shuffled(messages):
        gather = gatherer(ctx, group, pickle.loads(pickle.dumps(division)), rows=found.rows)
        rows += [row for batch in gather(part) for row in batch.to_pylist()]
    return written_results(group, read_results(rows), shares=len(shares))


def in_order(results, group):
    return [file for number in group.numbers for file in results.files if file.bucket == number]


class _File:
    """A result as the support reads files."""

    def __init__(self, result):
        self.stat = result.stat


@pytest.mark.parametrize("order", ORDERS)
def test_several_tasks_write_the_same_rows_in_the_order_of_one(many_files, order):
    ctx, files = many_files
    group = work(files, order=order, tasks=TASKS, index=3)
    results = rewritten(ctx, group)
    assert sorted(results.buckets) == [3, 4, 5, 6]
    before = read(ctx, files)
    after = read(ctx, list(map(_File, results.files)))
    assert as_rows(after, is_reordered=True) == as_rows(before, is_reordered=True)
    numbers = after.column("_hoodie_commit_seqno").to_pylist()
    assert len({*numbers}) == before.num_rows
    assert {number.rsplit("_", 1)[0] for number in numbers} == {
        f"{ctx.instant}_{task}" for task in range(3, 7)
    }
    assert all(bucket.consumed_rows < before.num_rows / 2 for bucket in results.buckets.values())
    if order.strategy == "sort":
        columns = [*order.columns]
        table = pa.concat_tables(
            read(ctx, [_File(file)]).flatten() if order.split_by else read(ctx, [_File(file)])
            for file in in_order(results, group)
        )
        if not order.split_by:
            rows = table.select(columns)
            assert rows.equals(rows.sort_by([(name, "ascending") for name in columns]))
        else:
            for file in results.files:
                cities = read(ctx, [_File(file)]).flatten().column("place.city")
                assert len(cities.unique()) == 1


def test_what_tasks_write_does_not_depend_on_who_comes_first(many_files):
    ctx, files = many_files
    group = work(files, order=ORDERS[0], tasks=TASKS)
    first = rewritten(ctx, group)
    again = rewritten(ctx, group, spoil=lambda messages: list(reversed(messages)))
    assert [file.stat for file in first.files] == [file.stat for file in again.files]


def test_a_value_that_most_rows_have_stays_together(tmp_path):
    rnd = random.Random(9)
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    rows = some_rows(rnd, 3000)
    for row in rows[::3] + rows[1::3]:
        row.values["n"] = 5
    files = [f for n in range(3) for f in write(ctx, bucket(ctx, n), rows[n * 1000 : n * 1000 + 1000]).files]
    group = work(files, order=RowOrder(strategy="sort", columns=("n",)), tasks=TASKS)
    after = context(tmp_path, COLUMNS, instant="20260103000000000")
    results = rewritten(after, group)
    found = pa.concat_tables(read(after, [_File(file)]) for file in in_order(results, group)).select(["n"])
    assert found.equals(found.sort_by([("n", "ascending")]))
    assert found.num_rows == 3000


def test_files_are_of_like_size_whatever_the_tasks(tmp_path):
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    rnd = random.Random(3)
    files = []
    for number in range(4):
        rows = some_rows(rnd, 500, number * 1000)
        for row in rows:
            row.values["word"] = rnd.randbytes(4000).hex()
        files += write(ctx, bucket(ctx, number), rows).files
    total = sum(file.stat.file_size_bytes for file in files)
    after = context(tmp_path, COLUMNS, instant="20260103000000000")
    target = total // 20
    group = work(files, order=RowOrder(strategy="sort", columns=("word",)), tasks=2, target_bytes=target)
    sizes = [file.stat.file_size_bytes for file in rewritten(after, group).files]
    mean = sum(sizes) / len(sizes)
    assert 0.9 * target < mean < 1.1 * target
    assert all(0.9 * mean < size < 1.1 * mean for size in sizes), sizes


def test_a_task_holds_no_more_of_a_range_whose_rows_are_wide(tmp_path):
    """All wide rows lie together in the order: by rows they are one range, many times the budget."""
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    rnd = random.Random(5)
    files = []
    for number in range(2):
        rows = some_rows(rnd, 300, 1000 * number)
        for row in rows:
            row.values["n"] = rnd.randrange(10**6)
        for row in sorted(rows, key=lambda row: row.values["n"])[-60:]:
            row.values["word"] = "x" * 400_000 + str(row.values["n"])
        files += write(ctx, bucket(ctx, number), rows).files
    after = context(tmp_path, COLUMNS, instant="20260103000000000", memory_budget_bytes=8 * MIB)
    group = work(files, order=RowOrder(strategy="sort", columns=("n",)))
    with ExitStack() as stack:
        pools = []

        def counted(messages):
            pools.append(stack.enter_context(counted_allocations()))
            return messages

        results = rewritten(after, group, spoil=counted)
    (counting,) = pools
    assert counting.max_memory() < 32 * MIB < 120 * 400_000
    found = pa.concat_tables(read(after, [_File(file)]) for file in in_order(results, group)).select(["n"])
    assert found.equals(found.sort_by([("n", "ascending")]))


def doubled(messages):
    carrying = next(m for m in messages if m.column(RANGE)[0].as_py() >= 0)
    copy = carrying.set_column(2, RUN, pa.array([2**40], pa.int64()))
    return [*messages, copy]


def lost(messages):
    gone = next(number for number, m in enumerate(messages) if m.column(RANGE)[0].as_py() >= 0)
    return messages[:gone] + messages[gone + 1 :]


@pytest.mark.parametrize("spoil", [doubled, lost])
def test_messages_that_are_lost_or_doubled_are_noticed(many_files, spoil):
    ctx, files = many_files
    with pytest.raises(ParquetryError, match="The group is not published"):
        rewritten(ctx, work(files, order=ORDERS[0], tasks=TASKS), spoil=spoil)


def test_values_that_are_changed_on_the_way_are_noticed(many_files, monkeypatch):
    ctx, files = many_files
    pack = ranges._packed

    def packed(rows):
        if "_hoodie_record_key" in rows.column_names:
            rows = rows.set_column(
                rows.column_names.index("n"), rows.schema.field("n"), pa.nulls(rows.num_rows, pa.int64())
            )
        return pack(rows)

    monkeypatch.setattr(ranges, "_packed", packed)
    with pytest.raises(ParquetryError, match="not the same rows"):
        rewritten(ctx, work(files, order=ORDERS[0], tasks=TASKS))


def test_a_file_that_is_cleaned_meanwhile_leaves_the_group_out(many_files):
    ctx, files = many_files
    group = work(files, order=ORDERS[0], tasks=TASKS)
    gone = replace(group, slices=(*group.slices[:-1], replace(group.slices[-1], path="p=1/gone.parquet")))
    assert rewritten(ctx, gone).buckets == {}


def test_a_file_that_is_cleaned_after_the_sample_leaves_the_group_out(many_files, monkeypatch):
    ctx, files = many_files
    group = work(files, order=ORDERS[0], tasks=TASKS)
    scatter = ranges._scattered

    def scattered(context, division, slices, share):
        if share == 2:
            slices = [replace(part, path="p=1/gone.parquet") for part in slices]
        return scatter(context, division, slices, share)

    monkeypatch.setattr(ranges, "_scattered", scattered)
    assert rewritten(ctx, group).buckets == {}


def test_one_task_and_several_agree_on_the_rows(many_files):
    ctx, files = many_files
    order = ORDERS[0]
    alone = rewrite_group(replace(ctx, instant="20260104000000000"), work(files, order=order))
    several = rewritten(ctx, work(files, order=order, tasks=TASKS))
    assert alone.consumed_hash == sum(b.consumed_hash for b in several.buckets.values()) % 2**64


def test_a_share_without_rows_is_none(many_files):
    ctx, files = many_files
    slices = work(files[:1], order=ORDERS[0]).slices
    path = "none_0-0-0_20260101000000000.parquet"
    with ctx.store.open_input(slices[0].path) as content:
        schema = pq.read_schema(content)
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    ctx.store.put(path, sink.getvalue().to_pybytes())
    empty = replace(slices[0], path=path)
    sample = sampler(ctx, ORDERS[0], [slices, (empty,)], stride=7)
    messages = [message for part in numbers(2) for message in sample(part)]
    (merged,) = merge_samples(messages)
    found = read_sample(merged.to_pylist())
    assert found is not None
    assert found.rows == 250
    assert found.sample.num_rows == -(-250 // 7)
    (of_none,) = merge_samples(messages[1:])
    assert read_sample(of_none.to_pylist()).rows == 0


def test_the_sample_opens_each_file_once(many_files, tmp_path):
    ctx, files = many_files
    group = work(files, order=ORDERS[3], tasks=TASKS)
    store = CountingStore(ctx.store, tmp_path / "calls")
    sample = sampler(replace(ctx, store=store), group.order, [group.slices[:5], group.slices[5:]], stride=7)
    messages = [message for part in numbers(2) for message in sample(part)]
    assert [message.column("row_count")[0].as_py() for message in messages] == [1260, 768]
    assert Counter(store.calls()) == {(Kind.OPEN_INPUT, part.path): 1 for part in group.slices}


def test_how_wide_rows_are_is_judged_by_rows_of_all_files(tmp_path):
    rnd = random.Random(11)
    ctx = context(tmp_path, COLUMNS, instant=SECOND, max_file_size_bytes=64 * MIB)
    files = []
    for number in range(6):
        rows = some_rows(rnd, 400, 1000 * number)
        for row in rows:
            row.values["word"] = "" if number == 0 else "x" * rnd.randrange(900, 1100)
        files += write(ctx, bucket(ctx, number), rows).files
    slices = work(files).slices
    bytes_of_all = sum(
        batch_arrow_bytes(batch)
        for reader in readers_of(ctx, slices)
        for part in reader.row_groups
        for batch in reader.batches(part)
    )
    found = sample_share(ctx, slices, ORDERS[0], stride=3)
    assert (found.rows, found.sample.num_rows) == (2400, 800)
    assert found.row_bytes == pytest.approx(bytes_of_all / 2400, rel=0.05)
    assert found.row_bytes > 2 * sample_share(ctx, slices[:1], ORDERS[0], stride=3).row_bytes


def test_shares_have_about_the_same_bytes(many_files):
    _, files = many_files
    slices = work(files, target_bytes=MIB).slices
    shares = shares_of(slices, 5)
    assert [part for share in shares for part in share] == list(slices)
    assert 4 <= len(shares) <= 5
    assert shares_of(slices[:1], 5) == [slices[:1]]
