"""The identity of a table and its applied records: small files beside the timeline.

Readers of the table do not depend on them. Without them, it is a plain Hudi table.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar

from parquetry.errors import message_of
from parquetry.message import Message, Text, command, phrase, run
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
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
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
"""The project of a table that was created from Python without a project."""

RECORD_FORMAT: Final = 2
"""The format version of these files, increased with every field that a reader must not ignore."""

RECORD_CODE: Final = "SC505"
"""The code of messages about a record that must not be used."""

DRIFT_CODE: Final = "SC506"
"""The code of messages about an applied spec that differs from the declared one."""

_RECORD_REMEDY: Final = "restore it from a copy, or delete it, plan and apply again"
_NUMBER_WIDTH: Final = 20
_MAX_RECORDS: Final = 10**12
_MAX_MS: Final = 253_402_214_400_000
"""The last day of the year 9999, which is a valid date in every time zone."""

_Value = TypeVar("_Value")

_APPLIED_NAME = re.compile(rf"(\d{{{_NUMBER_WIDTH}}})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipConflict:
    """The reason why a table does not belong to an owner (SC501 or SC504), and a remedy.

    ``remedy`` is None if the table may be adopted.
    """

    code: str
    reason: Text
    remedy: Text | None = None

    def remedy_for(self, file: str = "its file") -> Text:
        """Return the remedy. ``file`` is the name of the spec file that declares the table."""
        if self.remedy is not None:
            return self.remedy
        return Message(
            "give the table another location, or remove {file}, {command} and restore from it what you want",
            file=file,
            command=run("adopt", "LOCATION"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableIdentity:
    """The first file of a new table: its id, its project, and the data to finish its creation.

    ``first_instant`` and ``spec`` are those of the creation; an adopted table has neither. ``fault`` is the
    reason why the identity must not be used, or None. ``digest`` is that of the file from which it was read.
    """

    table_id: str
    project: str
    first_instant: str | None = None
    spec: TableSpec | None = None
    fault: RecordFault | None = None
    digest: str | None = field(default=None, compare=False)

    def to_bytes(self) -> bytes:
        """Return the content of ``table.json``."""
        document = {
            "format": RECORD_FORMAT,
            "parquetry": VERSION,
            "id": self.table_id,
            "project": self.project,
            "first_instant": self.first_instant,
            "spec": None if self.spec is None else self.spec.to_json(),
        }
        return _sealed_json(document)

    @classmethod
    def from_bytes(cls, content: bytes, *, location: str) -> TableIdentity:
        """Return the identity from the content of ``table.json``.

        Raises:
            CorruptTableError: If the content is not an identity. The message starts with ``location``.
            UnsupportedTableError: If a later version of parquetry wrote it.

        """
        document = _load(content, location)
        remedy = "restore the file from a copy"
        fields = _Fields(document, location, remedy=remedy)
        spec = document.get("spec")
        return cls(
            table_id=fields.required("id", str),
            project=fields.required("project", str),
            first_instant=fields.optional("first_instant", str),
            spec=None if spec is None else _spec(spec, location, remedy=remedy)[0],
            fault=_fault(
                document, location, remedy="restore it from a copy, or delete it and adopt the table"
            ),
            digest=record_digest(document),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedRef:
    """The applied record in force, with the plan and the git commit from which it was applied.

    ``forgotten`` means that the project no longer has a spec of the table. ``target`` is the target of the
    apply, or None from Python. ``settings`` are those of the target at that time, or None if they were not
    recorded.
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
    """An applied record: its reference, the spec, and the time and user of the apply.

    ``dirty`` means that the project had changes that were not in the commit of the reference. ``dirty`` and
    ``applied_by`` are None if they were not recorded. ``document`` is the record as written. ``fault`` is the
    reason why the record must not be used, or None: readers report it and continue, writers and jobs stop.
    """

    ref: AppliedRef
    spec: TableSpec
    applied_at_ms: int = 0
    applied_by: str | None = None
    dirty: bool | None = None
    fault: RecordFault | None = None
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def check_faults(identity: TableIdentity | None, applied: AppliedRecord | None) -> None:
    """Raise CorruptTableError if the identity or the applied record must not be used."""
    fault = fault_of(identity, applied)
    if fault is not None:
        raise fault.error()


