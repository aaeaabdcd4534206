"""An S3 server of this machine, for tests: moto on the loopback interface."""

from __future__ import annotations

import importlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

BUCKET = "lake"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request by its kind and path, with the bytes of its content."""

    kind: str
    path: str
    size_bytes: int


@contextmanager
def s3_server(
    requests: Counter[str] | None = None, *, answers: list[Answer] | None = None
) -> Iterator[dict[str, Any]]:
    """The options with which a store reaches the server; it has the bucket ``BUCKET``.

    ``requests`` counts what comes over HTTP by :func:`kind_of`, from whichever process. ``answers`` gets each
    answer, from whichever process.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = importlib.import_module("moto.server").ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    server._server.app = _with_atomic_conditions(server._server.app)
    if requests is not None:
        server._server.app = _counting(server._server.app, requests)
    if answers is not None:
        server._server.app = _recording(server._server.app, answers)
    try:
        host, port = server.get_host_and_port()
        options = {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
        filesystem = importlib.import_module("s3fs").S3FileSystem(**options)
        filesystem.call_s3("create_bucket", Bucket=BUCKET)
        yield options
    finally:
        server.stop()


def kind_of(method: str, query: str) -> str:
    """What S3 calls a request: GET, HEAD, PUT or DELETE of an object, LIST, or a step of an upload in parts."""
    asked = parse_qs(query, keep_blank_values=True)
    match method:
        case "GET" if "list-type" in asked or "prefix" in asked:
            return "LIST"
        case "POST" if "delete" in asked:
            return "DELETE"
        case "POST":
            return "POST"
        case _:
            return method


def _with_atomic_conditions(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Let conditional puts run one after the other: moto checks the condition before it stores the object."""
    one_at_a_time = threading.Lock()

    def answered(environ: Mapping[str, Any], start_response: Any) -> Iterable[bytes]:
        conditions = {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"} & environ.keys()
        with one_at_a_time if environ["REQUEST_METHOD"] == "PUT" and conditions else nullcontext():
            return app(environ, start_response)

    return answered


def _counting(app: Callable[..., Iterable[bytes]], requests: Counter[str]) -> Callable[..., Iterable[bytes]]:
    def counted(environ: Mapping[str, Any], start_response: Any) -> Iterable[bytes]:
        requests[kind_of(environ["REQUEST_METHOD"], environ.get("QUERY_STRING", ""))] += 1
        return app(environ, start_response)

    return counted


def _recording(app: Callable[..., Iterable[bytes]], answers: list[Answer]) -> Callable[..., Iterable[bytes]]:
    """Record answers before they are sent, so that they are there when the client has them."""

    def recorded(environ: Mapping[str, Any], start_response: Any) -> Iterable[bytes]:
        kind = kind_of(environ["REQUEST_METHOD"], environ.get("QUERY_STRING", ""))

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            sizes = [int(value) for name, value in headers if name.lower() == "content-length"]
            answers.append(Answer(kind, environ["PATH_INFO"], sum(sizes)))
            return start_response(status, headers, *rest)

        return app(environ, start)

    return recorded
