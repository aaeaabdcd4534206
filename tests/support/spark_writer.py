"""A process that writes through Spark, told what to do line by line, and that may be killed.

``python -m tests.support.spark_writer '<json>'``: with ``gateway`` (port and secret) it shares the JVM
of the process that started it, which lives on when it is killed, tasks and all; with ``conf`` it
starts a Spark of its own. Requests ``{"do": NAME, ...}``, answers ``{"ok": VALUE}`` or ``{"error": CLASS,
"message": TEXT}``, one JSON object per line.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from types import TracebackType
from typing import Any, Self
from unittest import mock

from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timing import Timing
from tests.support.fault_store import Fault, FaultStore, executors
from tests.support.no_fsync import skip_fsync
from tests.support.processes import die_with_parent, in_session, kill_session, kill_with_descendants
from tests.support.repository import ROOT
from tests.support.small_table import FAST
from tests.support.spark_writes import SparkWrite

SMALL_JVM = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "700m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


class SparkWriter:
    """The process as seen from the test; as a context manager it ends with all it started."""

    def __init__(
        self,
        folder: Path,
        *,
        conf: Mapping[str, str] | None = None,
        share: Any = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``share``: the SparkSession whose JVM is used; else ``conf`` says with what to start one."""
        folder.mkdir(parents=True, exist_ok=True)
        if share is not None:
            parameters = share.sparkContext._gateway.gateway_parameters
            setup = {"gateway": [parameters.port, parameters.auth_token]}
        else:
            setup = {"conf": {**SMALL_JVM, **(conf or {})}}
        self.log = folder / "writer.log"
        with self.log.open("a") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tests.support.spark_writer", json.dumps(setup)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                start_new_session=True,
                preexec_fn=die_with_parent,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "PYSPARK_PYTHON": sys.executable,
                    **(environment or {}),
                },
            )

    @property
    def pid(self) -> int:
        """Of the process, which leads a session of its own."""
        return self._child.pid

    def ask(self, do: str, **details: Any) -> Any:
        """The answer; WriterError when it is an error, WriterKilled when the process died over it."""
        self.send(do, **details)
        return self.answer()

    def send(self, do: str, **details: Any) -> None:
        """Let it begin."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps({"do": do, **details}) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise WriterKilled from error

    def answer(self) -> Any:
        """The answer to the oldest request that has not been answered."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line.endswith("\n"):
            assert self._child.wait() == -signal.SIGKILL, self.log.read_text()[-4000:]
            raise WriterKilled
        answer = json.loads(line)
        if "error" in answer:
            raise WriterError(answer["error"], answer["message"])
        return answer["ok"]

    def has_answered(self) -> bool:
        """Whether an answer waits to be read."""
        return bool(select.select([self._child.stdout], [], [], 0)[0])

    def kill(self) -> None:
        """End the process, and nothing that it started."""
        self._child.kill()
        self._child.wait()

    def wait_for_all(self) -> None:
        """Return when nothing that it started runs any more."""
        while in_session(self.pid):
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            kill_session(self.pid)
        self._child.wait()
        kill_session(self.pid)
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


class WriterKilled(Exception):
    """The process was killed before it answered."""


