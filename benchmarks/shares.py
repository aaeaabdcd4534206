"""Where the CPU time of a task goes: ``python -m benchmarks.shares``.

The tasks of one partition run in this process, without Spark, on the rows of the other benchmarks. A stage is a
function; its time is the CPU time of its calls without that of the stages below it. Writes benchmarks/SHARES.md.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from parquetry.runtime.allowed import NOTHING_ALLOWED
from parquetry.runtime.arrow import fingerprint
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file import buffer, encoding, merge, reader, task, undecoded, writer
from parquetry.runtime.base_file.model import Bucket, WriteContext, WrittenBucket, new_file_id
from parquetry.runtime.clustering.rewrite import runs
from parquetry.runtime.clustering.rewrite import task as clustering
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.avro import table_avro_schema, with_meta_columns
from parquetry.runtime.spec.table_spec import Column, FilesPolicy
from parquetry.runtime.storage.local import LocalStore
from tests.interop.environment import cache_folder

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
FILES, CHANGED_ROWS, YEAR = 57, 1500, 1994
SHARE_SHOWN = 0.5

STAGES: tuple[tuple[str, Any, str], ...] = (
    ("decode", reader.BaseFileReader, "_read"),
    ("decode", reader.BaseFileReader, "whole"),
    ("decode", undecoded.UndecodedColumns, "rows"),
    ("open files and read footers", clustering, "_read_footers"),
    ("open files and read footers", reader, "open_footer"),
    ("fingerprint", fingerprint, "fingerprint"),
    ("keys and order", OrderKeys, "of"),
    ("keys and order", runs, "sort_indices"),
    ("copy columns into one piece", runs, "in_one_piece"),
    ("take rows", runs, "_taken"),
    ("collect row groups", buffer.RowBuffer, "table"),
    ("apply changes", task, "apply_changes"),
    ("apply changes", task, "without_rows"),
    ("find changes", merge.Merger, "decide"),
    ("find changes", merge.Merger, "decide_deletes"),
    ("decide dictionaries", encoding, "dictionary_columns"),
    ("order dictionaries", encoding, "with_ordered_dictionaries"),
    ("encode and compress", encoding, "_encode"),
    ("assemble and write files", writer.BaseFileWriter, "append"),
    ("assemble and write files", writer.BaseFileWriter, "append_remaining"),
    ("assemble and write files", writer.BaseFileWriter, "patch"),
    ("assemble and write files", writer.BaseFileWriter, "finish"),
)

PAGE = """# Shares of the CPU time of a task

Tasks of one partition ({rows:,} rows of lineitem) run in one process without Spark, three times each after one run to
warm up; shares are of the cheapest. *Sort* and *z-order* cluster {files} files. *Upsert* and *delete* change {changed:,} random
rows of one file. Other work is the rest of the task. `python -m benchmarks.shares` writes this page.

