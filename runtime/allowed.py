"""The keys and plug-ins that may be used for a table, as the caller that opens it specifies.

Files, clustering plans and applied records are in the storage of the table, where others can write. So a name
in them is compared with this list before a key is read or a plug-in is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from parquetry.runtime.errors import InvalidDataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """References to keys that may decrypt files, and names of clustering strategies of plug-ins."""

    keys: frozenset[str] = frozenset()
    strategies: frozenset[str] = frozenset()

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


NOTHING_ALLOWED: Final = Allowed()
"""For tables without keys and plug-ins, and for tables without a declared spec."""
