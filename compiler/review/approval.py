"""The approved plan of a merge: the one that a reviewer saw, of exactly the commit that was merged.

A comment approves nothing, whoever wrote it. The plan's id and its base are read from a check of the pull
request's head commit. The account that posts plans must have set this check, and somebody else must have
approved the commit after it was planned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from parquetry.compiler.git.repository import GitWorkTree, parents_of
from parquetry.compiler.review.forge import (
    Account,
    CheckState,
    CommitCheck,
    Forge,
    OpenPullRequest,
    PullRequest,
    Review,
    ReviewVerdict,
)
from parquetry.compiler.security.authority import Authority, authority_at, before_merge
from parquetry.errors import ParquetryError
from parquetry.text.printable import quoted

_STATED: Final = re.compile(r"(sha256:[0-9a-f]{64}) base ([0-9a-f]{40}|[0-9a-f]{64})")


class NotApprovedError(ParquetryError):
    """No plan is approved at a commit; ``missing`` lists the missing conditions."""

    def __init__(self, subject: str, missing: Sequence[str]) -> None:
        super().__init__(
            "{subject}: no plan is approved; {missing}", subject=subject, missing="; ".join(missing)
        )
        self.missing = tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """A project at a target, and the rules of its repository for reviews.

    ``creator`` is the account that posts plans. ``branch`` is the branch that pull requests are merged into,
    or None for the repository's default branch.
    """

    project: str
    target: str
    creator: str
    branch: str | None = None

    @property
    def check(self) -> str:
        """The name of the check that holds the plan's id, unique by project and target."""
        return f"parquetry/plan ({self.project}/{self.target})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An approved plan at ``commit``, the merge commit of a pull request with the head commit ``head``.

    ``base`` is the commit against which the plan was made.
    """

    plan_id: str
    base: str
    commit: str
    pull_request: int
    head: str
    approved_by: tuple[str, ...]
    planned: datetime


def check_text(plan_id: str, base: str) -> str:
    """Return the text of a plan's check, which GitHub limits to 140 characters."""
    return f"{plan_id} base {base}"


def approval_at(forge: Forge, commit: str, reviewed: Reviewed) -> Approval:
    """Return the approved plan at a commit of the branch.

    Raises:
        NotApprovedError: if the merged pull request or its plan is not found, if somebody requests changes,
            or if no approval counts.
    """
    subject = _subject(reviewed, commit)
    pull = merged_as(forge, commit, reviewed)
    plan = _plan_of(forge.checks(pull.head), reviewed)
    if isinstance(plan, str):
        raise NotApprovedError(subject, (f"pull request {pull.number}, {plan}",))
    verdicts = _newest_of_each(forge.reviews(pull))
    problems = tuple(_refusals(forge, pull, verdicts))
    since = _since(forge.last_reset(pull), plan.created)
    approvers, missing = _approvers(forge, pull, verdicts, since)
    if problems or not approvers:
        none = (f"no other person approved its head commit {pull.head[:12]} after it was planned",)
        reasons = problems if approvers else (*problems, *none, *missing)
        raise NotApprovedError(f"{subject}, pull request {pull.number}", reasons)
    plan_id, base = _parse_check(plan)
    return Approval(
        plan_id=plan_id,
        base=base,
        commit=commit,
        pull_request=pull.number,
        head=pull.head,
        approved_by=approvers,
        planned=plan.created,
    )


def check_base(forge: Forge, approval: Approval, root: Path, reviewed: Reviewed) -> None:
    """Check that the plan was made against a commit that the branch had before the merge.

    The plan's id covers what the merged commit changes. So earlier commits of the pull request, which exist
    after a rebase, must not change the authority.

    Raises:
        NotApprovedError: if the plan has another base, or if such a commit changes the authority.

    """
    parents = parents_of(root, approval.commit)
    onto = top = parents[0] if parents else before_merge(root, approval.commit)
    while len(parents) == 1 and top is not None and _belongs_to_pull_request(forge, top, approval):
        top = before_merge(root, top)
    missing = []
    if top is None or not GitWorkTree(directory=root, commit=top).contains(approval.base):
        missing.append(
            f"its plan was made against {approval.base[:12]}, which the branch did not have before the merge"
        )
    elif onto is not None and _authority(root, onto, reviewed) != _authority(root, top, reviewed):
        missing.append(
            "not only the last of its commits changes what plans and runs obey; merge or squash such changes"
        )
    if missing:
        subject = _subject(reviewed, approval.commit)
        raise NotApprovedError(f"{subject}, pull request {approval.pull_request}", missing)


def _belongs_to_pull_request(forge: Forge, commit: str, approval: Approval) -> bool:
    """Return whether the forge associates a commit with the approved pull request."""
    return any(pull.number == approval.pull_request for pull in forge.pull_requests_of(commit))


def _authority(root: Path, commit: str, reviewed: Reviewed) -> Authority:
    """Return the authority of the project at ``root``, as the files of a commit declare it for the target."""
    return authority_at(root, commit, target=reviewed.target)


