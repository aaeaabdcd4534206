"""The repository on a forge that a command uses, and the credentials for it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Environment:
    """The environment variables with a forge's settings; of several the first that is set counts."""

    forge: str
    repository: tuple[str, ...]
    tokens: tuple[str, ...]
    addresses: tuple[str, ...]
    wanted: str
    """The form of a repository's name, for messages."""

    creator: str | None = None
    """The account that posts plans, if all workflows post as one account."""


_FORGES: Final = {
    "github": _Environment(
        forge="GitHub",
        repository=("GITHUB_REPOSITORY",),
        tokens=("GH_TOKEN", "GITHUB_TOKEN"),
        addresses=("GITHUB_API_URL",),
        wanted="OWNER/NAME",
        creator="github-actions[bot]",
    ),
    "gitlab": _Environment(
        forge="GitLab",
        repository=("CI_PROJECT_ID", "CI_PROJECT_PATH"),
        tokens=("GITLAB_TOKEN",),
        addresses=("GITLAB_API_URL", "CI_API_V4_URL"),
        wanted="GROUP/PROJECT, or its number",
    ),
}
_RUNS_ON_GITLAB: Final = "GITLAB_CI"
"""A variable that GitLab sets in every job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeRequest:
    """A repository, the account that posts its plans, and the branch that pull requests are merged into.

    ``forge`` is the name of a forge, or None for the forge whose CI runs the command.
    """

    forge: str | None
    repository: str | None
    creator: str | None
    branch: str | None

    def open(self, environment: Mapping[str, str] = os.environ) -> Forge:
        """Return a client of the repository.

        Raises:
            UsageError: The repository's name or the token is missing or not usable.

        """
        kind = self._kind(environment)
        known = _FORGES[kind]
        _, repository = _first(environment, known.repository)
        repository = self.repository or repository
        if not repository:
            raise UsageError(
                "name the repository on {forge}: --repository {form}",
                forge=known.forge,
                form=known.wanted,
            )
        variable, token = _first(environment, known.tokens)
        if not token:
            raise UsageError(
                "no token for {forge} is set: set the variable {variables}",
                forge=known.forge,
                variables=" or ".join(known.tokens),
            )
        if not (token.isascii() and token.isprintable()):
            raise UsageError(
                "{variable} is not a token of {forge}: no token has such characters; set it again",
                variable=variable,
                forge=known.forge,
            )
        _, address = _first(environment, known.addresses)
        if kind == "gitlab":
            from parquetry.compiler.review import gitlab

            return gitlab.gitlab(repository, token=token, address=address or gitlab.ADDRESS)
        from parquetry.compiler.review import github

        return github.github(repository, token=token, address=address or github.ADDRESS)

    def creator_or_default(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the account that posts plans.

        Raises:
            UsageError: No option or variable names it, and the forge has no default.

        """
        creator = self.creator or _FORGES[self._kind(environment)].creator
        if creator is None:
            raise UsageError("name the account that posts plans: --creator LOGIN, or PARQUETRY_CREATOR")
        return creator

    def _kind(self, environment: Mapping[str, str]) -> str:
        """Return the kind of forge: the given one, or the one whose workflow runs this command."""
        return self.forge or ("gitlab" if environment.get(_RUNS_ON_GITLAB) else "github")

    def reviewed(self, *, project: str, target: str) -> Reviewed:
        """Return the project and target together with this repository's rules for reviewing them."""
        from parquetry.compiler.review.approval import Reviewed

        return Reviewed(project=project, target=target, creator=self.creator_or_default(), branch=self.branch)

    def post_on(self, number: int, text: str) -> PostedComment:
        """Create a comment on a pull request, or replace the one with the same subject."""
        from parquetry.compiler.review.post import PostedComment, post_comment

        forge = self.open()
        comment, replaced = post_comment(
            forge, forge.pull_request(number), text, creator=self.creator_or_default()
        )
        return PostedComment(pull_request=number, comment=comment.number, replaced=replaced)

    def post_once_at(self, plan: PlanDocument, text: str) -> PostedComment:
        """Comment on the pull request that was merged as the plan's commit, unless the comment exists.

        Raises:
            NotApprovedError: Not exactly one pull request was merged as that commit.
            UsageError: The plan was not made from a commit.

        """
        from parquetry.compiler.review.approval import merged_as
        from parquetry.compiler.review.post import PostedComment, post_comment
        from parquetry.runtime.spec.git_commit import commit_named

        merged = commit_named(plan.intent.git_commit)
        if merged is None:
            raise UsageError("the plan was made of no commit, so no pull request became it")
        forge = self.open()
        reviewed = self.reviewed(project=plan.intent.project, target=plan.intent.target)
        pull = merged_as(forge, merged, reviewed)
        comment, was_there = post_comment(
            forge, pull, text, creator=self.creator_or_default(), replaces=False
        )
        return PostedComment(pull_request=pull.number, comment=comment.number, replaced=was_there)

    def plan_id(self, workspace: Workspace) -> str:
        """Return the plan id that is approved at the checked-out commit.

        Raises:
            NotApprovedError: None is approved.

        """
        return self.approval(workspace).plan_id

    def approval(self, workspace: Workspace, *, commit: str | None = None) -> Approval:
        """Return the approval of the project at a commit; None is the checked-out one.

        Raises:
            NotApprovedError: Nothing is approved there.
            UsageError: There is no commit, or the name is not a full one.

        """
        from parquetry.compiler.review.approval import approval_at, check_base
        from parquetry.runtime.spec.git_commit import commit_named

        merged = commit_named(commit or workspace.tree.commit)
        if merged is None:
            raise UsageError(
                "no commit is checked out here, or --commit is not a full commit id; name the commit "
                "that a pull request was merged as"
            )
        project, forge = workspace.project, self.open()
        reviewed = self.reviewed(project=project.name, target=project.target.name)
        approval = approval_at(forge, merged, reviewed)
        check_base(forge, approval, project.root, reviewed)
        return approval


