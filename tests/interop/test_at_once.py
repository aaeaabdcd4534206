"""Real Hudi commits while a write of ours is under way: nobody's rows are lost."""

from __future__ import annotations

import random

import pytest

from parquetry.runtime.errors import LockHeldError
from parquetry.runtime.spark.attempt import upsert
from parquetry.runtime.spark.write import write
from parquetry.runtime.spec.table_spec import Operation
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import update_table_properties
from parquetry.runtime.write.request import WriteRequest
from tests.interop.versions import HUDIS_OF_BOTH_TABLE_VERSIONS, MOSTLY_0_15_0
from tests.support import our_table
from tests.support.hudi_spark import HudiError
from tests.support.judges import HudiRs, RealHudi, assert_history, assert_latest
from tests.support.small_table import FAST
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FEW = ("c_int", "c_string", "c_price")


def side_by_side(ours):
    """What the documentation tells Hudi writers at the same time to set."""
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.filesystem.path": f"{ours.path}/.hoodie/.aux",
        "hoodie.write.lock.num_retries": "1",
        "hoodie.write.lock.client.num_retries": "1",
        "hoodie.write.lock.wait_time_ms_between_retry": "100",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    }


@pytest.fixture
def between(monkeypatch):
    """Let something happen once, after a write of ours has written its files and before it publishes them."""
    honest = upsert.check_results

    def arrange(action):
        left = [action]

        def interrupted(*arguments):
            if left:
                left.pop()()
            return honest(*arguments)

        monkeypatch.setattr(upsert, "check_results", interrupted)

    return arrange


@MOSTLY_0_15_0
def test_hudi_that_rolls_back_our_pending_write_makes_us_write_again(spark, tmp_path, hudi, between):
    """Hudi's default: every write of it takes all pending ones for dead."""
    rnd = random.Random(91)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW)
    ours.upsert(ours.rows(rnd, range(20), 1))
    theirs, mine = ours.rows(rnd, range(5, 25), 2), ours.rows(rnd, range(15, 35), 3)
    between(lambda: ours.model.upsert(hudi.write(ours.hudi(), ours.arrow(theirs)), theirs))
    result = ours.table.upsert(ours.frame(mine))
    ours.model.upsert(our_table.committed(result), mine)
    assert result.retries == 1
    assert unsound(ours.path, since="9") == []
    assert_history([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)


@pytest.mark.parametrize(
    ("hudi", "table_version", "same_files"),
    [
        ("1.2.0", 6, True),
        ("1.2.0", 6, False),
        pytest.param("0.15.0", 6, True, marks=pytest.mark.long),
        pytest.param("0.15.0", 6, False, marks=pytest.mark.long),
        pytest.param("1.2.0", 9, True, marks=pytest.mark.long),
    ],
    indirect=["hudi"],
)
def test_hudi_under_concurrency_control_beside_our_write(
    spark, tmp_path, hudi, between, same_files, table_version
):
    """It leaves our pending write alone; only where both touch the same files we write again."""
    rnd = random.Random(92)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW, table_version=table_version)
    ours.upsert(ours.rows(rnd, range(20), 1))
    # Hudi's schema has a nullable key: its first commit changes the table's, and would alone be a reason.
    first = ours.rows(rnd, range(20, 22), 1)
    ours.model.upsert(hudi.write(ours.hudi(), ours.arrow(first)), first)
    theirs = ours.rows(rnd, range(0, 20, 4) if not same_files else range(10), 2)
    mine = ours.rows(rnd, range(1, 20, 4), 3)

    def write():
        instant = hudi.write(ours.hudi(), ours.arrow(theirs), options=side_by_side(ours))
        ours.model.upsert(instant, theirs)

    between(write)
    result = ours.table.upsert(ours.frame(mine))
    assert result.retries == int(same_files)
    if result.instant > ours.model.instants()[-1]:
        ours.model.upsert(result.instant, mine)
    else:
        earlier = ours.model.instants()[-1]
        ours.model.restore(ours.model.instants()[-2])
        ours.model.upsert(our_table.committed(result), mine)
        ours.model.upsert(earlier, theirs)
    assert_history([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)


@MOSTLY_0_15_0
def test_the_lock_moves_to_where_hudi_locks_without_a_path(spark, tmp_path, hudi):
    """A provider that is named without a path locks `.hoodie/lock`: `parquetry.lock.path` names that."""
    rnd = random.Random(94)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW)
    ours.upsert(ours.rows(rnd, range(8), 1))
    store, lock = open_store(ours.path), ".hoodie/lock"
    options = side_by_side(ours)
    del options["hoodie.write.lock.filesystem.path"]
    store.put(lock, b'{"held": "by somebody else"}')
    rows = ours.rows(rnd, range(4), 2)
    with pytest.raises(HudiError, match=r"[Ll]ock"):
        hudi.write(ours.hudi(), ours.arrow(rows), options=options)
    # 0.15 removes the lock file when it gives up, whoever holds it.
    store.put(lock, b'{"held": "by somebody else"}')
    update_table_properties(store, {"parquetry.lock.path": lock}, comment="where Hudi locks")
    with pytest.raises(
        LockHeldError, match=r"\.hoodie/lock has been held by another program .*somebody else"
    ):
        write(
            spark, open_table(store), ours.frame(rows), WriteRequest(operation=Operation.UPSERT), timing=FAST
        )
    store.delete(lock)
    instant = hudi.write(ours.hudi(), ours.arrow(rows), options=options)
    ours.model.upsert(instant, rows)
    ours.upsert(ours.rows(rnd, range(2, 6), 3))
    assert store.stat(lock) is None
    assert_latest([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)


@HUDIS_OF_BOTH_TABLE_VERSIONS
def test_the_lock_file_is_hudis_own(spark, tmp_path, hudi, table_version):
    rnd = random.Random(93)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW, table_version=table_version)
    ours.upsert(ours.rows(rnd, range(8), 1))
    store = open_store(ours.path)
    lock = ".hoodie/.aux/lock"
    assert store.stat(lock) is None
    store.put(lock, b'{"held": "by somebody else"}')
    rows = ours.rows(rnd, range(4), 2)
    with pytest.raises(HudiError, match=r"[Ll]ock"):
        hudi.write(ours.hudi(), ours.arrow(rows), options=side_by_side(ours))
    store.delete(lock)
    instant = hudi.write(ours.hudi(), ours.arrow(rows), options=side_by_side(ours))
    ours.model.upsert(instant, rows)
    assert store.stat(lock) is None
    ours.upsert(ours.rows(rnd, range(2, 6), 3))
    assert_latest([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)
