"""The version of parquetry, also readable where only a zip of the package is on the path.

The only place that states it: pyproject.toml reads it from here.
"""

from __future__ import annotations

VERSION = "0.1.0"