def merged_as(forge: Forge, commit: str, reviewed: Reviewed) -> PullRequest:
    """Return the pull request that was merged as this commit into the branch.

    Raises:
        NotApprovedError: if there is no such pull request, or more than one.

    """
    branch = reviewed.branch or forge.default_branch()
    found = [
        pull
        for pull in forge.pull_requests_of(commit)
        if pull.is_merged
        and pull.merge_commit == commit
        and pull.base == branch
        and pull.base_repository.casefold() == forge.repository.casefold()
    ]
    if len(found) == 1:
        return found[0]
    numbers = ", ".join(str(pull.number) for pull in found)
    several = f"pull requests {numbers} all became it; approve and merge the change again, by itself"
    none = f"no pull request was merged into {quoted(branch)} as this commit; it needs one, with an approval"
    raise NotApprovedError(_subject(reviewed, commit), (several if found else none,))


def _subject(reviewed: Reviewed, commit: str) -> str:
    """Return the words with which errors name the project, the target and the commit."""
    return f"{reviewed.project} at {reviewed.target}, commit {commit[:12]}"


def _plan_of(checks: Sequence[CommitCheck], reviewed: Reviewed) -> CommitCheck | str:
    """Return the newest check that holds the plan, or the reason why there is none.

    Its time is that of the first check in an unbroken series with the same plan id.
    """
    named = [check for check in checks if check.name == reviewed.check]
    ours = [check for check in named if _is(check.author, reviewed.creator)]
    if not ours:
        others = sorted({check.author.login if check.author else "nobody" for check in named})
        by = f"; only {', '.join(map(quoted, others))} set it" if others else ""
        return f"{quoted(reviewed.creator)} set no check {reviewed.check} on its head commit{by}"
    newest = ours[-1]
    if newest.state != CheckState.SUCCESS:
        return f"its plan is {quoted(newest.text)} ({quoted(newest.state)}); plan it again, and approve that"
    if not _STATED.fullmatch(newest.text):
        return (
            f"the check {reviewed.check} contains {quoted(newest.text)} instead of a plan id; plan it again"
        )
    first = newest
    for check in reversed(ours):
        if check.state != newest.state or _parse_check(check)[0] != _parse_check(newest)[0]:
            break
        first = check
    return replace(newest, created=first.created)


def _parse_check(check: CommitCheck) -> tuple[str, str]:
    """Return the plan id and the base in a check's text; both are empty for another text."""
    found = _STATED.fullmatch(check.text)
    return ("", "") if found is None else (found[1], found[2])


def _is(account: Account | None, login: str) -> bool:
    """Return whether an account is known and has this login."""
    return account is not None and account.is_named(login)


def _newest_of_each(reviews: Sequence[Review]) -> tuple[Review, ...]:
    """Return the last verdict of each reviewer, of any kind; ``reviews`` are ordered, the oldest first."""
    return tuple({review.reviewer.login.casefold(): review for review in reviews}.values())


def _refusals(forge: Forge, pull: PullRequest, verdicts: Sequence[Review]) -> Iterator[str]:
    """Yield a text for each account with write access that requests changes of the pull request."""
    for review in verdicts:
        if review.verdict is ReviewVerdict.CHANGES_REQUESTED and forge.may_write(review.reviewer):
            yield f"{quoted(review.reviewer.login)} requests changes of pull request {pull.number}"


def _since(reset: datetime | None, planned: datetime) -> datetime:
    """Return the time after which approvals count: that of the plan or of the reset, whichever is later."""
    return planned if reset is None else max(planned, reset)


def _approvers(
    forge: Forge, pull: PullRequest, verdicts: Sequence[Review], since: datetime
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the logins whose approvals of the head commit count, and why the others do not count."""
    authors = {login.casefold() for login in forge.commit_authors(pull)}
    approvers, missing = [], []
    for review in verdicts:
        problem = _rejection_reason(review, pull, authors, since)
        if problem is None and not forge.may_write(review.reviewer):
            problem = "may not write to the repository"
        if problem is None:
            approvers.append(review.reviewer.login)
        elif review.verdict is not ReviewVerdict.CHANGES_REQUESTED:
            missing.append(f"{quoted(review.reviewer.login)} {problem}")
    return tuple(approvers), tuple(missing)


def _rejection_reason(review: Review, pull: PullRequest, authors: set[str], since: datetime) -> str | None:
    """Return why a review does not approve the head commit, or None if it does.

    Approvals count if they were given after ``since``, by a person who is not one of the ``authors``.
    """
    reviewer, author = review.reviewer, pull.author
    commit = review.commit[:12] if review.commit else "no commit"
    problems = {
        "has no valid approval": review.verdict is not ReviewVerdict.APPROVED,
        "opened the pull request, or its author is unknown": author is None
        or reviewer.is_named(author.login),
        "is an author of its commits": reviewer.login.casefold() in authors,
        "is not a person": not reviewer.is_person,
        f"approved another commit, {commit}": review.commit != pull.head,
        _TOO_EARLY: review.submitted <= since,
    }
    return next((problem for problem, is_so in problems.items() if is_so), None)


_TOO_EARLY: Final = (
    "approved before the commit was planned, or before the last forced push or change of the base"
)


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
