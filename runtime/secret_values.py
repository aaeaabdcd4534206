"""What secret variables hold, kept out of messages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from parquetry.runtime.personal_data import MASK

_PREFIX: Final = "PARQUETRY_SECRET_"
_SHORTEST: Final = 4


def without_secrets(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text with ``***`` for the value of every variable whose name marks it as secret.

    Values of fewer than four characters stay: other words would be mistaken for them.
    """
    values = {value for name, value in environment.items() if name.startswith(_PREFIX)}
    for value in sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text
