"""Names of base files: ``<partition>/<file id>_<write token>_<instant>.parquet``.

Source: FSUtils of Hudi 0.15. Neither id nor token contains ``_`` or ``.``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

WRITE_TOKEN: Final = "0-0-0"  # noqa: S105 - part of a file name
SUFFIX: Final = ".parquet"

_NAME = re.compile(r"^(?P<id>[^_]+)_(?P<token>[^_.]+)_(?P<instant>[0-9]+)\.parquet\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFileName:
    """What the name of a base file says."""

    partition: str
    file_id: str
    instant: str
    write_token: str = WRITE_TOKEN

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return f"{self.file_id}_{self.write_token}_{self.instant}{SUFFIX}"

    @property
    def path(self) -> str:
        """The file relative to the table."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """What the path of a base file says; None for any other file."""
        partition, _, name = path.rpartition("/")
        match = _NAME.match(name)
        if match is None:
            return None
        return cls(
            partition=partition, file_id=match["id"], instant=match["instant"], write_token=match["token"]
        )
