"""Sessions of Spark Connect: what needs DataFrames alone works as elsewhere, the rest is refused by its name."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

import parquetry
from parquetry.compiler.jobs.shipping import write_package
from parquetry.confined_folder import ConfinedFolder
from parquetry.runtime.errors import CorruptTableError, SparkStartError, UnsupportedSessionError
from parquetry.runtime.spark.attempt import deliver, upsert
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spark.prepare.materialise import stages_locally
from parquetry.runtime.spark.session import start
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import run_numbered
from parquetry.runtime.spec.clustering import ClusteringScope, ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.job import SparkSettings
from parquetry.runtime.spec.table_spec import Column, KeyScope, Operation, TableSpec
from tests.support.connect_spark import connect_server, connected
from tests.support.judges import HudiRs, assert_history
from tests.support.our_table import OurReader, create
from tests.support.planned_clustering import table_in_debt
from tests.support.rows import TYPES
from tests.support.small_table import make_table, rows_of
from tests.support.spark_writes import SparkWrite

pytestmark = pytest.mark.spark


@pytest.fixture
def remote(connect):
    with connected(connect) as session:
        yield session


def test_frames_are_written_and_read(remote, tmp_path):
    table = make_table(tmp_path / "t")
    held = {}
    for write in (
        SparkWrite(operation=Operation.INSERT, rows={f"k{n}": (n, "ab"[n % 2]) for n in range(9)}),
        SparkWrite(operation=Operation.UPSERT, rows={f"k{n}": (-n, "ab"[n % 2]) for n in range(6, 12)}),
    ):
        write.perform(remote, table.store)
        held = write.after(held)
        assert rows_of(tmp_path / "t") == held
    read = parquetry.open(tmp_path / "t").read(remote)
    assert {row.id: (row.v, row.p) for row in read.collect()} == held
    assert not stages_locally(remote), "the server may be anywhere"
    assert table.store.list(".hoodie/.parquetry/stage", recursive=True) == []


@pytest.mark.long
def test_files_are_clustered(remote, tmp_path):
    table = table_in_debt(tmp_path / "t")
    held = rows_of(tmp_path / "t")
    assert cluster(remote, table.handle).files_before > 2
    assert rows_of(tmp_path / "t") == held


def test_numbered_tasks_say_rows_of_any_columns_and_fail_with_their_own_errors(remote):
    def tell(numbers):
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist([{"number": number, "data": b"\xff"}, {"number": -number}])

    def fail(_):
        raise CorruptTableError("part 7 is no file; restore it")

    said = run_numbered(remote, tell, 3)
    assert [row["number"] for row in said] == [0, 0, 1, -1, 2, -2]
    assert [row["data"] for row in said[:2]] == [b"\xff", None]
    assert run_numbered(remote, tell, 0) == []
    with (
        pytest.raises(CorruptTableError, match=r"^part 7 is no file; restore it$"),
        failures_translated("it"),
    ):
        run_numbered(remote, fail, 2)


def test_what_needs_a_jvm_is_refused_by_its_name(remote, tmp_path):
    make_table(tmp_path / "t")
    table = parquetry.open(tmp_path / "t")
    rows = remote.createDataFrame([("k", 1, "a")], "id string, v bigint, p string")
    with pytest.raises(UnsupportedSessionError, match=r"^where: SQL does not work on Spark Connect: "):
        table.read(remote, where="v > 1")
    with pytest.raises(UnsupportedSessionError, match=r"^delete_when: SQL does not work on Spark Connect: "):
        table.upsert(rows, delete_when="v > 1")
    with pytest.raises(UnsupportedSessionError, match=r"^a batch writer does not work on Spark Connect: "):
        table.batch_writer("insert")(rows, 1)
    remote.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    with pytest.raises(UnsupportedSessionError, match=r"set it to TIMESTAMP_LTZ"):
        table.insert(rows)
    assert rows_of(tmp_path / "t") == {}


@pytest.mark.long
@pytest.mark.parametrize("tasks", [0, 2])
def test_every_operation_on_every_type(remote, tmp_path, monkeypatch, tasks):
    """``tasks``: keys are joined, and the rows staged again by so many."""
    if tasks:
        monkeypatch.setattr(upsert, "is_small", lambda *_: False)
        monkeypatch.setattr(deliver, "regrouping_tasks", lambda *_: tasks)
    ours = create(remote, tmp_path / "table", typed=list(TYPES), project="tests")
    rnd = random.Random(1)
    ours.insert(ours.rows(rnd, range(60), 1))
    ours.upsert(ours.rows(rnd, range(40, 80), 2))
    ours.upsert(ours.rows(rnd, range(0, 80, 7), 3))
    ours.delete(ours.rows(rnd, range(0, 80, 9), 9))
    assert_history([HudiRs(), OurReader(remote)], str(ours.path), ours.model)


@pytest.mark.long
def test_keys_are_those_of_any_other_session(remote, tmp_path):
    """Whatever the session says of ANSI: the text of a decimal and of a time is in file names and keys."""
    values = [Decimal("0E-10"), Decimal("0.0000000010"), Decimal("12345.5")]
    times = [pd.Timestamp("2026-03-29 01:30:00", tz="UTC"), pd.Timestamp("1969-12-31 23:59:59.5", tz="UTC")]
    rows = pd.DataFrame({"d": values, "at": [*times, times[0]], "v": [1, 2, 3]})
    spec = TableSpec(
        name="t",
        columns=(
            Column(name="d", type="decimal(18,10)"),
            Column(name="at", type="timestamp"),
            Column(name="v", type="bigint"),
        ),
        record_key=("d", "at"),
        partition_by=("d",),
        key_scope=KeyScope.TABLE,
    )
    found = {}
    for ansi in ("true", "false"):
        remote.conf.set("spark.sql.ansi.enabled", ansi)
        remote.conf.set("spark.sql.session.timeZone", "Europe/Paris")
        table = parquetry.create(tmp_path / ansi, spec)
        assert table.upsert(remote.createDataFrame(rows)).inserted_rows == 3
        read = table.read(remote, meta=True).collect()
        found[ansi] = sorted((row["_hoodie_record_key"], row["_hoodie_partition_path"]) for row in read)
        assert table.upsert(remote.createDataFrame(rows)).updated_rows == 3
    assert found["true"] == found["false"]
    assert ("d:0E-10,at:1774747800000000", "d=0E-10") in found["true"]


@pytest.mark.long
def test_rows_of_this_process_and_one_order_over_several_tasks(remote, tmp_path, monkeypatch):
    execution = ExecutionPolicy(strategy="sort", columns=("v",), scope=ClusteringScope.PARTITION)
    table = table_in_debt(tmp_path / "t", ClusteringSpec(execution=execution), inserts=6)
    rows = pd.DataFrame({"id": ["new"], "v": [7], "p": ["a"]})
    monkeypatch.setattr(type(remote)._active_session, "session", remote, raising=False)
    assert parquetry.open(tmp_path / "t").upsert(rows).inserted_rows == 1
    held = rows_of(tmp_path / "t")
    assert held["new"] == (7, "a")
    monkeypatch.setattr("parquetry.runtime.clustering.plan.execution.tasks_of", lambda *_, **__: 2)
    assert cluster(remote, table.handle).files_before > 2
    assert rows_of(tmp_path / "t") == held


@pytest.mark.long
def test_workers_without_parquetry_get_it_as_an_artifact(tmp_path):
    """`-S` passes over the files by which the package is installed here, and leaves the other packages."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    environment = {"PYSPARK_PYTHON": str(python), "PYTHONPATH": sysconfig.get_path("purelib")}
    write = SparkWrite(operation=Operation.INSERT, rows={"k": (1, "a")})
    table = make_table(tmp_path / "t")
    with connect_server(tmp_path / "server", environment=environment) as address:
        missing = pytest.raises(
            UnsupportedSessionError, match=r"^Spark's workers lack the module parquetry; install"
        )
        with connected(address) as session, missing:
            write.perform(session, table.store)
        with connected(address) as session:
            package = write_package(ConfinedFolder(tmp_path), tmp_path / "parquetry.zip")
            session.addArtifacts(str(package), pyfile=True)
            write.perform(session, table.store)
    assert rows_of(tmp_path / "t") == write.rows


