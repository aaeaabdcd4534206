"""GitLab as a forge: its REST API, and its GraphQL API for the authors of commits.

GitLab does not report the commit of an approval. It reports the time of the approval, and the time of each
version of a merge request. So an approval counts for the head of the version that was the newest then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from parquetry.compiler.review.answers import commit_of, moment_at, number_at, read, text_at, value_at
from parquetry.compiler.review.forge import (
    Account,
    CheckState,
    Comment,
    CommitCheck,
    ForgeError,
    OpenPullRequest,
    PullRequest,
    Review,
    ReviewVerdict,
)
from parquetry.compiler.review.http import JsonClient, NotThereError
from parquetry.errors import UsageError
from parquetry.text.printable import quoted

ADDRESS: Final = "https://gitlab.com/api/v4"

_FORGE: Final = "GitLab"
_REST: Final = "/v4"
_PROJECT: Final = re.compile(r"[0-9]+|[\w.-]+(/[\w.-]+)+")
_DEVELOPER: Final = 30
"""The lowest access level that may push."""

_STATES: Final[Mapping[CheckState, str]] = {CheckState.SUCCESS: "success", CheckState.FAILURE: "failed"}
_OF_STATES: Final = {word: str(state) for state, word in _STATES.items()}
_COMMAND: Final = re.compile(r"^(\s*)/", re.MULTILINE)
_WORD_JOINER: Final = "\u2060"
_AUTHORS: Final = """
query($project: ID!, $number: String!, $after: String) {
  project(fullPath: $project) {
    mergeRequest(iid: $number) {
      commitCount
      committers(first: 100) { nodes { username } pageInfo { hasNextPage } }
      commits(first: 100, after: $after) {
        nodes { sha author { username } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}"""
_Read = TypeVar("_Read")


def gitlab(project: str, *, token: str, address: str = ADDRESS) -> GitLab:
    """Return the project with this number or path on GitLab, or on a server whose API is at ``address``.

    Raises:
        UsageError: if the project or the address does not have the right form.

    """
    if not _PROJECT.fullmatch(project) or {".", ".."} & set(project.split("/")):
        raise UsageError(
            "{project} is not a GitLab project: write its number or GROUP/PROJECT", project=quoted(project)
        )
    base = address.rstrip("/")
    if not base.endswith(f"/api{_REST}"):
        raise UsageError(
            "{address} is not the address of a GitLab API, which ends with /api/v4", address=quoted(address)
        )
    headers = {"Accept": "application/json", "Authorization": f"Bearer {token}"}
    client = JsonClient(address=base.removesuffix(_REST), headers=headers)
    return GitLab(repository=project, client=client)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitLab:
    """A project on GitLab; ``repository`` is its number or path, as given."""

    repository: str
    client: JsonClient = field(repr=False)

    def identity(self) -> Account:
        """Return the account of the token."""
        return read(_FORGE, "the user", self.client.get(f"{_REST}/user"), _account)

    def default_branch(self) -> str:
        """Return the project's default branch."""
        return read(_FORGE, "the project", self._get(""), lambda entry: text_at(entry, "default_branch"))

    def pull_request(self, number: int) -> PullRequest:
        """Return the merge request with this number."""
        own = read(_FORGE, "the project", self._get(""), _id)
        target, named = read(
            _FORGE, "a merge request", self._get(f"/merge_requests/{number:d}"), _pull_request
        )
        return named(self.repository if target == own else str(target))

    def open_pull_requests(self, branch: str) -> tuple[OpenPullRequest, ...]:
        """Return the open merge requests into the branch, the oldest first."""
        query = {"state": "opened", "target_branch": branch, "order_by": "created_at", "sort": "asc"}
        return self._list("/merge_requests", "merge requests", _open_pull_request, **query)

    def pull_requests_of(self, commit: str) -> tuple[PullRequest, ...]:
        """Return the merge requests that GitLab associates with the commit, each one requested in full."""
        path = f"/repository/commits/{commit_of(commit)}/merge_requests"
        found = self._list(path, "merge requests", _iid)
        return tuple(map(self.pull_request, sorted(set(found))))

    def reviews(self, pull: PullRequest) -> tuple[Review, ...]:
        """Return the valid approvals, and then the requests for changes, which replace approvals.

        Those of deleted accounts are left out.

        Raises:
            ForgeError: if the server does not report the time of an approval.

        """
        path = f"/merge_requests/{pull.number:d}"
        approvals = read(_FORGE, "approvals", self._get(f"{path}/approvals"), _approvals)
        versions = self._versions(pull)
        given = [self._approval(entry, versions) for entry in approvals]
        refused = self._list(f"{path}/reviewers", "reviewers", _change_request)
        found = [*given, *(review for review in refused if review is not None)]
        return tuple(numbered(number) for number, numbered in enumerate(found))

    def commit_authors(self, pull: PullRequest) -> frozenset[str]:
        """Return the logins of authors and committers.

        Raises:
            ForgeError: if GitLab does not list all commits or committers.

        """
        path = read(_FORGE, "the project", self._get(""), lambda entry: text_at(entry, "path_with_namespace"))
        logins: set[str] = set()
        commits: set[str] = set()
        after: str | None = None
        while True:
            asked = {"project": path, "number": str(pull.number), "after": after}
            sent = {"query": _AUTHORS, "variables": asked}
            answer = self.client.send("POST", "/graphql", sent, repeatable=True)
            page = read(_FORGE, "authors", answer, _authors)
            is_new = not page.commits <= commits
            logins |= page.logins
            commits |= page.commits
            after = page.after
            if after is None or not is_new:
                break
        if len(commits) != page.count or pull.head not in commits or not page.has_all_committers:
            raise ForgeError(
                "merge request {merge_request} has {commits} commits, and GitLab lists {listed_commits}, "
                "or not all of their authors; the other authors are unknown: split the merge request",
                merge_request=pull.number,
                commits=page.count,
                listed_commits=len(commits),
            )
        return frozenset(logins)

    def last_reset(self, pull: PullRequest) -> datetime:
        """Return the time of its newest version; each push and each change of base makes a version."""
        return self._versions(pull)[-1].created

    def may_write(self, account: Account) -> bool:
        """Return whether the account is an active member with the right to push."""
        query = urlencode({"username": account.login})
        users = read(_FORGE, "users", self.client.get(f"{_REST}/users?{query}"), _items)
        numbers = [read(_FORGE, "a user", user, _id) for user in users if _is(user, account)]
        if len(numbers) != 1:
            return False
        with suppress(NotThereError):
            return read(_FORGE, "a member", self._get(f"/members/all/{numbers[0]:d}"), _may_push)
        return False

    def checks(self, commit: str) -> tuple[CommitCheck, ...]:
        """Return the commit's statuses, the oldest first."""
        path = f"/repository/commits/{commit_of(commit)}/statuses"
        found = self._list(path, "statuses", _check, all="true")
        return tuple(sorted(found, key=lambda check: (check.created, check.number)))

    def set_check(self, commit: str, *, name: str, state: CheckState, text: str) -> None:
        """Set a status of the commit."""
        sent = {"state": _STATES[state], "name": name, "description": text}
        self._send("POST", f"/statuses/{commit_of(commit)}", sent, repeatable=True)

    def comments(self, pull: PullRequest) -> tuple[Comment, ...]:
        """Return the notes of users, the oldest first, without GitLab's own."""
        found = self._list(f"/merge_requests/{pull.number:d}/notes", "notes", _comment, sort="asc")
        notes = (comment for comment in found if comment is not None)
        return tuple(sorted(notes, key=lambda comment: comment.number))

    def add_comment(self, pull: PullRequest, text: str) -> Comment:
        """Add a note and return it."""
        sent = {"body": _without_commands(text)}
        answer = self._send("POST", f"/merge_requests/{pull.number:d}/notes", sent, repeatable=False)
        added = read(_FORGE, "a note", answer, _comment)
        if added is None:
            raise ForgeError("GitLab turned the comment into a system note; check whether it was posted")
        return added

    def replace_comment(self, pull: PullRequest, comment: Comment, text: str) -> None:
        """Replace the text of a note."""
        sent = {"body": _without_commands(text)}
        self._send("PUT", _note(pull, comment), sent, repeatable=True)

    def delete_comment(self, pull: PullRequest, comment: Comment) -> None:
        """Delete a note; do nothing if it is already deleted."""
        with suppress(NotThereError):
            self._send("DELETE", _note(pull, comment), None, repeatable=True)

    def _approval(self, entry: Any, versions: tuple[_Version, ...]) -> Callable[[int], Review]:
        """Read an approval; return a function from its number in the list to the review."""
        if not isinstance(entry, dict) or not isinstance(entry.get("approved_at"), str):
            raise ForgeError(
                "this GitLab does not return the time of an approval (approved_at), so the approved "
                "commit is unknown; update the server"
            )
        submitted = read(_FORGE, "an approval", entry, lambda given: moment_at(given, "approved_at"))
        number = read(_FORGE, "an approval", entry, lambda given: _id(value_at(given, "user")))
        reviewer = read(_FORGE, "a user", self.client.get(f"{_REST}/users/{number:d}"), _account)
        heads = [version.head for version in versions if version.created < submitted]
        commit = heads[-1] if heads else None
        return lambda order: Review(
            number=order,
            reviewer=reviewer,
            verdict=ReviewVerdict.APPROVED,
            commit=commit,
            submitted=submitted,
        )

    def _versions(self, pull: PullRequest) -> tuple[_Version, ...]:
        """Return the versions of the merge request, the oldest first.

        Raises:
            ForgeError: if the newest version does not have the head commit of ``pull``.
        """
        found = self._list(f"/merge_requests/{pull.number:d}/versions", "versions", _version)
        versions = tuple(sorted(found, key=lambda version: version.number))
        if not versions or versions[-1].head != pull.head:
            raise ForgeError(
                "GitLab has no version of merge request {merge_request} with its head commit yet; try "
                "again later",
                merge_request=pull.number,
            )
        return versions

    def _get(self, path: str) -> Any:
        return self.client.get(f"{self._path}{path}")

    def _list(self, path: str, what: str, reader: Callable[[Any], _Read], **query: str) -> tuple[_Read, ...]:
        """Return all entries of a list, converted by ``reader``; errors name an entry as ``what``."""
        items = self.client.pages(f"{self._path}{path}", **query)
        return tuple(read(_FORGE, what, item, reader) for item in items)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, *, repeatable: bool) -> Any:
        return self.client.send(method, f"{self._path}{path}", body, repeatable=repeatable)

    @property
    def _path(self) -> str:
        return f"{_REST}/projects/{quote(self.repository, safe='')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    number: int
    head: str
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Authors:
    """A page of commits and their authors; ``after`` is the cursor of the next page, None on the last."""

    count: int
    commits: frozenset[str]
    logins: frozenset[str]
    has_all_committers: bool
    after: str | None


def _without_commands(text: str) -> str:
    """Return the text with no line that begins with a slash, as GitLab executes such lines as commands."""
    return _COMMAND.sub(rf"\1{_WORD_JOINER}/", text)


def _note(pull: PullRequest, comment: Comment) -> str:
    """Return the path of a comment of the merge request."""
    return f"/merge_requests/{pull.number:d}/notes/{comment.number:d}"


def _items(document: Any) -> list[Any]:
    """Return a JSON document that is a list; raise TypeError for another type."""
    if not isinstance(document, list):
        raise TypeError("a list")
    return document


def _id(entry: Any) -> int:
    return number_at(entry, "id")


def _iid(entry: Any) -> int:
    """Return the number of a merge request within its project."""
    return number_at(entry, "iid")


def _is(user: Any, account: Account) -> bool:
    """Return whether a user in an answer has the login of the account."""
    return account.is_named(read(_FORGE, "a user", user, lambda entry: text_at(entry, "username")))


def _account(entry: Any) -> Account:
    """Read an account; it counts as a person only if GitLab reports it as active and as no bot.

    Short mentions of accounts in other answers lack these fields, so they do not count as persons.
    """
    is_active = text_at(entry, "state") == "active"
    return Account(login=text_at(entry, "username"), is_person=is_active and entry.get("bot") is False)


def _maybe_account(entry: Any) -> Account | None:
    """Read an account, or return None for a deleted one."""
    return None if entry is None else _account(entry)


def _maybe_commit(value: Any) -> str | None:
    """Return a full commit hash, or None for null."""
    return None if value is None else commit_of(value)


def _pull_request(entry: Any) -> tuple[int, Callable[[str], PullRequest]]:
    """Return the number of the target project, and a function from that project's name to the merge request.

    Its commit on the branch is the merge commit; without one the squash commit, or the head (a fast-forward).
    """
    head = commit_of(value_at(entry, "sha"))
    commits = [_maybe_commit(value_at(entry, name)) for name in ("merge_commit_sha", "squash_commit_sha")]
    became = next((commit for commit in commits if commit is not None), head)
    is_merged = text_at(entry, "state") == "merged"
    number, author = _iid(entry), _maybe_account(value_at(entry, "author"))
    base = text_at(entry, "target_branch")
    return number_at(entry, "target_project_id"), lambda repository: PullRequest(
        number=number,
        author=author,
        head=head,
        base=base,
        base_repository=repository,
        is_merged=is_merged,
        merge_commit=became if is_merged else None,
        commits=None,
    )


def _open_pull_request(entry: Any) -> OpenPullRequest:
    """Read an open merge request; it counts as a fork unless its commits are in the target project."""
    is_own = value_at(entry, "source_project_id") == number_at(entry, "target_project_id")
    return OpenPullRequest(number=_iid(entry), head=commit_of(value_at(entry, "sha")), is_fork=not is_own)


def _approvals(entry: Any) -> list[Any]:
    """Return the approvals in an answer, without those of deleted accounts."""
    given = _items(value_at(entry, "approved_by"))
    return [approval for approval in given if value_at(approval, "user") is not None]


def _change_request(entry: Any) -> Callable[[int], Review] | None:
    """Read a reviewer who requests changes; return None for another state or a deleted account."""
    if text_at(entry, "state") != "requested_changes" or value_at(entry, "user") is None:
        return None
    reviewer, submitted = _account(value_at(entry, "user")), moment_at(entry, "created_at")
    return lambda order: Review(
        number=order,
        reviewer=reviewer,
        verdict=ReviewVerdict.CHANGES_REQUESTED,
        commit=None,
        submitted=submitted,
    )


def _version(entry: Any) -> _Version:
    """Read a version of a merge request."""
    return _Version(
        number=_id(entry),
        head=commit_of(value_at(entry, "head_commit_sha")),
        created=moment_at(entry, "created_at"),
    )


def _authors(document: Any) -> _Authors:
    """Read one page of a merge request's commits with their authors, and its committers."""
    if isinstance(document, dict) and document.get("errors"):
        raise ValueError("errors")
    found = value_at(document, "data", "project", "mergeRequest")
    committers, commits = value_at(found, "committers"), value_at(found, "commits")
    nodes = _items(value_at(commits, "nodes"))
    people = [value_at(node, "author") for node in nodes] + _items(value_at(committers, "nodes"))
    is_last = value_at(commits, "pageInfo", "hasNextPage") is False
    return _Authors(
        count=number_at(found, "commitCount"),
        commits=frozenset(commit_of(value_at(node, "sha")) for node in nodes),
        logins=frozenset(text_at(person, "username") for person in people if person is not None),
        has_all_committers=value_at(committers, "pageInfo", "hasNextPage") is False,
        after=None if is_last else text_at(commits, "pageInfo", "endCursor"),
    )


def _may_push(entry: Any) -> bool:
    """Return whether a member is active and at least a developer."""
    return number_at(entry, "access_level") >= _DEVELOPER and text_at(entry, "state") == "active"


def _check(entry: Any) -> CommitCheck:
    """Read a status. Its time is that of its end, because a pending status can still get another text."""
    text, state = value_at(entry, "description"), text_at(entry, "status")
    begun = moment_at(entry, "created_at")
    has_ended = value_at(entry, "finished_at") is not None
    return CommitCheck(
        number=_id(entry),
        name=text_at(entry, "name"),
        state=_OF_STATES.get(state, state),
        text="" if text is None else text_at(entry, "description"),
        author=_maybe_account(value_at(entry, "author")),
        created=max(begun, moment_at(entry, "finished_at")) if has_ended else begun,
    )


def _comment(entry: Any) -> Comment | None:
    """Read a note; return None for GitLab's own notes."""
    if value_at(entry, "system") is not False:
        return None
    return Comment(
        number=_id(entry), author=_maybe_account(value_at(entry, "author")), text=text_at(entry, "body")
    )
