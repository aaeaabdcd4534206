"""What a review needs of a forge, where pull requests lie: the port, and what it gives as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from parquetry.errors import ParquetryError


class ForgeError(ParquetryError):
    """The forge cannot be reached, refuses, or gives an answer that is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who did something. ``is_person`` is False for programs; ``login`` is unique on the forge."""

    login: str
    is_person: bool

    def is_named(self, login: str) -> bool:
        """Whether the account has this login, whose case does not count."""
        return self.login.casefold() == login.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request. ``head`` is its newest commit, ``merge_commit`` what it became on ``base`` when merged.

    ``base_repository`` is where it was merged to. ``commits`` is how many it has, None
    where the forge counts them elsewhere.
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
    """A pull request that is not merged; ``is_fork`` is whether its commits lie in another repository."""

    number: int
    head: str
    is_fork: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment on a pull request; ``author`` is None for an account that is gone."""

    number: int
    author: Account | None
    text: str


class CheckState(StrEnum):
    """How a check ended."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCheck:
    """What an account said of a commit under a ``name``; ``number`` rises with time.

    ``state`` is a :class:`CheckState`, or another word of the forge.
    """

    number: int
    name: str
    state: str
    text: str
    author: Account | None
    created: datetime


class ReviewVerdict(StrEnum):
    """What a reviewer says of a pull request; the forge may know more, which count for nothing."""

    APPROVED = "APPROVED"
    CHANGES_REQUESTED = "CHANGES_REQUESTED"
    DISMISSED = "DISMISSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A verdict on a ``commit`` of a pull request, in the order of ``number``."""

    number: int
    reviewer: Account
    verdict: ReviewVerdict
    commit: str | None
    submitted: datetime


class Forge(Protocol):
    """A repository on a forge. Every method raises :class:`ForgeError`; lists are whole."""

    @property
    def repository(self) -> str:
        """Its owner and name, as the forge writes them: ``OWNER/NAME``."""

    def identity(self) -> Account | None:
        """Whose token this is; None where the forge does not say, as for tokens of a workflow."""

    def default_branch(self) -> str:
        """The branch that pull requests are merged into, as a rule."""

    def pull_request(self, number: int) -> PullRequest:
        """The pull request."""

    def open_pull_requests(self, branch: str) -> Sequence[OpenPullRequest]:
        """Those that are to be merged into the branch, the oldest first."""

    def pull_requests_of(self, commit: str) -> Sequence[PullRequest]:
        """The pull requests that the forge associates with a commit, merged ones and others."""

    def reviews(self, pull: PullRequest) -> Sequence[Review]:
        """Verdicts on the pull request, the oldest first; comments are none."""

    def commit_authors(self, pull: PullRequest) -> frozenset[str]:
        """The logins of those who wrote or committed one of its commits."""

    def last_reset(self, pull: PullRequest) -> datetime | None:
        """When its commits were last replaced by a forced push, or its base by another one.

        Where the forge does not tell pushes apart, when anything was pushed to it.
        """

    def may_write(self, account: Account) -> bool:
        """Whether somebody may push to the repository."""

    def checks(self, commit: str) -> Sequence[CommitCheck]:
        """What was said of a commit, the oldest first."""

    def set_check(self, commit: str, *, name: str, state: CheckState, text: str) -> None:
        """Say something of a commit."""

    def comments(self, pull: PullRequest) -> Sequence[Comment]:
        """Its comments, the oldest first."""

    def add_comment(self, pull: PullRequest, text: str) -> Comment:
        """Add a comment."""

    def replace_comment(self, pull: PullRequest, comment: Comment, text: str) -> None:
        """Replace the text of a comment on the pull request."""

    def delete_comment(self, pull: PullRequest, comment: Comment) -> None:
        """Remove a comment from the pull request."""
