"""The keys, plug-ins and catalogs that may be used for a table, as the caller that opens it specifies.

Files, clustering plans and applied records are in the storage of the table, where others can write. So a name
in them is compared with this list before a key is read, a plug-in is loaded or a catalog is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from parquetry.runtime.errors import InvalidDataError, UnsupportedTableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """References to keys that may decrypt files, and names of clustering strategies of plug-ins.

    ``catalogs`` are the digests of the catalogs to which the table may be published.
    """

    keys: frozenset[str] = frozenset()
    strategies: frozenset[str] = frozenset()
    catalogs: frozenset[str] = frozenset()

    def check_strategy(self, path: str, name: str) -> None:
        """Raise InvalidDataError if the strategy is not allowed. ``path`` is its path in the spec or plan."""
        if name not in self.strategies:
            raise InvalidDataError(
                "{path}: {strategy!r} is a plug-in that the applied spec or the plan names, and the "
                "declared spec does not; declare it (in Python: strategies= of open), or cluster by "
                "what is declared",
                path=path,
                strategy=name,
            )

    def check_catalog(self, location: str, name: str, digest: str) -> None:
        """Raise UnsupportedTableError if the catalog of that name and digest is not allowed."""
        if digest not in self.catalogs:
            raise UnsupportedTableError(
                "{table}: {catalog!r} is a catalog that the applied spec names, and the declared spec does "
                "not, or with other options; no variable is read for it, and nothing is sent to it. Apply "
                "the declared spec (in Python: catalogs= of open); if nobody changed the catalog, find out "
                "who wrote to the table",
                table=location,
                catalog=name,
            )


NOTHING_ALLOWED: Final = Allowed()
"""For tables without keys, plug-ins and catalogs, and for tables without a declared spec."""
