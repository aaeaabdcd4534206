"""What libraries say, within our messages: it may quote rows, and is marked as long as it is in doubt."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]{2,120}\](?= )")
"""The class of an error of Spark, which no row can be, at the beginning of its message."""

_CLASS: Final = re.compile(r"(?:org\.apache\.|java\.)[\w.$]{1,200}: ")
_MARK: Final = "\u2063"
_OF_LIBRARY: Final = re.compile(f"{_MARK}([^{_MARK}]*)(?:{_MARK}|$)")
# Conditions whose messages name what the SQL lacks, and quote no value.
_OF_NAMES: Final = ("[UNRESOLVED_", "[TABLE_OR_VIEW_NOT_FOUND", "[AMBIGUOUS_REFERENCE")


def of_library(text: str) -> str:
    """What a library says, to stand in a message.

    Marks around it, which nobody sees, let :func:`without_quotes` leave it out, also where the message comes
    from another process as a text.
    """
    return f"{_MARK}{text.replace(_MARK, '')}{_MARK}"


def with_quotes(message: str) -> str:
    """The message with all that libraries say."""
    return message.replace(_MARK, "")


def without_quotes(message: str) -> str:
    """The message with no more of what libraries say than the class of an error, which is no row."""
    return _OF_LIBRARY.sub(lambda found: _without_values(found[1]), message)


def _without_values(text: str) -> str:
    if text.startswith(_OF_NAMES):
        return text
    text = _CLASS.sub("", text, count=1) if _CLASS.match(text) else text
    condition = CONDITION.match(text)
    return f"{condition[0]} {MASK}" if condition else MASK
