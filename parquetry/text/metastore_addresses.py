"""Addresses of Hive Metastores, as Hadoop's settings write them."""

from __future__ import annotations

import re
from typing import Final

METASTORE_FORM: Final = "thrift://HOST:PORT, and several with commas"
"""The form of the addresses, for messages."""

_PORT: Final = 9083
_PORTS: Final = range(1, 65_536)
_ADDRESS: Final = re.compile(
    r"thrift://(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?/?", re.ASCII
)


def metastore_addresses(uri: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of metastores in the order of a URI, or nothing if it has another form."""
    found: list[tuple[str, int]] = []
    for address in uri.split(","):
        one = _ADDRESS.fullmatch(address.strip())
        # Libraries take a larger port modulo 65536, which is that of another server.
        if one is None or (port := int(one["port"] or _PORT)) not in _PORTS:
            return ()
        found.append((one["host"].strip("[]"), port))
    return tuple(found)
