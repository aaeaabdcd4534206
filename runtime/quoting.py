"""What libraries say, within our messages: it may quote rows, and is marked as long as it is in doubt."""

from __future__ import annotations

import re
from typing import Final

from parquetry.secret_names import MASK

CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]{2,120}\](?= )")
"""The class of an error of Spark, which no row can be, at the beginning of its message."""

_CLASS: Final = re.compile(r"(?:org\.apache\.|java\.)[\w.$]{1,200}: ")
_BEGIN: Final = "\u2063"
_END: Final = "\u2064"
# From the first beginning on, as a text may be cut; what is said stands behind the last one.
_OF_LIBRARY: Final = re.compile(f"{_BEGIN}(?:[^{_END}]*{_BEGIN})?([^{_BEGIN}{_END}]*)(?:{_END}|$)")
_MARKS: Final = str.maketrans("", "", _BEGIN + _END)
# Conditions whose messages name what the SQL lacks, and quote no value.
_OF_NAMES: Final = ("[UNRESOLVED_", "[TABLE_OR_VIEW_NOT_FOUND", "[AMBIGUOUS_REFERENCE")


def of_library(text: str) -> str:
    """What a library says, to stand in a message.

    Marks around it, which nobody sees, let :func:`without_quotes` leave it out, also where the message comes
    from another process as a text. They differ, as the name of a file before it may hold one.
    """
    return f"{_BEGIN}{with_quotes(text)}{_END}"


def with_quotes(message: str) -> str:
    """The message with all that libraries say."""
    return message.translate(_MARKS)


def without_quotes(message: str) -> str:
    """The message with no more of what libraries say than the class of an error, which is no row."""
    return with_quotes(_OF_LIBRARY.sub(lambda found: _without_values(found[1]), message))


def _without_values(text: str) -> str:
    if text.startswith(_OF_NAMES):
        return text
    text = _CLASS.sub("", text, count=1) if _CLASS.match(text) else text
    condition = CONDITION.match(text)
    return f"{condition[0]} {MASK}" if condition else MASK
