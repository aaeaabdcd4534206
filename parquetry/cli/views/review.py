"""What was posted on a pull request, and what is approved there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parquetry.cli.terminal.output import Paint
from parquetry.runtime.spec.codec import to_json_value

if TYPE_CHECKING:  # each command loads its own
    from parquetry.compiler.review.approval import Approval
    from parquetry.compiler.review.post import Posted


class PostedView:
    """The comment and the check."""

    def text(self, outcome: Posted, paint: Paint) -> str:
        """A line for each."""
        verb = "replaced" if outcome.replaced else "added"
        return (
            f"{paint.good(verb)} the comment on pull request {outcome.pull_request}\n"
            f"{paint.good('set')} {outcome.check} of {outcome.head[:12]} to {outcome.state}: {outcome.text}"
        )

    def json(self, outcome: Posted) -> Any:
        """Every field."""
        return to_json_value(outcome)


class ApprovalView:
    """The plan's id, and who approved it."""

    def text(self, outcome: Approval, paint: Paint) -> str:
        """The id, and the pull request."""
        by = ", ".join(outcome.approved_by)
        return (
            f"{paint.good('approved')} {outcome.plan_id}\n"
            f"by {by} in pull request {outcome.pull_request}, commit {outcome.head[:12]}"
        )

    def json(self, outcome: Approval) -> Any:
        """Every field."""
        document = to_json_value(outcome)
        return document | {"planned": outcome.planned.isoformat()}
