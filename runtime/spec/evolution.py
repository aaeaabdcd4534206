"""Changes of a column's type that leave its files unchanged."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Final

from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct

_PROMOTIONS: Final = {
    "tinyint": frozenset({"smallint", "int", "bigint", "double"}),
    "smallint": frozenset({"int", "bigint", "double"}),
    "int": frozenset({"bigint", "double"}),
    "float": frozenset({"double"}),
}

_WIDENINGS_IN_ORDER: Final = ("smallint", "int", "bigint", "double")
_MOST_DIGITS: Final = 38
_WHOLE_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""The number of decimal digits that holds every value of an integer type."""
_LOSSLESS_TARGETS: Final = {
    "tinyint": frozenset({"smallint", "int", "bigint", "float", "double"}),
    "smallint": frozenset({"int", "bigint", "float", "double"}),
    "int": frozenset({"bigint", "double"}),
    "float": frozenset({"double"}),
}
"""For each simple type, the types that hold all its values as numbers with all digits."""
_NUMBERS: Final = frozenset({*_WHOLE_DIGITS, "float", "double"})
_TIMES: Final = {"timestamp_ntz": frozenset({"timestamp", "date"}), "date": frozenset({"timestamp"})}


def is_widening(old: ColumnType, new: ColumnType) -> bool:
    """Return whether Spark, Hudi and hudi-rs read every file of the old type correctly as the new type.

    These are the lossless promotions of Avro, and new nullable fields in structs. A decimal may grow only
    within its stored size, as Avro cannot resolve fixed values of different sizes. Equal types count as
    widening.
    """
    match old, new:
        case Primitive(), Primitive():
            return old == new or new.name in _PROMOTIONS.get(old.name, frozenset())
        case Decimal(), Decimal():
            return (
                old.scale == new.scale
                and old.precision <= new.precision
                and old.fixed_size_bytes == new.fixed_size_bytes
            )
        case Array(), Array():
            return new.element_nullable >= old.element_nullable and is_widening(old.element, new.element)
        case Map(), Map():
            return new.value_nullable >= old.value_nullable and is_widening(old.value, new.value)
        case Struct(), Struct():
            return _struct_widens(old, new)
    return False


def holds_every(new: ColumnType, old: ColumnType) -> bool:
    """Return whether the new type holds every value of the old one, even if files must be converted.

    For nested types, the result is False.
    """
    match old, new:
        case Decimal(), Decimal():
            return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        case Primitive(), Decimal():
            digits = _WHOLE_DIGITS.get(old.name)
            return digits is not None and new.precision - new.scale >= digits
        case Decimal(), Primitive():
            digits = _WHOLE_DIGITS.get(new.name)
            return old.scale == 0 and digits is not None and old.precision < digits
        case Primitive(), Primitive():
            return new.name in _LOSSLESS_TARGETS.get(old.name, frozenset())
    return False


def may_hold(new: ColumnType, old: ColumnType) -> bool:  # noqa: PLR0911 - a case, an answer
    """Return whether the new type can hold some values of the old one unchanged.

    For example, int can hold the double 3.0, but not 3.5. A timestamp_ntz counts as a time in UTC. A decimal
    counts as no value of a floating-point type, which only approximates it.
    """
    match old, new:
        case Array(element=old_part), Array(element=new_part):
            return may_hold(new_part, old_part)
        case Map(value=old_part), Map(value=new_part):
            return may_hold(new_part, old_part)
        case Struct(), Struct():
            known = {field.name.lower(): field.type for field in new.fields}
            return all(
                f.name.lower() in known and may_hold(known[f.name.lower()], f.type) for f in old.fields
            )
        case Decimal(), Decimal():
            return True
        case Primitive(name=name), Decimal():
            return name in _NUMBERS
        case Decimal(), Primitive(name=name):
            return name in _WHOLE_DIGITS
        case Primitive(), Primitive():
            is_number = {old.name, new.name} <= _NUMBERS
            return old == new or is_number or new.name in _TIMES.get(old.name, frozenset())
    return False


def widenings(old: ColumnType) -> tuple[ColumnType, ...]:
    """Return the types to which a simple type can be widened in place.

    For a decimal, this is only the type with the most digits.
    """
    match old:
        case Primitive():
            names = _PROMOTIONS.get(old.name, frozenset())
            return tuple(Primitive(name=name) for name in _WIDENINGS_IN_ORDER if name in names)
        case Decimal():
            wider = (replace(old, precision=digits) for digits in range(_MOST_DIGITS, old.precision, -1))
            return tuple(islice((kind for kind in wider if is_widening(old, kind)), 1))
    return ()


def in_order_of(old: ColumnType, wide: ColumnType) -> ColumnType:
    """Return the wider type with the fields of its structs in the order of the old one, then new fields."""
    match old, wide:
        case Array(), Array():
            return replace(wide, element=in_order_of(old.element, wide.element))
        case Map(), Map():
            return replace(wide, value=in_order_of(old.value, wide.value))
        case Struct(), Struct():
            fields = {field.name: field for field in wide.fields}
            known = [(field.type, fields.pop(field.name)) for field in old.fields]
            kept = (replace(field, type=in_order_of(kind, field.type)) for kind, field in known)
            return Struct(fields=(*kept, *fields.values()))
    return wide


def _struct_widens(old: Struct, new: Struct) -> bool:
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    if not before.keys() <= after.keys():
        return False
    kept = (
        after[name].nullable >= field.nullable and is_widening(field.type, after[name].type)
        for name, field in before.items()
    )
    added = (field.nullable for name, field in after.items() if name not in before)
    return all(kept) and all(added)
