"""Many tables measured, of which one may turn out to be damaged: it is left out, and the others are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from parquetry.compiler.workspace.observation import Observation
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.storage.parallel import map_each

_Figure = TypeVar("_Figure")


class Measuring:
    """Tables by name. ``damage`` says of those that could not be read why; they are not asked again."""

    def __init__(self, tables: Mapping[str, Observation]) -> None:
        """Nothing is read yet."""
        self._whole = dict(tables)
        self.damage: dict[str, CorruptTableError] = {}

    def each(
        self, measure: Callable[[str, Observation], _Figure | None], *, side_by_side: bool = True
    ) -> dict[str, _Figure]:
        """What ``measure`` says of every table, without None and without those that it cannot read."""

        def tried(name: str) -> _Figure | CorruptTableError | None:
            try:
                return measure(name, self._whole[name])
            except CorruptTableError as error:
                return error

        names = tuple(self._whole)
        answers = map_each(names, tried) if side_by_side else [tried(name) for name in names]
        found = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, CorruptTableError):
                self.damage[name] = answer
                del self._whole[name]
            elif answer is not None:
                found[name] = answer
        return found
