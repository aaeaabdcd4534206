"""The version of parquetry, also readable where only a zip of the package is on the path."""

from __future__ import annotations

VERSION = "0.1.0"
