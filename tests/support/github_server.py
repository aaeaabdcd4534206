"""A repository on a local GitHub: its people act through methods, parquetry over HTTP.

Every request and every answer is checked against GitHub's own OpenAPI description (`github_api.json`, cut from
@octokit/openapi by tools/github_description.py). `faults` collects what does not fit it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from jsonschema import Draft202012Validator, FormatChecker

DESCRIPTION = json.loads(Path(__file__).with_name("github_api.json").read_text(encoding="utf-8"))
REPOSITORY = "shop/lake"
BOT = "github-actions[bot]"
TOKEN = "ghs_of_the_workflow_0123456789"
"""The token of a workflow, which does not say whose it is."""


@dataclass
class Pull:
    """A pull request; `resets` are events of its timeline."""

    number: int
    author: str
    head: str
    base: str = "main"
    repository: str = REPOSITORY
    is_fork: bool = False
    is_squashed: bool = False
    merged_as: str | None = None
    commits: list[tuple[str | None, str | None]] = field(default_factory=list)
    reviews: list[dict[str, Any]] = field(default_factory=list)
    comments: list[dict[str, Any]] = field(default_factory=list)
    resets: list[dict[str, Any]] = field(default_factory=list)
    brought: list[str] = field(default_factory=list)
    """Its commits on the branch, after a rebase."""


@dataclass
class LocalGitHub:
    """What lies on the forge. Each act of somebody takes a second of its clock."""

    address: str = ""
    origin: str = ""
    root = ""
    """The path of the API on the server."""

    bot: str = BOT
    """Who posts plans."""

    people: dict[str, str] = field(
        default_factory=lambda: {
            "adam": "write",
            "rita": "write",
            "mona": "admin",
            "sam": "read",
            BOT: "write",
        }
    )
    tokens: dict[str, str] = field(default_factory=lambda: {TOKEN: BOT})
    readers: set[str] = field(default_factory=set)
    """Tokens that may only read, as those of workflows of forks."""
    pulls: dict[int, Pull] = field(default_factory=dict)
    statuses: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    troubles: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    """Answers that come first, instead of the true ones."""
    most_on_a_page: int = 100
    headers: list[Mapping[str, str]] = field(default_factory=list)
    _clock: datetime = datetime(2026, 1, 1, 10, tzinfo=UTC)
    _last: int = 1000

    def tick(self) -> str:
        self._clock += timedelta(seconds=1)
        return self._clock.strftime("%Y-%m-%dT%H:%M:%SZ")

    def number(self) -> int:
        self._last += 1
        return self._last

    # What people do.

    def open(self, head: str, *, author: str = "adam", base: str = "main") -> Pull:
        pull = Pull(number=len(self.pulls) + 7, author=author, head=head, base=base)
        pull.commits.append((author, author))
        self.pulls[pull.number] = pull
        return pull

    def push(self, pull: Pull, head: str, *, force: bool = False) -> None:
        moment = self.tick()
        pull.head = head
        if force:
            pull.resets.append({"event": "head_ref_force_pushed", "created_at": moment})
        else:
            pull.commits.append((pull.author, pull.author))

    def change_base(self, pull: Pull) -> None:
        pull.resets.append({"event": "base_ref_changed", "created_at": self.tick()})

    def review(
        self, pull: Pull, by: str = "rita", state: str = "APPROVED", commit: str | None = None
    ) -> dict[str, Any]:
        said = {"id": self.number(), "user": account(by), "state": state, "commit_id": commit or pull.head}
        pull.reviews.append(said | {"submitted_at": self.tick(), "body": ""})
        return pull.reviews[-1]

    def comment(self, pull: Pull, by: str, body: str) -> dict[str, Any]:
        pull.comments.append(
            {"id": self.number(), "user": account(by), "body": body, "created_at": self.tick()}
        )
        return pull.comments[-1]

    def status(
        self, commit: str, by: str, context: str, description: str, state: str = "success"
    ) -> dict[str, Any]:
        said = {"id": self.number(), "creator": account(by), "context": context, "created_at": self.tick()}
        self.statuses.setdefault(commit, []).insert(0, said | {"description": description, "state": state})
        return self.statuses[commit][0]

    def merge(self, pull: Pull, commit: str) -> None:
        self.tick()
        pull.merged_as = commit

    def of_workflow(self, pull: Pull) -> list[str]:
        """The comments of the workflow."""
        return [comment["body"] for comment in pull.comments if comment["user"]["login"] == self.bot]

    # What the API answers.

    def operation_of(self, method: str, path: str) -> tuple[str, dict[str, str]]:
        return operation_of(method, path)

    def checked_request(
        self, method: str, operation: str, query: Mapping[str, str], sent: bytes, headers: Any
    ) -> Any:
        return checked_request(method, operation, query, sent, headers)

    def checked_answer(self, method: str, operation: str, status: int, said: Any) -> Any:
        return checked_answer(method, operation, status, said)

    def may_send(self, method: str, operation: str, token: str) -> bool:
        return method == "GET" or token not in self.readers

    def answer(
        self, method: str, operation: str, given: Mapping[str, str], body: Any, login: str
    ) -> tuple[int, Any]:
        match method, operation.removeprefix("/repos/{owner}/{repo}"):
            case _, _ if operation != "/user" and f"{given['owner']}/{given['repo']}" != REPOSITORY:
                return 404, {"message": "Not Found"}
            case "GET", "/user":
                if login == BOT:
                    return 403, {"message": "Resource not accessible by integration"}
                return 200, account(login)
            case "GET", "":
                return 200, {"default_branch": "main", "full_name": REPOSITORY}
            case "GET", "/pulls":
                return 200, [
                    _shown(p)
                    for p in self.pulls.values()
                    if p.merged_as is None and p.base == given["base"] and given["state"] == "open"
                ]
            case "GET", "/commits/{commit_sha}/pulls":
                return 200, [
                    _shown(p)
                    for p in self.pulls.values()
                    if given["commit_sha"] in (p.head, p.merged_as, *p.brought)
                ]
            case "GET", "/commits/{ref}/statuses":
                return 200, self.statuses.get(given["ref"], [])
            case "POST", "/statuses/{sha}":
                made = self.status(given["sha"], login, body["context"], body["description"], body["state"])
                return 201, made
            case "GET", "/collaborators/{username}/permission":
                found = self.people.get(given["username"])
                return (
                    (200, {"permission": found, "role_name": found})
                    if found
                    else (404, {"message": "Not Found"})
                )
            case _, "/issues/comments/{comment_id}":
                return self._changed(method, int(given["comment_id"]), body, login)
        pull = self.pulls.get(int(given.get("pull_number") or given["issue_number"]))
        if pull is None:
            return 404, {"message": "Not Found"}
        match method, operation.removeprefix("/repos/{owner}/{repo}"):
            case "GET", "/pulls/{pull_number}":
                return 200, _shown(pull)
            case "GET", "/pulls/{pull_number}/reviews":
                return 200, pull.reviews
            case "GET", "/pulls/{pull_number}/commits":
                return 200, [{"author": _maybe(a), "committer": _maybe(c)} for a, c in pull.commits]
            case "GET", "/issues/{issue_number}/comments":
                return 200, pull.comments
            case "POST", _:
                return 201, self.comment(pull, login, body["body"])
            case _:
                return 200, pull.resets

    def _changed(self, method: str, number: int, body: Any, login: str) -> tuple[int, Any]:
        for pull in self.pulls.values():
            for comment in pull.comments:
                if comment["id"] != number:
                    continue
                if comment["user"]["login"] != login:
                    return 403, {"message": "Must be its author"}
                if method == "DELETE":
                    pull.comments.remove(comment)
                    return 204, None
                comment["body"] = body["body"]
                return 200, comment
        return 404, {"message": "Not Found"}


def account(login: str) -> dict[str, Any]:
    return {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}


def _maybe(login: str | None) -> dict[str, Any] | None:
    return None if login is None else account(login)


def _shown(pull: Pull) -> dict[str, Any]:
    return {
        "number": pull.number,
        "user": account(pull.author),
        "head": {"sha": pull.head, "repo": {"id": 2 if pull.is_fork else 1}},
        "base": {"ref": pull.base, "repo": {"id": 1, "full_name": pull.repository}},
        "merged": pull.merged_as is not None,
        "merged_at": "2026-01-02T00:00:00Z" if pull.merged_as else None,
        "merge_commit_sha": pull.merged_as,
        "commits": len(pull.commits),
        "state": "closed" if pull.merged_as else "open",
    }


@contextmanager
def local_github(**options: Any) -> Iterator[LocalGitHub]:
    """A local GitHub, served."""
    forge = LocalGitHub(**options)
    with served(forge):
        yield forge


@contextmanager
def served(forge: LocalGitHub) -> Iterator[None]:
    """A forge on the loopback interface. What did not fit the description fails the test at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"forge": forge}))
    server.daemon_threads = True
    forge.origin = f"http://127.0.0.1:{server.server_port}"
    forge.address = f"{forge.origin}{forge.root}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert forge.faults == []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    forge: LocalGitHub

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        self.forge.calls.append((self.command, self.path))
        self.forge.headers.append(dict(self.headers))
        if self.forge.troubles:
            status, headers, content = self.forge.troubles.pop(0)
            self._send(status, content, headers)
            return
        try:
            status, document, headers = self._answered(sent)
        except Exception as error:  # the test is to see it
            self.forge.faults.append(f"{self.command} {self.path}: {error!r:.2000}")
            status, document, headers = 500, {"message": "a fault"}, {}
        self._send(status, b"" if document is None else json.dumps(document).encode(), headers)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815

    def _answered(self, sent: bytes) -> tuple[int, Any, dict[str, str]]:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        login = self.forge.tokens.get(token)
        if scheme != "Bearer" or login is None:
            return 401, {"message": "Bad credentials"}, {}
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        operation, given = self.forge.operation_of(self.command, url.path)
        if not self.forge.may_send(self.command, operation, token):
            return 403, {"message": "Resource not accessible by integration"}, {}
        body = self.forge.checked_request(self.command, operation, query, sent, self.headers)
        status, said = self.forge.answer(self.command, operation, {**query, **given}, body, login)
        headers = {}
        if isinstance(said, list):
            said, headers = self._page(said, query, url.path)
        return status, self.forge.checked_answer(self.command, operation, status, said), headers

    def _page(
        self, items: list[Any], query: Mapping[str, str], path: str
    ) -> tuple[list[Any], dict[str, str]]:
        size = min(int(query.get("per_page", 30)), self.forge.most_on_a_page)
        page = int(query.get("page", 1))
        here = items[(page - 1) * size : page * size]
        others = "".join(f"&{name}={value}" for name, value in query.items() if "page" not in name)
        here_is = f"{self.forge.origin}{path}?per_page={size}{others}&page="
        following, first = f"<{here_is}{page + 1}>", f'<{here_is}1>; rel="first"'
        return here, {"Link": f'{first}, {following}; rel="next"'} if page * size < len(items) else {}

    def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


