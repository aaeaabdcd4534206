"""The differences of the specs of two git revisions, in the change classes of plans; tables are not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from parquetry import project
from parquetry.compiler.errors import SpecError
from parquetry.compiler.git.revisions import files_at, load_before, load_known
from parquetry.compiler.plan.changes import highest, spec_changes
from parquetry.compiler.plan.model import Change, ChangeClass
from parquetry.compiler.plan.refusals import is_never_in_place, with_allow_reason
from parquetry.compiler.plan.target_changes import CHANGED, setting_change
from parquetry.compiler.reports.inspection import LayoutReport
from parquetry.compiler.security.allowed_settings import recorded_settings
from parquetry.project import ResolvedProject, ResolvedTable
from parquetry.project.guardrails.model import Guardrail
from parquetry.project.model.resolved import TargetSettings
from parquetry.project.yaml.folder import PROJECT_FILE
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import ClusteringFile, Debt, Partitioning, Situation
from parquetry.runtime.layout.sizing import is_small
from parquetry.runtime.spec.clustering import Existing, Trigger
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import SettingDifference, setting_differences


class DiffStatus(StrEnum):
    """The difference of a table, target or guardrail between the revisions."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimated effect of a spec change on a saved layout of ``instant``.

    ``rewrite_bytes`` is what clustering would rewrite over time, leaving ``files_after`` files.
    """

    instant: str | None
    files: int
    size_bytes: int
    small_files_before: int
    small_files_after: int
    rewrite_bytes: int
    files_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDiff:
    """One table that differs.

    ``never_in_place`` is True if the change needs a new table beside this one. ``unallowed`` are the codes
    that need an ``allow`` entry and have none. ``protected`` is True if the target refuses the change in any
    case.
    """

    table: str
    file: str
    status: DiffStatus
    change_class: ChangeClass
    changes: tuple[Change, ...] = ()
    never_in_place: bool = False
    unallowed: tuple[str, ...] = ()
    protected: bool = False
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDiff:
    """One target whose settings differ. ``unallowed`` are the changed settings that need an allow entry."""

    target: str
    status: DiffStatus
    change_class: ChangeClass
    changes: tuple[Change, ...] = ()
    unallowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """A changed field of a guardrail by its YAML key; a value is None if the field is missing."""

    path: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailDiff:
    """One guardrail that differs. Plans of a branch are evaluated by the guardrails of its base."""

    guardrail: str
    file: str
    status: DiffStatus
    changes: tuple[RuleChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecDiff:
    """Two revisions of a project at one target; ``base`` is the revision as it was given.

    ``targets`` and ``guardrails`` are those that differ. ``default_target`` is set if the default target
    changed.
    """

    project: str
    target: str
    base: str
    unchanged: int
    tables: tuple[TableDiff, ...]
    targets: tuple[TargetDiff, ...] = ()
    default_target: Change | None = None
    guardrails: tuple[GuardrailDiff, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing differs."""
        return not (self.tables or self.targets or self.guardrails) and self.default_target is None


def diff_specs(
    directory: Path,
    *,
    base: str,
    target: str | None,
    variables: Mapping[str, str],
    select: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    layouts: Mapping[str, LayoutReport] | None = None,
) -> SpecDiff:
    """Compare the files of the working tree with those of the revision ``base``.

    If the revision has no project or no such target, every table is added. No environment is read: values
    that read one are the placeholder ``${NAME}`` on both sides. Each side takes the variables that it
    declares.

    Args:
        directory: the project's folder.
        base: a git revision.
        target: the target; None for the default one.
        variables: values that replace declared ones.
        select: selectors of tables.
        exclude: selectors of tables to leave out.
        layouts: saved layouts by table, for estimates.

    Raises:
        SpecError: if the project is invalid on one side; files of ``base`` are named as git does
        (``main:parquetry.yml``).
        RevisionError: if the revision does not exist.
        UndeclaredVariableError: if neither side declares a variable.

    """
    result, unknown = load_known(directory, target=target, variables=variables)
    now = result.project
    if now is None:
        raise SpecError(result.diagnostics, files=result.files)
    before, unknown_before = _before(directory, base, target or now.target.name, variables)
    for name, undeclared in unknown.items():
        if name in unknown_before:
            raise undeclared
    old = {table.name: table for table in before.tables} if before else {}
    new = {table.name: table for table in now.tables}
    both = tuple((old | new).values())
    chosen = project.select(both, select=select, exclude=exclude, root=now.root)
    names = sorted(table.name for table in chosen)
    found = [_diff(name, old.get(name), new.get(name), now, (layouts or {}).get(name)) for name in names]
    tables = tuple(diff for diff in found if diff is not None)
    return SpecDiff(
        project=now.name,
        target=now.target.name,
        base=base,
        unchanged=len(names) - len(tables),
        tables=tables,
        targets=tuple(_target_diffs(before.settings if before else {}, now)),
        default_target=_default_target(before, now),
        guardrails=tuple(_guardrail_diffs(before.guardrails if before else (), now.guardrails)),
    )


