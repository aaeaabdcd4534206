"""Posted comments and checks, approvals, and follow-ups of pull requests, in text, JSON and Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.markdown import code, inline
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.queries import (
    MEASURED_HEADER,
    measured_cost_table,
    measured_rows,
    measured_table,
)
from parquetry.compiler.reports.costs import MEASURED_COSTS_HEADER, measured_cost_rows
from parquetry.runtime.spec.codec import to_json_value

if TYPE_CHECKING:  # each command loads its own
    from parquetry.compiler.review.approval import Approval, Unplanned
    from parquetry.compiler.review.follow_up import FollowedTable, FollowUp
    from parquetry.compiler.review.post import Posted, PostedComment

_ROOM_FOR_NOTE: Final = 100


class PostedView:
    """The comment and the check of a posted plan."""

    def text(self, outcome: Posted, paint: Paint) -> str:
        """Return a line for the comment and one for the check."""
        return (
            f"{_posted(outcome, paint)}\n"
            f"{paint.good('set')} {outcome.check} of {outcome.head[:12]} to {outcome.state}: {outcome.text}"
        )

    def json(self, outcome: Posted) -> Any:
        """Return every field."""
        return to_json_value(outcome)


class DiffPostedView:
    """The comment of a posted difference."""

    def text(self, outcome: PostedComment, paint: Paint) -> str:
        """Return whether the comment was added or replaced."""
        return _posted(outcome, paint)

    def json(self, outcome: PostedComment) -> Any:
        """Return every field."""
        return to_json_value(outcome)


def _posted(outcome: Posted | PostedComment, paint: Paint) -> str:
    verb = "replaced" if outcome.replaced else "added"
    return f"{paint.good(verb)} the comment on pull request {outcome.pull_request}"


class ApprovalView:
    """The approved plan's id, and who approved it."""

    def text(self, outcome: Approval, paint: Paint) -> str:
        """Return the id, the approvers and the pull request."""
        by = ", ".join(outcome.approved_by)
        return (
            f"{paint.good('approved')} {outcome.plan_id}\n"
            f"by {by} in pull request {outcome.pull_request}, commit {outcome.head[:12]}"
        )

    def json(self, outcome: Approval) -> Any:
        """Return every field."""
        document = to_json_value(outcome)
        return document | {"planned": outcome.planned.isoformat()}


class UnplannedView:
    """A line for each pull request without a plan, in words that a shell can split."""

    def text(self, outcome: Unplanned, _: Paint) -> str:
        """Return the number and head commit of each, and ``fork`` or ``branch``."""
        return "\n".join(
            f"{pull.number} {pull.head} {'fork' if pull.is_fork else 'branch'}"
            for pull in outcome.pull_requests
        )

    def json(self, outcome: Unplanned) -> Any:
        """Return every field."""
        return to_json_value(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpView:
    """Predictions beside measurements; ``pull_request`` is where they are posted, or None.

    If ``is_new``, they were posted just now.
    """

    pull_request: int | None
    is_new: bool = True

    def text(self, outcome: FollowUp, paint: Paint) -> str:
        """Return a line for each table with tables of its queries and costs, and whether they were posted."""
        if not outcome.tables:
            return "the plan has no predictions: no file was due for clustering"
        lines = []
        for table in outcome.tables:
            lines.append(f"{paint.bold(table.table)}  {_status(table)}")
            if table.queries:
                lines += [measured_table(table.queries, paint), ""]
            if table.costs is not None:
                lines += [measured_cost_table(table.costs, paint), ""]
        if self.pull_request is None:
            return "\n".join([*lines, "not posted yet: some debt is not paid"])
        posted = paint.good("posted") if self.is_new else "posted before"
        return "\n".join([*lines, f"{posted} on pull request {self.pull_request}"])

    def json(self, outcome: FollowUp) -> Any:
        """Return every field."""
        return to_json_value(outcome) | {"pull_request": self.pull_request}


def follow_up_comment(outcome: FollowUp, *, max_bytes: int) -> str:
    """Return the follow-up in GitHub's Markdown, at most ``max_bytes`` long in UTF-8.

    The first line is a marker for project and target. Omitted tables are counted.
    """
    text = (
        f"<!-- parquetry:follow-up project={outcome.project} target={outcome.target} -->\n"
        f"### parquetry: effect of the plan for {code(outcome.target)}\n"
    )
    end = f"\n---\nplan {code(outcome.plan_id)}\n"
    room = max_bytes - len(end.encode()) - _ROOM_FOR_NOTE
    for number, table in enumerate(outcome.tables):
        section = "".join(f"{line}\n" for line in _section(table))
        if len((text + section).encode()) > room:
            left = count(len(outcome.tables) - number, "table")
            return f"{text}\n*Omitted for lack of space: {left}.*\n{end}"
        text += section
    return text + end


def _section(table: FollowedTable) -> Iterator[str]:
    yield f"\n**{code(table.table)}**: {inline(_status(table))}"
    if table.queries:
        yield f"\n| {' | '.join(MEASURED_HEADER)} |\n|---|---|---:|---:|---:|---:|"
        for cells in measured_rows(table.queries):
            yield f"| {' | '.join(map(inline, cells))} |"
    if table.costs is not None:
        yield f"\n| {' | '.join(MEASURED_COSTS_HEADER)} |\n|---|---:|---:|---|"
        for row in measured_cost_rows(table.costs):
            yield f"| {' | '.join(map(inline, row))} |"


def _status(table: FollowedTable) -> str:
    if table.files is not None:
        counts = table.files
        return f"paid: {counts.before:,} files before, {counts.expected:,} expected, {counts.after:,} now"
    return f"due: {human_size(table.due_bytes)}" if table.due_bytes else f"{table.status}, or replaced"
