"""A store at one of whose operations something happens, in whichever process that operation comes.

It travels to Spark's workers, and counts over all processes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import signal
import time
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from parquetry.runtime.errors import NotFoundError, StorageError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import open_table
from tests.support.processes import kill_session, kill_with_descendants, parent, running
from tests.support.small_table import FAST, Rows, SmallTable
from tests.support.stores import Kind, WrappedStore


class Deed(StrEnum):
    """What happens. The writer is the process that made the store: Spark's driver.

    ``KILL_EXECUTOR`` ends the JVM of the executor whose task comes by, and its Python workers find out;
    ``KILL_EXECUTOR_AND_WORKERS`` ends them too. ``KILL_ALL_EXECUTORS`` is for operations of the driver.
    ``OVERTAKE`` lets another writer change a file that the writer needs, and clean its old versions.
    """

    FAIL = "fail"
    SLEEP = "sleep"
    KILL_WRITER = "kill writer"
    KILL_WRITER_AND_ALL_IT_STARTED = "kill writer and all it started"
    KILL_EXECUTOR = "kill executor"
    KILL_EXECUTOR_AND_WORKERS = "kill executor and workers"
    KILL_ALL_EXECUTORS = "kill all executors"
    KILL_THIS = "kill this process"
    OVERTAKE = "overtake"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """At an operation whose kind and path match ``kind`` and ``path`` (regexes), before or after it.

    The first ``skip`` such operations are let pass, then it happens ``times`` times.
    """

    deed: str
    kind: str
    path: str
    when: str
    skip: int = 0
    times: int = 1
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: the arguments of this class."""
        return asdict(self)


class FaultStore(WrappedStore):
    """Does to its users what ``fault`` says. ``scratch`` is a folder for what processes share."""

    def __init__(self, inner: ObjectStore, scratch: Path, fault: Fault | None = None) -> None:
        super().__init__(inner)
        scratch.mkdir(parents=True, exist_ok=True)
        self.scratch = scratch
        self.fault = fault
        self.writer = os.getpid()

    def before(self, kind: Kind, path: str) -> None:
        self._meet("before", kind, path)

    def after(self, kind: Kind, path: str) -> None:
        if kind is Kind.CREATE_FILE:
            self._witness(path)
        self._meet("after", kind, path)

    def happened(self) -> int:
        """How often the fault has happened."""
        if self.fault is None or not self._hits.exists():
            return 0
        return max(0, min(self._hits.stat().st_size - self.fault.skip, self.fault.times))

    def created(self) -> tuple[dict[str, str], ...]:
        """Every file that appeared, each time it did: ``path``, ``sha256``, ``pid``."""
        log = self.scratch / "created"
        return tuple(json.loads(line) for line in log.read_text().splitlines()) if log.exists() else ()

    @property
    def _hits(self) -> Path:
        return self.scratch / "hits"

    def _witness(self, path: str) -> None:
        try:
            digest = hashlib.sha256(self.inner.read(path)).hexdigest()
        except NotFoundError:
            return
        with (self.scratch / "created").open("a") as log:
            log.write(json.dumps({"path": path, "sha256": digest, "pid": os.getpid()}) + "\n")

    def _meet(self, when: str, kind: Kind, path: str) -> None:
        fault = self.fault
        if fault is None or when != fault.when:
            return
        if not re.fullmatch(fault.kind, kind) or not re.search(fault.path, path):
            return
        if not fault.skip < _count_up(self._hits) <= fault.skip + fault.times:
            return
        match Deed(fault.deed):
            case Deed.FAIL:
                msg = f"cannot {kind} {path}: the disk did not answer this time; try again"
                raise StorageError(msg)
            case Deed.SLEEP:
                time.sleep(fault.seconds)
            case Deed.KILL_WRITER:
                os.kill(self.writer, signal.SIGKILL)
            case Deed.KILL_EXECUTOR:
                os.kill(_executor(), signal.SIGKILL)
            case Deed.KILL_EXECUTOR_AND_WORKERS:
                kill_with_descendants(_executor())
            case Deed.KILL_ALL_EXECUTORS:
                for executor in executors():
                    kill_with_descendants(executor)
            case Deed.OVERTAKE:
                overtake(self.inner)
            case Deed.KILL_THIS:
                os.kill(os.getpid(), signal.SIGKILL)
            case Deed.KILL_WRITER_AND_ALL_IT_STARTED:
                kill_session(self.writer)


def executors() -> list[int]:
    """The processes of the executors that work for the Spark application of this process."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None, "this is no driver"
    port = context.getConf().get("spark.driver.port")
    return running("CoarseGrainedExecutorBackend", f"--app-id {context.applicationId}", f":{port} ")


def _executor() -> int:
    """The executor of this worker, which a daemon has forked that the executor has started."""
    return parent(os.getppid())


OVERTAKING: Rows = {"k0": (7777, "a")}


def overtake(store: ObjectStore) -> None:
    """Another writer, who waits for nobody, writes ``OVERTAKING`` and keeps the newest versions alone."""
    SmallTable(store=store, timing=replace(FAST, give_way_seconds=0.0)).upsert(OVERTAKING)
    clean(open_table(store), policy=RetentionPolicy(keep_commits=None, keep_versions=1), timing=FAST)


def _count_up(file: Path) -> int:
    with file.open("ab") as hits:
        fcntl.flock(hits, fcntl.LOCK_EX)
        hits.write(b".")
        hits.flush()
        return hits.tell()
