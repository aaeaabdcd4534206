"""The port to a forge (such as GitHub) with its pull requests, and the values that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from parquetry.errors import ParquetryError


class ForgeError(ParquetryError):
    """The forge cannot be reached, refuses a request, or gives an unusable answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account on the forge; ``login`` is unique there. ``is_person`` is False for programs."""

    login: str
    is_person: bool

    def is_named(self, login: str) -> bool:
        """Return whether the account has this login, in any case."""
        return self.login.casefold() == login.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request. ``head`` is its newest commit, ``merge_commit`` its commit on ``base`` after the merge.

    ``base_repository`` is the repository that it is merged into. ``commits`` is the number of its commits, or
    None if the forge counts them elsewhere.
    """

    number: int
    author: Account | None
    head: str
    base: str
    base_repository: str
    is_merged: bool
    merge_commit: str | None
    commits: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPullRequest:
    """An unmerged pull request; ``is_fork`` is True if its commits are in another repository."""

    number: int
    head: str
    is_fork: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment on a pull request; ``author`` is None for a deleted account."""

    number: int
    author: Account | None
    text: str


class CheckState(StrEnum):
    """The result of a check."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCheck:
    """A status that an account set for a commit under a ``name``; ``number`` rises with time.

    ``state`` is a :class:`CheckState`, or another word of the forge.
    """

    number: int
    name: str
    state: str
    text: str
    author: Account | None
    created: datetime


class ReviewVerdict(StrEnum):
    """The verdicts of reviewers that count; a forge may have more."""

    APPROVED = "APPROVED"
    CHANGES_REQUESTED = "CHANGES_REQUESTED"
    DISMISSED = "DISMISSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A verdict on a ``commit`` of a pull request; reviews are sorted by ``number``."""

    number: int
    reviewer: Account
    verdict: ReviewVerdict
    commit: str | None
    submitted: datetime


class Forge(Protocol):
    """A repository on a forge. Every method may raise :class:`ForgeError`; lists are complete."""

    @property
    def repository(self) -> str:
        """The owner and name in the forge's spelling: ``OWNER/NAME``."""

    def identity(self) -> Account | None:
        """Return the account of the token, or None if the forge hides it, as from workflow tokens."""

    def default_branch(self) -> str:
        """Return the branch that pull requests are merged into by default."""

    def pull_request(self, number: int) -> PullRequest:
        """Return the pull request with this number."""

    def open_pull_requests(self, branch: str) -> Sequence[OpenPullRequest]:
        """Return the open pull requests into the branch, the oldest first."""

    def pull_requests_of(self, commit: str) -> Sequence[PullRequest]:
        """Return the pull requests that the forge associates with a commit, merged or not."""

    def reviews(self, pull: PullRequest) -> Sequence[Review]:
        """Return the verdicts on the pull request, the oldest first; mere comments are not verdicts."""

    def commit_authors(self, pull: PullRequest) -> frozenset[str]:
        """Return the logins of all authors and committers of its commits."""

    def last_reset(self, pull: PullRequest) -> datetime | None:
        """Return the time of its last forced push or change of base, or None.

        If the forge cannot distinguish forced pushes, return the time of the last push.
        """

    def may_write(self, account: Account) -> bool:
        """Return whether the account may push to the repository."""

    def checks(self, commit: str) -> Sequence[CommitCheck]:
        """Return the checks of a commit, the oldest first."""

    def set_check(self, commit: str, *, name: str, state: CheckState, text: str) -> None:
        """Set a check of a commit."""

    def comments(self, pull: PullRequest) -> Sequence[Comment]:
        """Return the comments on the pull request, the oldest first."""

    def add_comment(self, pull: PullRequest, text: str) -> Comment:
        """Add a comment to the pull request and return it."""

    def replace_comment(self, pull: PullRequest, comment: Comment, text: str) -> None:
        """Replace the text of a comment on the pull request."""

    def delete_comment(self, pull: PullRequest, comment: Comment) -> None:
        """Delete a comment on the pull request."""
