"""What ``hoodie.properties`` lacks although nothing fails yet."""

from __future__ import annotations

from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.applied import read_identity
from parquetry.runtime.table.config import TIMEZONE_KEY
from parquetry.runtime.table.properties import PROPERTIES_PATH, read_table_properties


def property_warnings(store: ObjectStore) -> tuple[str, ...]:
    """What is wrong with the properties of a table, each with its remedy; two requests.

    A table that parquetry made has its instants in UTC, and says so. Hudi 0.15 drops that property in
    ``CREATE TABLE ... LOCATION`` and takes local time from then on.
    """
    identity = read_identity(store)
    if identity is None or identity.first_instant is None or TIMEZONE_KEY in read_table_properties(store):
        return ()
    warning = (
        f"{store.uri}/{PROPERTIES_PATH} has lost {TIMEZONE_KEY}=UTC (CREATE TABLE of Hudi 0.15 drops it): "
        "a Hudi job west of Greenwich would lose rows; add that line, or let the next write of parquetry, "
        "which puts it back, go before any of Hudi"
    )
    return (warning,)
