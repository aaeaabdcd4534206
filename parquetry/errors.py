"""The root of every failure parquetry reports."""

from __future__ import annotations

from typing import ClassVar


class ParquetryError(Exception):
    """A failure with a cause the user can act on: what happened, where, and one remedy.

    ``exit_code`` is what the command line returns for it. Anything that is not a
    ``ParquetryError`` is a bug and exits 70.
    """

    exit_code: ClassVar[int] = 1
