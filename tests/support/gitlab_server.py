"""The people and pull requests of a local GitHub, as GitLab shows them.

Every request and every answer is checked against GitLab's own client (`gitlab_api.json`, cut from its Go module by
tools/gitlab_description.py). GraphQL has no such description there: the query is compared as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator, FormatChecker

from tests.support.github_server import TOKEN, LocalGitHub, Pull, served

OPERATIONS = json.loads(Path(__file__).with_name("gitlab_api.json").read_text(encoding="utf-8"))["operations"]
BOT = "project_42_bot_0123456789abcdef"
PROJECT = 42
PATH = "shop/lake"
GRAPHQL = "/graphql"
LEVELS = {"read": 20, "write": 30, "admin": 40}
QUERY = """query($project: ID!, $number: String!, $after: String) { project(fullPath: $project) {
    mergeRequest(iid: $number) { commitCount committers(first: 100) { nodes { username } pageInfo { hasNextPage } }
    commits(first: 100, after: $after) { nodes { sha author { username } } pageInfo { hasNextPage endCursor } }
    } } }"""


@dataclass
class LocalGitLab(LocalGitHub):
    """A project of GitLab. A version comes with every push and every other base; approvals outlive them."""

    root = "/api/v4"
    bot: str = BOT
    versions: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    says_when: bool = True
    """Whether approvals have their time, as those of newer servers do."""

    def __post_init__(self) -> None:
        self.people[BOT] = "write"
        self.tokens = {TOKEN: BOT}

    def open(self, head: str, *, author: str = "adam", base: str = "main") -> Pull:
        pull = super().open(head, author=author, base=base)
        self._version(pull)
        return pull

    def push(self, pull: Pull, head: str, *, force: bool = False) -> None:
        super().push(pull, head, force=force)
        self._version(pull)

    def change_base(self, pull: Pull) -> None:
        self._version(pull)

    def _version(self, pull: Pull) -> None:
        made = {"id": self.number(), "head_commit_sha": pull.head, "created_at": self.tick()}
        self.versions.setdefault(pull.number, []).insert(0, made)

    def operation_of(self, method: str, path: str) -> tuple[str, dict[str, str]]:
        if (method, path) == ("POST", "/api/graphql"):
            return GRAPHQL, {}
        assert path.startswith(self.root), path
        for operation in OPERATIONS:
            verb, template = operation.split(" ")
            found = re.fullmatch(
                re.escape(template).replace(r"\{\}", "([^/]+)"), path.removeprefix(self.root)
            )
            if verb == method and found:
                return operation, {str(n): unquote(value) for n, value in enumerate(found.groups())}
        raise AssertionError("the client has no such call")

    def checked_request(
        self, method: str, operation: str, query: Mapping[str, str], sent: bytes, headers: Any
    ) -> Any:
        body = json.loads(sent) if sent else None
        if operation == GRAPHQL:
            assert body["query"].split() == QUERY.split()
            assert set(body["variables"]) == {"project", "number", "after"}
            return body
        known = OPERATIONS[operation]
        is_list = "array" in (known["answer"] or {}).get("type", ())
        paging = {"per_page", "page"} if is_list else set()
        assert set(query) <= set(known["parameters"]) | paging, f"{set(query)} are no parameters"
        assert bool(sent) == (method in ("POST", "PUT"))
        if body is None:
            return None
        assert set(body) <= set(known["parameters"]), "unknown fields"
        for name, value in body.items():
            _validator(json.dumps(known["parameters"][name])).validate(value)
        return body

    def checked_answer(self, method: str, operation: str, status: int, said: Any) -> Any:
        if status >= 400 or operation == GRAPHQL:
            return said
        schema = OPERATIONS[operation]["answer"]
        if schema is None:
            assert said is None
            return None
        _validator(json.dumps(schema)).validate(said)
        return _completed(schema, said)

    def may_send(self, method: str, operation: str, token: str) -> bool:
        return method == "GET" or operation == GRAPHQL or token not in self.readers

    def answer(
        self, method: str, operation: str, given: Mapping[str, str], body: Any, login: str
    ) -> tuple[int, Any]:
        if operation == GRAPHQL:
            return 200, {"data": {"project": {"mergeRequest": self._written(body["variables"])}}}
        verb, path = operation.split(" ")
        match path:
            case "/user":
                return 200, self._user(login, whole=True)
            case "/users":
                wanted = given["username"].casefold()
                return 200, [self._user(one) for one in self.people if one.casefold() == wanted]
            case "/users/{}":
                (one,) = (login for login, number in self.numbers.items() if number == int(given["0"]))
                return 200, self._user(one, whole=True)
        if given["0"] not in (str(PROJECT), PATH):
            return 404, {"message": "404 Project Not Found"}
        match verb, path.removeprefix("/projects/{}"):
            case _, "":
                return 200, {"id": PROJECT, "path_with_namespace": PATH, "default_branch": "main"}
            case _, "/members/all/{}":
                for one, number in self.numbers.items():
                    if number == int(given["1"]) and one in self.people:
                        return 200, self._user(one) | {"access_level": LEVELS[self.people[one]]}
                return 404, {"message": "404 Not found"}
            case _, "/merge_requests":
                assert given["state"] == "opened"
                pulls = [p for p in self.pulls.values() if p.merged_as is None]
                return 200, [self._merge_request(p) for p in pulls if p.base == given["target_branch"]]
            case _, "/repository/commits/{}/merge_requests":
                related = [p for p in self.pulls.values() if given["1"] in (p.head, p.merged_as, *p.brought)]
                return 200, [self._merge_request(p) for p in related]
            case _, "/repository/commits/{}/statuses":
                assert given["all"] == "true"
                return 200, [self._status(given["1"], s) for s in self.statuses.get(given["1"], [])]
            case _, "/statuses/{}":
                state = {"failed": "failure"}.get(body["state"], body["state"])
                made = self.status(given["1"], login, body["name"], body["description"], state)
                return 201, self._status(given["1"], made)
        pull = self.pulls.get(int(given["1"]))
        if pull is None:
            return 404, {"message": "404 Not found"}
        return self._of_pull(
            pull, verb, path.removeprefix("/projects/{}/merge_requests/{}"), given, body, login
        )

    def _of_pull(
        self, pull: Pull, verb: str, path: str, given: Mapping[str, str], body: Any, login: str
    ) -> tuple[int, Any]:
        match verb, path:
            case _, "":
                return 200, self._merge_request(pull)
            case _, "/versions":
                return 200, self.versions[pull.number]
            case _, "/approvals":
                stand = [said for said in self._verdicts(pull) if said["state"] == "APPROVED"]
                return 200, {"approved": bool(stand), "approved_by": [self._approval(said) for said in stand]}
            case _, "/reviewers":
                return 200, [
                    {
                        "user": self._user(said["user"]["login"]),
                        "state": "requested_changes"
                        if said["state"] == "CHANGES_REQUESTED"
                        else "unreviewed",
                        "created_at": said["submitted_at"],
                    }
                    for said in self._verdicts(pull)
                ]
            case "GET", "/notes":
                noted = {"id": 1, "body": "approved this merge request", "author": self._user("adam")}
                return 200, [noted | {"system": True}, *map(self._note, pull.comments)]
            case "POST", "/notes":
                assert not re.search(r"^\s*/", body["body"], re.MULTILINE), "a command"
                return 201, self._note(self.comment(pull, login, body["body"]))
        for comment in pull.comments:
            if comment["id"] == int(given["2"]):
                if comment["user"]["login"] != login:
                    return 403, {"message": "403 Forbidden"}
                if verb == "DELETE":
                    pull.comments.remove(comment)
                    return 204, None
                comment["body"] = body["body"]
                return 200, self._note(comment)
        return 404, {"message": "404 Not found"}

    def _verdicts(self, pull: Pull) -> list[dict[str, Any]]:
        """The newest verdict of each person; comments are none."""
        said = [one for one in pull.reviews if one["state"] != "COMMENTED"]
        return list({one["user"]["login"]: one for one in said}.values())

    def _approval(self, said: dict[str, Any]) -> dict[str, Any]:
        user = {"user": self._user(said["user"]["login"])}
        return user | ({"approved_at": said["submitted_at"]} if self.says_when else {})

    def _user(self, login: str, *, whole: bool = False) -> dict[str, Any]:
        number = self.numbers.setdefault(login, 100 + len(self.numbers))
        basic = {"id": number, "username": login, "name": login.title(), "state": "active"}
        return basic | ({"bot": login == BOT or login.endswith("[bot]")} if whole else {})

    def _merge_request(self, pull: Pull) -> dict[str, Any]:
        became = None if pull.merged_as == pull.head else pull.merged_as
        is_ours = pull.repository == PATH
        return {
            "id": 9000 + pull.number,
            "iid": pull.number,
            "author": self._user(pull.author),
            "sha": pull.head,
            "target_branch": pull.base,
            "target_project_id": PROJECT if is_ours else PROJECT + 1,
            "source_project_id": PROJECT + 1 if pull.is_fork else PROJECT,
            "state": "merged" if pull.merged_as else "opened",
            "merge_commit_sha": None if pull.is_squashed else became,
            "squash_commit_sha": became if pull.is_squashed else None,
        }

    def _status(self, commit: str, said: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": said["id"],
            "sha": commit,
            "ref": "change",
            "name": said["context"],
            "description": said["description"],
            "status": {"failure": "failed"}.get(said["state"], said["state"]),
            "author": self._user(said["creator"]["login"]),
            "created_at": said.get("begun_at", said["created_at"]),
            "finished_at": said["created_at"],
        }

    def _note(self, comment: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": comment["id"],
            "body": comment["body"],
            "author": self._user(comment["user"]["login"]),
            "system": False,
            "created_at": comment["created_at"],
        }

    def _written(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The page of commits after a cursor, and everybody who committed one."""
        assert variables["project"] == PATH
        pull = self.pulls[int(variables["number"])]
        begin, size = int(variables["after"] or 0), self.most_on_a_page
        names = [f"{number:040x}" for number in range(1, len(pull.commits))] + [pull.head]
        nodes = [
            {"sha": name, "author": author and {"username": author}}
            for name, (author, _) in zip(names, pull.commits, strict=True)
        ]
        committers = sorted({committer for _, committer in pull.commits if committer})
        has_more = begin + size < len(nodes)
        return {
            "commitCount": len(nodes),
            "committers": {
                "nodes": [{"username": one} for one in committers[:100]],
                "pageInfo": {"hasNextPage": len(committers) > 100},
            },
            "commits": {
                "nodes": nodes[begin : begin + size],
                "pageInfo": {"hasNextPage": has_more, "endCursor": str(begin + size)},
            },
        }


@contextmanager
def local_gitlab(**options: Any) -> Iterator[LocalGitLab]:
    """A local GitLab, served."""
    forge = LocalGitLab(**options)
    with served(forge):
        yield forge


def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema), format_checker=FormatChecker())


def _completed(schema: dict[str, Any], said: Any) -> Any:
    """The value with every field that the client knows; what the model does not have is null."""
    if isinstance(said, list):
        return [_completed(schema.get("items", {}), item) for item in said]
    if not isinstance(said, dict):
        return said
    known = schema.get("properties", {})
    made = {name: _completed(known.get(name, {}), value) for name, value in said.items()}
    return dict.fromkeys(known) | made
