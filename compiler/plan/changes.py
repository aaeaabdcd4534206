"""Changes between the applied and the declared spec, each with its class."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from parquetry.compiler.plan.columns import column_changes
from parquetry.compiler.plan.model import Change, ChangeClass
from parquetry.compiler.workspace.masking import masked_for, masked_sql
from parquetry.compiler.workspace.spec_words import document, flatten, format_size, is_default
from parquetry.project import ResolvedTable
from parquetry.project.loading.check_settings import EXECUTION_STRATEGIES, KMS_CLIENTS, PLAN_STRATEGIES
from parquetry.runtime.spec.clustering import Existing, Trigger
from parquetry.runtime.spec.masking import pii_columns
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import EXECUTES

CODES = {
    "SC001": "the table is created",
    "SC002": "the spec was deleted: the table is forgotten, and its data stays",
    "SC003": "a forgotten table is declared again",
    "SC101": "a name, a description, an owner, a tag or the name of the target changed",
    "SC102": "another program changed a property of the table; it is restored",
    "SC103": "the signature of the applied record is added, replaced or removed",
    "SC201": "a limit, a schedule, a source or another rule changed",
    "SC251": "the clustering policy changed, and existing files are rewritten when it is applied",
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
    "SC701": "a setting of the target changed",
    "SC702": "a setting that can execute code or redirect rows changed",
    "SC801": "a guardrail denies the change",
    "SC802": "a guardrail warns of the change",
    "SC601": "an allow entry matches no change of this plan",
    "SC602": "a table with the same columns is forgotten: it may have been renamed",
}

IDENTITY_CODES = frozenset({"SC401", "SC402", "SC404"})
UNREADABLE_CODES = frozenset({"SC311", "SC312", "SC313", "SC314", "SC315"})

_IDENTITY = {
    "record_key": "SC401",
    "partition_by": "SC402",
    "partitioning.hive_style": "SC402",
    "partitioning.url_encode": "SC402",
    "ordering": "SC404",
}
_PLUGGED = {
    "clustering.plan.strategy": PLAN_STRATEGIES,
    "clustering.execution.strategy": EXECUTION_STRATEGIES,
}
_KEYS = re.compile(r"files\.(former_)?encryption_keys?|sources\.[^.]+\.encryption_keys")
_METADATA = ("name", "description", "owner", "tags")
_LAYOUT = ("clustering.trigger", "clustering.existing", "clustering.plan.", "clustering.execution.")


def _always(_path: str) -> bool:
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
        for path, value in _followers(declared).items()
        if not is_written(path) and new.get(path) == value and old.get(path) == _followers(applied).get(path)
    }
    rules = (
        _rule_change(path, shown_old.get(path), shown_new.get(path))
        for path in sorted((old.keys() | new.keys()) - derived)
        if old.get(path) != new.get(path)
        # If an entry such as a source is added or removed, its fields with default values are no changes.
        and not (path not in old and is_default(path, new[path]))
        and not (path not in new and is_default(path, old[path]))
    )
    rules = (_rewriting(change, declared) for change in rules) if _rewrites(declared) else rules
    columns = column_changes(applied.columns, declared.columns)
    changes = [*(_masked_generation(change, pii) for change in columns), *rules]
    located = [_located(change, origin) for change in changes]
    return tuple(sorted(located, key=lambda change: (-change.change_class.rank, change.path)))


def _masked_generation(change: Change, pii: frozenset[str]) -> Change:
    if not change.path.endswith(".generated"):
        return change
    old, new = (None if text is None else masked_sql(text, pii) for text in (change.old, change.new))
    return replace(change, old=old, new=new)


def highest(changes: Iterable[Change]) -> ChangeClass:
    """Return the highest class of the changes, or ``metadata`` if there are none."""
    return max((c.change_class for c in changes), key=lambda c: c.rank, default=ChangeClass.METADATA)


def _rewrites(declared: TableSpec) -> bool:
    """Return whether `apply` rewrites the files that a change of the clustering policy makes due."""
    policy = declared.clustering
    return policy.existing is Existing.NOW and policy.trigger is not Trigger.OFF


def _rewriting(change: Change, declared: TableSpec) -> Change:
    if not is_of_layout(change, declared) or change.change_class is ChangeClass.EXECUTES:
        return change
    return replace(change, code="SC251", change_class=ChangeClass.REWRITE)


def rewrites(changes: Iterable[Change], declared: TableSpec) -> bool:
    """Return whether one of the changes makes files due that `apply` rewrites."""
    return _rewrites(declared) and any(
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


def plugin_changes(table: ResolvedTable) -> tuple[Change, ...]:
    """Return a change for each field of a new table that names a plug-in, because its code is executed."""
    plugins = ((path, value) for path, value in _rules(table.spec).items() if _is_plugin(path, value))
    return tuple(
        _located(_rule_change(path, None, value), lambda path: str(table.origin(path)))
        for path, value in plugins
    )


def _followers(spec: TableSpec) -> dict[str, str]:
    """Return the clustering sizes that apply if no layer of the project sets them."""
    largest, limit = spec.sizing.max_file_size_bytes, spec.sizing.small_file_limit_bytes
    return {
        "clustering.plan.target_file_size": format_size(largest),
        "clustering.plan.small_file_limit": format_size(limit or largest * 5 // 6),
    }


def _rules(spec: TableSpec) -> dict[str, Any]:
    words = document(spec) | {"name": spec.name}
    del words["columns"]
    return flatten(words)


def _rule_change(path: str, old: Any, new: Any) -> Change:
    if path in _IDENTITY:
        return Change(
            path=path,
            old=old,
            new=new,
            code=_IDENTITY[path],
            change_class=ChangeClass.BREAKING,
            reason="the files that are there are laid out by it",
        )
    if path == "key_scope" and new == "table":
        return Change(
            path=path,
            old=old,
            new=new,
            code="SC314",
            change_class=ChangeClass.BREAKING,
            reason="the same key may be in two partitions already",
        )
    if any(_is_plugin(path, value) for value in (old, new)):
        return Change(
            path=path,
            old=old,
            new=new,
            code=EXECUTES,
            change_class=ChangeClass.EXECUTES,
            reason="it names an installed plug-in, whose code is executed",
        )
    if path.split(".", 1)[0] in _METADATA:
        return Change(path=path, old=old, new=new, code="SC101", change_class=ChangeClass.METADATA)
    return Change(path=path, old=old, new=new, code="SC201", change_class=ChangeClass.POLICY)


def _is_plugin(path: str, value: Any) -> bool:
    """Return whether a value, or an entry of a list, names a strategy or KMS client outside parquetry."""
    known = KMS_CLIENTS if _KEYS.fullmatch(path) else _PLUGGED.get(path)
    names = value if isinstance(value, list) else [value]
    return known is not None and any(name and name.partition(":")[0] not in known for name in names)


def _located(change: Change, origin: Callable[[str], str | None]) -> Change:
    return replace(change, origin=origin(change.path))
