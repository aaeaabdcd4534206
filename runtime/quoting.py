"""What libraries say, within our messages: it may quote rows, so that it stands there as a value."""

from __future__ import annotations

import re
from typing import Final

from parquetry.message import Message, Value
from parquetry.secret_names import MASK

CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]{2,120}\](?= )")
"""The class of an error of Spark, which no row can be, at the beginning of its message."""

_CLASS: Final = re.compile(r"(?:org\.apache\.|java\.)[\w.$]{1,200}: ")
# Conditions whose messages name what the SQL lacks, and quote no value.
_OF_NAMES: Final = ("[UNRESOLVED_", "[TABLE_OR_VIEW_NOT_FOUND", "[AMBIGUOUS_REFERENCE")


def of_library(text: str, *, kind: str = MASK) -> Message:
    """What a library says, to stand in a message; masked it is the class of the error, which is no row.

    That is Spark's where the text has it, else ``kind``, which stands for a text that says nothing, too.
    """
    return Message(Value.quote(text or kind, _without_values(text, kind)))


def _without_values(text: str, kind: str) -> str:
    if text.startswith(_OF_NAMES):
        return text
    text = _CLASS.sub("", text, count=1) if _CLASS.match(text) else text
    condition = CONDITION.match(text)
    return f"{condition[0]} {MASK}" if condition else kind
