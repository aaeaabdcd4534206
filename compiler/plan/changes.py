"""Changes between the applied and the declared spec, down to fields of columns, each with its class."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from parquetry.compiler.plan.model import Change, ChangeClass
from parquetry.compiler.plan.table_versions import VERSION_PATH, effect_on_readers
from parquetry.compiler.security.masking import masked_for, masked_sql
from parquetry.compiler.spec_words import document, flatten, format_size, is_default
from parquetry.project import ResolvedTable
from parquetry.project.validation.units import duration_seconds
from parquetry.runtime.spec.clustering import Existing, Trigger
from parquetry.runtime.spec.evolution import holds_every, is_widening, widenings
from parquetry.runtime.spec.masking import pii_columns
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.paths import ColumnPath, types_by_path
from parquetry.runtime.spec.plug_ins import EXECUTION_STRATEGIES, KMS_CLIENTS, PLAN_STRATEGIES
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.target_settings import EXECUTES
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Struct, parse_type
from parquetry.runtime.table.former_columns import FormerColumn

CODES = {
    "SC001": "the table is created",
    "SC002": "the spec was deleted: the table is forgotten, and its data stays",
    "SC003": "a forgotten table is declared again",
    "SC101": "a name, a description, an owner, a tag or the name of the target changed",
    "SC102": "another program changed a property of the table; it is restored",
    "SC103": "the signature of the applied record is added, replaced or removed",
    "SC104": "another program has created a metadata table, and parquetry drops it",
    "SC105": "the entry of the table in its catalog is missing or differs, and is registered anew",
    "SC201": "a limit, a schedule, a source or another rule changed",
    "SC202": "the lock of the table changed",
    "SC251": "the clustering policy changed, and existing files are rewritten when it is applied",
    "SC261": "the table version changed",
    "SC262": "another program changed the table version; it is changed back",
    "SC263": "fewer meta columns are filled",
    "SC301": "a nullable column was added",
    "SC302": "a type was widened",
    "SC303": "a column may be null now",
    "SC304": "the columns, or the fields of one, are in another order",
    "SC305": "a column was dropped or narrowed, not by the spec; it is put back",
    "SC310": "a column was dropped",
    "SC311": "existing files cannot be read as the new type",
    "SC312": "a column may no longer be null",
    "SC313": "a column that may not be null was added",
    "SC314": "keys become unique in the table instead of in a partition",
    "SC315": "the case of a name changed",
    "SC316": "a column that was dropped is added again",
    "SC317": "the filled meta columns cannot be changed so",
    "SC401": "the record key changed",
    "SC402": "the partitioning changed",
    "SC403": "the location changed",
    "SC404": "the ordering column changed",
    "SC405": "the table is applied under another name",
    "SC406": "a key of files is replaced, and is not among the former ones",
    "SC501": "the location contains a table of another project or program",
    "SC502": "the applied spec comes from a commit that this branch does not contain",
    "SC503": "the table uses a feature with which it cannot be written safely",
    "SC504": "the location contains a table that is applied for another target",
    "SC505": "the applied record or table.json differs from what parquetry wrote",
    "SC506": "the applied spec differs from the declared one",
    "SC507": "the branch is not trusted, and its base does not name what the table needs",
    "SC508": "no declared key signed the applied record",
    "SC509": "the table cannot get the declared table version",
    "SC701": "a setting of the target changed",
    "SC702": "a setting that can execute code or redirect rows changed",
    "SC801": "a guardrail denies the change",
    "SC802": "a guardrail warns of the change",
    "SC601": "an allow entry matches no change of this plan",
    "SC602": "a table with the same columns is forgotten: it may have been renamed",
    "SC603": "a declared reader returns wrong rows after the change",
    "SC604": "a declared reader cannot read the table after the change",
}

IDENTITY_CODES = frozenset({"SC401", "SC402", "SC404"})
RETURNS = "SC316"
UNREADABLE_CODES = frozenset({"SC311", "SC312", "SC313", "SC314", "SC315", "SC317"})

_IDENTITY = {
    "record_key": "SC401",
    "partition_by": "SC402",
    "partitioning.hive_style": "SC402",
    "partitioning.url_encode": "SC402",
    "ordering": "SC404",
}
_PLUGGABLE = {
    "clustering.plan.strategy": PLAN_STRATEGIES,
    "clustering.execution.strategy": EXECUTION_STRATEGIES,
}
_ONE_LOCK = "every program that writes the table must take this lock"
_DELETES_PARTITIONS = "the next run deletes the partitions that this rule no longer keeps"
META_COLUMNS_PATH = "files.meta_columns"
_FLOATING = frozenset({"float", "double"})
_LOST_WITHOUT_KEYS = "Hudi's incremental queries and its Bloom index"
_KEYS = re.compile(r"files\.(former_)?encryption_keys?|sources\.[^.]+\.encryption_keys")
_METADATA = ("name", "description", "owner", "tags", "catalog", "database")
_LAYOUT = ("clustering.trigger", "clustering.existing", "clustering.plan.", "clustering.execution.")
_ATTRIBUTES = (
    ("description", "SC101", ChangeClass.METADATA),
    ("pii", "SC101", ChangeClass.METADATA),
    ("generated", "SC201", ChangeClass.POLICY),
)


def _always(_path: str) -> bool:
    """Return True: every path counts as written."""
    return True


def spec_changes(
    applied: TableSpec,
    declared: TableSpec,
    *,
    origin: Callable[[str], str | None],
    is_written: Callable[[str], bool] = _always,
) -> tuple[Change, ...]:
    """Return every field that differs, sorted by class (highest first) and then by path.

    Values of columns with personal data in either spec are masked. If only such values differ, both sides of
    the change show ``***``.

    Args:
        applied: The applied spec.
        declared: The declared spec.
        origin: Returns the position (``file:line:column``) at which a path of the declared spec is written.
        is_written: Returns whether a layer of the project sets a path. Clustering sizes that no layer sets
            follow ``sizing`` and are not changes of their own.
    """
    old, new = _rules(applied), _rules(declared)
    pii = pii_columns(applied.columns, declared.columns)
    shown_old, shown_new = _rules(masked_for(applied, pii)), _rules(masked_for(declared, pii))
    derived = {
        path
        for path, value in _derived_sizes(declared).items()
        if not is_written(path)
        and new.get(path) == value
        and old.get(path) == _derived_sizes(applied).get(path)
    }
    rules = (
        _rule_change(path, shown_old.get(path), shown_new.get(path))
        for path in sorted((old.keys() | new.keys()) - derived)
        if old.get(path) != new.get(path)
        # If an entry such as a source is added or removed, its fields with default values are no changes.
        and not (path not in old and is_default(path, new[path]))
        and not (path not in new and is_default(path, old[path]))
    )
    rules = (_of_inexact_key(change, applied) for change in rules)
    rules = (_as_rewrite(change, declared) for change in rules) if _rewrites_files(declared) else rules
    columns = (
        _of_computed_key(change, applied) for change in column_changes(applied.columns, declared.columns)
    )
    changes = [*(_masked_generation(change, pii) for change in columns), *rules]
    located = [_located(change, origin) for change in changes]
    return tuple(sorted(located, key=lambda change: (-change.change_class.rank, change.path)))


def _masked_generation(change: Change, pii: frozenset[str]) -> Change:
    """Return a change with personal values masked in the SQL of a generated column."""
    if not change.path.endswith(".generated"):
        return change
    old, new = (None if text is None else masked_sql(text, pii) for text in (change.old, change.new))
    return replace(change, old=old, new=new)


def highest(changes: Iterable[Change]) -> ChangeClass:
    """Return the highest class of the changes, or ``metadata`` if there are none."""
    return max((c.change_class for c in changes), key=lambda c: c.rank, default=ChangeClass.METADATA)


def _rewrites_files(declared: TableSpec) -> bool:
    """Return whether `apply` rewrites the files that a change of the clustering policy makes due."""
    policy = declared.clustering
    return policy.existing is Existing.NOW and policy.trigger is not Trigger.OFF


def _as_rewrite(change: Change, declared: TableSpec) -> Change:
    """Return a change with class rewrite if it makes existing files due, else as it is."""
    if not is_of_layout(change, declared) or change.change_class is ChangeClass.EXECUTES:
        return change
    return replace(change, code="SC251", change_class=ChangeClass.REWRITE)


def has_rewrite(changes: Iterable[Change], declared: TableSpec) -> bool:
    """Return whether one of the changes makes files due that `apply` rewrites."""
    return _rewrites_files(declared) and any(
        change.change_class is ChangeClass.REWRITE
        or (change.change_class is ChangeClass.EXECUTES and is_of_layout(change, declared))
        for change in changes
    )


def is_of_layout(change: Change, declared: TableSpec) -> bool:
    """Return whether the change makes existing files due for clustering."""
    policy = declared.clustering
    is_key = change.path == "files.encryption_key" and policy.execution.encryption_key is not None
    return is_key or (change.path.startswith(_LAYOUT) and change.path != "clustering.execution.scope")


def declared_changes(table: ResolvedTable, *, applied: TableSpec) -> tuple[Change, ...]:
    """Return the changes from an applied spec to the declared one of a table (:func:`spec_changes`)."""
    return spec_changes(
        applied,
        table.spec,
        origin=lambda path: str(table.origin(path)),
        is_written=lambda path: path in table.settings,
    )


def plugin_changes(declared: TableSpec, *, origin: Callable[[str], str | None]) -> tuple[Change, ...]:
    """Return a change for each field of a new table that names a plug-in, because its code is executed."""
    plugins = ((path, value) for path, value in _rules(declared).items() if _is_plugin(path, value))
    return tuple(_located(_rule_change(path, None, value), origin) for path, value in plugins)


def _derived_sizes(spec: TableSpec) -> dict[str, str]:
    """Return the clustering sizes that apply if no layer of the project sets them."""
    largest, limit = spec.sizing.max_file_size_bytes, spec.sizing.small_file_limit_bytes
    return {
        "clustering.plan.target_file_size": format_size(largest),
        "clustering.plan.small_file_limit": format_size(limit or largest * 5 // 6),
    }


def _rules(spec: TableSpec) -> dict[str, Any]:
    """Return all fields of a spec except its columns, by dotted path."""
    fields = document(spec) | {"name": spec.name}
    del fields["columns"]
    return flatten(fields)


def _rule_change(path: str, old: Any, new: Any) -> Change:
    """Return the change of a field."""
    code, change_class, reason = _classified(path, old, new)
    return Change(path=path, old=old, new=new, code=code, change_class=change_class, reason=reason)


def _classified(  # noqa: PLR0911 - a case, an answer
    path: str, old: Any, new: Any
) -> tuple[str, ChangeClass, str | None]:
    """Return the code, the class and the reason of the change of a field."""
    if path in _IDENTITY:
        return _IDENTITY[path], ChangeClass.BREAKING, "existing files are laid out by it"
    if path == "key_scope" and new == "table":
        return "SC314", ChangeClass.BREAKING, "two partitions may already contain the same key"
    if path == VERSION_PATH:
        return "SC261", ChangeClass.FORMAT, effect_on_readers(old, new)
    if path == META_COLUMNS_PATH:
        return _meta_columns_change(MetaColumns(old), MetaColumns(new))
    if any(_is_plugin(path, value) for value in (old, new)):
        return EXECUTES, ChangeClass.EXECUTES, "it names an installed plug-in, whose code is executed"
    if path.startswith("retention.partitions.") and new is not None:
        return "SC201", ChangeClass.POLICY, _DELETES_PARTITIONS
    if path == "retention.quarantine":
        return "SC201", ChangeClass.POLICY, _effect_on_quarantine(old, new)
    if path.split(".", 1)[0] in _METADATA:
        return "SC101", ChangeClass.METADATA, None
    code, reason = ("SC202", _ONE_LOCK) if path == "locks" else ("SC201", None)
    return code, ChangeClass.POLICY, reason


def _effect_on_quarantine(old: str | None, new: str | None) -> str | None:
    """Return which orphans the next clean deletes because of a changed quarantine, or None."""
    if new is None:
        return "the next clean deletes the orphans in the quarantine"
    if old is None or duration_seconds(new) >= duration_seconds(old):
        return None
    return f"the next clean deletes the orphans that have been in the quarantine for {new}"


def _meta_columns_change(old: MetaColumns, new: MetaColumns) -> tuple[str, ChangeClass, str]:
    """Return the code, the class and the reason of a change of the meta columns that files fill."""
    if not old.may_become(new):
        return "SC317", ChangeClass.BREAKING, f"rows that were written with {old} lack what {new} promises"
    lost = f"{_LOST_WITHOUT_KEYS}{'' if new.has_commit_times else ', since and until'}"
    return "SC263", ChangeClass.FORMAT, f"takes away {lost}"


def _of_inexact_key(change: Change, applied: TableSpec) -> Change:
    """Return a change to fewer meta columns as breaking if computed keys may differ from stored ones."""
    types = types_by_path(applied.columns)
    inexact = [path for path in applied.record_key if str(types.get(tuple(path.split(".")))) in _FLOATING]
    if change.code != "SC263" or not applied.files.meta_columns.has_keys or not inexact:
        return change
    reason = f"the text of {inexact[0]}, a floating-point number, depends on the program that stored the key"
    return replace(change, code="SC317", change_class=ChangeClass.BREAKING, reason=reason)


def _of_computed_key(change: Change, applied: TableSpec) -> Change:
    """Return a changed type of a key column as a changed key if files do not store keys."""
    fields = {f"columns.{path}.type" for path in applied.record_key}
    if change.code != "SC302" or change.path not in fields or applied.files.meta_columns.has_keys:
        return change
    reason = "files store no keys: keys are computed from the column, and another type gives other keys"
    return replace(change, code="SC401", change_class=ChangeClass.BREAKING, reason=reason)


def _is_plugin(path: str, value: Any) -> bool:
    """Return whether a value, or an entry of a list, names a strategy or KMS client outside parquetry."""
    group = KMS_CLIENTS if _KEYS.fullmatch(path) else _PLUGGABLE.get(path)
    names = value if isinstance(value, list) else [value]
    return group is not None and any(name and name.partition(":")[0] not in group.built_in for name in names)


def _located(change: Change, origin: Callable[[str], str | None]) -> Change:
    """Return a change with the position at which its path is declared."""
    return replace(change, origin=origin(change.path))


def column_changes(old: tuple[Column, ...], new: tuple[Column, ...]) -> Iterator[Change]:
    """Yield the changes from the old columns to the new ones, in the new order, with dropped columns last."""
    before = {column.name: column for column in old}
    after = {column.name: column for column in new}
    respelled = _respelled(before, after)
    for name, column in after.items():
        path = f"columns.{name}"
        if name in respelled:
            yield _respelling(path, old=respelled[name], new=name)
        elif name not in before:
            yield _added(path, column.type, nullable=column.nullable)
        else:
            yield from _altered(path, before[name], column)
    for name, column in before.items():
        if name not in after and name not in respelled.values():
            yield _dropped(f"columns.{name}", column.type)
    yield from _reordered("columns", before, after)


def _altered(path: str, old: Column, new: Column) -> Iterator[Change]:
    """Yield the changes of a column that both specs have."""
    yield from _type_changes(path, parse_type(old.type), parse_type(new.type))
    if old.nullable != new.nullable:
        yield _nullability(path, nullable=new.nullable)
    for attribute, code, change_class in _ATTRIBUTES:
        left, right = getattr(old, attribute), getattr(new, attribute)
        if left != right:
            yield Change(
                path=f"{path}.{attribute}", old=left, new=right, code=code, change_class=change_class
            )


def _type_changes(path: str, old: ColumnType, new: ColumnType) -> Iterator[Change]:
    """Yield the changes between two types, at any depth; a widened type evolves, others break."""
    match old, new:
        case _ if old == new:
            return
        case Struct(), Struct():
            yield from _struct_changes(path, old, new)
        case Array(), Array():
            yield from _type_changes(f"{path}.element", old.element, new.element)
        case Map(), Map():
            yield from _type_changes(f"{path}.value", old.value, new.value)
        case _ if is_widening(old, new):
            yield Change(
                path=f"{path}.type", old=str(old), new=str(new), code="SC302", change_class=ChangeClass.EVOLVE
            )
        case _:
            yield Change(
                path=f"{path}.type",
                old=str(old),
                new=str(new),
                code="SC311",
                change_class=ChangeClass.BREAKING,
                reason=_why_unreadable(old, new),
            )


def _why_unreadable(old: ColumnType, new: ColumnType) -> str:
    """Return why files of the old type cannot be read as the new one, and which types are possible."""
    wider = widenings(old)
    ways = f"; in place {old} may become {' or '.join(map(str, wider))}" if wider else ""
    if holds_every(new, old):
        if isinstance(old, Decimal) and isinstance(new, Decimal):
            kept = f"{old.fixed_size_bytes} bytes with {old.scale} digits behind the point"
            needed = f"{new.fixed_size_bytes} with {new.scale}"
            return (
                f"a widening that is not supported: files hold {kept}, {new} takes {needed}, and readers of "
                f"the format do not convert the one into the other{ways}"
            )
        return (
            f"a widening that is not supported: {new} holds every {old}, and readers of the format do not "
            f"convert files of {old} to it{ways}"
        )
    if holds_every(old, new):
        return f"a narrowing: {new} does not hold every {old} that files may contain"
    return f"another type: files contain {old}, which cannot be read as {new}{ways}"


def _struct_changes(path: str, old: Struct, new: Struct) -> Iterator[Change]:
    """Yield the changes between the fields of two structs, at any depth."""
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    respelled = _respelled(before, after)
    for name, field in after.items():
        if name in respelled:
            yield _respelling(f"{path}.{name}", old=respelled[name], new=name)
            continue
        if name not in before:
            yield _added(f"{path}.{name}", str(field.type), nullable=field.nullable)
            continue
        yield from _type_changes(f"{path}.{name}", before[name].type, field.type)
        if before[name].nullable != field.nullable:
            yield _nullability(f"{path}.{name}", nullable=field.nullable)
    for name, field in before.items():
        if name not in after and name not in respelled.values():
            yield _dropped(f"{path}.{name}", str(field.type))
    yield from _reordered(path, before, after)


def _reordered(path: str, before: Collection[str], after: Collection[str]) -> Iterator[Change]:
    """Yield a change if the names that both sides have are in another order."""
    kept_before = [name for name in before if name in after]
    kept_after = [name for name in after if name in before]
    if kept_before != kept_after:
        yield Change(
            path=path, old=kept_before, new=kept_after, code="SC304", change_class=ChangeClass.EVOLVE
        )


def _respelled(before: Collection[str], after: Collection[str]) -> dict[str, str]:
    """Return the new names that differ from a dropped name only in case, each with the dropped name."""
    dropped = {name.lower(): name for name in before if name not in after}
    return {name: dropped[name.lower()] for name in after if name not in before and name.lower() in dropped}


def _respelling(path: str, *, old: str, new: str) -> Change:
    """Return the change of a name that differs only in case."""
    return Change(
        path=path,
        old=old,
        new=new,
        code="SC315",
        change_class=ChangeClass.BREAKING,
        reason="some readers treat both spellings as one column, others do not",
    )


def _added(path: str, type_text: str, *, nullable: bool) -> Change:
    """Return the change of an added column or field."""
    if nullable:
        return Change(path=path, old=None, new=type_text, code="SC301", change_class=ChangeClass.EVOLVE)
    return Change(
        path=path,
        old=None,
        new=f"{type_text} not null",
        code="SC313",
        change_class=ChangeClass.BREAKING,
        reason="existing rows have no value for it",
    )


def _dropped(path: str, type_text: str) -> Change:
    """Return the breaking change of a dropped column or field."""
    return Change(
        path=path,
        old=type_text,
        new=None,
        code="SC310",
        change_class=ChangeClass.BREAKING,
        reason="its values are lost file by file as files are rewritten",
    )


def _nullability(path: str, *, nullable: bool) -> Change:
    """Return the change of whether a column may contain null."""
    return Change(
        path=f"{path}.nullable",
        old=not nullable,
        new=nullable,
        code="SC303" if nullable else "SC312",
        change_class=ChangeClass.EVOLVE if nullable else ChangeClass.BREAKING,
        reason=None if nullable else "existing rows may contain null",
    )


def with_returning(
    changes: tuple[Change, ...],
    *,
    applied: TableSpec,
    declared: TableSpec,
    former: Callable[[Collection[ColumnPath]], Iterable[FormerColumn]],
) -> tuple[Change, ...]:
    """Return the changes, with those that add a dropped column again turned into breaking changes.

    The code is SC311 if files contain the column in a type that cannot be read as the new one, else SC316.

    Args:
        changes: The changes from the applied to the declared spec.
        applied: The applied spec.
        declared: The declared spec.
        former: Returns which of some columns the table had before. It is only called if a column is added.
    """
    if not any(change.code == "SC301" for change in changes):
        return changes
    wanted = types_by_path(declared.columns)
    known = types_by_path(applied.columns)
    added = {path: kind for path, kind in wanted.items() if path not in known}
    former_columns = sorted(former(added), key=lambda one: _is_readable(one, added[one.path]))
    return tuple(_returning(change, former_columns, added) for change in changes)


def _returning(
    change: Change, former_columns: Iterable[FormerColumn], added: dict[ColumnPath, ColumnType]
) -> Change:
    """Return a change that adds a dropped column again as a breaking one, any other as it is."""
    if change.code != "SC301":
        return change
    of_change = (c for c in former_columns if f"columns.{'.'.join(c.path)}.".startswith(f"{change.path}."))
    former = next(of_change, None)
    if former is None:
        return change
    wanted, count = added[former.path], former.files
    files = f"{count} file{'' if count == 1 else 's'}"
    files = f"{files} from before {'.'.join(former.path)} was dropped (instant {former.dropped_at})"
    remedy = "let clustering rewrite them first (`then: [prune]`), or choose another name"
    if not _is_readable(former, wanted):
        reason = f"its type is {former.type}, not {wanted}, in {files}; {remedy}"
        return replace(change, code="SC311", change_class=ChangeClass.BREAKING, reason=reason)
    reason = f"its old values are still in {files} and would reappear; {remedy}"
    return replace(change, code=RETURNS, change_class=ChangeClass.BREAKING, reason=reason)


def _is_readable(former: FormerColumn, wanted: ColumnType) -> bool:
    """Return whether files with the former type can be read as the new type."""
    name = former.path[-1]
    old, new = (Column(name=name, type=str(kind)) for kind in (former.type, wanted))
    return not any(change.code in UNREADABLE_CODES for change in column_changes((old,), (new,)))
