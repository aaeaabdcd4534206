"""Which environment variables and options are secret by their names."""

from __future__ import annotations

import re
from typing import Final

SECRET_PREFIX: Final = "PARQUETRY_SECRET_"  # noqa: S105 - the name of variables
"""Variables that begin with it are secrets whatever follows."""

_NAME: Final = re.compile(
    r"secret|token|passw(?:or)?d|passphrase|credential|connection[._-]?string|^key$"
    r"|(?:access|account|api|private|sas|signing|encryption|master|hmac|ssh)[._-]?key",
    re.IGNORECASE,
)
# Flags, and names of classes and files.
_HARMLESS: Final = re.compile(
    r"(?:providers?|enabled|class|factory|file|path|store|type|algorithm|duration|interval|bits|length)$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether what an environment variable or an option of that name holds is secret."""
    if name.startswith(SECRET_PREFIX):
        return True
    return _NAME.search(name) is not None and _HARMLESS.search(name) is None
