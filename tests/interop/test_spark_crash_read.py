"""Real Hudi reads what killed Spark writes have left: the old table or the new one, and what is written next."""

from __future__ import annotations

import shutil

import pytest

from tests.support.fault_store import Deed
from tests.support.small_table import Rows
from tests.support.spark_crash import (
    NEXT,
    OLD,
    POINTS,
    WRITES,
    fault_at,
    is_committed,
    prepare,
    survives,
    wait_until_idle,
)
from tests.support.spark_writer import SparkWriter, WriterKilled

pytestmark = [pytest.mark.interop, pytest.mark.spark]

# One point before the commit and one behind it; tests/crash has every point in the short runs.
SAMPLE = {
    "while files are written": "upsert",
    "holding the lock after the commit": "upsert on a cluster",
}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "t"
    prepare(spark, path, keep_commits=50)
    return path


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=[] if point in SAMPLE else pytest.mark.long) for point in POINTS]
)
def test_real_hudi_reads_what_a_killed_writer_left(
    *, point, spark, template, hudi_15, hudi_12, tmp_path
) -> None:
    write = WRITES[SAMPLE.get(point, "upsert")]
    path = tmp_path / "t"
    shutil.copytree(template, path)
    with SparkWriter(tmp_path / "writer", share=spark) as writer, pytest.raises(WriterKilled):
        writer.ask(
            "write",
            path=str(path),
            write=write.to_json(),
            scratch=str(tmp_path),
            fault=fault_at(point, Deed.KILL_WRITER),
        )
    wait_until_idle(spark)
    state = write.after(OLD) if is_committed(point) else OLD
    for hudi in (hudi_15, hudi_12):
        assert _rows(hudi, path) == state, f"Hudi {hudi.version} after the crash"
    assert survives(path, [state], spark=spark) == state
    for hudi in (hudi_15, hudi_12):
        assert _rows(hudi, path) == {**state, **NEXT}, f"Hudi {hudi.version} after the next write"


def _rows(hudi, path) -> Rows:
    found = hudi.read(str(path), metadata_table=False).select(["id", "v", "p"]).to_pylist()
    rows = {row["id"]: (row["v"], row["p"]) for row in found}
    assert len(rows) == len(found), "a key occurs twice"
    return rows