def check_declared_spec(
    location: str, owner: TableOwner | None, applied: AppliedRef | None, spec: TableSpec | None
) -> None:
    """Raise StalePlanError if the applied spec is not the one for which the owner opened the table.

    Anyone who can write to the table can write an applied record. So a record is used only if the project
    declares the same spec.

    Args:
        location: The location of the table for error messages.
        owner: The owner of the opened table. If it is None or has no rules, nothing is checked.
        applied: The reference of the applied record.
        spec: The spec of the applied record.

    """
    if owner is None or owner.rules is None:
        return
    if applied is None or spec is None:
        raise StalePlanError(
            "{code} {location}: no spec is applied to the table; run {command} and apply it",
            code=DRIFT_CODE,
            location=location,
            command=command("plan"),
        )
    if rules_digest(spec) != owner.rules:
        raise StalePlanError(
            "{code} {location}: the applied record {record} differs from the spec that the "
            "project declared when this command started; if it was applied meanwhile, run again, else "
            "run {command} and apply it, or find out who wrote the record",
            code=DRIFT_CODE,
            location=location,
            record=applied.number,
            command=command("plan"),
        )


def fault_of(identity: TableIdentity | None, applied: AppliedRecord | None) -> RecordFault | None:
    """Return the fault for which the identity or the applied record must not be used, or None."""
    faults = (found.fault for found in (identity, applied) if found is not None)
    return next((fault for fault in faults if fault is not None), None)


def ownership_conflict(
    owner: TableOwner, *, project: str | None, applied: AppliedRef | None
) -> OwnershipConflict | None:
    """Return the reason why the table does not belong to the owner, or None if it does.

    `plan`, every command that names a table of its project, and the jobs that write all use this function. A
    record that was forgotten belongs to no target.

    Args:
        owner: The project and the target that claim the table.
        project: The project in the identity of the table, or None without an identity.
        applied: The newest applied record of the table.

    """
    if project != owner.project:
        named = f"give the table another location, or rename this project to {project!r}"
        if project is None:
            reason = "belongs to no parquetry project"
        elif project == NO_PROJECT:
            reason = "was made from Python and belongs to no project"
        else:
            reason = f"belongs to project {project!r}"
        remedy = None if project in (None, NO_PROJECT) else named
        return OwnershipConflict(code="SC501", reason=reason, remedy=remedy)
    if applied is None or applied.forgotten or None in (applied.target, owner.target):
        return None
    if applied.target == owner.target:
        return None
    return OwnershipConflict(
        code="SC504",
        reason=f"is applied for target {applied.target!r}, not {owner.target!r}",
        remedy=Message(
            "give it another location at each target, or {option}; if its target is no longer declared, "
            "`apply` takes the table over",
            option=phrase(f"use --target {applied.target}", called=f"load target {applied.target!r}"),
        ),
    )


def check_owner(
    location: str, owner: TableOwner | None, *, project: str | None, applied: AppliedRef | None
) -> None:
    """Raise ForeignTableError if the table at ``location`` does not belong to the owner.

    If ``owner`` is None, every table is accepted.
    """
    conflict = None if owner is None else ownership_conflict(owner, project=project, applied=applied)
    if conflict is not None:
        raise ForeignTableError(
            "{code} the table at {location} {reason}; {remedy}",
            code=conflict.code,
            location=location,
            reason=conflict.reason,
            remedy=conflict.remedy_for(),
        )


def check_owned(store: ObjectStore, owner: TableOwner) -> None:
    """Raise ForeignTableError if the store has a table that does not belong to the owner.

    This takes three requests.
    """
    identity, applied = read_identity(store), read_applied(store)
    project = None if identity is None else identity.project
    check_owner(store.uri, owner, project=project, applied=None if applied is None else applied.ref)


def read_identity(store: ObjectStore) -> TableIdentity | None:
    """Return the identity of the table, or None if parquetry neither created nor adopted it."""
    try:
        content = store.read(IDENTITY_PATH)
    except NotFoundError:
        return None
    return TableIdentity.from_bytes(content, location=f"{store.uri}/{IDENTITY_PATH}")


def read_applied(store: ObjectStore) -> AppliedRecord | None:
    """Return the newest applied record, or None if there is none. This takes one listing and one read."""
    return next(applied_history(store), None)


