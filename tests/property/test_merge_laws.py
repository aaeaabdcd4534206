"""Whatever is merged in whatever batches, the file holds what a dictionary would hold."""

from __future__ import annotations

import math
import random
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parquetry.runtime.spec.table_spec import BloomFilter, Column, FilesPolicy
from tests.support.base_files import FIRST, SECOND, THIRD, Incoming, context, merging, read, write
from tests.support.base_files import bucket as new_bucket
from tests.support.rows import TYPES, make_row

META = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")
COLUMNS = (
    *(Column(name=name, type=kind.spark) for name, kind in TYPES.items()),
    Column(name="status", type="string"),
    Column(name="version", type="double"),
)
VERSIONS = st.one_of(st.none(), st.just(math.nan), st.sampled_from([-math.inf, -1.0, 0.0, 1.0, 2.0]))
Rows = dict[str, dict[str, Any]]


def comparable(value: Any) -> Any:
    """NaN equal to itself, zeros of both signs apart, floats never equal to integers."""
    if isinstance(value, float):
        return ("float", repr(value))
    if isinstance(value, Decimal):
        return ("decimal", str(value))
    if isinstance(value, dict):
        return {name: comparable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(part) for part in value]
    return value


def beats(incoming: float | None, stored: float | None) -> bool:
    """Whether the incoming ordering value is at least the stored one; null smallest, NaN greatest."""

    def rank(value: float | None) -> tuple[int, float]:
        if value is None:
            return 0, 0.0
        return (2, 0.0) if math.isnan(value) else (1, value)

    return rank(incoming) >= rank(stored)


@st.composite
def histories(draw):
    """Rows of a new file, then for two merges: a change per stored row, and rows to insert."""
    sizes = st.integers(0, 40)
    first = draw(sizes)
    merges = []
    for _ in range(2):
        changes = draw(
            st.lists(
                st.tuples(st.sampled_from(["update", "delete"]), st.integers(0, 79), VERSIONS), max_size=30
            )
        )
        merges.append((changes, draw(sizes)))
    return draw(st.integers(0, 2**32)), first, merges


MERGES = given(
    history=histories(),
    ordering=st.sampled_from([None, "version"]),
    batch_rows=st.sampled_from([1, 7, 1000]),
    row_group_bytes=st.sampled_from([None, 3000]),
    bloom_filter=st.sampled_from(BloomFilter),
    narrow=st.lists(st.sampled_from([*TYPES, "status"]), max_size=2),
)


@MERGES
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_merging_is_what_a_dictionary_does(**case):
    check_merges(**case)


@pytest.mark.long
@MERGES
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_merging_is_what_a_dictionary_does_in_many_cases(**case):
    check_merges(**case)


def check_merges(*, history, ordering, batch_rows, row_group_bytes, bloom_filter, narrow):
    seed, first, merges = history
    rnd = random.Random(seed)
    policy = FilesPolicy(row_group_size_bytes=row_group_bytes, bloom_filter=bloom_filter)

    def fresh(version: float | None) -> dict[str, Any]:
        return make_row(rnd) | {"status": rnd.choice(["new", "paid", None]), "version": version}

    with tempfile.TemporaryDirectory() as folder:
        settings_ = {"files": policy, "ordering": ordering, "max_file_size_bytes": 10**9}
        ctx = context(Path(folder), COLUMNS, instant=FIRST, **settings_)
        keys = (f"key-{number}-{rnd.choice('aΩ🙂')}" for number in range(1000))
        model: Rows = {}
        times: dict[str, str] = {}
        inserted = {next(keys): fresh(rnd.choice([None, 1.0])) for _ in range(first)}
        model |= inserted
        times |= dict.fromkeys(inserted, FIRST)
        written = write(ctx, new_bucket(ctx), [Incoming(key=k, values=v) for k, v in inserted.items()])
        if not first:
            assert written.files == ()
            return
        for instant, (changes, inserts) in zip((SECOND, THIRD), merges, strict=True):
            ctx = context(Path(folder), COLUMNS, instant=instant, **settings_)
            stored = list(model)
            rows, late, deleted, updated = [], 0, 0, 0
            for kind, position, version in {change[1]: change for change in changes}.values():
                if position >= len(stored):
                    continue
                key, values = stored[position], fresh(version)
                if narrow:  # most columns keep their values, whole row groups of them
                    values = model[key] | {name: values[name] for name in (*narrow, "version")}
                delete = kind == "delete"
                rows.append(
                    Incoming(
                        key=key,
                        values=values,
                        position=position,
                        delete=delete,
                        hash=rnd.randrange(-(2**63), 2**63),
                    )
                )
                if ordering is not None and not beats(version, model[key]["version"]):
                    late += 1
                elif delete:
                    del model[key]
                    deleted += 1
                else:
                    model[key] = values
                    times[key] = instant
                    updated += 1
            fresh_rows = {next(keys): fresh(1.0) for _ in range(inserts)}
            rows += [Incoming(key=k, values=v) for k, v in fresh_rows.items()]
            model |= fresh_rows
            times |= dict.fromkeys(fresh_rows, instant)
            before, previous = written, written.files[0]
            written = write(ctx, merging(previous), rows, batch_rows=batch_rows)
            assert (written.late_rows, written.consumed_rows) == (late, len(rows))
            assert written.consumed_hash == sum(row.hash for row in rows) % 2**64
            if late and late == len(rows):
                assert written.files == ()
                written = before
                continue
            (file,) = written.files
            assert file.stat.file_id == previous.stat.file_id
            assert (file.stat.num_writes, file.stat.num_deletes) == (len(model), deleted)
            assert (file.stat.num_update_writes, file.stat.num_inserts) == (updated, inserts)
            assert file.min_key == min(model, key=lambda k: k.encode("utf-16-be"), default=None)
            assert file.max_key == max(model, key=lambda k: k.encode("utf-16-be"), default=None)
            found = read(ctx, written).to_pylist()
            name = file.stat.path.rpartition("/")[2]
            assert [tuple(row[column] for column in META) for row in found] == [
                (times[key], key, "p=1", name) for key in model
            ]
            numbers = [row["_hoodie_commit_seqno"] for row in found]
            assert len(set(numbers)) == len(numbers)
            values = [{name: row[name] for name in ctx.schema.names} for row in found]
            expected = [{name: row[name] for name in ctx.schema.names} for row in model.values()]
            assert comparable(values) == comparable(expected)
            assert Path(folder, file.stat.path).stat().st_size == file.stat.file_size_bytes


@pytest.mark.parametrize("rows_per_run", [1, 300, 5000])
def test_dense_and_sparse_changes_agree_with_the_dictionary(tmp_path, rows_per_run):
    columns = (Column(name="n", type="bigint"), Column(name="word", type="string"))
    ctx = context(tmp_path, columns)
    rows = [Incoming(key=f"{n:06}", values={"n": n, "word": f"w{n % 3}"}) for n in range(20_000)]
    written = write(ctx, new_bucket(ctx), rows)
    changed = range(0, 20_000, rows_per_run)
    changes = [
        Incoming(key=f"{n:06}", position=n, delete=n % 2 == 1, values={"n": -n, "word": f"new {n}"})
        for n in changed
    ]
    ctx = context(tmp_path, columns, instant=SECOND)
    found = read(ctx, write(ctx, merging(written.files[0]), changes)).select(["n", "word"]).to_pylist()
    model = {n: {"n": n, "word": f"w{n % 3}"} for n in range(20_000)}
    for n in changed:
        if n % 2:
            del model[n]
        else:
            model[n] = {"n": -n, "word": f"new {n}"}
    assert found == list(model.values())
