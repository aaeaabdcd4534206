"""Refusals: why a table's changes must not be applied, the remedy, and allow entries that permit a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from parquetry.compiler.git.repository import GitWorkTree
from parquetry.compiler.plan.changes import (
    CODES,
    IDENTITY_CODES,
    META_COLUMNS_PATH,
    UNREADABLE_CODES,
    declared_changes,
)
from parquetry.compiler.plan.forgetting import Undeclared
from parquetry.compiler.plan.model import Blocked, Change, ChangeClass, PlanWarning, RecipeStep, TableAction
from parquetry.compiler.plan.table_versions import VERSION_PATH, is_possible
from parquetry.compiler.spec_words import flow
from parquetry.compiler.workspace.committed import is_declared_since
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.opened import Workspace
from parquetry.message import Message, Text, phrase
from parquetry.project import AllowEntry, ResolvedTable
from parquetry.runtime.errors import CorruptTableError, UnsupportedTableError
from parquetry.runtime.spec.table_spec import NEW_TABLE_VERSIONS, TableSpec
from parquetry.runtime.table.signing import RecordFault
from parquetry.text import shell

REMEDY = "this never changes in place: make a new table from the old one, then swap"


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedTable:
    """The actual location of a declared table that does not exist at its declared location.

    ``declared_location`` is that location as a spec of the target declares it: relative to the warehouse, or
    absolute. ``name`` is its applied name, and ``applied`` the number of its applied record.
    """

    location: str
    declared_location: str
    name: str
    applied: int | None


def refuse_foreign(workspace: Workspace, table: ResolvedTable, observation: Observation) -> Blocked | None:
    """Return SC501 for a table of another project, SC504 for one of another target, else None."""
    found = observation.foreign_to(workspace.owner_of(observation))
    if found is None:
        return None
    return _refusal(
        table,
        found.code,
        reason=Message(
            "the table at {location} {reason}", location=table.location_declared, reason=found.reason
        ),
        remedy=found.remedy_for(table.file),
    )


def refuse_faulty(table: ResolvedTable, observation: Observation) -> Blocked | None:
    """Return SC505 if the applied record or the table's identity must not be used, else None."""
    fault = observation.handle.fault
    return None if fault is None else _faulty(table.name, table.location_declared, fault)


def _faulty(name: str, location: str, fault: RecordFault) -> Blocked:
    """Return a refusal for a table whose applied record must not be used."""
    return Blocked(table=name, location=location, code=fault.code, reason=fault.reason, remedy=fault.remedy)


def refuse_renamed(table: ResolvedTable, observation: Observation) -> Blocked | None:
    """Return SC405 if the table is applied under a name that its spec does not mention, else None."""
    former = None if observation.spec is None else observation.spec.name
    if former in (None, table.name, table.moved_from):
        return None
    return _refusal(
        table,
        "SC405",
        reason=f"the table at {table.location_declared} is applied as {former}",
        remedy=f"if it was renamed, add `moved: {{from: {former}}}` to {table.file}; otherwise correct its "
        "location",
    )


def refuse_move(table: ResolvedTable, moved: MovedTable) -> Blocked:
    """Return SC403 for a table whose rows are at another location than the declared one.

    If the table is also renamed, the remedy is to declare its location. Otherwise a recipe copies the rows.
    """
    move = Change(
        path="location",
        old=moved.location,
        new=table.location_declared,
        code="SC403",
        change_class=ChangeClass.BREAKING,
        live=moved.location,
        origin=str(table.origin("location")),
        reason=f"the rows are at {moved.location}; to leave them there, write "
        f"`location: {flow(moved.declared_location)}`",
    )
    if moved.name != table.name:
        remedy = f"a renamed table keeps its location: write it into {table.file}"
        return _refusal(table, move.code, reason=_full_reason(move), remedy=remedy, changes=(move,))
    recipe = copy_recipe(
        table.spec,
        file=table.file,
        location=moved.location,
        recorded=None if moved.applied is None else (_command_location(moved.location), moved.applied),
        names_location=False,
    )
    return _refusal(
        table, move.code, reason=_full_reason(move), remedy=REMEDY, changes=(move,), recipe=recipe
    )


def refuse_reverting(
    workspace: Workspace, table: ResolvedTable, observation: Observation, changes: tuple[Change, ...]
) -> Blocked | None:
    """Return SC502 if the checked-out history does not contain the commit of the applied spec, else None."""
    applied = _commit_not_contained(workspace, observation)
    if applied is None:
        return None
    return _refusal(
        table,
        "SC502",
        reason=f"the applied spec comes from commit {applied[:12]}, which {_head(workspace.tree)} does not "
        "contain: applying would revert it",
        remedy=f"{_how_to_contain(applied, workspace.tree)} and plan again",
        changes=changes,
    )


