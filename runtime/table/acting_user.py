"""The name of whoever acts, for records: it proves nothing, as a signature does."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from typing import Final

from parquetry.printable import one_line

_ACTORS: Final = ("GITHUB_ACTOR", "GITLAB_USER_LOGIN")
"""The variables in which a forge names who started what it executes."""

_LONGEST: Final = 200


def acting_user(git_user: str | None = None, *, environment: Mapping[str, str] = os.environ) -> str:
    """Return who acts: the actor that a forge names, else the user of git, else that of the operating system.

    The text has one line without invisible characters, and at most 200 characters.
    """
    actor = next((f"{environment[name]} ({name})" for name in _ACTORS if environment.get(name)), None)
    return bounded_user(actor or git_user or f"{_system_user()} (operating system)")


def bounded_user(text: str) -> str:
    """Return the name as it may be shown, whoever wrote it."""
    return one_line(text[:_LONGEST])[:_LONGEST]


def _system_user() -> str:
    """Return the name of the process's user, or its number where it has none, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
