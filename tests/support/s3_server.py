"""An S3 server of this machine, for tests: moto on the loopback interface."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BUCKET = "lake"


@contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """The options with which a store reaches the server; it has the bucket ``BUCKET``."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = importlib.import_module("moto.server").ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
        filesystem = importlib.import_module("s3fs").S3FileSystem(**options)
        filesystem.call_s3("create_bucket", Bucket=BUCKET)
        yield options
    finally:
        server.stop()