def _target_diffs(before: Mapping[str, TargetSettings], now: ResolvedProject) -> Iterator[TargetDiff]:
    """Yield the targets whose settings differ; the selection of tables has no effect on them."""
    for name in sorted(before.keys() | now.settings.keys()):
        old, new = before.get(name), now.settings.get(name)
        if new is None:
            yield TargetDiff(target=name, status=DiffStatus.REMOVED, change_class=ChangeClass.METADATA)
            continue
        differences = setting_differences(recorded_settings(new), recorded_settings(old) if old else None)
        changes = [setting_change(difference, new) for difference in differences]
        changes += [setting_change(difference, new) for difference in _passwords(old, new)]
        if changes or old is None:
            yield TargetDiff(
                target=name,
                status=DiffStatus.ADDED if old is None else DiffStatus.CHANGED,
                change_class=highest(changes),
                changes=tuple(changes),
                unallowed=tuple(
                    sorted({c.path for c in changes if c.needs_allow_entry and c.allowed is None})
                ),
            )


def _guardrail_diffs(before: Sequence[Guardrail], now: Sequence[Guardrail]) -> Iterator[GuardrailDiff]:
    """Yield the guardrails that differ or exist on one side only. Examples are not part of a guardrail."""
    old, new = ({rule.name: rule for rule in rules} for rules in (before, now))
    for name in sorted(old.keys() | new.keys()):
        was, is_now = old.get(name), new.get(name)
        if is_now is None:
            yield GuardrailDiff(guardrail=name, file=old[name].file, status=DiffStatus.REMOVED)
            continue
        old_fields, new_fields = _rule_fields(was), _rule_fields(is_now)
        changes = tuple(
            RuleChange(path=path, old=old_fields[path], new=new_fields[path])
            for path in new_fields
            if old_fields[path] != new_fields[path]
        )
        if changes:
            status = DiffStatus.ADDED if was is None else DiffStatus.CHANGED
            yield GuardrailDiff(guardrail=name, file=is_now.file, status=status, changes=changes)


def _rule_fields(rule: Guardrail | None) -> dict[str, str | None]:
    """Return the fields of a guardrail by their YAML keys; each is None if there is no guardrail."""
    if rule is None:
        return dict.fromkeys(("expression", "severity", "override", "message", "description"))
    return {
        "expression": rule.expression.text,
        "severity": str(rule.severity),
        "override": str(rule.override),
        "message": rule.message.text,
        "description": rule.description,
    }


def _passwords(old: TargetSettings | None, new: TargetSettings) -> Iterator[SettingDifference]:
    """Yield the settings that differ only in passwords, which are never shown."""
    before = {setting.path: setting for setting in old.settings} if old else {}
    for setting in new.settings:
        was = before.get(setting.path)
        if was is not None and was.value == setting.value and was.exact != setting.exact:
            yield SettingDifference(path=setting.path, declared=setting.value, applied=was.value)


def _default_target(before: ResolvedProject | None, now: ResolvedProject) -> Change | None:
    """Return the change of the project's default target, or None if it is the same."""
    if before is None or before.default_target == now.default_target:
        return None
    return Change(
        path="default_target",
        old=before.default_target,
        new=now.default_target,
        code=CHANGED,
        change_class=ChangeClass.POLICY,
        origin=PROJECT_FILE,
    )


def _before(
    directory: Path, base: str, target: str, variables: Mapping[str, str]
) -> tuple[ResolvedProject | None, Collection[str]]:
    """Return the project at the revision (None without one), and the variables that it does not declare."""
    result, unknown = load_before(directory, files_at(directory, base), target=target, variables=variables)
    if result is None:
        return None, unknown
    if result.project is None:
        there = (replace(found, file=f"{base}:{found.file}") for found in result.diagnostics)
        raise SpecError(tuple(there), files=result.files)
    return result.project, unknown


