"""A stage without Spark: what tasks leave, what the driver learns of it, and what is read back."""

from __future__ import annotations

import errno
import itertools
import uuid
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquetry.runtime.base_file.model import DELETE
from parquetry.runtime.errors import InvalidDataError, StorageError
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.batches import GroupedFile
from parquetry.runtime.stage.index import REFERENCE_SHIFT
from parquetry.runtime.stage.location import LocalStage, StoreStage, mapped_bytes, scratch_folder
from parquetry.runtime.stage.part import PARTITION, REFERENCE, StageSpec, fault_batch, keys_name, stage_rows
from parquetry.runtime.stage.reader import StageReader
from parquetry.runtime.stage.staged import staged_rows
from parquetry.runtime.storage.open import open_store
from tests.support.effort import in_full
from tests.support.stores import CountingStore, Kind

SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64()})


def spec(folder, *, location=None, **changes):
    location = location or LocalStage.make(str(folder))
    given = {
        "key_column": "k",
        "ordering": None,
        "required": (),
        "rows": True,
        "keys": True,
    }
    return StageSpec(location=location, schema=SCHEMA, **(given | changes))


def batch(rows):
    keys, numbers, partitions = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.RecordBatch.from_pydict(
        {
            "k": pa.array(keys, pa.string()),
            "n": pa.array(numbers, pa.int64()),
            PARTITION: pa.array(partitions, pa.string()),
        }
    )


def summaries(stage, tasks):
    """What Spark carries to the driver."""
    return [
        row
        for number, rows in enumerate(tasks)
        for b in stage_rows(stage, number, rows)
        for row in b.to_pylist()
    ]


rows_of_tasks = st.lists(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "b", "é", "\U00010000"]), st.integers(0, 9), st.sampled_from("pqr")),
            max_size=6,
        ),
        max_size=4,
    ),
    max_size=4,
)  # fmt: skip


def some_place(folder, *, in_store):
    if not in_store:
        return LocalStage.make(str(folder))
    return StoreStage(store=open_store(folder), folder=uuid.uuid4().hex)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_of_tasks, st.data(), st.sampled_from([1, 10_000]), st.booleans())
def test_rows_come_back_in_the_order_of_arrival(tmp_path, tasks, data, run_bytes, in_store):
    stage = spec(tmp_path, location=some_place(tmp_path, in_store=in_store), run_bytes=run_bytes)
    staged = staged_rows(stage, summaries(stage, [[batch(rows) for rows in task] for task in tasks]))
    arrived = [row for task in tasks for rows in task for row in rows]

    assert staged.rows == len(arrived)
    with StageReader(stage, staged.index, instant="1") as reader:
        for partition, total in staged.totals.items():
            mine = [row for row in arrived if row[2] == partition]
            start = data.draw(st.integers(0, len(mine)))
            stop = data.draw(st.integers(start, len(mine)))
            found = list(reader.rows(partition, start, stop))
            read = [(row[RECORD_KEY], row["n"], partition) for b in found for row in b.to_pylist()]
            assert read == mine[start:stop]
            keys = [row[0].encode() for row in mine]
            assert (total.min_key.encode(), total.max_key.encode()) == (min(keys), max(keys))
            assert (total.rows, total.deletes) == (len(mine), 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_of_tasks, st.data(), st.sampled_from([1, 10_000]), st.booleans())
def test_rows_come_by_their_references_in_any_order(tmp_path, tasks, data, run_bytes, in_store):
    stage = spec(tmp_path, location=some_place(tmp_path, in_store=in_store), run_bytes=run_bytes)
    staged = staged_rows(stage, summaries(stage, [[batch(rows) for rows in task] for task in tasks]))
    by_reference = {}
    for name in staged.names.values():
        for key in read_parquet(pa.BufferReader(stage.location.read(keys_name(name)))).to_pylist():
            by_reference[key[REFERENCE]] = key[RECORD_KEY]
    wanted = data.draw(
        st.lists(st.sampled_from(sorted(by_reference)), max_size=9) if by_reference else st.just([])
    )
    batches = [np.array(wanted[n : n + 4], np.int64) for n in range(0, len(wanted), 4)]

    with StageReader(stage, staged.index, instant="1") as reader, reader.taking(batches) as take:
        taken = [
            key for some in batches for rows in take(some) for key in rows.column(RECORD_KEY).to_pylist()
        ]

    assert taken == [by_reference[reference] for reference in wanted]


