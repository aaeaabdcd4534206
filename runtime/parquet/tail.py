"""The last bytes of a parquet file, which contain the length of its footer."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

MAGIC: Final = b"PAR1"
ENCRYPTED_MAGIC: Final = b"PARE"
MOST_FOOTER_BYTES: Final = 64 * 1024 * 1024
"""The largest footer, and the largest page index, that is read."""

TAIL_BYTES: Final = 8
"""The size of the footer's length and the magic number after it."""

_READ_BYTES: Final = 64 * 1024
"""The size of Arrow's first read from the end of a file, so that one read-ahead of the store serves both."""


def footer_bytes(content: pa.NativeFile, *, magic: tuple[bytes, ...] = (MAGIC,)) -> int:
    """Return the length of the footer of an open parquet file, without the eight bytes that follow it.

    The file itself contains this number, so in an untrusted file it may be any number.

    Raises:
        pyarrow.ArrowInvalid: If the file does not end like a parquet file, or if the footer is longer than
        the file or than 64 MiB.

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
            f"its footer has {length:,} bytes, but the limit is {MOST_FOOTER_BYTES:,}; "
            "rewrite the file with fewer row groups"
        )
    return length
