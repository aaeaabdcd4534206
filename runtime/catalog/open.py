"""The catalogs by their type in a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parquetry.runtime.catalog.glue import GlueCatalog
from parquetry.runtime.catalog.hive import HiveCatalog
from parquetry.runtime.catalog.model import Catalog
from parquetry.runtime.errors import CatalogError
from parquetry.runtime.redaction import option_value


def open_catalog(name: str, options: Mapping[str, Any], *, database: str, table: str) -> Catalog:
    """Return the entry of a table in a catalog, without a request yet.

    Args:
        name: The name of the catalog in the target.
        options: Its options there, with ``type``.
        database: The name of the database.
        table: The name of the table, which catalogs spell in lower case.

    Raises:
        CatalogError: If the catalog cannot be used here.
        StorageError: If an option names a variable of the environment that is not set.
    """
    place = f"{name}: {database}.{table.lower()}"
    rest = {key: value for key, value in options.items() if key != "type"}
    match options.get("type"):
        case "glue":
            return GlueCatalog(place, database=database, table=table.lower(), **rest)
        case "hive":
            uri = option_value(rest["uri"])
            return HiveCatalog(place, database=database, table=table.lower(), uri=uri)
        case kind:
            raise CatalogError(
                "{place}: tables cannot be registered in a catalog of type {type}",
                place=place,
                type=str(kind),
            )
