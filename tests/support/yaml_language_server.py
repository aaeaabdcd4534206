"""yaml-language-server, the checker behind editors, spoken to over its standard input and output."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

MODELINE = "# yaml-language-server: $schema="
ERROR = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding at a place; line and column count from 1."""

    line: int
    column: int
    severity: int
    message: str


class YamlLanguageServer:
    """One server for many documents, as a context manager."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._number = 0

    def __enter__(self) -> Self:
        capabilities = {"workspace": {"configuration": True}, "textDocument": {"publishDiagnostics": {}}}
        self._request("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        self._send({"method": "initialized", "params": {}})
        return self

    def __exit__(self, *_: object) -> None:
        self._request("shutdown", None)
        self._send({"method": "exit"})
        self._process.communicate(timeout=30)

    def findings(self, file: Path) -> list[Finding]:
        """What the server says about a file that names its schema in a modeline."""
        uri = file.resolve().as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": file.read_text(encoding="utf-8")}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        while True:
            message = self._next()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                break
        self._send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}})
        return [
            Finding(
                line=one["range"]["start"]["line"] + 1,
                column=one["range"]["start"]["character"] + 1,
                severity=one["severity"],
                message=one["message"],
            )
            for one in message["params"]["diagnostics"]
        ]

    def _request(self, method: str, params: Any) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]

    def _next(self) -> dict[str, Any]:
        """The next message that is no question; those are answered with the server's defaults."""
        while True:
            message = self._read()
            if "id" not in message or "method" not in message:
                return message
            asked = message.get("params", {}).get("items", ())
            settings = {"validate": True, "schemaStore": {"enable": False}, "yamlVersion": "1.2"}
            answers = [settings if item.get("section") == "yaml" else None for item in asked]
            result = answers if message["method"] == "workspace/configuration" else None
            self._send({"id": message["id"], "result": result})

    def _send(self, message: dict[str, Any]) -> None:
        content = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(content) + content)
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        length = 0
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
        assert length, "the server went away"
        message: dict[str, Any] = json.loads(stream.read(length))
        return message
