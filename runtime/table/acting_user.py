"""The name of the acting user for records. Unlike a signature, it proves nothing."""

from __future__ import annotations

import getpass
import os
from typing import Final

from parquetry.text.printable import one_line

_ACTORS: Final = ("GITHUB_ACTOR", "GITLAB_USER_LOGIN")
"""The environment variables with the user who started a forge's pipeline."""

_LONGEST: Final = 200


def acting_user(git_user: str | None = None) -> str:
    """Return the user of the forge, or else the user of git, or else that of the operating system.

    The text has one line without invisible characters, and at most 200 characters.
    """
    actor = next((f"{os.environ[name]} ({name})" for name in _ACTORS if os.environ.get(name)), None)
    return bounded_user(actor or git_user or f"{_system_user()} (operating system)")


def bounded_user(text: str) -> str:
    """Return a name from any source in a form that is safe to show: one line, at most 200 characters."""
    return one_line(text[:_LONGEST])[:_LONGEST]


def _system_user() -> str:
    """Return the user name of the process, or the user's number if it has no name, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
