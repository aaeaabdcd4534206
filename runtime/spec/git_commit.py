"""Names of git commits in tables, plans and git itself."""

from __future__ import annotations

import re
from typing import Final

_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHOWN: Final = re.compile(r"[0-9a-f]{7,64}")


def commit_named(value: object) -> str | None:
    """Return the value if it is the full name of a commit (SHA-1 or SHA-256, in hex), or else None.

    Values from tables and files are untrusted, so they pass through here before git or a user gets them.
    """
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else None


def is_shown_as_commit(value: str) -> bool:
    """Return whether a text may be shown as a commit: it has only 7 to 64 hexadecimal digits."""
    return _SHOWN.fullmatch(value) is not None
