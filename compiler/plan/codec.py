"""The saved plan as canonical JSON, which is checked strictly when it is read.

The position of each change (``file:line:column``) is part of the evidence, by table and path: a comment above
it moves the line but changes nothing that is approved. The evidence also lists which texts contain commands;
the code that prints the plan completes them. The plan id does not cover the git commit, because a merge
replaces it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from parquetry.compiler.evidence.money import check_currency
from parquetry.compiler.plan.model import (
    EXPIRES_AFTER_MS,
    Blocked,
    Change,
    Evidence,
    Intent,
    PlanDocument,
    TableAction,
)
from parquetry.compiler.security.allowed_settings import target_name
from parquetry.compiler.security.masking import masked
from parquetry.compiler.spec_words import document as spec_document
from parquetry.errors import message_of
from parquetry.message import command, commands_of, texts, with_commands
from parquetry.runtime.errors import InvalidDataError, StalePlanError
from parquetry.runtime.spec.codec import (
    canonical_json,
    digest_of,
    from_json_value,
    parsed_json,
    to_json_value,
)
from parquetry.runtime.spec.git_commit import is_shown_as_commit

PLAN_FORMAT = "parquetry/plan"
PLAN_VERSION = 1

_CLOCKS_DIFFER_MS = 3_600_000
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999


def plan_of(intent: Intent, evidence: Evidence) -> PlanDocument:
    """Return the plan with its id, the digest of the intent without its git commit."""
    return PlanDocument(intent=intent, evidence=evidence, plan_id=_plan_id(intent_json(intent)))


def _plan_id(intent: dict[str, Any]) -> str:
    """Return the digest of the intent without its git commit."""
    return digest_of({key: value for key, value in intent.items() if key != "git_commit"})


def encode(plan: PlanDocument) -> str:
    """Return the plan as canonical JSON that contains a digest of all other fields and ends in a newline."""
    document = plan_json(plan)
    return canonical_json(document | {"digest": digest_of(document)}) + "\n"


def plan_json(plan: PlanDocument) -> dict[str, Any]:
    """Return the plan as plain JSON values, without the digest of the file."""
    document = {
        "intent": intent_json(plan.intent),
        "evidence": _evidence_json(plan.evidence) | {"origins": _origins(plan.intent)},
    }
    if named := commands_of(document):
        document["evidence"]["commands"] = named
    return {"format": PLAN_FORMAT, "version": PLAN_VERSION, "plan_id": plan.plan_id, **texts(document)}


def decode(text: str | bytes, *, name: str) -> PlanDocument:
    """Read a plan that :func:`encode` wrote.

    Args:
        text: The content of the file.
        name: The name of the file in messages.

    Raises:
        StalePlanError: If the text is not JSON, has another format or version, has unknown or missing fields,
            or does not match its digest.
    """
    try:
        document = parsed_json(text)
    except ValueError as error:
        again = command("plan", "--out", "FILE")
        raise StalePlanError(
            "{file} is not a saved plan; write one with {command}", file=name, command=again
        ) from error
    if not isinstance(document, dict) or document.get("format") != PLAN_FORMAT:
        again = command("plan", "--out", name)
        raise StalePlanError("{file} is not a saved plan; write one with {command}", file=name, command=again)
    if document.get("version") != PLAN_VERSION:
        raise StalePlanError(
            "{file} is a plan of version {version}, but this parquetry reads {known_version}; plan again "
            "with the parquetry that is installed here",
            file=name,
            version=repr(document.get("version")),
            known_version=PLAN_VERSION,
        )
    digest = document.pop("digest", None)
    if digest is None or digest != digest_of(document):
        raise StalePlanError(
            "{file} was changed after it was written: its digest does not match; plan again", file=name
        )
    unknown = sorted(set(document) - {"format", "version", "plan_id", "intent", "evidence"})
    if unknown:
        raise StalePlanError(
            "{file}: unknown fields {fields}; plan again instead of editing it",
            file=name,
            fields=str(unknown),
        )
    try:
        named = document["evidence"].get("commands", [])
        messages = with_commands({key: document[key] for key in ("intent", "evidence")}, named)
        evidence = dict(messages["evidence"])
        evidence.pop("commands", None)
        origins = evidence.pop("origins")
        plan = PlanDocument(
            intent=_intent(messages["intent"], origins, f"{name}: intent"),
            evidence=_evidence(evidence, f"{name}: evidence"),
            plan_id=document["plan_id"],
        )
        _check_values(plan)
    except (InvalidDataError, KeyError, TypeError, AttributeError, ValueError, StopIteration) as error:
        raise StalePlanError(
            "this parquetry cannot read the plan {file} ({reason}); plan again",
            file=name,
            reason=message_of(error),
        ) from error
    if plan.plan_id != _plan_id(document["intent"]):
        raise StalePlanError("{file}: the plan's id is not the digest of its intent; plan again", file=name)
    return plan


def _check_values(plan: PlanDocument) -> None:
    """Raise ValueError if a field has a value that no plan contains, before it is shown or applied."""
    if not 0 <= plan.evidence.created_ms <= _LATEST_MS:
        raise ValueError(f"created_ms is {plan.evidence.created_ms}")
    commit = plan.intent.git_commit
    if commit is not None and not is_shown_as_commit(commit):
        raise ValueError("git_commit is not a commit id")
    for action in plan.intent.actions:
        spec_document(action.spec)
    if plan.evidence.costs is not None:
        plan.evidence.costs.prices.check()
    for table, figures in plan.evidence.figures.items():
        if figures.costs is not None:
            check_currency(figures.costs.currency)
        if len(figures.sizes_before) != len(figures.sizes_after):
            raise ValueError(f"the figures of {table} have different numbers of size classes")
        days = [] if figures.replay is None else [date.fromisoformat(d.day) for d in figures.replay.days]
        if days != sorted(set(days)):
            raise ValueError(f"the days in the replay of {table} are not in order")


def digest_in(text: str | bytes) -> str:
    """Return the digest in a file that :func:`decode` has read."""
    digest: str = parsed_json(text)["digest"]
    return digest


def check_age(plan: PlanDocument, now_ms: int, *, name: str) -> None:
    """Raise StalePlanError if the plan is older than seven days or its time is in the future."""
    if plan.evidence.created_ms > now_ms + _CLOCKS_DIFFER_MS:
        raise StalePlanError(
            "the time of {file} is in the future: the file was edited, or a clock is wrong; plan again",
            file=name,
        )
    if now_ms - plan.evidence.created_ms > EXPIRES_AFTER_MS:
        days = (now_ms - plan.evidence.created_ms) // 86_400_000
        raise StalePlanError(
            "{file} is {age_days} days old, and plans expire after 7; plan again", file=name, age_days=days
        )


def intent_json(intent: Intent) -> dict[str, Any]:
    """Return the intent as plain JSON values, without the positions of its changes.

    Specs are masked too: values of columns with personal data are hidden. The digests of the jobs identify
    the hidden values (:func:`parquetry.compiler.plan.apply.unmasked`).
    """
    actions = tuple(replace(action, spec=masked(action.spec)) for action in intent.actions)
    document: dict[str, Any] = to_json_value(replace(intent, actions=actions), messages=True)
    for entry in document["actions"] + document["blocked"]:
        entry["changes"] = [with_class_key(_without_origin(change)) for change in entry["changes"]]
    document["actions"] = [with_class_key(action) for action in document["actions"]]
    for entry in document["target_changes"]:
        entry["change"] = with_class_key(_without_origin(entry["change"]))
    return document


def changes_json(changes: tuple[Change, ...]) -> list[dict[str, Any]]:
    """Return the changes as plain JSON values, with the change class under the key ``class``."""
    return [with_class_key(to_json_value(change, messages=True)) for change in changes]


def with_class_key(document: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the key ``class`` instead of ``change_class``."""
    return {"class" if key == "change_class" else key: value for key, value in document.items()}


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    """Return the evidence as plain JSON values."""
    document: dict[str, Any] = to_json_value(evidence, messages=True)
    return document | {"drift": changes_json(evidence.drift)}


