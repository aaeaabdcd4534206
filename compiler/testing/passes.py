"""The files in ``target`` of this checkout that record passed tests of rows and failing keys.

A base file never changes, so a file without violations need not be read for the same test again. A pass
counts only for the same test of the same table with the same columns and Spark settings, and only while the
newest commit that it saw is on the table's timeline. Files are identified by digests, as paths contain
values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final
from urllib.parse import quote

from parquetry.compiler.workspace.run_results import RUNS
from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.errors import ParquetryError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.codec import Brief, from_json_value, parsed_json, to_json_value
from parquetry.runtime.spec.row_tests import FailingKeys

MOST_KEYS: Final = 100
"""The number of keys that are kept per test."""

_LONGEST: Final = 150

_FOLDER: Final = Path("target") / "tests"
_VERSION: Final = 1
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """A test that no row violated.

    ``definition`` is the digest of the test, ``instant`` the newest commit then, and ``files`` the index of
    its list of files in :class:`Passes`.
    """

    definition: str
    instant: str
    files: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Passes(Brief):
    """The last passes of one table's tests at a target, by test name."""

    version: int = _VERSION
    tests: Mapping[str, Pass] = field(default_factory=dict)
    files: tuple[tuple[str, ...], ...] = ()

    def of(self, test: str, definition: str, instants: Iterable[str]) -> frozenset[str]:
        """Return the digests of the files that passed a test; none if the pass is no longer valid."""
        found = self.tests.get(test)
        if found is None or found.definition != definition or found.instant not in instants:
            return frozenset()
        return frozenset(self.files[found.files])

    def with_passed(self, passed: Mapping[str, tuple[str, str, frozenset[str]]]) -> Passes:
        """Return these passes with newer ones in place of older passes of the same tests.

        ``passed`` has the definition, the instant and the digests of files by test.
        """
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
    """The file of a project in which the passes of a table at a target are kept."""

    root: Path
    target: str
    table: str

    def read(self) -> Passes:
        """Read the passes; return none if the file is missing or not valid."""
        with suppress(OSError, ValueError, ParquetryError):
            found: Passes = from_json_value(
                Passes, parsed_json(ConfinedFolder(self.root).read(self._path)), place="passes of tests"
            )
            known = range(len(found.files))
            if found.version == _VERSION and all(one.files in known for one in found.tests.values()):
                return found
        return Passes()

    def write(self, passes: Passes) -> None:
        """Write the passes. If that fails, the next tests only have to read more files."""
        with suppress(OSError, LinkInTheWayError):
            text = json.dumps(to_json_value(passes)) + "\n"
            ConfinedFolder(self.root).write(self._path, text, private=True)

    @property
    def _path(self) -> Path:
        """The path of the file."""
        return self.root / _FOLDER / self.target / f"{self.table}.json"


def digest_of_file(file: FileSlice) -> str:
    """Return the digest of a base file: of its path, which no other file ever has, and of its size."""
    return digest_of_texts([file.path, str(file.size_bytes)])


def digest_of_texts(texts: Iterable[str]) -> str:
    """Return the digest of texts in this order."""
    return blake2b(json.dumps(list(texts)).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def save_keys(root: Path, run_id: str, table: str, test: str, keys: FailingKeys) -> str | None:
    """Write failing keys to a file, one JSON object per line; return its path, or None if that fails.

    Keys are strings, and the job has already masked personal ones.
    """
    file = RUNS / run_id / "failures" / f"{_file_name(f'{table}.{test}')}.jsonl"
    lines = (json.dumps(dict(zip(keys.columns, row, strict=True)), ensure_ascii=False) for row in keys.rows)
    try:
        ConfinedFolder(root).write(root / file, "".join(f"{line}\n" for line in lines), private=True)
    except (OSError, LinkInTheWayError):
        return None
    return file.as_posix()


def _file_name(name: str) -> str:
    """Return a name as a file name: test names may contain column names with any characters."""
    plain = quote(name, safe="")
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[:_LONGEST]}-{digest_of_texts([name])}"
