"""The search for values in the files of a table that contain no rows, and in the footers of base files.

A value matches a text that equals it, or a part of a text between separators: ``a1`` does not match ``a10``.
JSON, Avro, archives and Parquet are decoded first; everything else is searched as text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.commit.workload_profile import INSERTED_KEYS
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.parquet.footer import MAX_KEY, MIN_KEY, read_metadata, row_groups_of
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.timeline.archive_log import decode_log
from parquetry.runtime.timeline.avro_model import AVRO_FAILURES
from parquetry.runtime.timeline.sidecars import is_sample

_SEPARATORS: Final = (
    re.compile(r"[\x00-\x1f\ufffd/=\"'`]+"),
    re.compile(r"[\s\x00-\x1f\ufffd/\\=,;|\"'`<>()\[\]{}&?]+"),
    re.compile(r"[^\w@.+-]+"),
)
_BOUNDS: Final = frozenset({INSERTED_KEYS, MIN_KEY, MAX_KEY, "min_key", "max_key", "minimum", "maximum"})
"""The names whose texts are always values of rows."""

_AMBIGUOUS: Final = re.compile(r".{0,3}|[+-]?\d{1,5}", re.DOTALL)
"""Values that may equal counts, sizes and words of a table's own files: only bounds are searched for them."""

_BATCH_ROWS: Final = 4096
_AVRO_MAGIC: Final = b"Obj\x01"


@dataclass(frozen=True, slots=True)
class SearchedText:
    """A text of a file, and the innermost name under which it is stored."""

    name: str
    text: str
    is_value: bool = False

    @classmethod
    def of_row(cls, name: str, text: str) -> SearchedText:
        """Return a text that is a value of a row."""
        return cls(name, text, is_value=True)


def matches_in_file(store: ObjectStore, path: str, values: frozenset[str]) -> list[str]:
    """Return the names in a file without rows under which one of the values is found, sorted.

    If the path of the file contains a value, the word ``path`` is among the names.

    Raises:
        NotFoundError: If there is no such file.

    """
    content = store.read(path, most_bytes=MOST_BYTES)
    return sorted({*names_of_matches(_texts(content, path), values), *match_in_path(path, values)})


def matches_in_footer(store: ObjectStore, path: str, values: frozenset[str]) -> list[str]:
    """Return the names of the bounds in a base file's footer that equal one of the values, sorted.

    If the path of the file contains a value, the word ``path`` is among the names. Errors are those of
    :func:`parquetry.runtime.parquet.footer.read_metadata`.
    """
    metadata = read_metadata(store, path)
    pairs = metadata.metadata or {}
    bounds = [
        SearchedText.of_row(key, pairs[key.encode()].decode())
        for key in (MIN_KEY, MAX_KEY)
        if key.encode() in pairs
    ]
    for group in row_groups_of(metadata):
        for name, column in group.columns.items():
            bounds += [
                SearchedText.of_row(f"bounds of {name}", bound)
                for bound in (column.minimum, column.maximum)
                if isinstance(bound, str)
            ]
    return sorted({*names_of_matches(bounds, values), *match_in_path(path, values)})


def match_in_path(path: str, values: frozenset[str]) -> list[str]:
    """Return the word ``path`` in a list if a part of the path is one of the values, else an empty list."""
    return ["path"] if names_of_matches([SearchedText("path", path)], values) else []


def names_of_matches(texts: Any, values: frozenset[str]) -> set[str]:
    """Return the names of those texts that contain one of the values."""
    return {text.name for text in texts if _holds(text, values)}


def _holds(text: SearchedText, values: frozenset[str]) -> bool:
    if text.is_value:
        return text.text in values
    return any(word in values and not _AMBIGUOUS.fullmatch(word) for word in _words(text.text))


def _words(text: str) -> Iterator[str]:
    """Yield the text and its parts, as they are and with percent-encoding decoded."""
    for spelled in {text, unquote(text)}:
        yield spelled
        for separators in _SEPARATORS:
            for word in separators.split(spelled):
                yield word
                yield word.strip(".:")
                yield unquote(word)


def _texts(content: bytes, path: str) -> Iterator[SearchedText]:
    if content.startswith(b"PAR1"):
        yield from _parquet_texts(content, is_value=is_sample(path))
    elif content.startswith(_AVRO_MAGIC):
        yield from _avro_texts(content)
    elif content.startswith(b"#HUDI#"):
        with suppress(CorruptTableError):
            for archived in decode_log(content, place=path):
                yield from _leaves(archived.entry, "")
            return
        yield from _plain_texts(content)
    else:
        yield from _plain_texts(content)


def _plain_texts(content: bytes) -> Iterator[SearchedText]:
    text = content.decode("utf-8", "replace")
    with suppress(ValueError):
        yield from _leaves(parsed_json(text), "")
        return
    for line in text.splitlines():
        yield SearchedText("text", line)


def _avro_texts(content: bytes) -> Iterator[SearchedText]:
    try:
        for record in fastavro.reader(io.BytesIO(content)):
            yield from _leaves(record, "")
    except AVRO_FAILURES:
        yield from _plain_texts(content)


def _parquet_texts(content: bytes, *, is_value: bool) -> Iterator[SearchedText]:
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    yield from _leaves(row, "", is_value=is_value)
    except (pa.ArrowException, OSError):
        yield from _plain_texts(content)


def _leaves(value: Any, name: str, *, is_value: bool = False) -> Iterator[SearchedText]:
    """Yield the texts of a value as read from JSON or Avro, each with the innermost name above it."""
    match value:
        case dict():
            for key, member in value.items():
                yield SearchedText(name or "names", str(key))
                yield from _leaves(member, str(key), is_value=is_value or key in _BOUNDS)
        case list() | tuple():
            for member in value:
                yield from _leaves(member, name, is_value=is_value)
        case bytes() if value.startswith(_AVRO_MAGIC):
            yield from _avro_texts(value)
        case bytes():
            yield SearchedText(name, value.decode("utf-8", "replace"), is_value=is_value)
        case str():
            if value.startswith(("{", "[")):
                with suppress(ValueError):
                    yield from _leaves(parsed_json(value), name, is_value=is_value)
                    return
            yield SearchedText(name, value, is_value=is_value)
