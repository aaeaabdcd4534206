"""Which files each test of rows has passed, as ``target/tests`` of this checkout remembers them.

A base file never changes, so what no row of it violates need not be read for that again. A pass counts only
for the same test of the same table with the same columns, read with the same settings of Spark, and while the
newest commit that it saw is on the table's timeline. Files are known by digests, as paths have values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.errors import ParquetryError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.codec import Brief, from_json_value, parsed_json, to_json_value

_FOLDER: Final = Path("target") / "tests"
_VERSION: Final = 1
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A test that no row violated: its ``definition``, the newest commit then, and which list of files."""

    definition: str
    instant: str
    files: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Passes(Brief):
    """The last passes of the tests of one table at a target, by their names."""

    version: int = _VERSION
    tests: Mapping[str, Pass] = field(default_factory=dict)
    files: tuple[tuple[str, ...], ...] = ()

    def of(self, test: str, definition: str, instants: Iterable[str]) -> frozenset[str]:
        """The digests of the files that it has passed; none where the pass does not count any more."""
        found = self.tests.get(test)
        if found is None or found.definition != definition or found.instant not in instants:
            return frozenset()
        return frozenset(self.files[found.files])

    def with_passed(self, passed: Mapping[str, tuple[str, str, frozenset[str]]]) -> Passes:
        """These passes and newer ones, of which definition, instant and files are given by test."""
        sets = {name: frozenset(self.files[one.files]) for name, one in self.tests.items()}
        tests = {name: (one.definition, one.instant, sets[name]) for name, one in self.tests.items()}
        tests |= passed
        numbers: dict[frozenset[str], int] = {}
        for _, _, files in tests.values():
            numbers.setdefault(files, len(numbers))
        return Passes(
            tests={
                name: Pass(definition=definition, instant=instant, files=numbers[files])
                for name, (definition, instant, files) in sorted(tests.items())
            },
            files=tuple(tuple(sorted(files)) for files in numbers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesFile:
    """Where the passes of a table at a target are kept in a project."""

    root: Path
    target: str
    table: str

    def read(self) -> Passes:
        """What is there; nothing where it is missing or nothing that was written here."""
        with suppress(OSError, ValueError, ParquetryError):
            found: Passes = from_json_value(
                Passes, parsed_json(ConfinedFolder(self.root).read(self._path)), place="passes of tests"
            )
            known = range(len(found.files))
            if found.version == _VERSION and all(one.files in known for one in found.tests.values()):
                return found
        return Passes()

    def write(self, passes: Passes) -> None:
        """Keep them. Where that is refused, the next tests read more."""
        with suppress(OSError, LinkInTheWayError):
            text = json.dumps(to_json_value(passes)) + "\n"
            ConfinedFolder(self.root).write(self._path, text, private=True)

    @property
    def _path(self) -> Path:
        return self.root / _FOLDER / self.target / f"{self.table}.json"


def digest_of_file(file: FileSlice) -> str:
    """What stands for a base file: of its path, whose name no other file ever has, and its size."""
    return digest_of_texts([file.path, str(file.size_bytes)])


def digest_of_texts(texts: Iterable[str]) -> str:
    """What stands for texts in this order."""
    return blake2b(json.dumps(list(texts)).encode(), digest_size=_DIGEST_BYTES).hexdigest()