def refuse_forgetting(workspace: Workspace, table: Undeclared) -> Blocked | None:
    """Return why a table without a spec must not be forgotten, or None if it can be.

    The code is SC505 if the applied record must not be used, or SC502 if the checked-out history does not
    contain the commit that declares the table.
    """
    if (fault := table.observation.handle.fault) is not None:
        return _faulty(table.spec.name, table.location, fault)
    commit = _commit_not_contained(workspace, table.observation)
    if commit is None:
        return None
    return Blocked(
        table=table.spec.name,
        location=table.location,
        code="SC502",
        reason=f"commit {commit[:12]} declares this table and {_head(workspace.tree)} does not contain it: "
        "applying would forget it",
        remedy=Message(
            "{step} and plan again, or plan your tables with {option}",
            step=_how_to_contain(commit, workspace.tree),
            option=phrase("--select", called="select= of load()"),
        ),
    )


def refuse_unread(workspace: Workspace, table: ResolvedTable, why: Text) -> Blocked:
    """Return SC507 for a table of an untrusted branch that is not read, with the branch's changes to it.

    Args:
        workspace: The project of the branch, with its base.
        table: The table as the branch declares it.
        why: The reason why it is not read.
    """
    base = None if workspace.base is None else workspace.base.specs.get(table.name)
    changes = () if base is None else declared_changes(table, applied=base)
    return _refusal(
        table,
        "SC507",
        reason=Message("not read, because the branch is not trusted: {reason}", reason=why),
        remedy="review the change; if it is correct, merge it into the base first, or plan the branch as one "
        "of your own, without --untrusted",
        changes=changes,
    )


def refuse_unusable(table: ResolvedTable, why: UnsupportedTableError | CorruptTableError) -> Blocked:
    """Return SC503 for a table that cannot be read or written."""
    remedy = "do what the message says, then plan again"
    return _refusal(table, "SC503", reason=why.message, remedy=remedy)


def refuse_breaking(
    workspace: Workspace, table: ResolvedTable, observation: Observation, changes: tuple[Change, ...]
) -> Blocked | None:
    """Return a refusal of a change that is never made in place or that no allow entry permits, else None.

    Args:
        workspace: The project.
        table: The declared table.
        observation: The live table.
        changes: The changes, sorted by class (highest first).
    """
    breaking = [change for change in changes if change.change_class is ChangeClass.BREAKING]
    recipe: tuple[RecipeStep, ...] = ()
    for codes in (IDENTITY_CODES, UNREADABLE_CODES):
        found = next((change for change in breaking if change.code in codes), None)
        if found is not None:
            recipe = _copy_recipe(table, observation)
            return _refusal(
                table, found.code, reason=_full_reason(found), remedy=REMEDY, changes=changes, recipe=recipe
            )
    is_protected = workspace.is_protected(table)
    refused = [change for change in breaking if is_protected or change.allowed is None]
    if not refused:
        return refuse_unallowed(table, changes)
    code = refused[0].code
    remedy = (
        "the target protects this table: remove it from `protect` in parquetry.yml"
        if is_protected
        else _allow_remedy(table, code)
    )
    if code == "SC310" and not is_protected and (renamed := _renamed(changes)):
        remedy = remedy_renamed(*renamed, otherwise=remedy)
        recipe = _copy_recipe(table, observation)
    return _refusal(
        table, code, reason=_full_reason(refused[0]), remedy=remedy, changes=changes, recipe=recipe
    )


def refuse_lost_key(
    table: ResolvedTable, observation: Observation, changes: tuple[Change, ...]
) -> Blocked | None:
    """Return SC406 if the declared spec lacks the key with which files are encrypted now, else None."""
    key = None if observation.spec is None else observation.spec.files.encryption_key
    if key is None or key in table.spec.files.keys:
        return None
    return _refusal(
        table,
        "SC406",
        reason=f"files.encryption_key: {CODES['SC406']}; files that {key} encrypted could not be read",
        remedy=f"if {key} is a key of the table, add it to files.former_encryption_keys",
        changes=changes,
    )


