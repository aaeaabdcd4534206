"""Signatures of applied records, which a user with only write access to a table cannot make.

A signature is an HMAC-SHA256 of the record with its number, the identity of the table and its location. So a
record is not valid under another number, in another table, or with another ``table.json``.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from parquetry.message import Message, Text, command
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.parquet.key_management import secret_of
from parquetry.runtime.spec.codec import canonical_json

SIGNATURE_CODE: Final = "SC508"
"""The code of messages about a signature that is missing or was not made with a declared key."""

_KIND: Final = "hmac-sha256:"
_UNSIGNED: Final = ("digest", "signature")
_LOCAL: Final = "file://"


class SignatureState(StrEnum):
    """The state of a record's signature, as plans spell it."""

    CURRENT = "signed"
    FORMER = "signed by a former key"
    MISSING = "not signed"
    WRONG = "signed by an unknown key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFault:
    """The reason why the identity or the applied record of a table must not be used, and a remedy."""

    code: str
    reason: Text
    remedy: Text

    @property
    def message(self) -> Message:
        """The code, the reason and the remedy."""
        return Message("{code} {reason}; {remedy}", code=self.code, reason=self.reason, remedy=self.remedy)

    def error(self) -> CorruptTableError:
        """Return the error for a caller that needs the record."""
        return CorruptTableError(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSignature:
    """The payload that the signature of a record must sign, and the signature, or None if there is none."""

    number: int
    payload: str
    signature: str | None

    def state(self, keys: Sequence[str]) -> SignatureState:
        """Return the state of the signature.

        Args:
            keys: References to keys. The first is the current key, the others are former ones.

        Raises:
            KeyUnavailableError: If a needed key is not available.

        """
        if self.signature is None:
            return SignatureState.MISSING
        for key in keys:
            if hmac.compare_digest(signature_of(self.payload, key).encode(), self.signature.encode()):
                return SignatureState.CURRENT if key == keys[0] else SignatureState.FORMER
        return SignatureState.WRONG


def payload_of(record: Mapping[str, Any], *, identity_digest: str | None, uri: str) -> str:
    """Return the text to sign for a record in the table at ``uri``.

    Args:
        record: The document of the record.
        identity_digest: The digest of the ``table.json`` of the table, or None without one.
        uri: The location of the table.

    """
    location = f"{_LOCAL}{os.path.realpath(uri.removeprefix(_LOCAL))}" if uri.startswith(_LOCAL) else uri
    fields = {key: value for key, value in record.items() if key not in _UNSIGNED}
    return canonical_json(
        {
            "signed": "parquetry applied record",
            "place": location,
            "identity": identity_digest,
            "record": fields,
        }
    )


def signature_of(payload: str, key: str) -> str:
    """Return the signature of the payload with the key of a reference.

    Raises:
        KeyUnavailableError: If the key is not available.

    """
    return _KIND + hmac.new(secret_of(key), payload.encode(), hashlib.sha256).hexdigest()


def check_signed(
    location: str, record_signature: RecordSignature | None, keys: Sequence[str], *, signs: bool = False
) -> None:
    """Raise CorruptTableError if keys are declared and none of them signed the applied record.

    Args:
        location: The location of the table for error messages.
        record_signature: The signature of the applied record, or None without a record.
        keys: References to the declared keys.
        signs: Whether the caller will sign a new record. A missing signature is then accepted.

    Raises:
        KeyUnavailableError: If a key is not available.

    """
    if not keys or record_signature is None:
        return
    state = record_signature.state(keys)
    if state is SignatureState.WRONG:
        raise wrong_signature(location, record_signature).error()
    if state is SignatureState.MISSING and not signs:
        raise CorruptTableError(
            "{code} {location}: record {record} is not signed, and the project declares "
            "applied.signing_key: it was applied before that, or by a user without the key; run "
            "{plan_command}, then sign what is declared with {apply_command}",
            code=SIGNATURE_CODE,
            location=location,
            record=record_signature.number,
            plan_command=command("plan"),
            apply_command=command("apply"),
        )


def wrong_signature(location: str, record_signature: RecordSignature) -> RecordFault:
    """Return the fault of a signature that no declared key made."""
    return RecordFault(
        code=SIGNATURE_CODE,
        reason=f"{location}: the signature of record {record_signature.number} was made with no "
        "declared key: another user wrote the record or table.json, it comes from another table, or the "
        "table was moved",
        remedy="find out which, then restore both from a copy, or delete the record, plan and apply again; "
        "if the key was replaced, list the old one under applied.former_signing_keys",
    )