def _diff(
    name: str,
    old: ResolvedTable | None,
    new: ResolvedTable | None,
    now: ResolvedProject,
    layout: LayoutReport | None,
) -> TableDiff | None:
    """Return how a table differs between the two sides, or None if it does not.

    ``now`` is the project that decides which changes are allowed and which tables are protected. With a saved
    ``layout``, the difference also has an estimate.
    """
    if new is None:
        assert old is not None, "a name comes from one of the sides"
        return TableDiff(
            table=name, file=old.file, status=DiffStatus.REMOVED, change_class=ChangeClass.METADATA
        )
    if old is None:
        return TableDiff(table=name, file=new.file, status=DiffStatus.ADDED, change_class=ChangeClass.CREATE)
    changes = (*_location_change(old, new), *_changes(old, new))
    if not changes:
        return None
    entries = {entry.code: entry for entry in now.allow if entry.table == name}
    changes = tuple(with_allow_reason(change, entries) for change in changes)
    breaking = [change for change in changes if change.change_class is ChangeClass.BREAKING]
    never = [change for change in breaking if is_never_in_place(change.code)]
    open_codes = {c.code for c in changes if c.needs_allow_entry and c not in never and c.allowed is None}
    return TableDiff(
        table=name,
        file=new.file,
        status=DiffStatus.CHANGED,
        change_class=highest(changes),
        changes=changes,
        never_in_place=bool(never),
        unallowed=tuple(sorted(open_codes)),
        protected=bool(breaking) and now.target.protects(name),
        estimate=None if layout is None else _estimate(layout, old.spec, new.spec),
    )


def _changes(old: ResolvedTable, new: ResolvedTable) -> tuple[Change, ...]:
    """Return the differences between the specs of a table."""
    return spec_changes(
        old.spec,
        new.spec,
        origin=lambda path: str(new.origin(path)),
        is_written=lambda path: path in new.settings,
    )


def _location_change(old: ResolvedTable, new: ResolvedTable) -> Iterator[Change]:
    """Yield a breaking change if the declared location differs."""
    if old.location_declared != new.location_declared:
        yield Change(
            path="location",
            old=old.location_declared,
            new=new.location_declared,
            code="SC403",
            change_class=ChangeClass.BREAKING,
            origin=str(new.origin("location")),
            reason="the rows stay where they are",
        )


def _estimate(layout: LayoutReport, old: TableSpec, new: TableSpec) -> Estimate:
    """Estimate a spec change on a saved layout with the functions that make plans.

    A saved layout has no column bounds, pending plans or schema steps.
    """
    files = list(_files(layout))
    sizes = [file.size_bytes for file in files]
    policy = new.clustering
    due = Debt()
    if policy.trigger is not Trigger.OFF:
        types = {column.name: column.type for column in new.columns}
        situation = Situation(
            max_file_size_bytes=new.sizing.max_file_size_bytes,
            partitioning=Partitioning(
                columns=tuple((name, types.get(name, "string")) for name in new.partition_by),
                hive_style=new.hive_style,
                url_encode=new.url_encode,
            ),
            kept_until=layout.instant if policy.existing is Existing.KEEP else None,
        )
        due = compute_debt(policy, files, situation)
    return Estimate(
        instant=layout.instant,
        files=len(sizes),
        size_bytes=sum(sizes),
        small_files_before=sum(is_small(size, old.sizing) for size in sizes),
        small_files_after=sum(is_small(size, new.sizing) for size in sizes),
        rewrite_bytes=due.rewritten_bytes,
        files_after=len(sizes) - due.files_before + due.files_after,
    )


def _files(layout: LayoutReport) -> Iterator[ClusteringFile]:
    """Yield the files of a saved layout in the form that clustering needs."""
    taken: Counter[str] = Counter()
    for partition in layout.partitions:
        # Masked paths may be equal.
        taken[partition.path] += 1
        number = taken[partition.path]
        path = partition.path if number == 1 else f"{partition.path}#{number}"
        for place, size in enumerate(partition.file_sizes_bytes):
            yield ClusteringFile(
                partition=path,
                file_id=str(place),
                instant=partition.file_instants[place] if partition.file_instants else "",
                path=f"{path}/{place:08}",
                size_bytes=size,
                digest=partition.file_layouts[place] if partition.file_layouts else None,
            )
