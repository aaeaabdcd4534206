"""The version of parquetry, which is readable even if only a zip of the package is on the path.

This is the only place that defines it: pyproject.toml reads it from here.
"""

from __future__ import annotations

VERSION = "0.1.0"