def read_newer(
    store: ObjectStore, applied: AppliedRef | None, *, owner: TableOwner | None
) -> AppliedRecord | None:
    """Return the newest applied record if it is newer than ``applied``, or else None.

    If there is no newer record, this takes one request.

    Raises:
        CorruptTableError: If the newer record must not be used.
        StalePlanError: If its spec is not the one that the owner declares.

    """
    number = 0 if applied is None else applied.number
    if store.stat(_applied_path(number + 1)) is None:
        return None
    newer = read_applied(store)
    check_faults(None, newer)
    check_record_usable(store, owner, applied=newer)
    return newer


def check_record_usable(
    store: ObjectStore,
    owner: TableOwner | None,
    *,
    applied: AppliedRecord | None,
    identity: TableIdentity | None = None,
) -> None:
    """Check that the owner may use the applied record, by its signature and its spec.

    The errors are those of :func:`check_declared_spec` and :func:`check_signed`. If the signature is checked
    and no ``identity`` is given, the identity is read.
    """
    if owner is not None and owner.keys and applied is not None:
        identity = identity or read_identity(store)
        check_faults(identity, None)
        check_signed(store.uri, record_signature_of(store, identity, applied), owner.keys, signs=owner.signs)
    check_declared_spec(
        store.uri, owner, None if applied is None else applied.ref, None if applied is None else applied.spec
    )


def applied_record(store: ObjectStore, number: int) -> AppliedRecord | None:
    """Return the applied record with that number, or None if there is none."""
    path = _applied_path(number)
    try:
        content = store.read(path)
    except NotFoundError:
        return None
    return _record_from_bytes(content, number, location=f"{store.uri}/{path}")


def applied_history(store: ObjectStore) -> Iterator[AppliedRecord]:
    """Yield the applied records, the newest first.

    This takes one listing, and one read for each record that the caller consumes.
    """
    listed = {
        int(match[1]): info
        for info in store.list(APPLIED_FOLDER)
        if (match := _APPLIED_NAME.fullmatch(info.path.rpartition("/")[2]))
    }
    for number, info in sorted(listed.items(), reverse=True):
        content = store.read(info.path, listed=info)
        yield _record_from_bytes(content, number, location=f"{store.uri}/{info.path}")


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
    """Write the spec as applied (or forgotten) under the next number, which only one writer can take.

    A repeated call with the same spec and plan changes nothing, whoever makes it.

    Args:
        store: The store of the table.
        spec: The applied spec.
        number: The number of the new record.
        git_commit: The commit of the project.
        dirty: Whether the project had changes that are not in that commit.
        applied_by: The user who applied the spec. By default, the user of this process.
        plan_id: The plan of the apply.
        forgotten: Whether the project has given the table up.
        target: The target of the apply.
        signing_key: The reference of the key that signs the record. Without one, the record is not signed.
        settings: The settings of the target.

    Raises:
        StalePlanError: If another writer took the number.
        KeyUnavailableError: If the signing key is not available.

    """
    spec_document = spec.to_json()
    digest = digest_of(spec_document)
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
        "spec": spec_document,
    }
    if signing_key is not None:
        identity = read_identity(store)
        payload = payload_of(
            document, identity_digest=None if identity is None else identity.digest, uri=store.uri
        )
        document["signature"] = signature_of(payload, signing_key)
    path = _applied_path(number)
    if store.put_if_absent(path, _sealed_json(document), nonce=nonce) is not PutOutcome.LOST:
        return ref
    winner = _record_from_bytes(store.read(path), number, location=f"{store.uri}/{path}").ref
    winner_key = (winner.digest, winner.plan_id, winner.forgotten, winner.target, winner.settings)
    if winner_key == (digest, plan_id, forgotten, target, settings):
        return winner
    raise StalePlanError(
        "{table}: record {record} was applied by another user or process (plan {plan_id}, commit "
        "{git_commit}); plan again",
        table=store.uri,
        record=number,
        plan_id=winner.plan_id,
        git_commit=winner.git_commit,
    )


def _applied_path(number: int) -> str:
    return f"{APPLIED_FOLDER}/{number:0{_NUMBER_WIDTH}d}.json"


