"""Findings of a plan about the signature of an applied record: it is replaced, wrong or not checked."""

from __future__ import annotations

from parquetry.compiler.plan.model import Blocked, Change, ChangeClass, PlanWarning
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.opened import Workspace
from parquetry.project import ResolvedTable
from parquetry.runtime.errors import KeyUnavailableError
from parquetry.runtime.table.signing import SIGNATURE_CODE, SignatureState, wrong_signature

SIGNATURE_PATH = "applied.signature"


def signature_changes(workspace: Workspace, observation: Observation) -> tuple[Change, ...]:
    """Return the change SC103 if `apply` adds, replaces or removes the record's signature, else nothing.

    If the keys are not available here, only a missing or superfluous signature is found.
    """
    signature, keys = observation.handle.record_signature, workspace.signing_keys
    if signature is None or not observation.is_applied:
        return ()
    state = _state(workspace, observation)
    if not keys:
        wanted, found = (
            SignatureState.MISSING,
            SignatureState.MISSING if signature.signature is None else SignatureState.CURRENT,
        )
    else:
        wanted, found = SignatureState.CURRENT, state or SignatureState.CURRENT
    if found is wanted:
        return ()
    return (
        Change(
            path=SIGNATURE_PATH,
            old=str(found),
            new=str(wanted),
            code="SC103",
            change_class=ChangeClass.POLICY,
        ),
    )


def refuse_wrong_signature(
    workspace: Workspace, table: ResolvedTable, observation: Observation
) -> Blocked | None:
    """Return SC508 if no declared key signed the applied record, else None.

    If the keys are not available here, the signature is not checked and the result is None.
    """
    signature = observation.handle.record_signature
    if signature is None or _state(workspace, observation) is not SignatureState.WRONG:
        return None
    wrong = wrong_signature(observation.handle.store.uri, signature)
    return Blocked(
        table=table.name,
        location=table.location_declared,
        code=wrong.code,
        reason=wrong.reason,
        remedy=wrong.remedy,
    )


def unchecked_signature(
    workspace: Workspace, table: ResolvedTable, observation: Observation
) -> tuple[PlanWarning, ...]:
    """Return a warning if the signature cannot be checked because a key is not available here."""
    signature = observation.handle.record_signature
    if signature is None or signature.signature is None or not workspace.signing_keys:
        return ()
    if _state(workspace, observation) is not None:
        return ()
    name = table.name
    message = (
        f"the signature of record {signature.number} of table {name} is not checked, because the key is not "
        "here; apply and run check it"
    )
    return (PlanWarning(code=SIGNATURE_CODE, table=name, message=message),)


def _state(workspace: Workspace, observation: Observation) -> SignatureState | None:
    """Return which key signed the record, or None if that cannot be checked here."""
    signature, keys = observation.handle.record_signature, workspace.signing_keys
    if signature is None or not keys:
        return None
    if signature.signature is None:
        return SignatureState.MISSING
    if workspace.base is not None:
        return None
    try:
        return signature.state(keys)
    except KeyUnavailableError:
        return None
