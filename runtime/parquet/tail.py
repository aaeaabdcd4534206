"""The last bytes of a parquet file, which say how long its footer is."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

MAGIC: Final = b"PAR1"
ENCRYPTED_MAGIC: Final = b"PARE"
MOST_FOOTER_BYTES: Final = 64 * 1024 * 1024
"""Of a footer that is read, and of a page index."""

TAIL_BYTES: Final = 8
"""Of a footer's length and the magic number behind it."""

_READ_BYTES: Final = 64 * 1024
"""As many as Arrow reads of the end of a file first, so that a store's read-ahead serves both."""


def footer_bytes(content: pa.NativeFile, *, magic: tuple[bytes, ...] = (MAGIC,)) -> int:
    """Return the length of the footer of an open parquet file; pa.ArrowInvalid if it is too long to be read.

    The length is what the file claims, and a file of a stranger claims anything.
    """
    size: int = content.size()
    read = min(size, _READ_BYTES)
    tail = content.read_at(read, size - read)[-TAIL_BYTES:]
    if len(tail) < TAIL_BYTES or not tail.endswith(magic):
        raise pa.ArrowInvalid("it does not end like a parquet file")
    length: int = struct.unpack("<I", tail[:4])[0]
    if length > size - TAIL_BYTES - len(MAGIC):
        raise pa.ArrowInvalid("its footer is longer than the file")
    if length > MOST_FOOTER_BYTES:
        raise pa.ArrowInvalid(
            f"its footer has {length:,} bytes, and at most {MOST_FOOTER_BYTES:,} are read; "
            "write the file anew with fewer row groups"
        )
    return length
