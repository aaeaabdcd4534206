"""The interface of a column chunk that can be copied into a parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from parquetry.runtime.parquet.thrift import ThriftStruct


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of ``size`` bytes of a file, from ``start`` on."""

    content: pa.NativeFile
    start: int
    size: int


class Chunk(Protocol):
    """A column chunk that can be copied."""

    @property
    def start(self) -> int:
        """The position of its first page, in the bytes that its own offsets count."""
        ...

    @property
    def encoded_bytes(self) -> int:
        """The length of its pages before compression, with their headers."""
        ...

    @property
    def index_bytes(self) -> int:
        """The length of its column index and offset index."""
        ...

    @property
    def pieces(self) -> Sequence[Piece]:
        """The byte ranges to copy, in order."""
        ...

    def shifted(self, shift: int, *, bounds: bool) -> ThriftStruct:
        """Return the footer entry for a copy of the chunk that begins ``shift`` bytes further on.

        The entry refers to no page index. ``bounds`` decides whether it contains the smallest and the largest
        value.
        """
        ...

    def column_index(self) -> bytes | None:
        """Return the column index, or None if it is absent."""
        ...

    def offset_index(self, shift: int) -> bytes | None:
        """Return the offset index for a copy of the chunk that begins ``shift`` bytes further on.

        The result is None if the chunk has none.
        """
        ...