@pytest.mark.long
def test_a_wide_row_is_staged_by_bytes(remote, tmp_path):
    table = parquetry.create(
        tmp_path / "t",
        TableSpec(name="t", columns=(Column(name="id", type="bigint"), Column(name="text", type="string"))),
    )
    assert table.insert(remote.range(5).selectExpr("id", "repeat('x', 40000) AS text")).inserted_rows == 5
    assert {len(row.text) for row in table.read(remote).collect()} == {40_000}


@pytest.mark.long
def test_a_server_that_the_environment_names_is_connected_to(connect, tmp_path):
    make_table(tmp_path / "t")
    script = (
        "import sys, pandas, parquetry; "
        "rows = pandas.DataFrame({'id': ['k'], 'v': [7], 'p': ['a']}); "
        "table = parquetry.open(sys.argv[1]); "
        "print(table.upsert(rows).inserted_rows, table.read().count())"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "t")],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_REMOTE": connect},
    )
    assert (run.returncode, run.stdout.split()) == (0, ["1", "1"]), run.stderr
    assert rows_of(tmp_path / "t") == {"k": (7, "a")}


def test_a_server_takes_no_settings_of_a_target(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://nowhere")
    monkeypatch.setattr(start.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(start, "_session_of_other_thread", lambda: None)
    settings = SparkSettings(master="local[2]", conf={"spark.driver.memory": "2g"})
    with pytest.raises(
        SparkStartError, match=r"cannot change \(master, spark\.driver\.memory\); unset SPARK_REMOTE"
    ):
        start.start_session(settings, name="t")


@pytest.mark.long
def test_a_server_whose_tasks_run_on_a_cluster(standalone, tmp_path):
    table = make_table(tmp_path / "t")
    rows = {f"k{n:03}": (n, "abc"[n % 3]) for n in range(200)}
    changed = {key: (-value, p) for key, (value, p) in rows.items() if value % 7 == 0}
    with connect_server(tmp_path / "server", master=standalone) as address, connected(address) as session:
        SparkWrite(operation=Operation.INSERT, rows=rows).perform(session, table.store)
        SparkWrite(operation=Operation.UPSERT, rows=changed).perform(session, table.store)
        assert parquetry.open(tmp_path / "t").read(session).count() == len(rows)
    assert rows_of(tmp_path / "t") == rows | changed
