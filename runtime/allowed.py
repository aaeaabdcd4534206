"""Which keys and plug-ins may be used for a table: those that whoever opens it names.

Files, clustering plans and applied records lie in the table's storage, where others write. What they name is
compared with this before a key is read or a plug-in is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from parquetry.runtime.errors import InvalidDataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """References to keys that files may be encrypted by, and names of clustering strategies of plug-ins."""

    keys: frozenset[str] = frozenset()
    strategies: frozenset[str] = frozenset()

    def check_strategy(self, path: str, name: str) -> None:
        """Raise InvalidDataError if the strategy, named at this path of a spec or plan, is none of these."""
        if name not in self.strategies:
            raise InvalidDataError(
                f"{path}: {name!r} is a plug-in that the applied spec or the plan names, and the declared "
                "spec does not; declare it (in Python: strategies= of open), or cluster by what is declared"
            )


NOTHING_ALLOWED: Final = Allowed()
"""For tables without keys and plug-ins, and for tables that nobody declares."""
