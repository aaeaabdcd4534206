"""GitHub as a forge: its REST API, with a check of each value in an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

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
from parquetry.compiler.review.http import JsonClient, NotAllowedError, NotThereError
from parquetry.errors import UsageError
from parquetry.text.printable import quoted

ADDRESS: Final = "https://api.github.com"

_VERSION: Final = "2022-11-28"
_REPOSITORY: Final = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_RESETS: Final = ("head_ref_force_pushed", "base_ref_changed")
_WRITE: Final = ("admin", "write")
_PERSON: Final = "User"
_FORGE: Final = "GitHub"
_Read = TypeVar("_Read")


def github(repository: str, *, token: str, address: str = ADDRESS) -> GitHub:
    """Return the repository ``OWNER/NAME`` on GitHub, or on a server whose API is at ``address``.

    Raises:
        UsageError: if the name does not have this form.

    """
    if not _REPOSITORY.fullmatch(repository) or {".", ".."} & set(repository.split("/")):
        raise UsageError(
            "{repository} is not a GitHub repository: write OWNER/NAME", repository=quoted(repository)
        )
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {token}",
        "X-GitHub-Api-Version": _VERSION,
    }
    return GitHub(repository=repository, client=JsonClient(address=address, headers=headers))


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHub:
    """A repository on GitHub."""

    repository: str
    client: JsonClient = field(repr=False)

    def identity(self) -> Account | None:
        """Return the account of the token, or None, as GitHub hides it from tokens of workflows and apps."""
        with suppress(NotAllowedError, NotThereError):
            return read(_FORGE, "the user", self.client.get("/user"), _account)
        return None

    def default_branch(self) -> str:
        """Return the repository's default branch."""
        return read(_FORGE, "the repository", self._get(""), lambda entry: text_at(entry, "default_branch"))

    def pull_request(self, number: int) -> PullRequest:
        """Return the pull request with this number."""
        return read(_FORGE, "a pull request", self._get(f"/pulls/{number:d}"), _pull_request)

    def open_pull_requests(self, branch: str) -> tuple[OpenPullRequest, ...]:
        """Return the open pull requests into the branch, the oldest first."""
        path = f"/repos/{self.repository}/pulls"
        items = self.client.pages(path, state="open", base=branch, sort="created", direction="asc")
        return tuple(read(_FORGE, "pull requests", item, _open_pull_request) for item in items)

    def pull_requests_of(self, commit: str) -> tuple[PullRequest, ...]:
        """Return the pull requests that GitHub associates with the commit, each one requested in full."""
        found = self._list(f"/commits/{commit_of(commit)}/pulls", "pull requests", number_at)
        return tuple(map(self.pull_request, sorted(found)))

    def reviews(self, pull: PullRequest) -> tuple[Review, ...]:
        """Return the verdicts, the oldest first, without those of deleted accounts."""
        found = self._list(f"/pulls/{pull.number:d}/reviews", "reviews", _review)
        verdicts = (review for review in found if review is not None)
        return tuple(sorted(verdicts, key=lambda review: (review.submitted, review.number)))

    def commit_authors(self, pull: PullRequest) -> frozenset[str]:
        """Return the logins of authors and committers.

        Raises:
            ForgeError: if GitHub does not list all commits.

        """
        found = self._list(f"/pulls/{pull.number:d}/commits", "commits", _authors)
        if len(found) != pull.commits:
            raise ForgeError(
                "pull request {pull_request} has {commits} commits, and GitHub lists {listed_commits}; "
                "the authors of the others are unknown: split the pull request",
                pull_request=pull.number,
                commits=pull.commits,
                listed_commits=len(found),
            )
        return frozenset().union(*found)

    def last_reset(self, pull: PullRequest) -> datetime | None:
        """Return the time of the last forced push or change of base, or None."""
        found = self._list(f"/issues/{pull.number:d}/timeline", "events", _reset_at)
        return max((moment for moment in found if moment is not None), default=None)

    def may_write(self, account: Account) -> bool:
        """Return whether the account has the permission to push."""
        with suppress(NotThereError):
            document = self._get(f"/collaborators/{quote(account.login, safe='')}/permission")
            return (
                read(_FORGE, "a permission", document, lambda entry: text_at(entry, "permission")) in _WRITE
            )
        return False

    def checks(self, commit: str) -> tuple[CommitCheck, ...]:
        """Return the commit's statuses, the oldest first."""
        found = self._list(f"/commits/{commit_of(commit)}/statuses", "statuses", _check)
        return tuple(sorted(found, key=lambda check: check.number))

    def set_check(self, commit: str, *, name: str, state: CheckState, text: str) -> None:
        """Set a status of the commit."""
        body = {"state": str(state), "context": name, "description": text}
        self._send("POST", f"/statuses/{commit_of(commit)}", body, repeatable=True)

    def comments(self, pull: PullRequest) -> tuple[Comment, ...]:
        """Return the comments, the oldest first."""
        found = self._list(f"/issues/{pull.number:d}/comments", "comments", _comment)
        return tuple(sorted(found, key=lambda comment: comment.number))

    def add_comment(self, pull: PullRequest, text: str) -> Comment:
        """Add a comment and return it."""
        path = f"/issues/{pull.number:d}/comments"
        return read(_FORGE, "a comment", self._send("POST", path, {"body": text}, repeatable=False), _comment)

    def replace_comment(self, _: PullRequest, comment: Comment, text: str) -> None:
        """Replace the text of a comment."""
        self._send("PATCH", f"/issues/comments/{comment.number:d}", {"body": text}, repeatable=True)

    def delete_comment(self, _: PullRequest, comment: Comment) -> None:
        """Delete a comment; do nothing if it is already deleted."""
        with suppress(NotThereError):
            self._send("DELETE", f"/issues/comments/{comment.number:d}", None, repeatable=True)

    def _get(self, path: str) -> Any:
        return self.client.get(f"/repos/{self.repository}{path}")

    def _list(self, path: str, what: str, reader: Callable[[Any], _Read]) -> tuple[_Read, ...]:
        """Return all entries of a list, converted by ``reader``; errors name an entry as ``what``."""
        return tuple(
            read(_FORGE, what, item, reader) for item in self.client.pages(f"/repos/{self.repository}{path}")
        )

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, *, repeatable: bool) -> Any:
        return self.client.send(method, f"/repos/{self.repository}{path}", body, repeatable=repeatable)


