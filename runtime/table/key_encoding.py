"""The encoding of the record keys of an existing table, detected from one of its files.

Hudi's ComplexKeyGenerator with a single field wrote ``field:value`` up to 0.14.0 and again from 1.1, and the
bare value in between. If a table mixed both, every key would count as new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from parquetry.message import Field, Value
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.parquet.encryption import open_parquet
from parquetry.runtime.spec.key_generator import KeyEncoding
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.view import FileSystemView

_SAMPLE_ROWS: Final = 64


def detect_key_encoding(store: ObjectStore, view: FileSystemView, record_key: Sequence[str]) -> KeyEncoding:
    """Return the key encoding of the table's files, or BARE for a table without rows.

    Partitions are read one after the other until one has a row.

    Raises:
        CorruptTableError: If the rows of one file have different encodings.

    """
    (field,) = record_key
    for partition in view.partitions():
        for part in view.slices(partition):
            pairs = _sample(store, part.path, field)
            if pairs:
                return _encoding_of(pairs, field, Value.uri(f"{store.uri}/{part.path}"))
    return KeyEncoding.BARE


def sampled_row(store: ObjectStore, path: str, fields: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of the fields in the first row of a file, or None if it has no rows.

    Names of nested fields are dotted.
    """
    place = Value.uri(f"{store.uri}/{path}")
    with store.open_input(path) as source, open_parquet(source, store.allowed, place=place) as file:
        batches = file.iter_batches(batch_size=1, columns=list(fields), use_threads=False)
        rows: list[dict[str, Any]] = next((batch.to_pylist() for batch in batches if batch.num_rows), [])
    return {field: _nested(rows[0], field) for field in fields} if rows else None


def _sample(store: ObjectStore, path: str, field: str) -> list[tuple[str, str]]:
    """Return a few record keys, each with the text of the field from which it was made."""
    place = Value.uri(f"{store.uri}/{path}")
    with store.open_input(path) as source, open_parquet(source, store.allowed, place=place) as file:
        batches = file.iter_batches(batch_size=_SAMPLE_ROWS, columns=[RECORD_KEY, field], use_threads=False)
        rows: list[dict[str, Any]] = next((batch.to_pylist() for batch in batches if batch.num_rows), [])
    return [(row[RECORD_KEY], str(_nested(row, field))) for row in rows if row[RECORD_KEY] is not None]


def _nested(row: object, field: str) -> object:
    """Return the value of a dotted field in a row, or None if it is absent."""
    for name in field.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _encoding_of(pairs: Sequence[tuple[str, str]], field: str, place: Field) -> KeyEncoding:
    """Return PREFIXED if every key, but not its value, starts with ``field:``, or BARE if no key does."""
    prefix = f"{field}:"
    prefixed = [key.startswith(prefix) and key != value for key, value in pairs]
    if all(prefixed):
        return KeyEncoding.PREFIXED
    if not any(prefixed):
        return KeyEncoding.BARE
    raise CorruptTableError(
        "{file}: some record keys begin with {prefix!r} and some do not, so two writers used "
        "different encodings; rewrite the table with one of them",
        file=place,
        prefix=prefix,
    )
