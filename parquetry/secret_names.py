"""Which environment variables and options are secret by their names, and how a text is shown without them."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
"""Stands for a value that is not to be seen: a secret, or one of personal data."""

SECRET_PREFIX: Final = "PARQUETRY_SECRET_"  # noqa: S105 - the name of variables
"""Variables that begin with it are secrets whatever follows."""

_NOUN: Final = (
    r"(?:secret|token|passw(?:or)?d|pass[._-]?phrase|credentials?|connection[._-]?string"
    r"|(?:secret|access|account|api|private|sas|signing|encryption|master|hmac|ssh)[._-]?key)"
)
_MENTIONS: Final = re.compile(rf"{_NOUN}|^key$", re.IGNORECASE)
# Flags, and names of classes and files.
_HARMLESS: Final = re.compile(
    r"(?:providers?|enabled|class|factory|file|path|store|type|algorithm|duration|interval|bits|length)$",
    re.IGNORECASE,
)
# Hadoop's options of one storage account of Azure end with the account.
_ACCOUNT: Final = (
    r"(?:\.[a-z0-9]+\.(?:blob|dfs)\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))?"
)
_IS: Final = re.compile(rf"{_NOUN}{_ACCOUNT}\Z", re.IGNORECASE)
_ASSIGNED: Final = re.compile(rf"({_NOUN}{_ACCOUNT}=)[^\s,;]+", re.IGNORECASE)

_CONNECTION: Final = re.compile(r"connection[._-]?string\Z", re.IGNORECASE)
_PART: Final = re.compile(r"(\w+)=.*", re.DOTALL)
_ADDRESS: Final = re.compile(
    r"\w*(?:endpoint|host|name|protocol|server|suffix|uri)=[^\s@?#]*", re.IGNORECASE | re.ASCII
)


def is_secret_name(name: str) -> bool:
    """Whether what an environment variable or an option of that name holds is to be kept out of texts."""
    if name.startswith(SECRET_PREFIX):
        return True
    return _MENTIONS.search(name) is not None and _HARMLESS.search(name) is None


def holds_secret_alone(name: str) -> bool:
    """Whether an option of that name is a secret as a whole.

    Narrower than :func:`is_secret_name`: where changes have to be seen, a masked value is one whose change
    is not. ``fs.s3a.delegation.token.binding`` is a class, ``refresh.token.endpoint`` an address, and S3's
    ``key`` the name of who asks: its ``secret`` is the secret.
    """
    return _IS.search(name) is not None


def masked_secret(name: str, value: object) -> str:
    """What is shown of the secret that an option of that name holds.

    Of a connection string the names of its parts stay, and the addresses among them.
    """
    if not isinstance(value, str) or not _CONNECTION.search(name):
        return MASK
    return ";".join(map(_masked_part, value.split(";")))


def without_assigned_secrets(text: str) -> str:
    """The text with ``***`` for what follows ``password=`` and the like."""
    return _ASSIGNED.sub(rf"\g<1>{MASK}", text)


def _masked_part(part: str) -> str:
    if not part or _ADDRESS.fullmatch(part):
        return part
    named = _PART.fullmatch(part)
    return f"{named[1]}={MASK}" if named else MASK
