"""Glue on the loopback interface (moto), and the operations that it was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from parquetry.runtime.catalog.glue import READ_ONLY_FIELDS, GlueCatalog

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@contextmanager
def credentials() -> Iterator[None]:
    """Let botocore find credentials in the environment, as users' programs do."""
    with patch.dict("os.environ", CREDENTIALS):
        yield


class CountedGlue(GlueCatalog):
    """A catalog with ``calls``: the operations that Glue was asked for, each attempt once."""

    COSTS: Mapping[str, tuple[str, ...]] = {
        "table": ("GetTable",),
        "create": ("GetDatabase", "CreateDatabase", "CreateTable"),
        "replace": ("UpdateTable",),
        "partitions": ("BatchGetPartition",),
        "every_partition": ("GetPartitions",),
        "add": ("BatchCreatePartition",),
        "update": ("BatchUpdatePartition",),
    }

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

    def _count(self, model: Any, **_: Any) -> None:
        self.calls[model.name] += 1

    def taken(self) -> Counter[str]:
        """The operations since the last call of this function."""
        taken, self.calls = self.calls, Counter()
        return taken

    @property
    def client(self) -> Any:
        """The client, with which a test acts as another program."""
        return self._client

    @property
    def raw(self) -> dict[str, Any]:
        """The entry with all that the catalog keeps in it."""
        return self._client.get_table(DatabaseName=self._names["DatabaseName"], Name="t")["Table"]

    @property
    def owner(self) -> str:
        """The owner of the entry."""
        return self.raw["Owner"]

    @property
    def table_type(self) -> str:
        """The type of the entry."""
        return self.raw["TableType"]

    def change(self, *, parameters=None, types=None, owner=None, input_format=None, removed=None) -> None:
        """Change the entry as another program does, and remove this parameter."""
        entry = {key: value for key, value in self.raw.items() if key not in READ_ONLY_FIELDS}
        entry["Parameters"] |= parameters or {}
        entry["Parameters"].pop(removed, None)
        for column in entry["StorageDescriptor"]["Columns"]:
            column["Type"] = (types or {}).get(column["Name"], column["Type"])
        entry |= {"Owner": owner} if owner else {}
        entry["StorageDescriptor"] |= {"InputFormat": input_format} if input_format else {}
        self._client.update_table(DatabaseName=self._names["DatabaseName"], TableInput=entry)