def refuse_version(table: ResolvedTable, observation: Observation | None) -> Blocked | None:
    """Return SC509 if a new or live table cannot get its declared table version, else None."""
    live = None if observation is None else observation.handle.config.version
    version = table.spec.table_version
    if is_possible(version, live=live):
        return None
    possible = " or ".join(map(str, NEW_TABLE_VERSIONS))
    has = "no table is created with version" if live is None else f"a table of version {live} cannot get"
    return _refusal(
        table,
        "SC509",
        reason=f"{VERSION_PATH}: {has} {version}; it is for tables that already have it",
        remedy=f"declare {VERSION_PATH}: {possible}",
    )


def refuse_lacking_meta_columns(table: ResolvedTable, observation: Observation) -> Blocked | None:
    """Return SC317 if another program may have written rows without declared meta columns, else None."""
    live, declared = observation.handle.config.meta_columns, table.spec.files.meta_columns
    applied = declared if observation.spec is None else observation.spec.files.meta_columns
    if applied is not declared or live.may_become(declared):
        return None
    return _refusal(
        table,
        "SC317",
        reason=f"another program set {META_COLUMNS_PATH} to {live}: rows may lack what {declared} promises",
        remedy=f"declare files: {{meta_columns: {live}}}, or fill a new table from this one",
    )


def refuse_unallowed(table: ResolvedTable, changes: tuple[Change, ...]) -> Blocked | None:
    """Return a refusal (SC702) if a change can execute code and no allow entry permits it, else None."""
    found = [c for c in changes if c.change_class is ChangeClass.EXECUTES and c.allowed is None]
    if not found:
        return None
    return _refusal(
        table,
        found[0].code,
        reason=_full_reason(found[0]),
        remedy=_allow_remedy(table, found[0].code),
        changes=changes,
    )


def _allow_remedy(table: ResolvedTable, code: str) -> str:
    """Return the remedy that adds an allow entry for a change of the table."""
    return f'add to parquetry.yml: `allow: [{{code: {code}, table: {table.name}, reason: "..."}}]`'


def _renamed(changes: tuple[Change, ...]) -> tuple[str, str] | None:
    """Return the old and new name of a column that was probably renamed, else None.

    That is assumed if exactly one column was dropped, exactly one was added, and both have the same type.
    """
    columns = [change for change in changes if change.path.count(".") == 1]
    dropped = [change for change in columns if change.code == "SC310" and change.allowed is None]
    added = [change for change in columns if change.code == "SC301"]
    if len(dropped) != 1 or len(added) != 1 or dropped[0].old != added[0].new:
        return None
    return dropped[0].path.partition(".")[2], added[0].path.partition(".")[2]


def _copy_recipe(table: ResolvedTable, observation: Observation) -> tuple[RecipeStep, ...]:
    """Return the steps that copy the table into a new one that follows the declared spec."""
    applied = observation.handle.applied
    return copy_recipe(
        table.spec,
        file=table.file,
        location=table.location_declared,
        recorded=None if applied is None else (table.name, applied.number),
        names_location="location" in table.settings,
    )


def _command_location(location: str) -> str:
    """Return the location as commands accept it: with a '/', which no table name contains."""
    return shell.path_word(location) if "/" in location else f"./{location}"


def _commit_not_contained(workspace: Workspace, observation: Observation) -> str | None:
    """Return the commit of the applied spec if the checked-out history lacks it, else None."""
    record = observation.handle.applied
    applied = record.git_commit if record else None
    if applied is None or workspace.tree.contains(applied) or is_declared_since(workspace, observation):
        return None
    return applied


def _how_to_contain(commit: str, tree: GitWorkTree) -> str:
    """Return the instruction by which the checked-out history comes to contain the commit."""
    if tree.is_shallow:
        return "this clone has only a part of the history: fetch all of it (`git fetch --unshallow`)"
    return f"merge or rebase onto {commit[:12]}"


def _full_reason(change: Change) -> Message:
    """Return the path of a change, the meaning of its code and its reason, for a refusal."""
    return Message(
        "{path}: {meaning}; {reason}", path=change.path, meaning=CODES[change.code], reason=change.reason
    )


def _refusal(
    table: ResolvedTable,
    code: str,
    *,
    reason: Text,
    remedy: Text,
    changes: tuple[Change, ...] = (),
    recipe: tuple[RecipeStep, ...] = (),
) -> Blocked:
    return Blocked(
        table=table.name,
        location=table.location_declared,
        code=code,
        reason=reason,
        remedy=remedy,
        changes=changes,
        recipe=recipe,
    )


def _head(tree: GitWorkTree) -> str:
    """Return a short name for what is checked out."""
    return (tree.commit or "this directory")[:12]


def remedy_never_written(location: str) -> str:
    """Return the remedy for a table that was never written to: delete its folder and create it again."""
    return (
        f"nothing was ever written to this table: delete its folder {location} and plan again; or make a new "
        "table beside it, then swap"
    )


