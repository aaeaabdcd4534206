"""Quotations of library errors in our messages. They may contain rows, so they are values."""

from __future__ import annotations

import re
from typing import Final

from parquetry.message import Message, Value
from parquetry.text.secret_names import MASK

CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]{2,120}\](?= )")
"""The error class at the beginning of a Spark message, which cannot be part of a row."""

_CLASS: Final = re.compile(r"(?:org\.apache\.|java\.)[\w.$]{1,200}: ")
# Error classes whose messages contain names that the SQL lacks, and no values.
_NAME_CONDITIONS: Final = ("[UNRESOLVED_", "[TABLE_OR_VIEW_NOT_FOUND", "[AMBIGUOUS_REFERENCE")


def quoted_library_text(text: str, *, kind: str = MASK) -> Message:
    """Return the text of a library for a message. If masked, only the class of the error is shown.

    Args:
        text: The text, or an empty one, which is replaced by ``kind``.
        kind: The class to show if the text does not begin with an error class of Spark.

    """
    return Message("{words}", words=Value.quote(text or kind, _without_values(text, kind)))


def _without_values(text: str, kind: str) -> str:
    if text.startswith(_NAME_CONDITIONS):
        return text
    text = _CLASS.sub("", text, count=1) if _CLASS.match(text) else text
    condition = CONDITION.match(text)
    return f"{condition[0]} {MASK}" if condition else kind
