"""The matrix of readers and kinds of tables, as the newest run of the readers wrote it.

``matrix.json`` is its file. ``make readers`` writes the cells of readers that run here. The cells of others
have a source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Final

FILE: Final = "matrix.json"


class ReaderResult(StrEnum):
    """The result of a reader at a table: its rows, an error, or other rows."""

    RIGHT = "right"
    REFUSED = "refused"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """The result of one reader for one kind of table.

    ``detail`` is the gist of the error, or says how the rows differ. ``source`` is the address of what
    documents the result of a reader that was not run.
    """

    result: ReaderResult
    detail: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A reader with its cells by kind. ``version`` is None if it was not run; then kinds may lack a cell.

    ``call`` is how it reads a table. ``lists_files`` is True if it also accepts a list of live files.
    ``published_as`` is the key below ``publish:`` whose metadata it reads, or None if it needs none. Its
    tables are published so, but for those of the kinds ``unpublished`` and ``publishing_stopped``.
    """

    name: str
    title: str
    call: str
    version: str | None = None
    lists_files: bool = False
    published_as: str | None = None
    cells: Mapping[str, MatrixCell] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The descriptions of the kinds of tables by name, and the readers by name."""

    kinds: Mapping[str, str]
    readers: Mapping[str, Reader]


@cache
def matrix() -> Matrix:
    """Return the matrix of this version."""
    return from_json(json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8")))


def from_json(value: Mapping[str, Any]) -> Matrix:
    """Return the matrix that a document holds."""
    readers = {
        name: Reader(
            name=name,
            **{key: given for key, given in reader.items() if key != "cells"},
            cells={
                kind: MatrixCell(**{**cell, "result": ReaderResult(cell["result"])})
                for kind, cell in reader["cells"].items()
            },
        )
        for name, reader in value["readers"].items()
    }
    return Matrix(kinds=value["kinds"], readers=readers)


def shut_out(version: int) -> tuple[str, ...]:
    """Return the titles of the readers that do not read tables of a version, in alphabetical order."""
    found = matrix().readers.values()
    cells = ((reader.title, reader.cells.get(f"version_{version}")) for reader in found)
    return tuple(sorted(title for title, cell in cells if cell and cell.result is ReaderResult.REFUSED))
