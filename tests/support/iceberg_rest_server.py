"""A server of Iceberg's REST protocol: what a publisher and a reader ask for, over pyiceberg's SQL catalog."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate

_STATUS = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}
_TABLE = re.compile(r"/v1/namespaces/([^/]+)/tables/([^/]+)")
_NAMESPACE = re.compile(r"/v1/namespaces/([^/]+)")


class _Commit(BaseModel):
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]


class _Handler(BaseHTTPRequestHandler):
    catalog: SqlCatalog
    token: str | None
    overrides: dict[str, str]
    answers_of_commits: list[int]

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def log_message(self, *arguments: object) -> None:
        pass

    def _answer(self, act: Callable[[], Any]) -> None:
        try:
            if self.token is not None and self.headers.get("Authorization") != f"Bearer {self.token}":
                status, answer = 401, {"error": {"message": "no token", "type": "NotAuthorized", "code": 401}}
            else:
                status, answer = 200, act()
        except tuple(_STATUS) as error:
            status = _STATUS[type(error)]
            kind = type(error).__name__
            answer = {"error": {"message": str(error), "type": kind, "code": status}}
        body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        if self.command == "POST" and _TABLE.fullmatch(self.path):
            self.answers_of_commits.append(status)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _get(self) -> Any:
        path = self.path.partition("?")[0]
        if path == "/v1/config":
            return {"defaults": {}, "overrides": self.overrides}
        if found := _TABLE.fullmatch(path):
            return _loaded(self.catalog.load_table(_identifier(found)))
        namespace = unquote(_NAMESPACE.fullmatch(path)[1])
        return {"namespace": [namespace], "properties": self.catalog.load_namespace_properties(namespace)}

    def _post(self) -> Any:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        found = _TABLE.fullmatch(self.path)
        if found is None:
            namespace = json.loads(body)["namespace"]
            self.catalog.create_namespace(tuple(namespace))
            return {"namespace": namespace, "properties": {}}
        commit = _Commit.model_validate_json(body)
        asked = Table(_identifier(found), None, "", load_file_io(), self.catalog)
        done = self.catalog.commit_table(asked, commit.requirements, commit.updates)
        return _text(done.metadata_location, done.metadata)


def _identifier(found: re.Match[str]) -> tuple[str, ...]:
    return (*unquote(found[1]).split("\x1f"), unquote(found[2]))


def _loaded(table: Table) -> str:
    return _text(table.metadata_location, table.metadata)


def _text(location: str, metadata: TableMetadata) -> str:
    return f'{{"metadata-location": {json.dumps(location)}, "metadata": {metadata.model_dump_json()}}}'


@contextmanager
def rest_server(
    folder: Path, *, token: str | None = None, overrides: dict[str, str] | None = None
) -> Iterator[tuple[str, list[int]]]:
    """Yield the URL of a server that gives clients ``overrides``, and the status of each commit so far."""
    answers: list[int] = []
    catalog = SqlCatalog("served", uri=f"sqlite:///{folder}/served.db?check_same_thread=false")
    given = {"token": token, "overrides": overrides or {}}
    handler = type("Handler", (_Handler,), {"catalog": catalog, "answers_of_commits": answers, **given})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        catalog.engine.dispose()