class WriterError(Exception):
    """The process answered with an error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class _Server:
    def __init__(self, setup: Mapping[str, Any]) -> None:
        self._setup = setup
        self._spark: Any = None

    @property
    def spark(self) -> Any:
        """The session, which starts again after a stop."""
        if self._spark is None:
            setup = self._setup
            self._spark = _shared(*setup["gateway"]) if "gateway" in setup else _started(setup["conf"])
            self._spark.sparkContext.setLogLevel("ERROR")
        return self._spark

    def hello(self) -> dict[str, Any]:
        return {"spark": self.spark.version, "master": self.spark.sparkContext.master}

    def write(
        self,
        path: str,
        write: Mapping[str, Any],
        scratch: str,
        fault: Mapping[str, Any] | None = None,
        timing: Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        store = FaultStore(open_store(path), Path(scratch), Fault(**fault) if fault else None)
        result = SparkWrite.from_json(write).perform(self.spark, store, timing=_timing(timing))
        return {
            "instant": result.instant,
            "retries": result.retries,
            "warnings": [*map(str, result.warnings)],
            "happened": store.happened(),
        }

    def write_struck(
        self, path: str, write: Mapping[str, Any], all_of: bool, timing: Mapping[str, float] | None = None
    ) -> dict[str, Any]:
        """Write while an executor, or ``all_of`` them, are killed in the middle of Spark's join of keys."""
        from parquetry.runtime.spark.attempt import upsert

        strikes: list[list[int]] = []

        def struck(*arguments: Any, **options: Any) -> Any:
            thread = Thread(target=lambda: strikes.append(self._strike(all_of=all_of)))
            thread.start()
            try:
                return counted(*arguments, **options)
            finally:
                thread.join()

        counted = upsert.count_tagged
        with mock.patch.object(upsert, "count_tagged", struck):
            result = SparkWrite.from_json(write).perform(self.spark, open_store(path), timing=_timing(timing))
        return {
            "retries": result.retries,
            "warnings": [*map(str, result.warnings)],
            "happened": len(strikes[0]),
        }

    def _strike(self, *, all_of: bool) -> list[int]:
        """Wait until tasks run; the executors that were killed then."""
        tracker = self.spark.sparkContext.statusTracker()
        while not any(
            (info := tracker.getStageInfo(stage)) is not None and info.numActiveTasks
            for stage in tracker.getActiveStageIds()
        ):
            time.sleep(0.005)
        struck = executors() if all_of else executors()[:1]
        for executor in struck:
            kill_with_descendants(executor)
        return struck

    def cluster(
        self,
        path: str,
        scratch: str,
        fault: Mapping[str, Any] | None,
        timing: Mapping[str, float] | None = None,
    ) -> dict[str, Any]:
        from parquetry.runtime.spark.cluster import cluster
        from parquetry.runtime.table.handle import open_table

        store = FaultStore(open_store(path), Path(scratch), Fault(**fault) if fault else None)
        result = cluster(self.spark, open_table(store), timing=_timing(timing))
        return {
            "instants": list(result.instants),
            "groups": result.groups,
            "files_before": result.files_before,
            "left_out": len(result.left_out),
            "happened": store.happened(),
        }

    def write_together(self, works: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """Write in a thread for each path and write, all in one session, which begin at the same time."""
        begin = Barrier(len(works))

        def perform(path: str, write: Mapping[str, Any]) -> dict[str, Any]:
            begin.wait()
            result = SparkWrite.from_json(write).perform(self.spark, open_store(path))
            return {
                "instant": result.instant,
                "retries": result.retries,
                "warnings": [*map(str, result.warnings)],
            }

        with ThreadPoolExecutor(max_workers=len(works)) as pool:
            return [answer.result() for answer in [pool.submit(perform, *work) for work in works]]

    def setting(self, key: str) -> str | None:
        return self.spark.conf.get(key, None)

    def executors(self) -> int:
        return len(executors())

    def stop(self) -> None:
        self.spark.stop()
        self._spark = None

    def random(self, path: str, scratch: str, kept: str, fault: Mapping[str, Any] | None, **what: Any) -> Any:
        from tests.support.random_rows import write_random_rows

        store = FaultStore(open_store(path), Path(scratch), Fault(**fault) if fault else None)
        result = write_random_rows(self.spark, store, Path(kept), **what)
        return {"instant": result.instant, "retries": result.retries, "happened": store.happened()}


def _timing(changes: Mapping[str, float] | None) -> Timing:
    fields = {name: getattr(FAST, name) for name in Timing.__dataclass_fields__}
    return Timing(**{**fields, **(changes or {})})


def _started(conf: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("spark writer")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _shared(port: int, secret: str) -> Any:
    """A session of its own in a JVM that runs already."""
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    jsc = gateway.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(running)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=jsc.getConf())
    context = SparkContext(gateway=gateway, jsc=jsc, conf=conf)
    session = gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get().newSession()
    return SparkSession(context, jsparkSession=session)


def main() -> None:
    skip_fsync()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = _Server(json.loads(sys.argv[1]))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": getattr(server, request.pop("do"))(**request)}
        except BaseException as problem:
            answer = {"error": type(problem).__name__, "message": str(problem)[:4000]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