def test_an_insert_reads_a_range_of_each_partition_and_task_and_one_more_for_each_bucket(tmp_path):
    """Whatever comes in how many runs: S tasks, P partitions and B buckets make at most S x P + B requests."""
    tasks, partitions, buckets = 5, 4, 30
    store = CountingStore(open_store(tmp_path / "t"), tmp_path / "log")
    stage = spec(tmp_path, location=StoreStage(store=store, folder="stage"), run_bytes=1)
    arrived = [
        [
            batch([(f"{task}-{run}-{p}", run, f"p={p}") for p in range(partitions) for _ in range(3)])
            for run in range(10)
        ]
        for task in range(tasks)
    ]
    staged = staged_rows(stage, summaries(stage, arrived))
    assert store.counts() == {Kind.CREATE_FILE: 3 * tasks, Kind.READ: tasks}
    store.reset()

    found = []
    for p in range(partitions):
        rows = staged.totals[f"p={p}"].rows
        cuts = [rows * n // buckets for n in range(buckets + 1)]
        for start, stop in pairwise(cuts):
            with StageReader(stage, staged.index, instant="1") as reader:
                found += [row for b in reader.rows(f"p={p}", start, stop) for row in b.to_pylist()]

    assert len(found) == staged.rows
    assert store.counts().keys() == {Kind.READ_RANGE}
    assert store.counts()[Kind.READ_RANGE] <= tasks * partitions + buckets * partitions


def test_what_is_taken_is_fetched_once_and_neighbours_together(tmp_path):
    store = CountingStore(open_store(tmp_path / "t"), tmp_path / "log")
    stage = spec(tmp_path, location=StoreStage(store=store, folder="stage"), run_bytes=1)
    tasks = [[batch([(f"{task}-{n}", n, "p")]) for n in range(50)] for task in range(3)]
    staged = staged_rows(stage, summaries(stage, tasks))
    store.reset()
    references = [(np.arange(50) + (task << REFERENCE_SHIFT))[::-1] for task in (2, 0)]

    with StageReader(stage, staged.index, instant="1") as reader, reader.taking(references) as take:
        for some in references * 2:
            assert [n for rows in take(some) for n in rows.column("n").to_pylist()] == list(range(50))[::-1]

    assert store.counts() == {Kind.READ_RANGE: 2}


def test_a_file_that_is_not_complete_does_not_appear(tmp_path):
    place = StoreStage(store=open_store(tmp_path / "t"), folder="stage")
    rows = pa.record_batch({"k": ["a"], "n": [1]}, schema=SCHEMA)
    with pytest.raises(ZeroDivisionError), GroupedFile(place, "rows", SCHEMA) as file:
        file.write("p", rows, first=1 // 0)
    assert place.store.list("stage") == []


def test_the_driver_gets_a_row_a_task_however_many_partitions(tmp_path):
    stage = spec(tmp_path)
    partitions = [f"p={number}" for number in range(500)]
    tasks = [[batch([(f"k{task}-{p}", task, p) for p in partitions])] for task in range(20)]

    told = summaries(stage, tasks)
    staged = staged_rows(stage, told)

    assert len(told) == len(tasks)
    assert {p: total.rows for p, total in staged.totals.items()} == dict.fromkeys(partitions, len(tasks))
    with StageReader(stage, staged.index, instant="1") as reader:
        numbers = [n for b in reader.rows("p=7", 3, 9) for n in b.column("n").to_pylist()]
    assert numbers == list(range(3, 9))


class AskedFor(str):
    """The path of a partition that counts what it is compared with."""

    __slots__ = ()

    compared = 0

    def __eq__(self, other):
        AskedFor.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_partition_is_found_without_a_look_at_the_others(tmp_path):
    stage = spec(tmp_path, run_bytes=1)
    partitions = [f"p={number}" for number in range(500)]
    once = [batch([("k", number, p)]) for number, p in enumerate(partitions)]
    staged = staged_rows(stage, summaries(stage, [[*once, *once]]))

    with StageReader(stage, staged.index, instant="1") as reader:
        for p in partitions:
            found = [n for b in reader.rows(AskedFor(p), 0, 2) for n in b.column("n").to_pylist()]
            assert [f"p={n}" for n in found] == [p, p]
    assert AskedFor.compared <= 2 * len(partitions)


def test_hash_sums_of_tasks_add_up(tmp_path):
    from parquetry.runtime.base_file.model import HASH

    stage = spec(tmp_path)
    hashes = np.array([2**63 - 1, -(2**63), -1, 17, 2**62], np.int64)
    tasks = [
        [batch([(f"k{i}", i, "p")]).append_column(HASH, pa.array(hashes[i : i + 1]))]
        for i in range(len(hashes))
    ]

    staged = staged_rows(stage, summaries(stage, tasks))

    assert staged.totals["p"].hash_sum == sum(int(h) % 2**64 for h in hashes) % 2**64


def test_faults_of_tasks_are_one_message(tmp_path):
    stage = spec(tmp_path, required=("n",))
    rows = batch([("a", 1, "p"), ("b", 2, "p")])
    holes = rows.set_column(1, "n", pc.if_else(pc.equal(rows["n"], 2), None, rows["n"]))

    staged = staged_rows(stage, summaries(stage, [[rows], [holes], [holes]]))

    with pytest.raises(InvalidDataError, match=r"column 'n' is null in 2 of 6 rows, first in record key 'b'"):
        staged.check("rows")


def key_of(values):
    """A record key of several fields, as Hudi's ComplexKeyGenerator writes it."""
    parts = ("__null__" if value is None else value or "__empty__" for value in values)
    return ",".join(f"{name}:{part}" for name, part in zip("abc", parts, strict=True))


def test_no_two_rows_have_one_key_of_several_fields(tmp_path):
    some = ["x", "y", "x,b:y", "y,b:z", "z,c:y", "x,c:y,c:z", ":", ",b", None, "", "__null__", "__empty__"]
    alike = {}
    for values in itertools.product(some, repeat=3):
        alike.setdefault(key_of(values), []).append(values)
    schema = pa.schema(dict.fromkeys(["a", "b", "c", RECORD_KEY], pa.string()))
    stage = replace(spec(tmp_path), schema=schema, key_column=RECORD_KEY, key_fields=("a", "b", "c"))
    ambiguous = {key: rows for key, rows in alike.items() if len(rows) > 1}
    assert len(ambiguous) > 100
    tried = list(ambiguous.items())[:: 1 if in_full() else 5]
    for key, rows in tried:
        batches = (
            pa.RecordBatch.from_pylist(
                [dict(zip("abc", row, strict=True)) | {RECORD_KEY: key, PARTITION: ""}],
                schema.append(pa.field(PARTITION, pa.string())),
            )
            for row in rows
        )
        taken = [not staged_rows(stage, summaries(stage, [[one]])).faults for one in batches]
        assert sum(taken) <= 1, key
    plain = pa.RecordBatch.from_pylist(
        [{"a": "x:,", "b": ":y", "c": None, RECORD_KEY: key_of(("x:,", ":y", None)), PARTITION: ""}]
    )
    assert not staged_rows(stage, summaries(stage, [[plain]])).faults


def text(*values):
    """Any bytes as text, as Spark has it."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"k": text(b"ok", b"a\xff")},
            r"column 'k' is not valid UTF-8 in 1 of 2 rows, first in record key 'a",
        ),
        ({PARTITION: text(b"\xff", b"ok")}, "the partition path is not valid UTF-8 in 1 of 2 rows"),
        (
            {"s": pa.StructArray.from_arrays([text(b"ok", b"\xff")], ["t"])},
            "column 's' is not valid UTF-8 in 2 of 2 rows",
        ),
    ],
)
def test_text_that_other_readers_refuse_is_a_fault(tmp_path, changed, says):
    """hudi-rs reads no file with such a value in it."""
    rows = batch([("a", 1, "p"), ("b", 2, "p")])
    given = dict(zip(rows.schema.names, rows.columns, strict=True))
    stage = spec(tmp_path)
    staged = staged_rows(stage, summaries(stage, [[pa.RecordBatch.from_pydict(given | changed)]]))
    with pytest.raises(InvalidDataError, match=says):
        staged.check("rows for t")


def test_text_of_rows_that_delete_is_not_looked_at(tmp_path):
    rows = batch([("a", 1, "p"), ("b", 2, "p")]).append_column("s", text(b"ok", b"\xff"))
    stage = spec(tmp_path)
    deleting = rows.append_column(DELETE, pa.array([False, True]))
    staged_rows(stage, summaries(stage, [[deleting]])).check("rows for t")
    with pytest.raises(InvalidDataError, match="column 's' is not valid UTF-8 in 1 of 2 rows"):
        staged_rows(stage, summaries(stage, [[rows]])).check("rows for t")


def test_a_row_that_deletes_names_its_key_in_text(tmp_path):
    """The bytes of what is no text are spelled out to be shown: there may be a row with just that key."""
    rows = batch([("a", 1, "p"), ("b", 2, "p")])
    stage = spec(tmp_path)
    deleting = rows.set_column(0, "k", text(b"ok", b"\xff")).append_column(DELETE, pa.array([False, True]))
    with pytest.raises(InvalidDataError, match="column 'k' is not valid UTF-8 in 1 of 2 rows"):
        staged_rows(stage, summaries(stage, [[deleting]])).check("rows for t")


def test_the_bytes_of_keys_and_of_ordering_values_that_are_text_are_counted(tmp_path):
    rows = batch([("a", 1, "p"), ("\N{SNOWMAN}", 2, "p"), ("c", 3, "q")])
    for ordering, size in ((None, 4), ("n", 4), ("k", 8)):
        stage = spec(tmp_path, ordering=ordering)
        totals = staged_rows(stage, summaries(stage, [[rows], [rows]])).totals
        assert (totals["p"].text_bytes, totals["q"].text_bytes) == (2 * size, size // 2)


def test_a_task_that_gave_up_has_no_name():
    (row,) = fault_batch(3, "not so").to_pylist()
    staged = staged_rows(None, [row])

    assert (staged.names, staged.rows, [f.description for f in staged.faults]) == ({}, 0, ["not so"])


def test_a_reader_keeps_little_of_the_stage_mapped_and_reads_right_what_it_let_go(tmp_path, monkeypatch):
    mib = 1024 * 1024
    stage = spec(tmp_path, run_bytes=2 * mib)
    count = 50_000
    tasks = [
        [
            batch([(f"{first + n:032}", first + n, "p") for n in range(count)])
            for first in range(0, 20 * count, count)
        ]
    ]
    staged = staged_rows(stage, summaries(stage, tasks))
    before = mapped_bytes()
    monkeypatch.setattr("parquetry.runtime.stage.location.MAPPED_BYTES", before + 8 * mib)

    most, seen, kept = 0, 0, []
    with StageReader(stage, staged.index, instant="1") as reader:
        for rows in reader.rows("p", 0, 20 * count):
            seen += pc.sum(rows.column("n")).as_py()
            kept.append(rows)
            most = max(most, mapped_bytes())
        references = np.arange(20 * count)[::-7]
        with reader.taking([references]) as take:
            taken = pa.concat_batches(list(take(references)))
        most = max(most, mapped_bytes())

    assert seen == sum(range(20 * count))
    assert sum(rows.nbytes for rows in kept) > 48 * mib
    assert most - before < 24 * mib
    assert kept[0].column("n")[:3].to_pylist() == [0, 1, 2]
    assert taken.column("n")[:3].to_pylist() == [20 * count - 1, 20 * count - 8, 20 * count - 15]


@pytest.mark.parametrize("in_store", [False, True])
def test_rows_that_are_taken_come_in_pieces_by_their_own_width(tmp_path, in_store):
    """The mean row of the whole stage says nothing of a partition whose rows are wide."""
    wide, narrow = "w" * 100_000, 20_000
    rows = [(f"n{n}", n, "p=narrow") for n in range(narrow)] + [
        (f"{n}{wide}", n, "p=wide") for n in range(300)
    ]
    stage = spec(tmp_path, location=some_place(tmp_path, in_store=in_store), run_bytes=1)
    staged = staged_rows(stage, summaries(stage, [[batch(rows)]]))
    for partition, total in staged.totals.items():
        with StageReader(stage, staged.index, instant="1") as reader:
            arrived = list(reader.rows(partition, 0, total.rows))
            numbers = staged.index.of_group(partition)
            first, count = staged.index.first[numbers], staged.index.rows[numbers]
            references = np.concatenate([np.arange(f, f + c) for f, c in zip(first, count, strict=True)])[
                ::-1
            ]
            with reader.taking([references]) as take:
                taken = list(take(references))
        expected = [n for b in arrived for n in b.column("n").to_pylist()][::-1]
        assert [n for b in taken for n in b.column("n").to_pylist()] == expected
        assert max(b.column("k").nbytes for b in taken) < 9 * 1024 * 1024
        assert len(taken) == (4 if partition == "p=wide" else 1)


def test_rows_that_wait_on_a_full_disk_are_a_storage_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},{tmp_path}/absent")
    assert scratch_folder() == str(tmp_path)
    stage = spec(tmp_path, location=some_place(tmp_path, in_store=True))
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr("parquetry.runtime.stage.batches.BatchSink.write", full)
    with pytest.raises(StorageError, match=f"cannot stage rows in {tmp_path}: .*No space.*spark.local.dir"):
        summaries(stage, [[batch([("a", 1, "p")])]])


def test_batches_of_a_run_are_let_go_before_their_rows_are_grouped(tmp_path, count_allocations):
    rows = 100_000

    def arriving():
        for number in range(8):
            n = pc.add(pa.array(np.arange(number * rows, (number + 1) * rows)), 0)
            partitions = pa.array(["p", "q"]).take(pc.bit_wise_and(n, 1))
            yield pa.RecordBatch.from_pydict({"k": pc.cast(n, pa.string()), "n": n, PARTITION: partitions})

    size = sum(batch.nbytes for batch in arriving())
    stage = spec(tmp_path, keys=False)
    counting = count_allocations()
    assert sum(row["rows"] or 0 for row in summaries(stage, [arriving()])) == 0
    assert counting.max_memory() < 2.6 * size