def _record_from_bytes(content: bytes, number: int, *, location: str) -> AppliedRecord:
    document = _load(content, location)
    fields = _Fields(document, location, remedy=_RECORD_REMEDY)
    if "spec" not in document:
        raise fields.missing("spec")
    spec, digest = _spec(document["spec"], location, remedy=_RECORD_REMEDY)
    fault = _fault(document, location, remedy=_RECORD_REMEDY)
    if fault is None and document.get("number") != number:
        reason = f"{location}: it contains record {document.get('number')}, not the record of its name"
        fault = RecordFault(code=RECORD_CODE, reason=reason, remedy=_RECORD_REMEDY)
    if fault is None and number > _MAX_RECORDS:
        fault = RecordFault(
            code=RECORD_CODE, reason=f"{location}: its number is too large", remedy=_RECORD_REMEDY
        )
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
        applied_at_ms=min(max(fields.optional("applied_at_ms", int) or 0, 0), _MAX_MS),
        applied_by=None if applied_by is None else bounded_user(applied_by),
        dirty=fields.optional("dirty", bool),
        fault=fault,
        document=document,
    )


def _spec(value: Any, location: str, *, remedy: Text) -> tuple[TableSpec, str]:
    """Return the spec in a record, and its digest. Fields that older versions did not write have defaults."""
    try:
        return _read_spec(json.dumps(value))
    except InvalidDataError as error:
        raise CorruptTableError(
            "{location}: {reason}; {remedy}", location=location, reason=message_of(error), remedy=remedy
        ) from error


@lru_cache(maxsize=64)
def _read_spec(text: str) -> tuple[TableSpec, str]:
    """Return the spec in a JSON text, and its digest.

    The identity of a table and its first record contain the same spec, which is read once: a plan of 1,000
    unchanged tables takes a tenth more time if it is read twice.
    """
    spec = TableSpec.from_json(json.loads(text))
    spec.check_types()
    return spec, digest_of(spec.to_json())


def record_signature_of(
    store: ObjectStore, identity: TableIdentity | None, applied: AppliedRecord | None
) -> RecordSignature | None:
    """Return the signature of the applied record and the text that it must sign, or None without a record."""
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
    """Return the digest of all other fields, which a record and ``table.json`` contain."""
    return digest_of({key: value for key, value in document.items() if key != "digest"})


def _fault(document: Mapping[str, Any], location: str, *, remedy: Text) -> RecordFault | None:
    if document.get("digest") == record_digest(document):
        return None
    format_version = document.get("format", RECORD_FORMAT)
    if "digest" not in document and format_version < RECORD_FORMAT:
        return RecordFault(
            code=RECORD_CODE,
            reason=f"{location}: it has the old format {format_version}, which has no digest",
            remedy=remedy,
        )
    return RecordFault(
        code=RECORD_CODE,
        reason=f"{location}: its digest does not match its content, so another program changed it",
        remedy=Message("find out who did, then {remedy}", remedy=remedy),
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """Typed access to the fields of a record. A field of another type raises CorruptTableError."""

    document: Mapping[str, Any]
    location: str
    remedy: Text = field(kw_only=True)

    def required(self, name: str, kind: type[_Value]) -> _Value:
        value = self.optional(name, kind)
        if value is None:
            raise self.missing(name)
        return value

    def optional(self, name: str, kind: type[_Value]) -> _Value | None:
        value = self.document.get(name)
        if value is None or type(value) is kind:
            return value
        raise CorruptTableError(
            "{location}: {field!r} is {found:.60}; {remedy}",
            location=self.location,
            field=name,
            found=repr(value),
            remedy=self.remedy,
        )

    def missing(self, name: str) -> CorruptTableError:
        return CorruptTableError(
            "{location}: {field!r} is missing; {remedy}",
            location=self.location,
            field=name,
            remedy=self.remedy,
        )


def _load(content: bytes, location: str) -> Mapping[str, Any]:
    document = json_object(content, place=location)
    format_version = document.get("format", RECORD_FORMAT)
    if not isinstance(format_version, int) or format_version > RECORD_FORMAT:
        raise UnsupportedTableError(
            "{location}: written by parquetry {writer_version} in format {found_format}; the installed "
            "parquetry {version} reads formats up to {newest_format}; upgrade parquetry",
            location=location,
            writer_version=document.get("parquetry", "of a later version"),
            found_format=format_version,
            version=VERSION,
            newest_format=RECORD_FORMAT,
        )
    return document


def _sealed_json(document: Mapping[str, Any]) -> bytes:
    """Return the JSON text of a record as bytes, with the digest of the record."""
    document = {**document, "digest": record_digest(document)}
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True).encode()
