"""The port of a catalog of Hive's model: one table entry, and its partitions in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from parquetry.runtime.catalog.entry import CatalogPartition, CatalogTable, differences
from parquetry.runtime.errors import CatalogError
from parquetry.runtime.storage.model import ObjectStore

KeyValues: TypeAlias = tuple[str, ...]
"""The values of the partition keys of one partition, in the order of the keys."""


class Catalog(Protocol):
    """The entry of one table in a catalog.

    ``place`` names the entry in messages, such as ``lake: shop.orders``. Every method raises CatalogError if
    the catalog rejects the request or cannot be reached, after retries with growing waits. Its ``is_outage``
    is then set if the catalog cannot be reached.
    """

    @property
    def place(self) -> str:
        """The name of the catalog, of the database and of the table."""
        ...

    def location_of(self, store: ObjectStore) -> str:
        """Return the URI of a table's folder as readers of the catalog open it."""
        ...

    def table(self) -> CatalogTable | None:
        """Return the entry, or None if there is none."""
        ...

    def create(self, entry: CatalogTable) -> None:
        """Create the entry, and the database if it is missing.

        An equal entry of parquetry that exists already is accepted. One of another program is an error.
        """
        ...

    def replace(self, entry: CatalogTable, *, keeps_version: bool) -> None:
        """Replace the entry that :meth:`table` returned last.

        If ``keeps_version`` is True, a catalog with versions keeps the former entry as one. If another
        program has replaced the entry meanwhile, the call fails, as far as the catalog can tell.
        """
        ...

    def partitions(self, values: Iterable[KeyValues]) -> Mapping[KeyValues, CatalogPartition]:
        """Return those of the partitions that are registered."""
        ...

    def every_partition(self) -> Iterator[CatalogPartition]:
        """Yield all registered partitions, a page at a time."""
        ...

    def add(self, entry: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Register partitions. One that another program has registered meanwhile is left as it is."""
        ...

    def update(self, entry: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Replace registered partitions."""
        ...

    def drop(self, values: Sequence[KeyValues]) -> None:
        """Remove partitions from the catalog; no file is deleted."""
        ...


def check_created(catalog: Catalog, entry: CatalogTable) -> None:
    """Check that an entry that exists already is one to create: a lost answer was that to its creation.

    Raises:
        CatalogError: If another program registered the table meanwhile.
    """
    stored = catalog.table()
    if stored is None or stored.has_definition_of_others or differences(stored, entry):
        raise CatalogError(
            "{place}: another program registered a table of this name meanwhile; sync again",
            place=catalog.place,
        )