def forge_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a forge to a command, which gets them as ``forge``, a :class:`ForgeRequest`."""

    @functools.wraps(command)
    def gathered(
        *, forge: str | None, repository: str | None, creator: str | None, branch: str | None, **rest: Any
    ) -> Any:
        request = ForgeRequest(forge=forge, repository=repository, creator=creator, branch=branch)
        return command(forge=request, **rest)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


def _first(environment: Mapping[str, str], names: Sequence[str]) -> tuple[str, str]:
    """Return the name and value of the first variable that is set, or two empty texts."""
    values = ((name, environment.get(name, "").strip()) for name in names)
    return next(((name, value) for name, value in values if value), ("", ""))


_OPTIONS = (
    click.option(
        "--forge",
        type=click.Choice(tuple(_FORGES)),
        envvar="PARQUETRY_FORGE",
        help="Where the pull requests are. Default: gitlab in a job of GitLab CI, otherwise github.",
    ),
    click.option(
        "--repository",
        metavar="NAME",
        envvar="PARQUETRY_REPOSITORY",
        help="OWNER/NAME on GitHub, GROUP/PROJECT or a number on GitLab. Default: GITHUB_REPOSITORY or "
        "CI_PROJECT_ID. GH_TOKEN, GITHUB_TOKEN or GITLAB_TOKEN has the token. GITHUB_API_URL, "
        "GITLAB_API_URL or CI_API_V4_URL has the address of another server's API.",
    ),
    click.option(
        "--creator",
        metavar="LOGIN",
        envvar="PARQUETRY_CREATOR",
        help="The one account whose comments are replaced and whose checks count. Default on GitHub: "
        "github-actions[bot]. On GitLab it has to be named.",
    ),
    click.option(
        "--branch",
        metavar="NAME",
        envvar="PARQUETRY_BRANCH",
        help="Branch that pull requests are merged into. Default: the repository's default branch.",
    ),
)
