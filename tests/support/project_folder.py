"""A small project on disk, to be edited step by step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from parquetry.compiler.workspace.opened import Workspace, open_workspace
from parquetry.runtime.spec.target_settings import executes

PROJECT = {
    "apiVersion": "parquetry/v1",
    "kind": "project",
    "name": "shop",
    "default_target": "dev",
    "targets": {"dev": {"warehouse": "./warehouse", "spark": {"master": "local[2]"}}},
}

EVENTS = {
    "apiVersion": "parquetry/v1",
    "kind": "table",
    "name": "events",
    "columns": [
        {"name": "id", "type": "string", "nullable": False},
        {"name": "v", "type": "bigint"},
        {"name": "p", "type": "string"},
    ],
    "record_key": ["id"],
    "partition_by": ["p"],
}
"""The columns of tests.support.small_table, declared."""

ORDERS = {
    "apiVersion": "parquetry/v1",
    "kind": "table",
    "name": "orders",
    "description": "One row per order.",
    "columns": [
        {"name": "order_id", "type": "bigint", "nullable": False},
        {"name": "city", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "items", "type": "int"},
        {"name": "revision", "type": "bigint"},
    ],
    "record_key": ["order_id"],
    "ordering": "revision",
    "partition_by": ["city"],
    "sizing": {"max_file_size": "1MiB", "small_file_limit": "512KiB"},
    "sources": [{"name": "landing", "format": "csv", "path": "landing/*.csv", "operation": "upsert"}],
}


@dataclass(frozen=True)
class ProjectFolder:
    """A project with one table, ``orders``; the dictionaries are what the YAML says."""

    root: Path

    @classmethod
    def create(cls, root: Path) -> ProjectFolder:
        folder = cls(root)
        (root / "tables").mkdir(parents=True)
        (root / "landing").mkdir()
        folder.write("parquetry.yml", PROJECT)
        folder.write("tables/orders.yml", ORDERS)
        return folder

    def write(self, path: str, document: dict) -> None:
        (self.root / path).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")

    def orders(self, **changes) -> None:
        """Declare ``orders`` anew with these keys changed; None drops a key."""
        merged = {key: value for key, value in (ORDERS | changes).items() if value is not None}
        self.write("tables/orders.yml", merged)

    def project(self, **changes) -> None:
        self.write("parquetry.yml", PROJECT | changes)

    def deliver(self, name: str, text: str) -> Path:
        path = self.root / "landing" / name
        path.write_text(text, encoding="utf-8")
        return path

    def workspace(self, **options) -> Workspace:
        return open_workspace(self.root, target=None, variables={}, environment={}, **options)

    @property
    def table(self) -> Path:
        return self.root / "warehouse" / "orders"


def columns_with(**changes) -> list[dict]:
    """The columns of ``orders``; a value of None drops one, a mapping changes or adds one."""
    columns = {column["name"]: dict(column) for column in ORDERS["columns"]}
    for name, change in changes.items():
        if change is None:
            del columns[name]
        else:
            columns[name] = columns.get(name, {"name": name}) | change
    return list(columns.values())


def with_leave(target: dict, *, reason: str = "a test") -> dict:
    """The target with an ``allow`` entry for each of its settings that executes."""
    spark = target.get("spark", {})
    settings = {f"spark.{key}": value for key, value in spark.items() if key != "conf"}
    settings |= {f"spark.conf.{key}": value for key, value in spark.get("conf", {}).items()}
    settings |= {f"storage.{key}": value for key, value in target.get("storage", {}).items()}
    for name, options in target.get("catalogs", {}).items():
        settings |= {f"catalogs.{name}.{key}": value for key, value in options.items()}
    entries = [
        {"setting": path, "value": value, "reason": reason}
        for path, value in settings.items()
        if executes(path, value)
    ]
    return {**target, "allow": entries} if entries else target
