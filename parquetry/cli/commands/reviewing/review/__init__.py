"""`parquetry review`: plans in pull requests."""

from __future__ import annotations

from parquetry.cli.commands.reviewing.review.group import command

__all__ = ["command"]
