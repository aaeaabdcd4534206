"""Glue on the loopback interface (moto), and the operations that it was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from parquetry.runtime.catalog.glue import GlueCatalog

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@contextmanager
def credentials() -> Iterator[None]:
    """Let botocore find credentials in the environment, as users' programs do."""
    with patch.dict("os.environ", CREDENTIALS):
        yield


class CountedGlue(GlueCatalog):
    """A catalog with ``calls``: the operations that Glue was asked for, each attempt once."""

    def __init__(self, endpoint: str, *, database: str, table: str = "t", **options: Any) -> None:
        super().__init__(
            f"lake: {database}.{table}",
            database=database,
            table=table,
            region="eu-west-1",
            endpoint=endpoint,
            **options,
        )
        self.calls: Counter[str] = Counter()
        self._client.meta.events.register("before-call.glue", self._count)

    @property
    def client(self) -> Any:
        """The client, with which a test acts as another program."""
        return self._client

    def _count(self, model: Any, **_: Any) -> None:
        self.calls[model.name] += 1

    def taken(self) -> Mapping[str, int]:
        """The operations since the last call of this function."""
        taken, self.calls = dict(self.calls), Counter()
        return taken
