"""Git commits as tables, plans and git itself name them."""

from __future__ import annotations

import re
from typing import Final

_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHOWN: Final = re.compile(r"[0-9a-f]{7,64}")


def commit_named(value: object) -> str | None:
    """The whole name of a commit (SHA-1 or SHA-256, in hex); None for whatever is none.

    What a table or a file says goes through here before git is asked or anybody is shown.
    """
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else None


def is_shown_as_commit(value: str) -> bool:
    """Whether a text may be shown as a commit: digits of its name and nothing else."""
    return _SHOWN.fullmatch(value) is not None
