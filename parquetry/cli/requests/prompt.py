"""Confirmation before an irreversible action."""

from __future__ import annotations

import sys

import click

from parquetry.text.printable import one_line


def is_terminal() -> bool:
    """Return whether a user can answer a question."""
    return sys.stdin.isatty()


def check_answerable(*, auto_approve: bool) -> None:
    """Raise click.UsageError if a question is necessary but stdin is not a terminal."""
    if not (auto_approve or is_terminal()):
        raise click.UsageError("stdin is not a terminal: give --auto-approve")


def confirm(question: str, *, auto_approve: bool) -> None:
    """Ask the question, unless ``auto_approve`` is True.

    Raises:
        click.Abort: The user declined. click.UsageError: Stdin is not a terminal.

    """
    check_answerable(auto_approve=auto_approve)
    if not auto_approve:
        click.confirm(one_line(question), abort=True, err=True)
