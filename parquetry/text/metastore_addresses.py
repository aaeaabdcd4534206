"""Addresses of Hive Metastores, as Hadoop's settings write them."""

from __future__ import annotations

import re
from typing import Final

METASTORE_FORM: Final = "thrift://HOST:PORT, and several with commas"
"""The form of the addresses, for messages."""

_PORT: Final = 9083
_ADDRESS: Final = re.compile(
    r"thrift://(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?/?", re.ASCII
)


def metastore_addresses(uri: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of metastores in the order of a URI, or nothing if it has another form."""
    found = [_ADDRESS.fullmatch(address.strip()) for address in uri.split(",")]
    return (
        tuple((one["host"].strip("[]"), int(one["port"] or _PORT)) for one in found if one)
        if all(found)
        else ()
    )
