"""The open pull requests that have no plan yet, for a job that checks them at intervals.

Such a job runs on the branch that they are merged into. So no pull request decides what runs with the job's
credentials.
"""

from __future__ import annotations

from dataclasses import dataclass

from parquetry.compiler.review.approval import Reviewed
from parquetry.compiler.review.forge import Forge, OpenPullRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplanned:
    """The open pull requests whose head commit has no ``check``, the oldest first."""

    check: str
    pull_requests: tuple[OpenPullRequest, ...]


def unplanned(forge: Forge, reviewed: Reviewed) -> Unplanned:
    """Return the open pull requests whose head commit has no check of the creator's account.

    A failed check counts as a check.
    """
    branch = reviewed.branch or forge.default_branch()
    pulls = forge.open_pull_requests(branch)
    return Unplanned(
        check=reviewed.check,
        pull_requests=tuple(pull for pull in pulls if not _has_check(forge, pull, reviewed)),
    )


def _has_check(forge: Forge, pull: OpenPullRequest, reviewed: Reviewed) -> bool:
    """Return whether the head commit has a plan's check that the creator's account set."""
    return any(
        check.name == reviewed.check and check.author is not None and check.author.is_named(reviewed.creator)
        for check in forge.checks(pull.head)
    )
