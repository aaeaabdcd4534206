"""The transport of thrift to a Hive Metastore, in which no request waits forever."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any, Final

TIMEOUT_SECONDS: Final = 60.0

# thrift logs failed connections as errors, which Python prints to stderr if nobody listens.
logging.getLogger("thrift").addHandler(logging.NullHandler())


def metastore_transport(host: str, port: int) -> Any:
    """Return a buffered transport, not connected yet, with a time limit for each step.

    Raises:
        ImportError: If the package thrift is missing.
    """
    sockets = import_module("thrift.transport.TSocket")
    transports = import_module("thrift.transport.TTransport")
    socket = sockets.TSocket(host, port)
    socket.setTimeout(TIMEOUT_SECONDS * 1000)
    return transports.TBufferedTransport(socket)
