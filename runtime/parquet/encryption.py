"""Base files encrypted as a whole by Parquet's modular encryption, and read again.

A file has its own data key. That is wrapped by a key encryption key of this process, and that one by the
master key that the table's spec refers to (envelope encryption as parquet's key tools define it). The
wrapped keys and the reference stand in the file's own key metadata; no key is ever written.

Whoever writes to the storage chooses that metadata. So a reference is followed only if whoever opens the
table allows it, and each set of allowed references has a factory, and its cache of keys, of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.errors import ParquetryError
from parquetry.message import Message
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.errors import KeyUnavailableError, UnsupportedTableError
from parquetry.runtime.parquet.key_management import REMEDY, kms_client, plug_in, split_reference
from parquetry.runtime.parquet.tail import ENCRYPTED_MAGIC, MAGIC, footer_bytes

ENCRYPTION: Final = "parquetry.encryption"
"""The footer key, and the key in a commit's extra metadata, that holds the reference."""

_Answer = TypeVar("_Answer")

_DATA_KEY_BITS: Final = 256
_MOST_SHOWN: Final = 200


def encryption_properties(reference: str, allowed: Allowed) -> Any:
    """What ``ParquetWriter`` needs for one new file whose every part is encrypted.

    KeyUnavailableError when the key is not allowed, or cannot be had here.
    """
    from pyarrow.parquet.encryption import EncryptionConfiguration  # noqa: PLC0415 - few tables need it

    if not hasattr(EncryptionConfiguration, "uniform_encryption"):
        raise UnsupportedTableError(
            f"pyarrow {pa.__version__} cannot encrypt whole files; run `pip install --upgrade pyarrow`"
        )
    factory, connection = _crypto(allowed.keys)
    configuration = EncryptionConfiguration(
        footer_key=reference, uniform_encryption=True, data_key_length_bits=_DATA_KEY_BITS
    )
    return factory.file_encryption_properties(connection, configuration)


def open_footer(source: Any, allowed: Allowed, *, place: str) -> tuple[pq.FileMetaData, Any]:
    """The footer of an open parquet file, and what decrypts the rest: None for a file in the clear.

    KeyUnavailableError, which names the ``place``, when the file is encrypted and its key is not allowed, or
    cannot be had here; else as pyarrow.
    """
    footer_bytes(source, magic=(MAGIC, ENCRYPTED_MAGIC))
    try:
        return pq.read_metadata(source), None
    except (pa.ArrowInvalid, OSError):
        if not _is_encrypted(source):
            raise
    decryption = _decryption_properties(allowed)
    try:
        return pq.read_metadata(source, decryption_properties=decryption), decryption
    except KeyUnavailableError as error:
        raise KeyUnavailableError(Message(place, ": ", error.message)) from None


def open_parquet(source: Any, allowed: Allowed, *, place: str, **options: Any) -> pq.ParquetFile:
    """The parquet file, encrypted or in the clear; errors are those of :func:`open_footer`."""
    metadata, decryption = open_footer(source, allowed, place=place)
    if decryption is None:
        return pq.ParquetFile(source, metadata=metadata, **options)
    return pq.ParquetFile(source, decryption_properties=decryption, **options)


def is_encrypted(metadata: pq.FileMetaData) -> bool:
    """Whether the file of this footer was written encrypted by this project."""
    return ENCRYPTION.encode() in (metadata.metadata or {})


def _is_encrypted(source: Any) -> bool:
    size = source.size()
    source.seek(max(size - len(ENCRYPTED_MAGIC), 0))
    return bool(source.read(len(ENCRYPTED_MAGIC)) == ENCRYPTED_MAGIC)


def _decryption_properties(allowed: Allowed) -> Any:
    from pyarrow.parquet.encryption import DecryptionConfiguration  # noqa: PLC0415 - few tables need it

    factory, connection = _crypto(allowed.keys)
    return factory.file_decryption_properties(connection, DecryptionConfiguration())


@cache
def _crypto(references: frozenset[str]) -> tuple[Any, Any]:
    """The factory of this process for files of these keys alone.

    It keeps key encryption keys for ten minutes, as parquet-mr's does: only those that these keys unwrapped.
    """
    from pyarrow.parquet.encryption import CryptoFactory, KmsClient, KmsConnectionConfig  # noqa: PLC0415

    class Clients(KmsClient):  # type: ignore[misc]  # pyarrow has no types
        """Asks the client that a key's reference names, if the reference is allowed."""

        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
            with _asking(master_key_identifier, references):
                kind, name = split_reference(master_key_identifier)
                return _of_type(str, kms_client(kind).wrap_key(key_bytes, name), f"{kind}.wrap_key")

        def unwrap_key(self, wrapped_key: str | bytes, master_key_identifier: str) -> bytes:
            with _asking(master_key_identifier, references):
                kind, name = split_reference(master_key_identifier)
                text = wrapped_key.decode() if isinstance(wrapped_key, bytes) else wrapped_key
                return _of_type(bytes, kms_client(kind).unwrap_key(text, name), f"{kind}.unwrap_key")

    return CryptoFactory(lambda _: Clients()), KmsConnectionConfig()


def _of_type(wanted: type[_Answer], answer: object, asked: str) -> _Answer:
    """The client's answer; KeyUnavailableError, without it, where it is of another type."""
    if isinstance(answer, wanted):
        return answer
    kind, _, method = asked.rpartition(".")
    what = f"answers {method} with {type(answer).__name__}, not with {wanted.__name__}"
    raise KeyUnavailableError(f"{plug_in(kind)} {what}; {REMEDY}")


@contextmanager
def _asking(reference: str, allowed: frozenset[str]) -> Iterator[None]:
    """Tells failures of a client from those of the file: a service's lost connection is an OSError too.

    KeyUnavailableError, before there is a client, for a reference that is not allowed.
    """
    if reference not in allowed:
        raise KeyUnavailableError(
            f"the key {reference[:_MOST_SHOWN]!r} is not named by who opens the table; if it is the table's, "
            "declare it as files.encryption_key or in files.former_encryption_keys (for a source in its "
            "encryption_keys, in Python in keys= of open); if not, find out who wrote to the table"
        )
    try:
        yield
    except ParquetryError:
        raise
    except Exception as failure:  # noqa: BLE001  # a plug-in may raise anything, and its text hold secrets
        kind = split_reference(reference)[0]
        raise KeyUnavailableError(
            f"the client {kind!r} failed to give the key {reference}: {type(failure).__name__}; see that its "
            "service answers where tables are read and written, then run again"
        ) from None
