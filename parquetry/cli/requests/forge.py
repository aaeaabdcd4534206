"""Which repository on a forge a command is about, and how it gets in."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from parquetry.errors import UsageError

if TYPE_CHECKING:
    from parquetry.compiler.plan.model import PlanDocument
    from parquetry.compiler.review.approval import Approval, Reviewed
    from parquetry.compiler.review.forge import Forge
    from parquetry.compiler.review.post import PostedComment
    from parquetry.compiler.workspace.opened import Workspace

_TOKENS: Final = ("GH_TOKEN", "GITHUB_TOKEN")
_ADDRESS: Final = "GITHUB_API_URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeRequest:
    """A repository, the account that posts its plans, and the branch that pull requests are merged into."""

    repository: str | None
    creator: str
    branch: str | None

    def open(self, environment: Mapping[str, str] = os.environ) -> Forge:
        """The repository; UsageError where its name or the token is missing or not usable."""
        from parquetry.compiler.review.github import ADDRESS, github

        if self.repository is None:
            raise UsageError("name the repository on GitHub: --repository OWNER/NAME")
        tokens = ((name, environment.get(name, "").strip()) for name in _TOKENS)
        variable, token = next(((name, value) for name, value in tokens if value), (None, ""))
        if variable is None:
            raise UsageError(f"there is no token of GitHub: set the variable {' or '.join(_TOKENS)}")
        if not (token.isascii() and token.isprintable()):
            raise UsageError(
                f"{variable} is no token of GitHub: it has characters that no token has; set it again"
            )
        return github(self.repository, token=token, address=environment.get(_ADDRESS) or ADDRESS)

    def reviewed(self, *, project: str, target: str) -> Reviewed:
        """The project at the target, as this repository reviews it."""
        from parquetry.compiler.review.approval import Reviewed

        return Reviewed(project=project, target=target, creator=self.creator, branch=self.branch)

    def post_on(self, number: int, text: str) -> PostedComment:
        """Make or replace a comment on a pull request."""
        from parquetry.compiler.review.post import PostedComment, post_comment

        forge = self.open()
        comment, replaced = post_comment(forge, forge.pull_request(number), text, creator=self.creator)
        return PostedComment(pull_request=number, comment=comment.number, replaced=replaced)

    def post_at(self, plan: PlanDocument, text: str) -> int:
        """Make or replace a comment on the pull request that became the plan's commit; the number of it.

        NotApprovedError where no single pull request did.
        """
        from parquetry.compiler.review.approval import merged_as
        from parquetry.compiler.review.post import post_comment
        from parquetry.runtime.spec.git_commit import commit_named

        merged = commit_named(plan.intent.git_commit)
        if merged is None:
            raise UsageError("the plan was made of no commit, so no pull request became it")
        forge = self.open()
        reviewed = self.reviewed(project=plan.intent.project, target=plan.intent.target)
        pull = merged_as(forge, merged, reviewed)
        post_comment(forge, pull, text, creator=self.creator)
        return pull.number

    def plan_id(self, workspace: Workspace) -> str:
        """The id that is approved at the commit that is checked out; NotApprovedError for none."""
        return self.approval(workspace).plan_id

    def approval(self, workspace: Workspace, *, commit: str | None = None) -> Approval:
        """What is approved for the project at a commit, by default the one that is checked out.

        NotApprovedError where nothing is.
        """
        from parquetry.compiler.review.approval import approval_at
        from parquetry.runtime.spec.git_commit import commit_named

        merged = commit_named(commit or workspace.tree.commit)
        if merged is None:
            raise UsageError(
                "no commit is checked out here, or --commit is not the whole name of one; name the commit "
                "that a pull request was merged as"
            )
        project = workspace.project
        return approval_at(
            self.open(), merged, self.reviewed(project=project.name, target=project.target.name)
        )


def forge_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command ``forge``, a :class:`ForgeRequest`."""

    @functools.wraps(command)
    def gathered(*, repository: str | None, creator: str, branch: str | None, **rest: Any) -> Any:
        return command(forge=ForgeRequest(repository=repository, creator=creator, branch=branch), **rest)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


_OPTIONS = (
    click.option(
        "--repository",
        metavar="OWNER/NAME",
        envvar="GITHUB_REPOSITORY",
        help="Repository on GitHub. GH_TOKEN or GITHUB_TOKEN has the token, GITHUB_API_URL the address of "
        "another server's API.",
    ),
    click.option(
        "--creator",
        metavar="LOGIN",
        default="github-actions[bot]",
        show_default=True,
        envvar="PARQUETRY_CREATOR",
        help="The one account whose comments are replaced and whose checks count.",
    ),
    click.option(
        "--branch",
        metavar="NAME",
        envvar="PARQUETRY_BRANCH",
        help="Branch that pull requests are merged into. Default: the repository's default branch.",
    ),
)
