"""A Spark cluster of its own on this machine: a master and two workers, reachable from here only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.fast_java import java_options
from tests.support.processes import die_with_parent, kill_session
from tests.support.repository import ROOT

WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
"""Spark starts a speculative copy of a task on another host only."""

CLUSTER: Mapping[str, str] = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": java_options(),
    "spark.executorEnv.PYTHONPATH": str(ROOT),
}
"""Settings of a driver whose executors run on such a cluster."""

SPECULATION: Mapping[str, str] = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "50ms",
}
"""Tasks that are a little slower than others get a second attempt at once."""


@contextmanager
def standalone_spark(
    folder: Path, *, hosts: Sequence[str] = WORKER_HOSTS, cores: int = 1, memory: str = "1g"
) -> Iterator[str]:
    """The master's URL; each of the hosts has a worker with so many cores. Everything ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    log = folder / "master.Master.log"
    started = [_start(folder, "127.0.0.1", "master.Master", "--port", str(port))]
    try:
        _wait_for(log, "I have been elected leader")
        for host in hosts:
            arguments = ("-c", str(cores), "-m", memory, "-d", str(folder / host))
            started.append(_start(folder, host, "worker.Worker", *arguments, master))
            _wait_for(log, f"Registering worker {host}")
        yield master
    finally:
        for process in reversed(started):
            kill_session(process.pid)
            process.wait()


def _start(folder: Path, host: str, daemon: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": f"{java_options()} -Dspark.master.rest.enabled=false",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / f"{daemon}.log").open("a") as log:
        return subprocess.Popen(
            [
                str(home / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{daemon}",
                *("--host", host, "--webui-port", "0"),
                *arguments,
            ],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 120
    while text not in log.read_text():
        assert time.monotonic() < deadline, f"the master does not say {text!r}"
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