| stage | {names} |
|---|{rules}
{lines}
"""


class Clock:
    """The CPU seconds of each stage, without the stages that it calls."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._below = [0.0]

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed; the items of an iterator are timed as they are taken."""

        @functools.wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            found = self._call(stage, lambda: function(*arguments, **options))
            return self._items(stage, found) if isinstance(found, Iterator) else found

        return run

    def _items(self, stage: str, items: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while (item := self._call(stage, lambda: next(items, end))) is not end:
            yield item

    def _call(self, stage: str, function: Callable[[], Any]) -> Any:
        start = time.process_time()
        self._below.append(0.0)
        try:
            return function()
        finally:
            spent = time.process_time() - start
            self.seconds[stage] += spent - self._below.pop()
            self._below[-1] += spent


class Pending:
    """The guard of a write that goes on."""

    def is_abandoned(self, _: Any, __: int) -> bool:
        return False

    def is_pending(self, _: Any) -> bool:
        return True


def context_of(folder: Path, rows: pa.Table, *, number: int, most_bytes: int) -> WriteContext:
    columns = tuple(
        Column(name=field.name, type=sql_type(field.type), nullable=field.name not in {"k", "y", "ts"})
        for field in rows.schema
    )
    return WriteContext(
        store=LocalStore(str(folder), NOTHING_ALLOWED),
        instant=f"2026010{number}000000000",
        schema=arrow_schema(columns),
        avro_schema=with_meta_columns(table_avro_schema("t", columns)),
        files=FilesPolicy(compression="zstd", row_group_size_bytes=8 * MIB),
        max_file_size_bytes=most_bytes,
        guard=Pending(),
        has_markers=True,
    )


def sql_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return {"int64": "bigint", "int32": "int", "string": "string", "date32[day]": "date"}[str(kind)]


def incoming(rows: pa.Table, positions: pa.Array, *, delete: bool) -> list[pa.RecordBatch]:
    count = rows.num_rows
    more = {
        "_hoodie_record_key": rows["k"],
        "__position": positions,
        "__delete": pa.array(np.full(count, delete)),
        "__hash": pa.array(np.ones(count, np.int64)),
    }
    for name, column in more.items():
        rows = rows.append_column(name, column)
    return rows.combine_chunks().to_batches(max_chunksize=30_000)


def inserted(context: WriteContext, rows: pa.Table, number: int = 0) -> WrittenBucket:
    bucket = Bucket(
        index=number,
        partition=f"y={YEAR}",
        file_id=new_file_id(context.instant, number),
        expected_inserts=rows.num_rows,
    )
    return task.write_bucket(
        context, bucket, incoming(rows, pa.nulls(rows.num_rows, pa.int64()), delete=False)
    )


def slices(context: WriteContext, written: WrittenBucket) -> list[FileSlice]:
    return [
        FileSlice(
            partition=file.stat.partition_path,
            file_id=file.stat.file_id,
            instant=context.instant,
            path=file.stat.path,
            size_bytes=file.stat.file_size_bytes,
            rows=file.stat.num_writes,
        )
        for file in written.files
    ]


def tasks(folder: Path, rows: pa.Table) -> dict[str, Callable[[], WrittenBucket]]:
    """The tasks by name; each writes files of a later instant, always the same ones."""
    first = context_of(folder, rows, number=1, most_bytes=32 * MIB)
    later = context_of(folder, rows, number=2, most_bytes=32 * MIB)
    large = context_of(folder, rows, number=2, most_bytes=64 * MIB)
    random = np.random.default_rng(7)
    shuffled, step = rows.take(pa.array(random.permutation(rows.num_rows))), -(-rows.num_rows // FILES)
    small = tuple(
        part
        for number in range(FILES)
        for part in slices(first, inserted(first, shuffled.slice(number * step, step), 1 + number))
    )
    (whole,) = slices(first, inserted(first, rows))
    positions = np.sort(random.choice(rows.num_rows, CHANGED_ROWS, replace=False))
    changed = rows.take(pa.array(positions))
    place = changed.schema.get_field_index("ts")
    changed = changed.set_column(place, "ts", pa.array(np.full(CHANGED_ROWS, 2000)))

    def merged(*, delete: bool) -> WrittenBucket:
        bucket = Bucket(index=0, partition=whole.partition, file_id=whole.file_id, base=whole)
        return task.write_bucket(later, bucket, incoming(changed, pa.array(positions), delete=delete))

    def clustered(strategy: str, *columns: str) -> WrittenBucket:
        group = clustering.GroupWork(
            index=99,
            partition=whole.partition,
            slices=small,
            target_bytes=64 * MIB,
            order=RowOrder(strategy=strategy, columns=columns),
        )
        return clustering.rewrite_group(large, group)

    return {
        "sort": lambda: clustered("sort", "l_partkey"),
        "z-order": lambda: clustered("zorder", "l_partkey", "l_suppkey"),
        "insert": lambda: inserted(later, rows),
        "upsert": lambda: merged(delete=False),
        "delete": lambda: merged(delete=True),
    }


def cheapest(run: Callable[[], WrittenBucket], folder: Path, clock: Clock) -> Counter[str]:
    """The seconds by stage of the cheapest of three runs."""
    found: list[Counter[str]] = []
    for _ in range(4):
        clock.seconds.clear()
        written = clock.timed("other work", run)()
        found.append(Counter(clock.seconds))
        for file in written.files:
            (folder / file.stat.path).unlink()
        pa.default_memory_pool().release_unused()
    return min(found[1:], key=lambda seconds: seconds.total())


def main() -> None:
    inputs = cache_folder() / "bench" / "scale-1"
    data.prepare(inputs, scale=1)
    rows = pq.read_table(inputs / "base.parquet", filters=[("y", "=", YEAR)]).combine_chunks()
    pa.set_cpu_count(1)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        chosen = tasks(Path(folder), rows)
        for stage, owner, name in STAGES:
            setattr(owner, name, clock.timed(stage, getattr(owner, name)))
        spent = {name: cheapest(run, Path(folder), clock) for name, run in chosen.items()}
    (HERE / "SHARES.md").write_text(page(spent, rows.num_rows), encoding="utf-8")


def page(spent: dict[str, Counter[str]], rows: int) -> str:
    """The page for the CPU seconds of each task by stage."""
    stages = dict.fromkeys([*(stage for stage, _, _ in STAGES), "other work"])
    lines = [
        f"| {stage} | " + " | ".join(_share(seconds, stage) for seconds in spent.values()) + " |"
        for stage in stages
    ]
    lines.append("| CPU s | " + " | ".join(f"{seconds.total():.2f}" for seconds in spent.values()) + " |")
    return PAGE.format(
        rows=rows, files=FILES, changed=CHANGED_ROWS, names=" | ".join(spent), rules="---|" * len(spent),
        lines="\n".join(lines),
    )  # fmt: skip


def _share(seconds: Counter[str], stage: str) -> str:
    share = 100 * seconds[stage] / seconds.total()
    return f"{share:.0f} %" if share >= SHARE_SHOWN else ""


if __name__ == "__main__":
    main()
