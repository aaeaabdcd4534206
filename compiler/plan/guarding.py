"""Checks of a plan by guardrails, which block or warn, and the changes of authority that its commit makes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from parquetry.compiler.errors import BlockedPlanError
from parquetry.compiler.git.repository import GitError
from parquetry.compiler.git.revisions import RevisionError
from parquetry.compiler.guardrails.verdicts import Finding, findings
from parquetry.compiler.plan.codec import intent_json, plan_of
from parquetry.compiler.plan.model import (
    Blocked,
    Evidence,
    GuardrailVerdict,
    Intent,
    PlanDocument,
    PlanWarning,
    TableAction,
)
from parquetry.compiler.security.authority import (
    Authority,
    AuthorityChange,
    authority_at,
    before_merge,
    compared_with,
)
from parquetry.compiler.workspace.opened import Workspace
from parquetry.message import Message, joined, texts
from parquetry.project import AllowEntry
from parquetry.project.guardrails.model import Override, RuleOutcome
from parquetry.runtime.spec.codec import to_json_value

_LOG = logging.getLogger(__name__)

DENIED = "SC801"
WARNED = "SC802"


def guarded(
    intent: Intent, evidence: Evidence, *, workspace: Workspace, now_ms: int
) -> tuple[Intent, Evidence]:
    """Return a plan's intent and evidence with the verdicts of the workspace's guardrails on its actions.

    A denied action becomes blocked unless an allow entry overrides the guardrail. A warning or an overridden
    denial is recorded in the action, so that the plan id covers it, and its message becomes a warning in the
    evidence.
    """
    allowed = _overrides(workspace)
    findings_by_table = {
        table: tuple(table_findings)
        for table, table_findings in groupby(
            _findings(intent, evidence, workspace, now_ms), key=lambda finding: finding.table
        )
    }
    unused = tuple(_unused(workspace, allowed, findings_by_table))
    if not findings_by_table and not unused:
        return intent, evidence
    blocked = {
        action.table: _refusal(action, denied)
        for action in intent.actions
        if (denied := [f for f in findings_by_table.get(action.table, ()) if _blocks(f, allowed)])
    }
    actions = tuple(
        replace(action, guardrails=_verdicts(findings_by_table[action.table], allowed))
        if action.table in findings_by_table
        else action
        for action in intent.actions
        if action.table not in blocked
    )
    warnings = (
        _warning(finding, allowed)
        for table_findings in findings_by_table.values()
        for finding in table_findings
        if not _blocks(finding, allowed)
    )
    return (
        replace(intent, actions=actions, blocked=(*intent.blocked, *blocked.values())),
        replace(
            evidence,
            warnings=(*evidence.warnings, *warnings, *unused),
            unchecked_sql={k: v for k, v in evidence.unchecked_sql.items() if k not in blocked},
        ),
    )


def changed_authority(workspace: Workspace) -> tuple[str | None, tuple[AuthorityChange, ...]]:
    """Return the base of the checked-out commit, and the changes of authority that the commit makes to it.

    For an untrusted branch, the files count as they were read for the plan. Without a git repository, or if
    git cannot compare the commits of a trusted branch, the result is None and no changes.

    Raises:
        RevisionError: If git cannot read the base of an untrusted branch.
    """
    commit, base = workspace.tree.commit, workspace.base
    if commit is None:
        return None, ()
    try:
        base_commit = None if base is None else base.commit
        compared_commit = compared_with(workspace.project.root, commit, base_commit)
        read = None if base is None else workspace.contents
        return base_commit or compared_commit, _authority_changes(
            workspace, commit, compared_commit, read=read
        )
    except (RevisionError, GitError) as error:
        if base is not None:
            raise
        _LOG.warning("%s", error)
        return None, ()


def as_merged(plan: PlanDocument, workspace: Workspace, commit: str | None = None) -> PlanDocument:
    """Return the plan with the changes of authority that a commit makes to the commit it was merged onto.

    Its plan id equals the one from the review of that change. ``commit`` defaults to the checked-out one.

    Raises:
        RevisionError: If git does not have the commit before the merge.
    """
    commit = commit or workspace.tree.commit
    if commit is None:
        return plan
    read = workspace.contents if commit == workspace.tree.commit else None
    changes = _authority_changes(workspace, commit, before_merge(workspace.project.root, commit), read=read)
    is_same = changes == plan.intent.authority
    return plan if is_same else plan_of(replace(plan.intent, authority=changes), plan.evidence)


def _authority_changes(
    workspace: Workspace, commit: str, base: str | None, *, read: Mapping[str, bytes] | None
) -> tuple[AuthorityChange, ...]:
    """Return the changes of authority from the base to a commit; without a base, all authority is new."""
    root, target = workspace.project.root, workspace.project.target.name
    if commit == base and read is None:
        return ()
    before = Authority() if base is None else authority_at(root, base, target=target)
    return authority_at(root, commit, target=target, contents=read).since(before)


def check_guardrails(plan: PlanDocument, workspace: Workspace, *, now_ms: int) -> None:
    """Raise BlockedPlanError if the guardrails, at the time ``now_ms``, deny an action of a saved plan."""
    allowed = _overrides(workspace)
    found = _findings(plan.intent, plan.evidence, workspace, now_ms)
    denied = [finding for finding in found if _blocks(finding, allowed)]
    if denied:
        raise BlockedPlanError(
            "{reasons}; plan again",
            reasons=joined(
                "; ", (Message("{table}: {reason}", table=f.table, reason=_reason(f)) for f in denied)
            ),
        )


def _findings(intent: Intent, evidence: Evidence, workspace: Workspace, now_ms: int) -> tuple[Finding, ...]:
    """Evaluate the guardrails on the actions of a plan."""
    if not workspace.guardrails or not intent.actions:
        return ()
    document = {
        "intent": texts(intent_json(intent)),
        "evidence": {"figures": to_json_value(evidence.figures)},
    }
    return findings(workspace.guardrails, document, now_ms=now_ms)


_Overrides = Mapping[tuple[str, str], AllowEntry]
"""The entries of ``allow`` by table and guardrail."""


def _overrides(workspace: Workspace) -> _Overrides:
    """Return the allow entries that override guardrails, by table and guardrail."""
    return {(e.table, e.guardrail): e for e in workspace.project.allow if e.guardrail is not None}


def _allowing(finding: Finding, allowed: _Overrides) -> AllowEntry | None:
    """Return the allow entry that overrides a denial, or None. A guardrail can forbid overrides."""
    if finding.outcome is not RuleOutcome.DENY or finding.guardrail.override is Override.NEVER:
        return None
    return allowed.get((finding.table, finding.guardrail.name))


def _blocks(finding: Finding, allowed: _Overrides) -> bool:
    """Return whether a finding is a denial that no allow entry overrides."""
    return finding.outcome is RuleOutcome.DENY and _allowing(finding, allowed) is None


def _verdicts(table_findings: tuple[Finding, ...], allowed: _Overrides) -> tuple[GuardrailVerdict, ...]:
    """Return the findings of an action in the form in which the plan records them."""
    entries = ((finding, _allowing(finding, allowed)) for finding in table_findings)
    return tuple(
        GuardrailVerdict(
            guardrail=finding.guardrail.name,
            severity=finding.outcome,
            allowed=None if entry is None else entry.reason,
        )
        for finding, entry in entries
    )


def _warning(finding: Finding, allowed: _Overrides) -> PlanWarning:
    """Return the warning for a finding that warns, or for a denial that an allow entry overrides."""
    entry = _allowing(finding, allowed)
    if entry is None:
        return PlanWarning(
            code=WARNED,
            table=finding.table,
            message=f"guardrail {finding.guardrail.name} warns: {finding.message}",
            origin=finding.guardrail.origin,
        )
    return PlanWarning(
        code=DENIED,
        table=finding.table,
        message=f"guardrail {finding.guardrail.name} denies this: {finding.message}; allowed: {entry.reason}",
        origin=str(entry.origin),
    )


def _refusal(action: TableAction, denied: list[Finding]) -> Blocked:
    """Return a refusal of an action that guardrails deny."""
    return Blocked(
        table=action.table,
        location=action.location,
        code=DENIED,
        reason="; ".join(_reason(finding) for finding in denied),
        remedy="; ".join(_remedy(finding) for finding in denied),
        changes=action.changes,
    )


def _reason(finding: Finding) -> str:
    """Return in words which guardrail denies an action and why."""
    guardrail = finding.guardrail
    return f"guardrail {guardrail.name} ({guardrail.origin}) denies this: {finding.message}"


def _remedy(finding: Finding) -> str:
    """Return what to do about a denial: change the spec or, where that is possible, allow it."""
    name = finding.guardrail.name
    if finding.guardrail.override is Override.NEVER:
        return f"change the spec until {name} is fulfilled: no entry of allow overrides it"
    return (
        f"change the spec until {name} is fulfilled, or add to parquetry.yml: `allow: [{{code: {DENIED}, "
        f'guardrail: {name}, table: {finding.table}, reason: "..."}}]`'
    )


def _unused(
    workspace: Workspace, allowed: _Overrides, findings_by_table: Mapping[str, tuple[Finding, ...]]
) -> Iterator[PlanWarning]:
    """Yield a warning for each entry about a planned table that overrides no denial."""
    planned = {table.name for table in workspace.tables}
    used = {
        (finding.table, finding.guardrail.name)
        for table_findings in findings_by_table.values()
        for finding in table_findings
        if _allowing(finding, allowed) is not None
    }
    for (table, name), entry in allowed.items():
        if table in planned and (table, name) not in used:
            message = f"allow: {name} denies no change of {table} that the entry overrides; remove the entry"
            yield PlanWarning(code="SC601", table=table, message=message, origin=str(entry.origin))