def _account(entry: Any) -> Account:
    """Read an account; GitHub's type tells persons from bots."""
    return Account(login=text_at(entry, "login"), is_person=text_at(entry, "type") == _PERSON)


def _maybe_account(entry: Any) -> Account | None:
    """Read an account, or return None for a deleted one."""
    return None if entry is None else _account(entry)


def _pull_request(entry: Any) -> PullRequest:
    """Read a pull request; raise an error for a missing or wrong value."""
    merged = value_at(entry, "merged")
    if not isinstance(merged, bool):
        raise TypeError("merged")
    became = value_at(entry, "merge_commit_sha")
    return PullRequest(
        number=number_at(entry),
        author=_maybe_account(value_at(entry, "user")),
        head=commit_of(value_at(entry, "head", "sha")),
        base=text_at(entry, "base", "ref"),
        base_repository=text_at(entry, "base", "repo", "full_name"),
        is_merged=merged,
        merge_commit=None if became is None else commit_of(became),
        commits=number_at(entry, "commits"),
    )


def _open_pull_request(entry: Any) -> OpenPullRequest:
    """Read an open pull request; it counts as a fork unless its commits are in the target repository."""
    origin = value_at(entry, "head", "repo")  # null for a deleted fork
    is_own = origin is not None and number_at(origin, "id") == number_at(
        value_at(entry, "base", "repo"), "id"
    )
    return OpenPullRequest(
        number=number_at(entry), head=commit_of(value_at(entry, "head", "sha")), is_fork=not is_own
    )


def _review(entry: Any) -> Review | None:
    """Read a review; return None if it is not a verdict or its reviewer's account is deleted."""
    state, reviewer = text_at(entry, "state"), _maybe_account(value_at(entry, "user"))
    if reviewer is None or state not in list(ReviewVerdict):
        return None
    commit = value_at(entry, "commit_id")
    return Review(
        number=number_at(entry, "id"),
        reviewer=reviewer,
        verdict=ReviewVerdict(state),
        commit=None if commit is None else commit_of(commit),
        submitted=moment_at(entry, "submitted_at"),
    )


def _authors(entry: Any) -> frozenset[str]:
    """Return the logins of a commit's author and committer, as far as they have accounts."""
    people = (value_at(entry, name) for name in ("author", "committer"))
    return frozenset(text_at(person, "login") for person in people if person)


def _reset_at(entry: Any) -> datetime | None:
    """Return the time of an event that is a forced push or a change of base, or None for another event."""
    is_reset = isinstance(entry, dict) and entry.get("event") in _RESETS
    return moment_at(entry, "created_at") if is_reset else None


def _check(entry: Any) -> CommitCheck:
    """Read a commit's status."""
    text = value_at(entry, "description")
    return CommitCheck(
        number=number_at(entry, "id"),
        name=text_at(entry, "context"),
        state=text_at(entry, "state"),
        text="" if text is None else text_at(entry, "description"),
        author=_maybe_account(value_at(entry, "creator")),
        created=moment_at(entry, "created_at"),
    )


def _comment(entry: Any) -> Comment:
    """Read a comment; its author is None if the account is deleted."""
    return Comment(
        number=number_at(entry, "id"),
        author=_maybe_account(value_at(entry, "user")),
        text=text_at(entry, "body") if entry.get("body") is not None else "",
    )
