"""Log files of this machine or a bucket, read line by line in bounded memory, whatever compresses them.

Spark compresses event logs by zstd, lz4, snappy or lzf, and people by gzip. The first bytes of a file tell
which it is. A file that is still written, or whose end is lost, is read up to there. Objects of a bucket are
read by ranges of a few megabytes.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from parquetry.confined_folder import open_regular
from parquetry.errors import UsageError
from parquetry.runtime.storage.model import ObjectStore

LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest line that is read. A plan of Spark takes a few megabytes at most."""

MOST_VALUES: Final = 1_000_000
"""The most values in a line of JSON. A value may take 200 bytes of memory, however short it is written."""

_LATEST_MS: Final = 2**53
_MOST_FILES: Final = 100_000
_CHUNK_BYTES: Final = 1024 * 1024
_STEP_BYTES: Final = 4096
"""The bytes that are decompressed at once: where a file breaks off, at most so many are lost."""

_LARGEST_BLOCK_BYTES: Final = 64 * 1024 * 1024
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_GZIP: Final = b"\x1f\x8b"
_LZ4_FRAME: Final = b"\x04\x22\x4d\x18"
_LZ4_BLOCK: Final = b"LZ4Block"
_LZ4_FRAME_OF_BLOCK: Final = _LZ4_FRAME + b"\x60\x70\x73"
"""The head of a frame with blocks of at most 4 MiB and without checksums."""