def operation_of(method: str, path: str) -> tuple[str, dict[str, str]]:
    """The operation of the description that a request means, and what stands for the names in its path."""
    for template, operations in DESCRIPTION["paths"].items():
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(template))
        found = re.fullmatch(pattern, path)
        if found and method.lower() in operations:
            return template, {name: unquote(value) for name, value in found.groupdict().items()}
    raise AssertionError("the description has no such operation")


def checked_request(method: str, operation: str, query: Mapping[str, str], sent: bytes, headers: Any) -> Any:
    described = DESCRIPTION["paths"][operation][method.lower()]
    parameters = [_resolved(entry) for entry in described.get("parameters", [])]
    names = {entry["name"] for entry in parameters if entry["in"] == "query"}
    assert set(query) <= names, f"{set(query) - names} are no parameters"
    assert headers["X-GitHub-Api-Version"] == "2022-11-28"
    assert headers["Accept"] == "application/vnd.github+json"
    wanted = described.get("requestBody")
    assert bool(sent) == bool(wanted), "a body where none is described, or none where one is"
    if not wanted:
        return None
    body = json.loads(sent)
    schema = wanted["content"]["application/json"]["schema"]
    _validator(json.dumps(schema)).validate(body)
    assert set(body) <= set(schema["properties"]), "unknown fields"
    return body


