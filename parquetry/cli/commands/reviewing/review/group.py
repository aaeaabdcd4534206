"""The commands below `parquetry review`."""

from __future__ import annotations

import click

from parquetry.cli.command_group import CommandGroup
from parquetry.cli.commands.reviewing.review.approved import show_approved
from parquetry.cli.commands.reviewing.review.diff import post_diff
from parquetry.cli.commands.reviewing.review.follow_up import show_follow_up
from parquetry.cli.commands.reviewing.review.post import post
from parquetry.cli.commands.reviewing.review.unplanned import show_unplanned


@click.group(name="review", cls=CommandGroup)
def command() -> None:
    """Show plans in pull requests on GitHub or GitLab, and find out which one is approved.

    The token is read from GH_TOKEN or GITHUB_TOKEN, or from GITLAB_TOKEN.
    """


for one in (post, post_diff, show_approved, show_follow_up, show_unplanned):
    command.add_command(one)