def remedy_renamed(old: str, new: str, *, otherwise: str) -> str:
    """Return the remedy for a column that was perhaps renamed: a new table with a copy under the new name.

    ``otherwise`` is the remedy if the column is really dropped.
    """
    return (
        f"to rename {old} to {new}, make a new table from the old one, with "
        f"`select: SELECT *, {old} AS {new} FROM source` and `drop: [{old}]`, then swap, because columns are "
        f"not renamed in place; to give up the values, {otherwise}"
    )


def copy_recipe(
    spec: TableSpec,
    *,
    file: str,
    location: str,
    recorded: tuple[str, int] | None,
    names_location: bool,
) -> tuple[RecipeStep, ...]:
    """Return the steps that copy a table into a new one with another key, partitioning, type or location.

    Args:
        spec: The wanted spec.
        file: The file that declares it.
        location: The location of the rows.
        recorded: The name or location by which commands find the table, and the number of its applied record.
            If it is None, nothing is applied and the result is empty.
        names_location: True if the wanted spec declares the location of the rows.
    """
    if recorded is None:
        return ()
    named, number = recorded
    name, copy = spec.name, f"{spec.name}_v2"
    folder, slash, _ = file.rpartition("/")
    copied, applied = f"{folder}{slash}{copy}.yml", f"{file}.applied"
    operation = "upsert" if spec.record_key else "insert"
    elsewhere = ", another location" if names_location else ""
    keys = f", encryption_keys: {flow(spec.files.keys)}" if spec.files.keys else ""
    source = f"{{name: old, format: hudi, path: {flow(location)}, operation: {operation}{keys}}}"
    return (
        RecipeStep(
            text=f"Keep the wanted spec as {copied}, and put the applied one back at {file}.",
            commands=(
                shell.line(
                    "parquetry", "history", named, "--record", str(number), "--out", shell.path_word(applied)
                ),
                shell.line("mv", shell.path_word(file), shell.path_word(copied)),
                shell.line("mv", shell.path_word(applied), shell.path_word(file)),
            ),
        ),
        RecipeStep(
            text=f"In {copied} write `name: {copy}`{elsewhere} and `sources: [{source}]`, with a `select` "
            "where columns need a cast.",
        ),
        RecipeStep(
            text="Make the new table and fill it; run again until it has caught up.",
            commands=(
                shell.line("parquetry", "apply", "--select", copy),
                shell.line("parquetry", "run", "--select", copy, "--only", "ingest"),
                shell.line("parquetry", "inspect", copy),
            ),
        ),
        RecipeStep(
            text=f"Swap: move the other sources of {name} to {copied}, and give the new table the name. The "
            "old table is forgotten; its data stays until you delete it.",
            commands=(shell.line("parquetry", "rename", copy, name, "--replace"), "parquetry apply"),
        ),
    )


def is_never_in_place(code: str) -> bool:
    """Return whether a change with this code always needs a new table beside the old one.

    No allow entry can permit such a change.
    """
    return code in IDENTITY_CODES | UNREADABLE_CODES | {"SC403"}


def with_allow_reason(change: Change, entries: Mapping[str, AllowEntry]) -> Change:
    """Return the change with the reason of the allow entry for its code; ``entries`` are by code.

    A change that needs no permission, or that no entry can permit, is returned as it is.
    """
    if not change.needs_allow_entry or is_never_in_place(change.code):
        return change
    entry = entries.get(change.code)
    return replace(change, allowed=None if entry is None else entry.reason)


def unused_allow_entries(
    workspace: Workspace, outcomes: Sequence[TableAction | Blocked]
) -> tuple[PlanWarning, ...]:
    """Return a warning for each allow entry that permits no change of the plan.

    Only entries about planned tables count.
    """
    needed = {(outcome.table, change.code) for outcome in outcomes for change in outcome.changes}
    return tuple(
        PlanWarning(
            code="SC601", table=table.name, message=_unused_text(code, table.name), origin=str(entry.origin)
        )
        for table in workspace.tables
        for code, entry in workspace.allowed(table).items()
        if code.startswith("SC") and ((table.name, code) not in needed or is_never_in_place(code))
    )


def _unused_text(code: str, table: str) -> str:
    """Return the warning about an allow entry that permits no change."""
    if code not in CODES:
        return f"allow: there is no code {code}; remove the entry"
    if is_never_in_place(code):
        return f"allow: {code} ({CODES[code]}) is never made in place; remove the entry"
    return f"allow: no change of {table} needs {code} any more; remove the entry"