def _origins(intent: Intent) -> dict[str, dict[str, str]]:
    """Return the positions of changes by table and path."""
    entries: tuple[TableAction | Blocked, ...] = (*intent.actions, *intent.blocked)
    found = {
        entry.table: {c.path: c.origin for c in entry.changes if c.origin is not None}
        for entry in entries
        if entry.changes
    }
    settings = {e.change.path: e.change.origin for e in intent.target_changes if e.change.origin is not None}
    name = target_name(intent.target)
    return found | ({name: settings | found.get(name, {})} if settings else {})


def _intent(document: dict[str, Any], origins: dict[str, dict[str, str]], document_name: str) -> Intent:
    """Read the intent, and set the positions of its changes."""
    actions = [_with_changes(_with_change_class(action), origins) for action in document.get("actions", ())]
    blocked = [_with_changes(entry, origins) for entry in document.get("blocked", ())]
    table_origins = origins.get(target_name(document["target"]), {})
    changed = [
        entry
        | {
            "change": _with_change_class(entry["change"])
            | {"origin": table_origins.get(entry["change"]["path"])}
        }
        for entry in document.get("target_changes", ())
    ]
    parts = {"actions": actions, "blocked": blocked, "target_changes": changed}
    return from_json_value(Intent, document | parts, place=document_name)


def _evidence(document: dict[str, Any], document_name: str) -> Evidence:
    """Read the evidence of a plan."""
    drift = [_with_change_class(change) for change in document.get("drift", ())]
    return from_json_value(Evidence, document | {"drift": drift}, place=document_name)


def _with_changes(document: dict[str, Any], origins: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return the JSON of an action whose changes have their positions again."""
    table_origins = origins.get(document["table"], {})
    changes = [_with_change_class(change) for change in document.get("changes", ())]
    return document | {"changes": [c | {"origin": table_origins.get(c["path"])} for c in changes]}


def _without_origin(document: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a change without its position."""
    return {key: value for key, value in document.items() if key != "origin"}


def _with_change_class(document: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with the key ``change_class`` instead of ``class``."""
    return {"change_class" if key == "class" else key: value for key, value in document.items()}
