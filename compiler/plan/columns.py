"""Changes between the columns of two specs, down to the fields of structs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from parquetry.compiler.plan.model import Change, ChangeClass
from parquetry.runtime.spec.evolution import holds_every, is_widening, widenings
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Struct, parse_type


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
        return f"a narrowing: {new} does not hold every {old} that files may have"
    return f"another type: files hold {old}, which is not read as {new}{ways}"


def _struct_changes(path: str, old: Struct, new: Struct) -> Iterator[Change]:
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
    kept_before = [name for name in before if name in after]
    kept_after = [name for name in after if name in before]
    if kept_before != kept_after:
        yield Change(
            path=path, old=kept_before, new=kept_after, code="SC304", change_class=ChangeClass.EVOLVE
        )


def _respelled(before: Collection[str], after: Collection[str]) -> dict[str, str]:
    """Return the new names that differ from a dropped name only in case, each with the dropped name."""
    gone = {name.lower(): name for name in before if name not in after}
    return {name: gone[name.lower()] for name in after if name not in before and name.lower() in gone}


def _respelling(path: str, *, old: str, new: str) -> Change:
    return Change(
        path=path,
        old=old,
        new=new,
        code="SC315",
        change_class=ChangeClass.BREAKING,
        reason="some readers take both spellings for one column and others do not",
    )


def _added(path: str, type_text: str, *, nullable: bool) -> Change:
    if nullable:
        return Change(path=path, old=None, new=type_text, code="SC301", change_class=ChangeClass.EVOLVE)
    return Change(
        path=path,
        old=None,
        new=f"{type_text} not null",
        code="SC313",
        change_class=ChangeClass.BREAKING,
        reason="the rows that are there have no value for it",
    )


def _dropped(path: str, type_text: str) -> Change:
    return Change(
        path=path,
        old=type_text,
        new=None,
        code="SC310",
        change_class=ChangeClass.BREAKING,
        reason="its values are lost file by file as files are rewritten",
    )


def _nullability(path: str, *, nullable: bool) -> Change:
    return Change(
        path=f"{path}.nullable",
        old=not nullable,
        new=nullable,
        code="SC303" if nullable else "SC312",
        change_class=ChangeClass.EVOLVE if nullable else ChangeClass.BREAKING,
        reason=None if nullable else "rows that are there may be null",
    )


_ATTRIBUTES = (
    ("description", "SC101", ChangeClass.METADATA),
    ("pii", "SC101", ChangeClass.METADATA),
    ("generated", "SC201", ChangeClass.POLICY),
)
