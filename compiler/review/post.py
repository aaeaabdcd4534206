"""A plan on its pull request: one comment per project and target, and a check of the planned commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from parquetry.compiler.plan.codec import check_age
from parquetry.compiler.plan.model import PlanDocument
from parquetry.compiler.review.approval import Reviewed, check_text
from parquetry.compiler.review.forge import CheckState, Comment, Forge, ForgeError, PullRequest
from parquetry.runtime.errors import StalePlanError

LONGEST_COMMENT_BYTES: Final = 60_000
"""The limit for comments; GitHub accepts 65,536 characters."""

BLOCKED: Final = "blocked"
"""The text of a blocked plan's check, which has no plan id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """The posted comment; ``replaced`` is True if the comment existed before."""

    plan_id: str
    pull_request: int
    head: str
    check: str
    state: CheckState
    text: str
    comment: int
    replaced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedComment:
    """A comment on a pull request; ``replaced`` is True if it existed before."""

    pull_request: int
    comment: int
    replaced: bool


def post_plan(
    plan: PlanDocument,
    text: str,
    forge: Forge,
    *,
    number: int,
    creator: str,
    name: str,
    project: str | None,
    now_ms: int,
) -> Posted:
    """Post the plan's comment on the pull request, and then its check.

    In this order, whoever approves the check has seen the comment.

    Args:
        plan: the plan.
        text: the comment, whose first line is the marker by which it is found again.
        forge: the repository.
        number: the number of the pull request.
        creator: the account whose plans count.
        name: the name of the plan in messages.
        project: the name that the plan's project must have, as a branch can change it; None if it is not
            known.
        now_ms: the present time.

    Raises:
        StalePlanError: if the plan is for another commit than the pull request's head; nothing is posted.

    """
    check_age(plan, now_ms, name=name)
    if project not in (None, plan.intent.project):
        raise StalePlanError(
            "{file} is a plan of project {planned_project}, and this is project {project}; plan this one, "
            "under its own name",
            file=name,
            planned_project=plan.intent.project,
            project=project,
        )
    pull = forge.pull_request(number)
    planned_commit = plan.intent.git_commit
    if planned_commit != pull.head:
        raise StalePlanError(
            "{file} is the plan of {commit}, and the head commit of pull request {pull_request} is "
            "{head_commit}; plan that commit",
            file=name,
            commit=planned_commit[:12] if planned_commit else "no commit",
            pull_request=number,
            head_commit=pull.head[:12],
        )
    base = plan.evidence.base_commit
    if base is None:
        raise StalePlanError(
            "{file} does not say which commit it was made against; fetch that, and plan again", file=name
        )
    comment, replaced = post_comment(forge, pull, text, creator=creator)
    reviewed = Reviewed(project=plan.intent.project, target=plan.intent.target, creator=creator)
    state = CheckState.FAILURE if plan.intent.blocked else CheckState.SUCCESS
    text = BLOCKED if plan.intent.blocked else check_text(plan.plan_id, base)
    forge.set_check(planned_commit, name=reviewed.check, state=state, text=text)
    return Posted(
        plan_id=plan.plan_id,
        pull_request=number,
        head=planned_commit,
        check=reviewed.check,
        state=state,
        text=text,
        comment=comment.number,
        replaced=replaced,
    )


def post_comment(
    forge: Forge, pull: PullRequest, text: str, *, creator: str, replaces: bool = True
) -> tuple[Comment, bool]:
    """Replace this account's comment with the same first line, or add one; return it and whether it existed.

    Comments of other accounts with that line are ignored. If two workflows added one at the same time, the
    older one stays. Without ``replaces``, an existing comment keeps its text.

    Raises:
        ForgeError: if the token is not that of ``creator``.

    """
    identity = forge.identity()
    login = creator if identity is None else identity.login
    if login.casefold() != creator.casefold():
        raise ForgeError(
            "the token is that of {login}, and plans count if {creator} posts them; name the account "
            "with --creator wherever plans are posted and approved",
            login=login,
            creator=creator,
        )
    marker = _first_line(text)
    own = [
        comment
        for comment in forge.comments(pull)
        if comment.author is not None
        and comment.author.is_named(login)
        and _first_line(comment.text) == marker
    ]
    for surplus in own[1:]:
        forge.delete_comment(pull, surplus)
    if own:
        if replaces and own[0].text != text:
            forge.replace_comment(pull, own[0], text)
        return own[0], True
    return forge.add_comment(pull, text), False


def _first_line(text: str) -> str:
    """Return the first line of a comment."""
    return text.partition("\n")[0].rstrip("\r")
