"""Clients that provide master keys: built-in ones, and those of the entry-point group.

A reference such as ``env:FLIGHTS_KEY`` has the name of a client before the first colon and the client's own
name of the key after it. Specs, plans and tables contain references only. Every process that reads or writes
encrypted files asks the client, so a plug-in must be installed where they run.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

from parquetry.runtime.errors import KeyUnavailableError
from parquetry.runtime.spec.plug_ins import KMS_CLIENTS
from parquetry.runtime.storage.regular_file import read_regular

REMEDY: Final = "fix the package that provides it, or use a key of another client"

_NONCE_BYTES: Final = 12
_SECRET_BYTES: Final = 32
_KEY_BYTES: Final = (16, 24, 32)
_FILE_BYTES: Final = 4096


class KmsClient(Protocol):
    """Wraps other keys with a master key that only it knows. ``pyarrow.parquet.encryption.KmsClient`` is one.

    ``name`` is a reference without the client's name. An exception ends the read or write. A
    KeyUnavailableError is reported as it is, so it should name the key and a remedy, but never contain a
    key's bytes. For any other exception only its class is reported.
    """

    def wrap_key(self, key_bytes: bytes, name: str, /) -> str:
        """Return the key, encrypted with the master key, as text."""
        ...

    def unwrap_key(self, wrapped_key: str, name: str, /) -> bytes:
        """Return the key from the text that :meth:`wrap_key` returned."""
        ...


class LocalKeys:
    """Wraps keys in this process with AES-GCM, in the format of parquet's ``KeyToolkit.encryptKeyLocally``.

    ``find`` returns the text of a master key, base64 of 16, 24 or 32 bytes. ``kind`` is the client's name.
    """

    def __init__(self, kind: str, find: Callable[[str], str]) -> None:
        self._kind = kind
        self._find = find

    def wrap_key(self, key_bytes: bytes, name: str, /) -> str:
        """Encrypt the key, and return nonce, encrypted key and tag as base64."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher(name).encrypt(nonce, key_bytes, self._reference(name).encode())
        return base64.b64encode(nonce + sealed).decode()

    def unwrap_key(self, wrapped_key: str, name: str, /) -> bytes:
        """Return the key from the text that :meth:`wrap_key` returned.

        Raises:
            KeyUnavailableError: If the master key is not the one that wrapped the key.
        """
        cipher = self._cipher(name)
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - _cipher reports a missing package

        sealed = base64.b64decode(wrapped_key)
        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            opened: bytes = cipher.decrypt(nonce, rest, self._reference(name).encode())
        except InvalidTag:
            raise KeyUnavailableError(
                "the file was not encrypted with the key {encryption_key}; provide the key that was in "
                "force when it was written",
                encryption_key=self._reference(name),
            ) from None
        return opened

    def _reference(self, name: str) -> str:
        return f"{self._kind}:{name}"

    def _cipher(self, name: str) -> Any:
        """Return the AES-GCM cipher of the master key ``name``."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - optional
        except ImportError:
            raise KeyUnavailableError(
                "the key {encryption_key} needs the package cryptography; run `pip install cryptography` "
                "where tables are read and written",
                encryption_key=self._reference(name),
            ) from None
        key = _decoded(self._find(name))
        if len(key) not in _KEY_BYTES:
            raise KeyUnavailableError(
                "the key {encryption_key} is not base64 of 16, 24 or 32 bytes; make one by: openssl rand "
                "-base64 32",
                encryption_key=self._reference(name),
            )
        return AESGCM(key)


def _decoded(text: str) -> bytes:
    """Return the key from its base64 text, or no bytes if the text is not base64."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _from_environment(name: str) -> str:
    text = os.environ.get(name)
    if not text:
        raise KeyUnavailableError(
            "the environment variable {variable} of the key env:{variable} is not set; set it where the "
            "command and the executors run (on a cluster prefer file:, mounted by its scheduler), or "
            "have somebody with the key run this",
            variable=name,
        )
    return text


def _from_file(name: str) -> str:
    try:
        return read_regular(Path(name), most_bytes=_FILE_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise KeyUnavailableError(
            "the key file:{path} cannot be read: {reason}; put the file where the table is read and "
            "written, or have somebody with the key run this",
            path=name,
            reason=reason,
        ) from None


def secret_of(reference: str) -> bytes:
    """Return the signing secret to which ``env:NAME`` or ``file:/PATH`` refers.

    Raises:
        KeyUnavailableError: If the reference has another form, or the secret is absent or shorter than 32
            bytes.
    """
    kind, name = split_reference(reference)
    if kind not in ("env", "file"):
        raise KeyUnavailableError(
            "{client!r} cannot provide a key to sign with; use env:NAME or file:/PATH", client=kind
        )
    key = _decoded(_from_environment(name) if kind == "env" else _from_file(name))
    if len(key) < _SECRET_BYTES:
        raise KeyUnavailableError(
            "the key {signing_key} is not base64 of {minimum_bytes} bytes or more; make one by: openssl "
            "rand -base64 32",
            signing_key=reference,
            minimum_bytes=_SECRET_BYTES,
        )
    return key


BUILT_IN: Final[Mapping[str, KmsClient]] = {
    "env": LocalKeys("env", _from_environment),
    "file": LocalKeys("file", _from_file),
}


def split_reference(reference: str) -> tuple[str, str]:
    """Return the two parts of a key reference: the name of the client, and the client's name of the key."""
    kind, _, name = reference.partition(":")
    return kind, name


@cache
def kms_client(kind: str) -> KmsClient:
    """Return the client with that name.

    Raises:
        KeyUnavailableError: If no such client is installed, or the installed object is not a client.
    """
    if kind in BUILT_IN:
        return BUILT_IN[kind]
    point = KMS_CLIENTS.entry_point(kind)
    if point is None:
        raise KeyUnavailableError(KMS_CLIENTS.missing(kind))
    make = point.load()
    client: KmsClient = make() if callable(make) else make
    for method in ("wrap_key", "unwrap_key"):
        if not callable(getattr(client, method, None)):
            raise KeyUnavailableError(
                "{client} gives {found}, which has no method {method}; {remedy}",
                client=describe_plug_in(kind),
                found=type(client).__name__,
                method=method,
                remedy=REMEDY,
            )
    return client


def describe_plug_in(kind: str) -> str:
    """Return the text by which messages refer to the client of a plug-in."""
    return f"the client for keys {kind!r} of entry-point group {KMS_CLIENTS.name}"
