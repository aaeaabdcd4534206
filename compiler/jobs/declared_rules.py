"""Checks that the spec applied to a table is the one that the project declares, before jobs use it."""

from __future__ import annotations

from parquetry.compiler.plan.changes import spec_changes
from parquetry.compiler.plan.model import ChangeClass
from parquetry.compiler.security.untrusted import keys_and_plug_ins
from parquetry.compiler.workspace.observation import Observation
from parquetry.message import command
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.job import rules_digest
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.applied import DRIFT_CODE

_SHOWN = 10


def check_declared(observation: Observation, declared: TableSpec) -> None:
    """Raise StalePlanError with the differing fields if the applied spec is not the declared one.

    The author of an applied record is unknown, except that they can write to the table. Fields that only
    describe the table (descriptions, owner, tags) may differ.
    """
    spec, applied = observation.spec, observation.handle.applied
    if spec is None or applied is None or rules_digest(spec) == rules_digest(declared):
        return
    changes = spec_changes(spec, declared, origin=lambda _: None)
    paths = [change.path for change in changes if change.change_class is not ChangeClass.METADATA]
    paths = paths or [change.path for change in changes] or ["its spec"]
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    plan = "" if applied.plan_id is None else f", by plan {applied.plan_id}"
    commit = "" if applied.git_commit is None else f", from commit {applied.git_commit[:12]}"
    raise StalePlanError(
        "{code} {table}: record {number}{plan}{commit} differs from the declared spec in {paths}{more}. "
        "If the change is yours, apply it ({plan_command}, {apply_command}), run from the commit that was "
        "applied, or use the record (--applied); if nobody intended it, find out who wrote to the table",
        code=DRIFT_CODE,
        table=observation.handle.store.uri,
        number=applied.number,
        plan=plan,
        commit=commit,
        paths=paths[:_SHOWN],
        more=more,
        plan_command=command("plan"),
        apply_command=command("apply"),
    )


def check_named(observation: Observation, declared: TableSpec) -> None:
    """Raise StalePlanError if the applied spec names a key, plug-in or catalog that is not declared.

    This also holds for ``--applied``, where the applied spec is otherwise trusted.
    """
    known = {(group, name) for group, _, name in keys_and_plug_ins(declared)}
    for group, path, name in () if observation.spec is None else keys_and_plug_ins(observation.spec):
        if (group, name) not in known:
            raise StalePlanError(
                "{table}: {path} of the applied spec is {name!r}, which is not declared here; declare "
                "it if it is yours, or apply the declared spec",
                table=observation.handle.store.uri,
                path=path,
                name=name,
            )
