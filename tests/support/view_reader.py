"""Our own reader without Spark, as a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

import parquetry


@dataclass(frozen=True)
class ViewReader:
    """Reads the rows with their meta columns; ``options`` are those of the store."""

    options: Mapping[str, Any] | None = None

    name: ClassVar[str] = "parquetry without Spark"
    empty_is_null: ClassVar[bool] = False
    needs_jvm: ClassVar[bool] = False

    def read(
        self, path: str, *, as_of: str | None = None, since: str | None = None, until: str | None = None
    ) -> pa.Table:
        """Rows with meta columns: latest, as of an instant, or of the commits in (since, until]."""
        return parquetry.open(path, self.options).to_arrow(meta=True, as_of=as_of, since=since, until=until)
