"""A command with subcommands, whose help shows the whole first sentence of each."""

from __future__ import annotations

import click

_WHOLE = 1_000
"""More characters than any first sentence has: Click cuts at 45 by default."""


class CommandGroup(click.Group):
    """Commands below one name. Their lines in the help are broken between words and never cut."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(_WHOLE)) for name, command in commands])
