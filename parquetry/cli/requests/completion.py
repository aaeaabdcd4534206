"""Shell completion: names of the project for the word that is being typed, read without checking the project.

Click calls these functions while the line is incomplete. They read files, print nothing and never fail. A
shell puts the offered names into the line as they are, so names that need quotes are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parquetry.text import shell

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from parquetry.project.loading.outline import Outline


def tables(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of tables, or folders if a path was begun."""
    if "/" in incomplete or incomplete.startswith("."):
        return _items([incomplete], kind="dir")
    return _beginning(incomplete, _outline(context).tables)


def targets(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of targets."""
    return _beginning(incomplete, _outline(context).targets)


def variables(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of variables, each with `=`."""
    return _beginning(incomplete, (f"{name}=" for name in _outline(context).variables))


def selectors(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return tables, and selectors by tag, folder and state; after a comma, those for the next selector."""
    found = _outline(context)
    before, comma, word = incomplete.rpartition(",")
    offered = [
        *found.tables,
        *(f"tag:{tag}" for tag in found.tags),
        *(f"path:{folder}" for folder in found.folders),
        "state:changed",
    ]
    return _items(f"{before}{comma}{item}" for item in offered if item.startswith(word))


def _outline(context: click.Context) -> Outline:
    """Return the names in the project that the typed options name."""
    from parquetry.project.loading.outline import outline

    typed = context.params.get("project_directory") or os.environ.get("PARQUETRY_PROJECT") or "."
    return outline(Path(typed))


def _beginning(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    """Return the completions that begin with what was typed."""
    return _items(word for word in words if word.startswith(incomplete))


def _items(words: Iterable[str], *, kind: str = "plain") -> list[CompletionItem]:
    """Return the words as completions, without those that a shell would not take as one word."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(word, type=kind) for word in words if kind == "dir" or shell.is_plain(word)]
