"""Whose table this is and which spec it was last applied with: small records beside the timeline.

They name nothing that readers of the table depend on; without them it is a plain Hudi table.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from parquetry.message import command, phrase, run
from parquetry.runtime.errors import (
    CorruptTableError,
    ForeignTableError,
    InvalidDataError,
    NotFoundError,
    StalePlanError,
    UnsupportedTableError,
)
from parquetry.runtime.spec.codec import digest_of, json_object
from parquetry.runtime.spec.git_commit import commit_named
from parquetry.runtime.spec.job import TableOwner, rules_digest
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import Settings
from parquetry.runtime.storage.open import ObjectStore, PutOutcome
from parquetry.runtime.table.acting_user import acting_user, bounded_user
from parquetry.runtime.table.signing import (
    RecordFault,
    RecordSignature,
    check_signed,
    payload_of,
    signature_of,
)
from parquetry.runtime.timeline.sidecars import APPLIED_FOLDER, IDENTITY_PATH
from parquetry.version import VERSION

NO_PROJECT: Final = "python"
"""The owner of a table that was created from Python without naming a project."""

RECORD_FORMAT: Final = 2
"""Of the records below; raised with every field that a reader may not overlook."""

RECORD_CODE: Final = "SC505"
"""What messages begin with that refuse to act by a record."""

DRIFT_CODE: Final = "SC506"
"""What messages begin with where the applied spec is not the declared one."""

_RENEW: Final = "restore it from a copy, or delete it, plan and apply again"
_NUMBER_WIDTH: Final = 20
_MOST_RECORDS: Final = 10**12
_LATEST_MS: Final = 253_402_214_400_000
"""The last day of the year 9999, which is a date in every time zone."""

_Value = TypeVar("_Value")

_APPLIED_NAME = re.compile(rf"(\d{{{_NUMBER_WIDTH}}})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Why a table is not its would-be owner's: SC501 or SC504, a reason and a remedy.

    ``remedy`` is None for a table that may be adopted.
    """

    code: str
    reason: str
    remedy: str | None = None

    def remedy_for(self, file: str = "its file") -> str:
        """What to do about it; ``file`` is the one that declares the table."""
        if self.remedy is not None:
            return self.remedy
        adopting = run("adopt", "LOCATION")
        return (
            f"give the table another location, or remove {file}, "
            + adopting
            + " and put back from it what you want"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """What was put first when the table was made: its id, its project, and how to finish making it.

    ``first_instant`` and ``spec`` are those of the creation; an adopted table has neither. ``fault`` is why
    nobody is to act by it; ``digest`` is that of the file it was read from.
    """

    table_id: str
    project: str
    first_instant: str | None = None
    spec: TableSpec | None = None
    fault: RecordFault | None = None
    digest: str | None = field(default=None, compare=False)

    def to_bytes(self) -> bytes:
        """The content of ``table.json``."""
        document = {
            "format": RECORD_FORMAT,
            "parquetry": VERSION,
            "id": self.table_id,
            "project": self.project,
            "first_instant": self.first_instant,
            "spec": None if self.spec is None else self.spec.to_json(),
        }
        return _dump(document)

    @classmethod
    def from_bytes(cls, content: bytes, *, place: str) -> TableIdentity:
        """The identity that :meth:`to_bytes` wrote; CorruptTableError names ``place``."""
        document = _load(content, place)
        remedy = "restore the file from a copy"
        fields = _Fields(document, place, remedy=remedy)
        spec = document.get("spec")
        return cls(
            table_id=fields.required("id", str),
            project=fields.required("project", str),
            first_instant=fields.optional("first_instant", str),
            spec=None if spec is None else _spec(spec, place, remedy=remedy)[0],
            fault=_fault(document, place, remedy="restore it from a copy, or delete it and adopt the table"),
            digest=record_digest(document),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRef:
    """Which applied record is in force, and the plan and git commit it came from.

    ``forgotten`` says that the project has no spec of the table any more. ``target`` is the one that it
    was applied for, None where it was for none, from Python; ``settings`` are those of the target then,
    None where they were not recorded.
    """

    number: int
    digest: str
    plan_id: str | None
    git_commit: str | None
    forgotten: bool = False
    target: str | None = None
    settings: Settings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRecord:
    """An applied record: the reference, the spec itself, and when it was applied, and by whom.

    ``dirty`` says that the project had changes that the reference's commit lacks. It and ``applied_by`` are
    None where they are not recorded. ``document`` is the record as it is written. ``fault`` is why nobody is
    to act by it: those who read say so and go on, those who write or execute stop.
    """

    ref: AppliedRef
    spec: TableSpec
    applied_at_ms: int = 0
    applied_by: str | None = None
    dirty: bool | None = None
    fault: RecordFault | None = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def check_faults(identity: TableIdentity | None, applied: AppliedRecord | None) -> None:
    """CorruptTableError where one of them is not to be acted by."""
    fault = fault_of(identity, applied)
    if fault is not None:
        raise fault.error()


def check_rules(
    place: str, owner: TableOwner | None, applied: AppliedRef | None, spec: TableSpec | None
) -> None:
    """StalePlanError where the applied spec is not the one that the owner opened the table for.

    A record that anybody may have written who can write to the table is acted by only where the project
    declares the same.
    """
    if owner is None or owner.rules is None:
        return
    if applied is None or spec is None:
        raise StalePlanError(
            f"{DRIFT_CODE} {place}: no spec is applied to the table; look at "
            + command("plan")
            + " and apply it"
        )
    if rules_digest(spec) != owner.rules:
        raise StalePlanError(
            f"{DRIFT_CODE} {place}: record {applied.number} is applied, and its spec is not the one that the "
            "project declared when this began; run again if it was applied meanwhile, else look at "
            + command("plan")
            + ": apply it, or find out who wrote the record"
        )


def fault_of(identity: TableIdentity | None, applied: AppliedRecord | None) -> RecordFault | None:
    """Why nobody is to act by what the table says of itself; None where one may."""
    faults = (found.fault for found in (identity, applied) if found is not None)
    return next((fault for fault in faults if fault is not None), None)


def foreign(owner: TableOwner, *, project: str | None, applied: AppliedRef | None) -> Foreign | None:
    """Why the table of ``project`` with that newest record is not the owner's; None where it is.

    The one rule of whose a table is: of `plan`, of every command that names a table of its project, and of
    the jobs that write. A record that was forgotten binds no target.
    """
    if project != owner.project:
        named = f"give the table another location, or name this project {project!r} as it was"
        if project is None:
            reason = "belongs to no parquetry project"
        elif project == NO_PROJECT:
            reason = "was made from Python and belongs to no project"
        else:
            reason = f"belongs to project {project!r}"
        remedy = None if project in (None, NO_PROJECT) else named
        return Foreign(code="SC501", reason=reason, remedy=remedy)
    if applied is None or applied.forgotten or None in (applied.target, owner.target):
        return None
    if applied.target == owner.target:
        return None
    return Foreign(
        code="SC504",
        reason=f"is applied for target {applied.target!r}, not {owner.target!r}",
        remedy="give it a location of its own at each target, or "
        + phrase(f"use --target {applied.target}", called=f"load target {applied.target!r}")
        + "; `apply` takes a table over when its target is not declared any more",
    )


def check_owner(
    place: str, owner: TableOwner | None, *, project: str | None, applied: AppliedRef | None
) -> None:
    """ForeignTableError where the table at ``place`` is not the owner's; None owns whatever is there."""
    found = None if owner is None else foreign(owner, project=project, applied=applied)
    if found is not None:
        raise ForeignTableError(f"{found.code} the table at {place} {found.reason}", found.remedy_for())


def check_owned(store: ObjectStore, owner: TableOwner) -> None:
    """ForeignTableError where a table is in the store that is not the owner's: three requests."""
    identity, applied = read_identity(store), read_applied(store)
    project = None if identity is None else identity.project
    check_owner(store.uri, owner, project=project, applied=None if applied is None else applied.ref)


def read_identity(store: ObjectStore) -> TableIdentity | None:
    """Whose table this is; None for a table that parquetry neither made nor adopted."""
    try:
        content = store.read(IDENTITY_PATH)
    except NotFoundError:
        return None
    return TableIdentity.from_bytes(content, place=f"{store.uri}/{IDENTITY_PATH}")


def read_applied(store: ObjectStore) -> AppliedRecord | None:
    """The newest applied record, None before the first: one listing and one read."""
    numbers = _applied_numbers(store)
    if not numbers:
        return None
    path = _applied_path(max(numbers))
    return _record_from_bytes(store.read(path), max(numbers), place=f"{store.uri}/{path}")


def read_newer(
    store: ObjectStore, applied: AppliedRef | None, *, owner: TableOwner | None
) -> AppliedRecord | None:
    """The newest applied record if there is one after that; one request when there is none.

    For those who act by it: CorruptTableError where nobody is to, StalePlanError where the owner is not to.
    """
    number = 0 if applied is None else applied.number
    if store.stat(_applied_path(number + 1)) is None:
        return None
    newer = read_applied(store)
    check_faults(None, newer)
    check_acted_by(store, owner, applied=newer)
    return newer


def check_acted_by(
    store: ObjectStore,
    owner: TableOwner | None,
    *,
    applied: AppliedRecord | None,
    identity: TableIdentity | None = None,
) -> None:
    """Return where the owner is to act by the record; else as :func:`check_rules` and ``check_signed``.

    The identity is read where the signature is checked, unless it is given.
    """
    if owner is not None and owner.keys and applied is not None:
        identity = identity or read_identity(store)
        check_faults(identity, None)
        check_signed(store.uri, seal_of(store, identity, applied), owner.keys, signs=owner.signs)
    check_rules(
        store.uri, owner, None if applied is None else applied.ref, None if applied is None else applied.spec
    )


def applied_record(store: ObjectStore, number: int) -> AppliedRecord | None:
    """Return the applied record of that number, None where there is none."""
    path = _applied_path(number)
    try:
        content = store.read(path)
    except NotFoundError:
        return None
    return _record_from_bytes(content, number, place=f"{store.uri}/{path}")


def applied_history(store: ObjectStore) -> Iterator[AppliedRecord]:
    """Yield the applied records, the newest first.

    One listing, and one read for each that is asked for.
    """
    for number in sorted(_applied_numbers(store), reverse=True):
        path = _applied_path(number)
        yield _record_from_bytes(store.read(path), number, place=f"{store.uri}/{path}")


def write_applied(
    store: ObjectStore,
    spec: TableSpec,
    *,
    number: int,
    git_commit: str | None = None,
    dirty: bool | None = None,
    applied_by: str | None = None,
    plan_id: str | None = None,
    forgotten: bool = False,
    target: str | None = None,
    signing_key: str | None = None,
    settings: Settings | None = None,
) -> AppliedRef:
    """Records the spec as applied (or forgotten) under the next number, which only one writer can take.

    The record is signed where there is a reference to a key, by which KeyUnavailableError may be raised.

    Without ``applied_by`` it names who acts here. Doing it again with the same spec and plan changes nothing,
    whoever does it; StalePlanError when somebody else took the number.
    """
    digest = digest_of(spec.to_json())
    ref = AppliedRef(
        number=number,
        digest=digest,
        plan_id=plan_id,
        git_commit=git_commit,
        forgotten=forgotten,
        target=target,
        settings=settings,
    )
    nonce = uuid.uuid4().hex
    document = {
        "format": RECORD_FORMAT,
        "parquetry": VERSION,
        "number": number,
        "plan_id": plan_id,
        "git_commit": git_commit,
        "dirty": dirty,
        "applied_by": acting_user() if applied_by is None else applied_by,
        "forgotten": forgotten,
        "target": target,
        "settings": settings,
        "applied_at_ms": store.now_ms(),
        "nonce": nonce,
        "spec": spec.to_json(),
    }
    if signing_key is not None:
        identity = read_identity(store)
        payload = payload_of(
            document, identity_digest=None if identity is None else identity.digest, uri=store.uri
        )
        document["signature"] = signature_of(payload, signing_key)
    path = _applied_path(number)
    if store.put_if_absent(path, _dump(document), nonce=nonce) is not PutOutcome.LOST:
        return ref
    winner = _record_from_bytes(store.read(path), number, place=f"{store.uri}/{path}").ref
    said = (winner.digest, winner.plan_id, winner.forgotten, winner.target, winner.settings)
    if said == (digest, plan_id, forgotten, target, settings):
        return winner
    raise StalePlanError(
        f"{store.uri}: record {number} was applied by somebody else (plan {winner.plan_id}, "
        f"commit {winner.git_commit}); plan again"
    )


def _applied_numbers(store: ObjectStore) -> list[int]:
    return [
        int(match[1])
        for info in store.list(APPLIED_FOLDER)
        if (match := _APPLIED_NAME.fullmatch(info.path.rpartition("/")[2]))
    ]


def _applied_path(number: int) -> str:
    return f"{APPLIED_FOLDER}/{number:0{_NUMBER_WIDTH}d}.json"


def _record_from_bytes(content: bytes, number: int, *, place: str) -> AppliedRecord:
    document = _load(content, place)
    fields = _Fields(document, place, remedy=_RENEW)
    if "spec" not in document:
        raise fields.missing("spec")
    spec, digest = _spec(document["spec"], place, remedy=_RENEW)
    fault = _fault(document, place, remedy=_RENEW)
    if fault is None and document.get("number") != number:
        reason = f"{place}: it is record {document.get('number')} under another name"
        fault = RecordFault(code=RECORD_CODE, reason=reason, remedy=_RENEW)
    if fault is None and number > _MOST_RECORDS:
        fault = RecordFault(code=RECORD_CODE, reason=f"{place}: no table has so many records", remedy=_RENEW)
    ref = AppliedRef(
        number=number,
        digest=digest,
        plan_id=fields.optional("plan_id", str),
        git_commit=commit_named(document.get("git_commit")),
        forgotten=fields.optional("forgotten", bool) or False,
        target=fields.optional("target", str),
        settings=fields.optional("settings", dict),
    )
    applied_by = fields.optional("applied_by", str)
    return AppliedRecord(
        ref=ref,
        spec=spec,
        applied_at_ms=min(max(fields.optional("applied_at_ms", int) or 0, 0), _LATEST_MS),
        applied_by=None if applied_by is None else bounded_user(applied_by),
        dirty=fields.optional("dirty", bool),
        fault=fault,
        document=document,
    )


def _spec(value: Any, place: str, *, remedy: str) -> tuple[TableSpec, str]:
    """The spec in a record, and its digest."""
    try:
        return _read_spec(json.dumps(value))
    except InvalidDataError as error:
        raise CorruptTableError(f"{place}: {error}; {remedy}") from error


@lru_cache(maxsize=64)
def _read_spec(text: str) -> tuple[TableSpec, str]:
    """The same of a JSON text. A table's identity and its first records say the same, which is read once."""
    spec = TableSpec.from_json(json.loads(text))
    spec.check_types()
    # An older parquetry knew fewer fields: they have their defaults now, and that is what is applied.
    return spec, digest_of(spec.to_json())


def seal_of(
    store: ObjectStore, identity: TableIdentity | None, applied: AppliedRecord | None
) -> RecordSignature | None:
    """What the record's signature has to be of, and what it is; None without a record."""
    if applied is None:
        return None
    signature = applied.document.get("signature")
    return RecordSignature(
        number=applied.ref.number,
        payload=payload_of(
            applied.document, identity_digest=None if identity is None else identity.digest, uri=store.uri
        ),
        signature=None if signature is None else str(signature),
    )


def record_digest(document: Mapping[str, Any]) -> str:
    """The digest that a record, or ``table.json``, carries of everything else in it."""
    return digest_of({key: value for key, value in document.items() if key != "digest"})


def _fault(document: Mapping[str, Any], place: str, *, remedy: str) -> RecordFault | None:
    if document.get("digest") == record_digest(document):
        return None
    written = document.get("format", RECORD_FORMAT)
    if "digest" not in document and written < RECORD_FORMAT:
        return RecordFault(
            code=RECORD_CODE,
            reason=f"{place}: it is of format {written}, in which nothing said whether it was changed since",
            remedy=remedy,
        )
    return RecordFault(
        code=RECORD_CODE,
        reason=f"{place}: its digest does not match its content: something other than parquetry changed it",
        remedy=f"find out who did, then {remedy}",
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a record whose type is to be what parquetry writes; CorruptTableError for any other."""

    document: Mapping[str, Any]
    place: str
    remedy: str = field(kw_only=True)

    def required(self, name: str, kind: type[_Value]) -> _Value:
        value = self.optional(name, kind)
        if value is None:
            raise self.missing(name)
        return value

    def optional(self, name: str, kind: type[_Value]) -> _Value | None:
        value = self.document.get(name)
        if value is None or type(value) is kind:
            return value
        raise CorruptTableError(f"{self.place}: {name!r} is {value!r:.60}; {self.remedy}")

    def missing(self, name: str) -> CorruptTableError:
        return CorruptTableError(f"{self.place}: {name!r} is missing; {self.remedy}")


def _load(content: bytes, place: str) -> Mapping[str, Any]:
    document = json_object(content, place=place)
    written = document.get("format", RECORD_FORMAT)
    if not isinstance(written, int) or written > RECORD_FORMAT:
        raise UnsupportedTableError(
            f"{place}: written by parquetry {document.get('parquetry', 'of a later version')} in format "
            f"{written}; parquetry {VERSION}, which is installed here, reads formats up to {RECORD_FORMAT}: "
            f"upgrade parquetry"
        )
    return document


def _dump(document: Mapping[str, Any]) -> bytes:
    document = {**document, "digest": record_digest(document)}
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True).encode()