_LARGEST_LZ4_BYTES: Final = 4 * 1024 * 1024
_SNAPPY: Final = b"\x82SNAPPY\x00"
_LZF: Final = b"ZV"
_PART: Final = re.compile(r"events_(\d{1,9})_(.+?)(\.compact)?(?:\.[a-z0-9]+)?", re.ASCII)
_ROLLED: Final = "eventlog_v2_"
_BUCKET: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)/*(.*?)/*", re.DOTALL)
_IGNORED: Final = re.compile(r"\..*|_.*|appstatus_.*|.*\.crc")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A file of this machine, or an object of a bucket by its path in the store."""

    path: str
    store: ObjectStore | None = None

    def __str__(self) -> str:
        return self.path if self.store is None else f"{self.store.uri}/{self.path}"

    def open(self) -> Any:
        """Open the file for reading from its begin to its end; the caller closes it.

        Raises:
            OSError: If a file cannot be opened.
            StorageError: If an object cannot be read.

        """
        if self.store is None:
            return os.fdopen(open_regular(Path(self.path), follows=True), "rb")
        opened = self.store.open_input(self.path)
        opened.announce([range(opened.size())])
        return opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The files of one log, in their order: one, or the parts of a rolled log."""

    name: str
    files: tuple[LogFile, ...]


@dataclass(slots=True, kw_only=True)
class LineCounts:
    """The parts of logs that could not be read: lines that are too long, and files that end in a line."""

    too_long: int = 0
    broken_off: list[str] = field(default_factory=list)


def logs_at(places: Iterable[str], open_store: Callable[[str], ObjectStore]) -> tuple[Log, ...]:
    """Return the logs at these places, each once: files, folders of a rolled log, and folders of both.

    Links within folders are not followed.

    Args:
        places: Paths of this machine, and URIs such as ``s3://bucket/logs``.
        open_store: A function that returns the store of a bucket.

    Raises:
        UsageError: If nothing is there, or if there are too many files.
        OSError: If a folder cannot be read.
        StorageError: If a bucket cannot be read, or is of a kind that parquetry does not read.

    """
    found: dict[str, Log] = {}
    for place in places:
        for log in _logs_below(place, open_store):
            first = log.files[0]
            found.setdefault(str(first) if first.store else os.path.realpath(first.path), log)
            if len(found) > _MOST_FILES:
                raise UsageError("{path} has more than {most} logs; give fewer", path=place, most=_MOST_FILES)
    if not found:
        raise UsageError("the folders have no files; give the folder of spark.eventLog.dir")
    return tuple(found.values())


def _logs_below(place: str, open_store: Callable[[str], ObjectStore]) -> Iterator[Log]:
    place = re.sub(r"^file://(?=/)", "", place)
    if (bucket := _BUCKET.fullmatch(place)) is not None:
        found = _in_bucket(open_store(bucket[1]), bucket[2])
    else:
        found = _on_this_machine(Path(place))
    is_empty = True
    for folder, files in found:
        is_empty = False
        yield from _logs_in(folder, files)
    if is_empty:
        raise UsageError("there is no log at {path}; give files or folders with event logs", path=place)


def _on_this_machine(path: Path) -> Iterator[tuple[str | None, dict[str, LogFile]]]:
    """Yield the folders at a path with their files by name; of a file, itself without a folder."""
    if path.is_dir():
        for folder, below, names in os.walk(path, onerror=_raise):
            below.sort()
            paths = [Path(folder, name) for name in names]
            files = (file for file in paths if file.is_file() and not file.is_symlink())
            yield folder, {file.name: LogFile(path=str(file)) for file in files}
    elif path.is_file():
        yield None, {path.name: LogFile(path=str(path))}
    elif path.exists():
        raise UsageError("{path} is neither a file nor a folder; give event logs", path=str(path))


def _raise(error: OSError) -> None:
    raise error


def _in_bucket(store: ObjectStore, path: str) -> Iterator[tuple[str | None, dict[str, LogFile]]]:
    """Yield the folders below a path with their objects by name; of an object, itself without a folder."""
    if path and store.stat(path) is not None:
        yield None, {path: LogFile(path=path, store=store)}
        return
    folders: dict[str, dict[str, LogFile]] = {}
    for info in store.list(path, recursive=True):
        folder, _, name = info.path.rpartition("/")
        if name:
            folders.setdefault(folder, {})[name] = LogFile(path=info.path, store=store)
    yield from folders.items()


def _logs_in(folder: str | None, files: Mapping[str, LogFile]) -> Iterator[Log]:
    """Yield the logs of a folder: the rolled one that it is, or each file that may be a log."""
    if folder is None:
        yield from (Log(name=str(file), files=(file,)) for file in files.values())
    elif folder.rpartition("/")[2].startswith(_ROLLED):
        if parts := _parts(files):
            yield Log(name=str(parts[0]).rpartition("/")[0], files=parts)
    else:
        for name in sorted(files):
            if _IGNORED.fullmatch(name) is None:
                yield Log(name=str(files[name]), files=(files[name],))


def _parts(files: Mapping[str, LogFile]) -> tuple[LogFile, ...]:
    """Return the parts of a rolled log from the newest compacted one on, which has those before it."""
    found = [(part, name) for name in files if (part := _PART.fullmatch(name)) is not None]
    compacted = max((int(part[1]) for part, _ in found if part[3]), default=0)
    kept = [
        (int(part[1]), name)
        for part, name in found
        if int(part[1]) > compacted or (part[3] and int(part[1]) == compacted)
    ]
    return tuple(files[name] for _, name in sorted(kept))


def json_object(text: bytes, *, most_values: int = MOST_VALUES) -> Mapping[str, Any] | None:
    """Return the JSON object of a text, or None if it is none or has too many values."""
    if values_in(text) > most_values:
        return None
    try:
        # Plans are nested more deeply than the documents of tables may be.
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def values_in(text: bytes) -> int:
    """Return the most values that a text of JSON may have: its signs before values, also those in texts."""
    return sum(map(text.count, (b"{", b"[", b",")))


def time_ms(value: object) -> int | None:
    """Return a time in milliseconds since 1970, or None if it is none or is later than any clock."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _LATEST_MS else None


def lines_of(log: Log, counts: LineCounts, *, longest_bytes: int = LONGEST_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a log without their ends, except those that are longer than ``longest_bytes``.

    Raises:
        UsageError: If a file is compressed in a way that cannot be read here.
        OSError: If a file cannot be opened.
        StorageError: If an object cannot be read.

    """
    for file in log.files:
        with file.open() as stream:
            yield from _lines(_chunks(stream, file, counts), counts, longest_bytes)


def _lines(chunks: Iterable[bytes], counts: LineCounts, longest_bytes: int) -> Iterator[bytes]:
    rest: list[bytes] = []
    length = 0
    for chunk in chunks:
        *ended, begun = chunk.split(b"\n")
        for part in ended:
            if length + len(part) <= longest_bytes:
                yield b"".join((*rest, part))
            else:
                counts.too_long += 1
            rest, length = [], 0
        length += len(begun)
        if length > longest_bytes:
            # The rest of a line that is too long is dropped as it comes.
            rest = []
        elif begun:
            rest.append(begun)
    if length > longest_bytes:
        counts.too_long += 1
    elif length:
        yield b"".join(rest)


def _chunks(stream: Any, file: LogFile, counts: LineCounts) -> Iterator[bytes]:
    """Yield the content of a file; if that ends too early, count the file."""
    begin = stream.read(16)
    stream.seek(0)
    if begin.startswith(_LZF):
        raise UsageError(
            "{path} is compressed by lzf, which is not read; set spark.io.compression.codec or "
            "spark.eventLog.compression.codec to zstd for new logs, and convert old ones with Spark",
            path=str(file),
        )
    try:
        if begin.startswith(_LZ4_BLOCK):
            yield from _lz4_blocks(stream)
        elif begin.startswith(_SNAPPY):
            yield from _snappy_blocks(stream)
        else:
            yield from _inflated(stream, begin)
    except (OSError, EOFError, ValueError, struct.error, pa.ArrowException):
        counts.broken_off.append(str(file))


def _inflated(stream: Any, begin: bytes) -> Iterator[bytes]:
    codecs = {_ZSTD: "zstd", _GZIP: "gzip", _LZ4_FRAME: "lz4"}
    codec = next((name for magic, name in codecs.items() if begin.startswith(magic)), None)
    opened, step = stream, _CHUNK_BYTES
    if codec is not None:
        source = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
        opened, step = pa.CompressedInputStream(source, codec), _STEP_BYTES
    while chunk := opened.read(step):
        yield bytes(chunk)


def _lz4_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of lz4-java's LZ4BlockOutputStream; one of no bytes ends a stream, and others follow.

    A block has 8 bytes `LZ4Block`, a byte with the method, and in little-endian order the compressed length,
    the length, and a checksum.
    """
    while head := stream.read(21):
        magic, method, compressed, length, _ = struct.unpack("<8sBiiI", head)
        content = (
            _block(stream, compressed) if magic == _LZ4_BLOCK and 0 <= length <= _LARGEST_LZ4_BYTES else b""
        )
        if len(content) != compressed:
            raise EOFError
        is_raw = method & 0xF0 == 0x10  # noqa: PLR2004 - lz4-java's COMPRESSION_METHOD_RAW
        if not is_raw and length:
            content = _lz4_content(content, length)
        if len(content) != length:
            raise EOFError
        yield content


def _lz4_content(block: bytes, length: int) -> bytes:
    """Return the content of a block, at most one byte more than ``length``.

    pyarrow does not say how many bytes of a block it filled, but it does so of frames.
    """
    frame = b"".join((_LZ4_FRAME_OF_BLOCK, struct.pack("<I", len(block)), block, bytes(4)))
    return bytes(pa.CompressedInputStream(pa.BufferReader(frame), "lz4").read(length + 1))


def _snappy_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the blocks of snappy-java's SnappyOutputStream: a header of 16 bytes, then lengths and blocks."""
    codec = pa.Codec("snappy")
    while size := stream.read(4):
        if size == _SNAPPY[:4]:
            # Streams may follow one another, each with a header.
            stream.read(12)
            continue
        (compressed,) = struct.unpack(">i", size)
        content = _block(stream, compressed)
        if len(content) != compressed:
            raise EOFError
        yield codec.decompress(content, _snappy_length(content), asbytes=True)


def _snappy_length(content: bytes) -> int:
    """Return the length of the content of a block, which the block begins with as a varint."""
    length = 0
    for shift, byte in enumerate(content[:5]):
        length |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            break
    if length > _LARGEST_BLOCK_BYTES:
        raise EOFError
    return length


def _block(stream: IO[bytes], length: int) -> bytes:
    return stream.read(length) if 0 <= length <= _LARGEST_BLOCK_BYTES else b""
