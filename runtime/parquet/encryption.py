"""Encryption of whole base files by Parquet's modular encryption, and reading them.

Each file has a data key. A key encryption key of this process wraps it, and the master key to which the
table's spec refers wraps that one (envelope encryption as in parquet's key tools). The key metadata of the
file contains the wrapped keys and the reference; no key is ever written in the clear.

Everyone who can write to the storage can choose that metadata. So a reference is used only if the opener of
the table allows it, and each set of allowed references has its own factory with its own cache of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.errors import ParquetryError
from parquetry.message import Field
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.errors import KeyUnavailableError, UnsupportedTableError
from parquetry.runtime.parquet.key_management import REMEDY, describe_plug_in, kms_client, split_reference
from parquetry.runtime.parquet.tail import ENCRYPTED_MAGIC, MAGIC, footer_bytes

ENCRYPTION: Final = "parquetry.encryption"
"""The footer key, and the key in a commit's extra metadata, for the key's reference."""

_Answer = TypeVar("_Answer")

_DATA_KEY_BITS: Final = 256
_MOST_SHOWN: Final = 200


def encryption_properties(reference: str, allowed: Allowed) -> Any:
    """Return the properties with which ``ParquetWriter`` encrypts every part of one new file.

    Raises:
        KeyUnavailableError: If the key is not allowed or not available here.
        UnsupportedTableError: If pyarrow is too old to encrypt whole files.
    """
    from pyarrow.parquet.encryption import EncryptionConfiguration  # noqa: PLC0415 - few tables need it

    if not hasattr(EncryptionConfiguration, "uniform_encryption"):
        raise UnsupportedTableError(
            "pyarrow {version} cannot encrypt whole files; run `pip install --upgrade pyarrow`",
            version=pa.__version__,
        )
    factory, connection = _crypto(allowed.keys)
    configuration = EncryptionConfiguration(
        footer_key=reference, uniform_encryption=True, data_key_length_bits=_DATA_KEY_BITS
    )
    return factory.file_encryption_properties(connection, configuration)


def open_footer(source: Any, allowed: Allowed, *, place: Field) -> tuple[pq.FileMetaData, Any]:
    """Return the footer of an open parquet file, and the file's decryption properties.

    The properties are None for an unencrypted file. Errors of pyarrow are passed on.

    Raises:
        KeyUnavailableError: If the file is encrypted and its key is not allowed or not available here. The
            message names ``place``.

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
        raise KeyUnavailableError("{place}: {reason}", place=place, reason=error.message) from None


def open_parquet(source: Any, allowed: Allowed, *, place: Field, **options: Any) -> pq.ParquetFile:
    """Open a parquet file, encrypted or not. The errors are those of :func:`open_footer`."""
    return file_with_footer(source, *open_footer(source, allowed, place=place), **options)


def file_with_footer(
    source: Any, metadata: pq.FileMetaData, decryption: Any, **options: Any
) -> pq.ParquetFile:
    """Return a parquet file whose footer :func:`open_footer` has read, with options of ``ParquetFile``.

    Times in INT96 are read as microseconds. The nanoseconds that are the default of Arrow turn times before
    1677 into others without an error.
    """
    options["coerce_int96_timestamp_unit"] = "us"
    if decryption is None:
        return pq.ParquetFile(source, metadata=metadata, **options)
    # Decryption is set up only if the ParquetFile reads the footer itself.
    return pq.ParquetFile(source, decryption_properties=decryption, **options)


def is_encrypted(metadata: pq.FileMetaData) -> bool:
    """Return whether this footer belongs to a file that this project encrypted."""
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
    """Return a crypto factory and its connection configuration, for these key references only.

    The factory caches the key encryption keys that it unwraps for ten minutes, as parquet-mr does. It has no
    access to keys that other factories unwrapped.
    """
    from pyarrow.parquet.encryption import CryptoFactory, KmsClient, KmsConnectionConfig  # noqa: PLC0415

    class Clients(KmsClient):  # type: ignore[misc]  # pyarrow has no types
        """Passes each request to the client that the reference names, if the reference is allowed."""

        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
            with _client_errors(master_key_identifier, references):
                kind, name = split_reference(master_key_identifier)
                return _of_type(str, kms_client(kind).wrap_key(key_bytes, name), f"{kind}.wrap_key")

        def unwrap_key(self, wrapped_key: str | bytes, master_key_identifier: str) -> bytes:
            with _client_errors(master_key_identifier, references):
                kind, name = split_reference(master_key_identifier)
                text = wrapped_key.decode() if isinstance(wrapped_key, bytes) else wrapped_key
                return _of_type(bytes, kms_client(kind).unwrap_key(text, name), f"{kind}.unwrap_key")

    return CryptoFactory(lambda _: Clients()), KmsConnectionConfig()


def _of_type(wanted: type[_Answer], answer: object, method: str) -> _Answer:
    """Return the client's answer, or raise KeyUnavailableError if it is not of the wanted type.

    The error does not contain the answer. ``method`` is the name of the called method.
    """
    if isinstance(answer, wanted):
        return answer
    kind, _, name = method.rpartition(".")
    raise KeyUnavailableError(
        "{method} of {client} returned a {found} instead of a {expected}; {remedy}",
        method=name,
        client=describe_plug_in(kind),
        found=type(answer).__name__,
        expected=wanted.__name__,
        remedy=REMEDY,
    )


@contextmanager
def _client_errors(reference: str, allowed: frozenset[str]) -> Iterator[None]:
    """Yield, and convert any failure of a client to KeyUnavailableError.

    Without this, a lost connection to the key service, which is an OSError, would look like a damaged file.
    If the reference is not allowed, KeyUnavailableError is raised before a client is made.
    """
    if reference not in allowed:
        raise KeyUnavailableError(
            "the key {encryption_key!r} is not declared here; if it is the table's, declare it as "
            "files.encryption_key or in files.former_encryption_keys (for a source in its "
            "encryption_keys, in Python in keys= of open); if not, find out who wrote to the table",
            encryption_key=reference[:_MOST_SHOWN],
        )
    try:
        yield
    except ParquetryError:
        raise
    except Exception as failure:  # noqa: BLE001  # a plug-in may raise anything, and its text hold secrets
        kind = split_reference(reference)[0]
        raise KeyUnavailableError(
            "the client {client!r} did not return the key {encryption_key} ({error_class}); check that its "
            "service is reachable where tables are read and written, then run again",
            client=kind,
            encryption_key=reference,
            error_class=type(failure).__name__,
        ) from None