def checked_answer(method: str, operation: str, status: int, said: Any) -> Any:
    """What was said with all that GitHub says besides, valid by the description."""
    answers = DESCRIPTION["paths"][operation][method.lower()]["responses"]
    if status >= 400 and str(status) not in answers:
        return said  # refusals that every operation may answer with
    described = _resolved(answers[str(status)])
    if said is None:
        assert not described.get("content")
        return None
    schema = described["content"]["application/json"]["schema"]
    whole = _completed(schema, said)
    _validator(json.dumps(schema)).validate(whole)
    return whole


@cache
def _validator(schema: str) -> Draft202012Validator:
    document = {**_with_null(json.loads(schema)), "components": _with_null(DESCRIPTION["components"])}
    return Draft202012Validator(document, format_checker=FormatChecker())


def _with_null(node: Any) -> Any:
    """Schemas of OpenAPI 3.0 as those of JSON Schema, which write `nullable` as a type."""
    if isinstance(node, list):
        return [_with_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {name: _with_null(value) for name, value in node.items() if name != "nullable"}
    return {"anyOf": [made, {"type": "null"}]} if node.get("nullable") is True else made


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        *_, kind, name = node["$ref"].split("/")
        node = DESCRIPTION["components"][kind][name]
    return node


def _completed(schema: dict[str, Any], said: Any) -> Any:
    """The value with every field that the schema requires."""
    schema = _resolved(schema)
    if "allOf" in schema:
        parts = [_completed(part, said) for part in schema["allOf"]]
        return (
            {name: value for part in parts for name, value in part.items()}
            if isinstance(said, dict)
            else parts[0]
        )
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _completed(_fitting(schema[several], said), said)
    if isinstance(said, list):
        return [_completed(schema["items"], item) for item in said]
    if not isinstance(said, dict):
        return said
    known = schema.get("properties", {})
    made = {name: _completed(known[name], value) if name in known else value for name, value in said.items()}
    return {name: _least(known[name]) for name in schema.get("required", ()) if name not in made} | made


def _fitting(schemas: list[dict[str, Any]], said: Any) -> dict[str, Any]:
    """The first of the schemas that knows all the fields."""
    names = set(said) if isinstance(said, dict) else set()
    return next(s for s in schemas if names <= set(_resolved(s).get("properties", {})))


def _least(schema: dict[str, Any]) -> Any:
    """The least value that fits."""
    schema = _resolved(schema)
    if schema.get("nullable"):
        return None
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return _least(schema[several][0])
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "string":
            return {"uri": "https://example.org/", "date-time": "2026-01-01T00:00:00Z"}.get(
                schema.get("format"), "x"
            )
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "array":
            return []
        case _:
            return _completed(schema, {})
