"""Signatures of applied records: who can only write to a table cannot make one.

A signature is an HMAC-SHA256 over the record, with its number, the table's identity and its place, so that no
record counts under another number, in another table, or beside another ``table.json``.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from parquetry.message import command
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.parquet.key_management import secret_of
from parquetry.runtime.spec.codec import canonical_json

SIGNATURE_CODE: Final = "SC508"
"""What messages begin with where a signature is missing or another one than a declared key makes."""

_KIND: Final = "hmac-sha256:"
_UNSIGNED: Final = ("digest", "signature")
_LOCAL: Final = "file://"


class Signed(StrEnum):
    """Whose signature a record has, in the words of plans."""

    CURRENT = "signed"
    FORMER = "signed by a former key"
    MISSING = "not signed"
    WRONG = "signed by an unknown key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFault:
    """Why nobody is to act by what a table says of itself, and what to do."""

    code: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.code} {self.reason}; {self.remedy}"

    def error(self) -> CorruptTableError:
        """The failure of who would act by it."""
        return CorruptTableError(f"{self.code} {self.reason}", self.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSignature:
    """What a record's signature has to be of, and the signature, None where there is none."""

    number: int
    payload: str
    signature: str | None

    def state(self, keys: Sequence[str]) -> Signed:
        """Whose signature it is; the first of the references to keys signs now.

        KeyUnavailableError where a key that is needed cannot be had.
        """
        if self.signature is None:
            return Signed.MISSING
        for key in keys:
            if hmac.compare_digest(signature_of(self.payload, key).encode(), self.signature.encode()):
                return Signed.CURRENT if key == keys[0] else Signed.FORMER
        return Signed.WRONG


def payload_of(record: Mapping[str, Any], *, identity_digest: str | None, uri: str) -> str:
    """What is signed of a record in the table at ``uri`` whose ``table.json`` has that digest."""
    place = f"{_LOCAL}{os.path.realpath(uri.removeprefix(_LOCAL))}" if uri.startswith(_LOCAL) else uri
    said = {key: value for key, value in record.items() if key not in _UNSIGNED}
    return canonical_json(
        {"signed": "parquetry applied record", "place": place, "identity": identity_digest, "record": said}
    )


def signature_of(payload: str, key: str) -> str:
    """The signature by the key of that reference; KeyUnavailableError where it cannot be had."""
    return _KIND + hmac.new(secret_of(key), payload.encode(), hashlib.sha256).hexdigest()


def check_signed(
    place: str, seal: RecordSignature | None, keys: Sequence[str], *, signs: bool = False
) -> None:
    """CorruptTableError where keys are declared and none of them signed the record that is in force.

    Who ``signs`` a new one may find one without any signature. KeyUnavailableError where a key cannot be had.
    """
    if not keys or seal is None:
        return
    state = seal.state(keys)
    if state is Signed.WRONG:
        raise wrong_signature(place, seal).error()
    if state is Signed.MISSING and not signs:
        raise CorruptTableError(
            f"{SIGNATURE_CODE} {place}: record {seal.number} is not signed, and the project declares "
            "applied.signing_key: it was applied before that, or by somebody who does not have the key; look "
            "at " + command("plan") + ", and " + command("apply") + " signs what is declared"
        )


def wrong_signature(place: str, seal: RecordSignature) -> RecordFault:
    """What is wrong with a signature by no declared key, and what to do."""
    return RecordFault(
        code=SIGNATURE_CODE,
        reason=f"{place}: the signature of record {seal.number} is by no declared key: somebody else wrote "
        "the record or table.json, it comes from another table, or the table was moved",
        remedy="find out which, then restore both from a copy, or delete the record, plan and apply again; "
        "of a key that was exchanged put the old one under applied.former_signing_keys",
    )
