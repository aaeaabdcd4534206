"""Asking before something is done that cannot be taken back."""

from __future__ import annotations

import sys

import click

from parquetry.printable import one_line


def is_terminal() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


def check_answerable(*, auto_approve: bool) -> None:
    """Return if somebody can be asked or need not be; else UsageError."""
    if not (auto_approve or is_terminal()):
        raise click.UsageError("nobody can be asked here: give --auto-approve")


def confirm(question: str, *, auto_approve: bool) -> None:
    """Return when somebody wants it; click.Abort when not, UsageError where nobody can be asked."""
    check_answerable(auto_approve=auto_approve)
    if not auto_approve:
        click.confirm(one_line(question), abort=True, err=True)
