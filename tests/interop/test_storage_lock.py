"""Hudi's own StorageBasedLockProvider and our storage lock, on one object of an S3 server, and writers that hold them.

hudi-aws, which has Hudi's client of S3, is on no mirror of tests. A class of the same name sends its requests; who
gets the lock, for how long, and what is written, is decided by Hudi's class.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from parquetry.runtime.commit.claims import open_session
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.commit.storage_lock import STORAGE_LOCK_PATH, Lease, StorageLock
from parquetry.runtime.errors import ConflictError, LockHeldError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import LOCK_METHOD_KEY
from parquetry.runtime.table.properties import update_table_properties
from parquetry.runtime.timeline.instant import Timezone
from tests.interop.environment import hudi_bundle, s3a_jars, spark_python
from tests.support.hudi_spark import NO_METADATA_TABLE, STAYS_AT_SIX, HudiError, HudiSpark, HudiTable
from tests.support.s3_server import BUCKET
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.view_reader import ViewReader

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        shutil.which("javac") is None, reason="a JDK compiles the stand-in for the client of S3"
    ),
]

SOURCES = Path(__file__).parent.parent / "support" / "hudi_storage_lock_java"
VALIDITY_SECONDS = 10


class HudiLock:
    """A Java process with Hudi's lock provider for one table."""

    def __init__(self, classes: str, uri: str, endpoint: str) -> None:
        settings = [
            f"hoodie.write.lock.storage.validity.timeout.secs={VALIDITY_SECONDS}",
            "hoodie.write.lock.storage.renew.interval.secs=1",
        ]
        command = ["java", f"-Ds3.endpoint={endpoint}", "-cp", classes, "HudiStorageLock", uri, *settings]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._answer() == "ready"

    def ask(self, line: str) -> str:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _answer(self) -> str:
        for line in self.process.stdout:
            if line.startswith("answer "):
                return line.removeprefix("answer ").strip()
        raise AssertionError(f"Hudi's lock provider ended with {self.process.wait()}")


@pytest.fixture(scope="module")
def classes(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("classes")
    (jars,) = spark_python("3.5").parent.parent.glob("lib/python3*/site-packages/pyspark/jars")
    libraries = f"{hudi_bundle('1.2.0')}:{jars}/*"
    sources = map(str, sorted(SOURCES.glob("*.java")))
    subprocess.run(["javac", "-nowarn", "-d", str(folder), "-cp", libraries, *sources], check=True)
    return f"{folder}:{libraries}"


@pytest.fixture
def store(s3_options):
    return open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}/t", s3_options)


@pytest.fixture
def hudi(classes, store, s3_options):
    lock = HudiLock(classes, store.uri, s3_options["endpoint_url"])
    yield lock
    lock.kill()


def session(store, **settings):
    timing = replace(FAST, **settings)
    return open_session(store, purpose="test", after=None, zone=Timezone.UTC, timing=timing)


def lock(mine, **lease):
    return TableLock(mine, StorageLock(lease=Lease(**lease)), fence=pytest.fail)


def test_hudi_and_we_take_turns_and_each_is_refused_while_the_other_holds_the_lock(store, hudi):
    with session(store, live_lock_seconds=0.5) as mine:
        for _ in range(2):
            assert hudi.ask("take 1") == "true"
            with pytest.raises(LockHeldError, match="another program"):
                lock(mine).acquire()
            assert hudi.ask("release") == "released"
            with lock(mine) as held:
                assert hudi.ask("take 1") == "false"
                assert held.is_held()
            assert json.loads(store.read(STORAGE_LOCK_PATH))["expired"]


def test_a_lock_that_hudi_renews_is_not_taken_and_one_of_a_killed_job_is(store, hudi):
    with session(store, live_lock_seconds=VALIDITY_SECONDS + 3) as mine:
        assert hudi.ask("take 1") == "true"
        first = json.loads(store.read(STORAGE_LOCK_PATH))
        with pytest.raises(LockHeldError):
            lock(mine).acquire()
        renewed = json.loads(store.read(STORAGE_LOCK_PATH))
        assert renewed["owner"] == first["owner"]
        assert renewed["validUntil"] > first["validUntil"] + VALIDITY_SECONDS * 500
        hudi.kill()
        began = time.monotonic()
        with lock(mine) as held:
            assert held.is_held()
        assert time.monotonic() - began < VALIDITY_SECONDS + 3


def test_hudi_waits_while_we_renew_and_takes_the_lock_of_a_writer_that_is_gone(store, hudi):
    with session(store) as mine:
        with lock(mine, validity_seconds=6, renewal_seconds=0.5, margin_seconds=1) as held:
            assert hudi.ask("take 8") == "false"
            assert held.is_held()
        gone = lock(mine, validity_seconds=6, renewal_seconds=1e9, margin_seconds=1)
        gone.acquire()
        assert hudi.ask("take 10") == "true"
        assert not gone.is_held()
        gone.release()
        assert hudi.ask("release") == "released"


# -- writers at once

PARTITIONS = "abc"
SHARED = {f"k{n}": PARTITIONS[n % 3] for n in range(30)}
"""The keys that both writers update. Each stays in its partition."""

ACKNOWLEDGED = 3
"""The least number of acknowledged writes of each writer, on a machine however slow."""

