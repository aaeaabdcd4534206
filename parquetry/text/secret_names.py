"""Rules for which environment variables and options are secrets, and masks for their values."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
"""The text that replaces a secret or a value that is personal data."""

SECRET_PREFIX: Final = "PARQUETRY_SECRET_"  # noqa: S105 - the name of variables
"""Environment variables with this prefix are secrets, whatever follows."""

_NOUN: Final = (
    r"(?:secret|token|passw(?:or)?d|pass[._-]?phrase|credentials?|connection[._-]?string"
    r"|(?:secret|access|account|api|private|sas|signing|encryption|master|hmac|ssh)[._-]?key)"
)
_MENTIONS_SECRET: Final = re.compile(rf"{_NOUN}|^key$", re.IGNORECASE)
# Names that end like this are of flags, classes, files and the like, not of secrets.
_HARMLESS: Final = re.compile(
    r"(?:providers?|enabled|class|factory|file|path|store|type|algorithm|duration|interval|bits|length)$",
    re.IGNORECASE,
)
# Hadoop's options for one storage account of Azure end with the name of the account.
_ACCOUNT: Final = (
    r"(?:\.[a-z0-9]+\.(?:blob|dfs)\.core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net))?"
)
_WHOLLY_SECRET: Final = re.compile(rf"{_NOUN}{_ACCOUNT}\Z", re.IGNORECASE)
_ASSIGNED: Final = re.compile(rf"({_NOUN}{_ACCOUNT}=)[^\s,;]+", re.IGNORECASE)

_CONNECTION: Final = re.compile(r"connection[._-]?string\Z", re.IGNORECASE)
_PART: Final = re.compile(r"(\w+)=.*", re.DOTALL)
_ADDRESS: Final = re.compile(
    r"\w*(?:endpoint|host|name|protocol|server|suffix|uri)=[^\s@?#]*", re.IGNORECASE | re.ASCII
)


def is_secret_name(name: str) -> bool:
    """Return whether an environment variable or option with this name must be kept out of texts."""
    if name.startswith(SECRET_PREFIX):
        return True
    return _MENTIONS_SECRET.search(name) is not None and _HARMLESS.search(name) is None


def is_wholly_secret(name: str) -> bool:
    """Return whether the whole value of an option with this name is a secret.

    The rule is narrower than :func:`is_secret_name`, as it is used where changes have to be seen and a mask
    hides them. ``fs.s3a.delegation.token.binding`` is a class, ``refresh.token.endpoint`` an address, and the
    ``key`` of S3 the name of an account, whose secret is in ``secret``.
    """
    return _WHOLLY_SECRET.search(name) is not None


def masked_secret(name: str, value: object) -> str:
    """Return the masked value of an option whose name is that of a secret.

    A connection string keeps the names of its parts, and the addresses among them.
    """
    if not isinstance(value, str) or not _CONNECTION.search(name):
        return MASK
    return ";".join(map(_masked_part, value.split(";")))


def without_assigned_secrets(text: str) -> str:
    """Return the text with ``***`` in place of values after ``password=`` and the like."""
    return _ASSIGNED.sub(rf"\g<1>{MASK}", text)


def _masked_part(part: str) -> str:
    if not part or _ADDRESS.fullmatch(part):
        return part
    named = _PART.fullmatch(part)
    return f"{named[1]}={MASK}" if named else MASK
