"""Connections to servers: direct ones, or through the proxy that the environment sets.

Nothing else in the environment counts: no password is read from ``.netrc``, and no redirect is followed
unless the caller does.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
"""The names of this machine, to which no proxy leads."""


def proxy_of(url: str) -> str:
    """Return the URL of the proxy through which a URL is reached, or "" for none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return "" if host in LOOPBACK or proxy_bypass(host) else getproxies().get(parts.scheme, "")


def connections(proxy: str) -> urllib3.PoolManager:
    """Return connections through a proxy, or direct ones if it is ""."""
    return urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager()
