"""Sorted rows on the local disk, in pieces that are read again one by one.

Those of an encrypted table are sealed by a key that only this process has: whatever is left when it is
killed says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from parquetry.runtime.errors import KeyUnavailableError

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_NONCE_BYTES: Final = 12


class SpilledRun:
    """Ranges of rows, one behind the other, in a new file at ``path``; sealed if there is a ``seal``.

    The file is read, not mapped: its pages would count as memory.
    """

    def __init__(
        self, path: Path, ranges: Iterable[Iterable[pa.RecordBatch]], *, seal: SpillCipher | None
    ) -> None:
        self._path = path
        self._seal = seal
        self._bounds = [0]
        self._ends = [0]
        with pa.OSFile(str(path), "wb") as sink:
            for pieces in ranges:
                for piece in pieces:
                    if seal is None:
                        _pack(piece, sink)
                    else:
                        packed = pa.BufferOutputStream()
                        _pack(piece, packed)
                        sink.write(seal.close(packed.getvalue()))
                    self._ends.append(sink.tell())
                self._bounds.append(len(self._ends) - 1)

    def range(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a range, piece by piece."""
        first, end = self._bounds[number], self._bounds[number + 1]
        if first == end:
            return
        with pa.OSFile(str(self._path)) as source:
            source.seek(self._ends[first])
            for at in range(first, end):
                content = source.read_buffer(self._ends[at + 1] - self._ends[at])
                opened = content if self._seal is None else self._seal.open(content)
                with pa.ipc.open_stream(opened) as pieces:
                    yield from pieces


class SpillCipher:
    """Encrypts by AES-GCM with a key that is nowhere else; KeyUnavailableError without its package."""

    def __init__(self) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - optional
        except ImportError:
            raise KeyUnavailableError(
                "sorted rows of an encrypted table are encrypted on the local disk, which needs the package "
                "cryptography; install 'parquetry[encryption]' where tables are read and written"
            ) from None
        self._cipher: Any = AESGCM(os.urandom(32))
        self._closed = 0

    def close(self, content: pa.Buffer) -> bytes:
        """The content, sealed; every call counts."""
        nonce = self._closed.to_bytes(_NONCE_BYTES, "big")
        self._closed += 1
        return nonce + bytes(self._cipher.encrypt(nonce, memoryview(content).cast("B"), None))

    def open(self, sealed: pa.Buffer) -> bytes:
        """What :meth:`close` sealed."""
        content = memoryview(sealed).cast("B")
        return bytes(self._cipher.decrypt(bytes(content[:_NONCE_BYTES]), content[_NONCE_BYTES:], None))


def _pack(piece: pa.RecordBatch, sink: Any) -> None:
    with pa.ipc.new_stream(sink, piece.schema, options=_OPTIONS) as writer:
        writer.write_batch(piece)
