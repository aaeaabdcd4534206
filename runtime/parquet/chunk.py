"""What an assembly of parquet files asks of a column chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from parquetry.runtime.parquet.thrift import ThriftStruct


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """``size`` bytes of a file from ``start`` on."""

    content: pa.NativeFile
    start: int
    size: int


class Chunk(Protocol):
    """A column chunk that can be copied."""

    @property
    def start(self) -> int:
        """Where its first page begins, in the bytes that its own offsets count."""
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
        """Where its bytes are to be copied from, in their order."""
        ...

    def shifted(self, shift: int, *, bounds: bool) -> ThriftStruct:
        """The chunk's entry in a footer when it lies ``shift`` bytes further on, without its indexes."""
        ...

    def column_index(self) -> bytes | None:
        """Its column index; None without one."""
        ...

    def offset_index(self, shift: int) -> bytes | None:
        """Its offset index as it is when the chunk lies ``shift`` bytes further on; None without one."""
        ...