SIDE_BY_SIDE = {
    **NO_METADATA_TABLE,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
    "hoodie.parquet.small.file.limit": "0",
}


@dataclass
class UpsertingWriter:
    """Upserts some shared keys of one partition and one key that nobody else writes, again and again.

    ``writes`` are the rows of all tries by the key of its own that each has, ``done`` the keys of those that were
    acknowledged. A refused write of Hudi stays pending until the next write of Hudi rolls it back, and we refuse to
    write beside it.
    """

    name: str
    random: random.Random
    write: Callable[[Mapping[str, tuple[int, str]]], None]
    refusal: type[Exception]
    expected: str
    writes: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def go_on_until(self, end: float) -> None:
        while time.monotonic() < end or len(self.done) < ACKNOWLEDGED:
            number = len(self.writes)
            partition = self.random.choice(PARTITIONS)
            shared = self.random.sample([key for key, p in SHARED.items() if p == partition], 3)
            mine = f"{self.name}{number}"
            rows = {key: (number * 10 + len(self.name), partition) for key in (*shared, mine)}
            self.writes[mine] = rows
            try:
                self.write(rows)
            except self.refusal as error:
                self.refused.append(str(error))
                time.sleep(1)
            else:
                self.done.append(mine)


@pytest.fixture
def hudi_in_s3(classes, s3_options, tmp_path):
    """Real Hudi 1.2, which reaches the S3 server through Hadoop's S3A, and its lock through the stand-in."""
    lock_client = Path(shutil.make_archive(str(tmp_path / "client"), "zip", classes.partition(":")[0]))
    endpoint = s3_options["endpoint_url"]
    settings = {
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Ds3.endpoint={endpoint}",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.access.key": s3_options["key"],
        "spark.hadoop.fs.s3a.secret.key": s3_options["secret"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }
    jars = [lock_client.rename(lock_client.with_suffix(".jar")), *s3a_jars("3.3.4")]
    with HudiSpark("1.2.0", tmp_path / "hudi", jars=jars, settings=settings) as hudi:
        yield hudi


@pytest.mark.long
@pytest.mark.parametrize("table_version", [6, 9])
def test_hudi_and_we_write_at_once_and_no_acknowledged_row_is_lost(
    store, hudi_in_s3, s3_options, table_version
):
    seconds = 300 if table_version == 9 else 60
    make_table(store, table_version=table_version, keep_commits=10, archive_keep_commits=20)
    update_table_properties(store, {LOCK_METHOD_KEY: "storage"}, comment="the lock of this test")
    ours = SmallTable(store=store, services=True)
    ours.insert({key: (0, partition) for key, partition in SHARED.items()})
    theirs = HudiTable(
        path=store.uri.replace("s3://", "s3a://"), name="small", key=("id",), partition_by=("p",)
    )
    options = SIDE_BY_SIDE | (STAYS_AT_SIX if table_version == 6 else {})

    def write_by_hudi(rows):
        table = pa.table(
            {
                "id": list(rows),
                "v": pa.array([v for v, _ in rows.values()], pa.int64()),
                "p": [p for _, p in rows.values()],
            }
        )
        hudi_in_s3.save(theirs, table, "upsert", index="SIMPLE", options=options)

    # The first write of Hudi changes the schema, as each key is nullable then.
    write_by_hudi({"first": (0, "a")})
    writers = [
        UpsertingWriter("hudi", random.Random(1), write_by_hudi, HudiError, "WriteConflictException|[Ll]ock"),
        UpsertingWriter(
            "we", random.Random(2), ours.upsert, ConflictError, "no sign of life|is in progress|conflicted"
        ),
    ]
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(len(writers)) as pool:
        for ended in [pool.submit(writer.go_on_until, end) for writer in writers]:
            ended.result()
    write_by_hudi({"last": (0, "a")})
    assert ours.handle.timeline().pending_writes == ()
    found = ViewReader(s3_options).read(store.uri)
    instants = dict(zip(found["id"].to_pylist(), found["_hoodie_commit_time"].to_pylist(), strict=True))
    for writer in writers:
        print(
            f"{writer.name}: {len(writer.writes)} tries, {len(writer.done)} acknowledged, "
            f"{sum(key in instants for key in writer.writes)} committed, {len(writer.refused)} refused "
            f"{[reason[:300] for reason in writer.refused[:2]]}"
        )
        assert set(writer.done) <= instants.keys()
        assert [reason for reason in writer.refused if not re.search(writer.expected, reason)] == []
    assert any(writer.refused for writer in writers)
    writes = {key: rows for writer in writers for key, rows in writer.writes.items() if key in instants}
    expected = {key: (0, partition) for key, partition in SHARED.items()}
    expected |= {"first": (0, "a"), "last": (0, "a")}
    for key in sorted(writes, key=lambda mine: instants[mine]):
        expected |= writes[key]
    by_hudi = hudi_in_s3.read(theirs.path)
    rows = {row["id"]: (row["v"], row["p"]) for row in found.to_pylist()}
    assert len(rows) == found.num_rows == by_hudi.num_rows
    assert rows == {row["id"]: (row["v"], row["p"]) for row in by_hudi.to_pylist()}
    assert rows == expected
