"""Hudi's own StorageBasedLockProvider and our storage lock, on one object of an S3 server.

hudi-aws, which has Hudi's client of S3, is on no mirror of tests. A class of the same name sends its requests; who
gets the lock, for how long, and what is written, is decided by Hudi's class.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.commit.claims import open_session
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.commit.storage_lock import STORAGE_LOCK_PATH, Lease, StorageLock
from parquetry.runtime.errors import LockHeldError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.instant import Timezone
from tests.interop.environment import hudi_bundle, spark_python
from tests.support.s3_server import BUCKET
from tests.support.small_table import FAST

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
