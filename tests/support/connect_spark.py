"""A Spark Connect server on this machine, and sessions of it in this process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.support.fast_java import java_options
from tests.support.processes import die_with_parent, kill_session

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


@contextmanager
def connect_server(
    folder: Path, *, master: str = "local[2]", environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The address of a server that runs its tasks on ``master``; it ends with the block."""
    import pyspark

    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    home = Path(pyspark.__file__).parent
    given = {**_SETTINGS, "spark.connect.grpc.binding.port": str(port)}
    log = folder / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [
                str(home / "bin" / "spark-submit"),
                *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *("--name", "parquetry tests", "--master", master),
                *(word for key, value in given.items() for word in ("--conf", f"{key}={value}")),
                "spark-internal",
            ],
            stdout=out,
            stderr=out,
            cwd=folder,
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "SPARK_CONNECT_MODE": "0",
                "SPARK_LOCAL_DIRS": str(folder / "local"),
                "SPARK_SUBMIT_OPTS": java_options(),
                "PYSPARK_PYTHON": sys.executable,
                **(environment or {}),
            },
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    try:
        _wait_for(port, server, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        kill_session(server.pid)
        server.wait()


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A session of its own at the server; PySpark's functions make expressions for it within the block."""
    from pyspark.sql.connect.session import SparkSession

    with mock.patch.dict(os.environ, {"SPARK_CONNECT_MODE_ENABLED": "1"}):
        session = SparkSession.builder.remote(address).create()
        try:
            yield session
        finally:
            session.client.close()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, "the server takes no connections"
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
