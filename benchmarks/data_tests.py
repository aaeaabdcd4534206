"""What tests of rows cost: ``python -m benchmarks.data_tests [--scale 0.2]``.

Ten tests of TPC-H's lineitem, in one scan and one by one, and again after an upsert. Writes benchmarks/DATA_TESTS.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import parquetry
from benchmarks.data import prepare
from parquetry.compiler.testing.execution import RowExecution, execute_tests
from parquetry.compiler.testing.model import Status, TableTests
from parquetry.compiler.testing.passes import PassesFile
from parquetry.compiler.testing.tables import TableUnderTest, declared_tests, rows_anywhere
from parquetry.project.model.table_tests import table_test
from parquetry.runtime.main import JobResult, execute
from parquetry.runtime.spec.job import JobPlan
from parquetry.runtime.spec.table_spec import Extra
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table

HERE = Path(__file__).parent
YEAR = 1998
TESTS: Sequence[Mapping[str, Any]] = (
    {"unique": ["k"]},
    {"unique": ["l_orderkey", "l_linenumber"]},
    {"expression": "l_receiptdate > l_shipdate"},
    {"expression": "l_extendedprice / l_quantity BETWEEN 900 AND 2200"},
    {"expression": "l_linestatus = 'O' OR l_shipdate < DATE '1995-06-18'"},
    {"expression": "length(l_comment) > 0"},
    {"accepted_values": {"column": "l_returnflag", "values": ["A", "N", "R"]}},
    {"accepted_values": {"column": "l_linestatus", "values": ["F", "O"]}},
    {"expression": "l_discount * l_extendedprice >= 0"},
    {"expression": "y = year(l_shipdate)"},
)
PAGE = """# Data tests

Ten tests of TPC-H's lineitem: two of `unique` (the record key; order and line), six expressions over several columns,
which statistics cannot answer, and two lists of accepted values. The table has {rows:,} rows in {files} files of 7
partitions. `python -m benchmarks.data_tests --scale {scale}` writes this page, on a machine of {cores} cores with Spark
{spark} in one session, which has executed the tests once before. Records are counted by Spark's tasks.

| | seconds | records read from files | files read | jobs |
|---|---|---|---|---|
{lines}

The upsert changed {changed:,} rows of the year {year}, by their keys. The other eight tests read what it wrote. `unique` also
reads old files whose bounds overlap those of a new one in all columns, here all of them, as keys are spread over the
years.
"""


@dataclass(slots=True)
class Session:
    """Executes jobs, and counts what the tasks of the session read."""

    spark: SparkSession
    jobs: int = 0
    files: int = 0

    def __call__(self, job: JobPlan) -> JobResult:
        self.jobs += 1
        result = execute(job, session=lambda _: self.spark)
        self.files += result.files_read
        return result

    def records(self) -> int:
        context = self.spark.sparkContext
        scala = context._jsc.sc()  # noqa: SLF001 - PySpark has no public face of Spark's counters
        scala.listenerBus().waitUntilEmpty()
        quantiles = context._gateway.new_array(self.spark._jvm.double, 0)  # noqa: SLF001 - see above
        without = False
        stages = scala.statusStore().stageList(None, without, without, quantiles, None)
        return sum(stages.apply(number).inputRecords() for number in range(stages.size()))


def failed(bug: Exception) -> Any:
    raise bug


def run(table: str, project: Path, session: Session, tests: Sequence[Any], *, full: bool) -> TableTests:
    """The tests, of which none may fail."""
    found = tuple(test for entry in tests if (test := table_test(entry)) is not None)
    source = rows_anywhere(table, "lineitem", open_store)
    one = TableUnderTest(
        name="lineitem",
        store=lambda: open_store(table),
        tests=declared_tests(found, lambda _: None),
        declared=None,
        extra=Extra(),
        rows=replace(source, passes=PassesFile(root=project, target="bench", table="lineitem")),
    )
    rows = RowExecution(launch=session, diagnose=failed, full=full)
    result = execute_tests([one], run_id=None, target=None, rows=rows)
    assert result.counts[Status.PASSED] == len(found), result.outcomes
    return result


def create(spark: SparkSession, table: str, source: Path) -> None:
    spec = parquetry.TableSpec(
        name="lineitem",
        columns=tuple(
            parquetry.Column(name=field.name, type=field.dataType.simpleString())
            for field in spark.read.parquet(str(source)).schema.fields
        ),
        record_key=("k",),
        ordering="ts",
        partition_by=("y",),
        sizing=parquetry.SizingPolicy(small_file_limit_bytes=0, insert_split_size=40_000),
    )
    parquetry.create(table, spec)
    parquetry.open(table).insert(spark.read.parquet(str(source)))


def line(name: str, session: Session, body: Any) -> str:
    session.jobs = session.files = 0
    records, started = session.records(), time.monotonic()
    body()
    seconds = time.monotonic() - started
    read = session.records() - records
    return f"| {name} | {seconds:.1f} | {read:,} | {session.files:,} | {session.jobs} |"


def lines(table: str, project: Path, session: Session, upsert: Any) -> Iterator[str]:
    def tests(chosen: Sequence[Any] = TESTS, *, full: bool = False) -> TableTests:
        return run(table, project, session, chosen, full=full)

    def one_by_one() -> None:
        for test in TESTS:
            tests([test], full=True)

    tests(full=True)
    yield line("one by one", session, one_by_one)
    yield line("ten tests", session, lambda: tests(full=True))
    yield line("again, nothing new", session, tests)
    parquetry.open(table).upsert(upsert)
    yield line("after an upsert, without `unique`", session, lambda: tests(TESTS[2:]))
    yield line("after an upsert, `unique`", session, lambda: tests(TESTS[:2]))
    yield line("after an upsert, with `--full`", session, lambda: tests(full=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2)
    scale = parser.parse_args().scale
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder:
        data, table, project = Path(folder, "data"), str(Path(folder, "t")), Path(folder, "project")
        project.mkdir()
        prepare(data, scale=scale)
        create(spark, table, data / "base.parquet")
        handle = open_table(open_store(table))
        files = len(handle.view(handle.timeline()).all_slices())
        session = Session(spark)
        upsert = spark.read.parquet(str(data / "upsert0.parquet")).where(f"y = {YEAR}")
        rows, changed = spark.read.parquet(str(data / "base.parquet")).count(), upsert.count()
        found = "\n".join(lines(table, project, session, upsert))
    page = PAGE.format(
        rows=rows,
        files=files,
        scale=scale,
        cores=os.cpu_count(),
        spark=spark.version,
        lines=found,
        changed=changed,
        year=YEAR,
    )
    (HERE / "DATA_TESTS.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
