"""Partition paths: the folders of partition values, byte for byte as in Hudi, and checks of such paths.

Source: Hudi's ``KeyGenUtils`` and ``PartitionPathEncodeUtils``.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from parquetry.message import Message, Value
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import TableConfig

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
NULL_FOLDER_TEXTS: Final = ("", NULL_PARTITION)
"""Texts whose rows are in the folder of null."""

ESCAPED: Final = (*(chr(c) for c in range(1, 0x20)), *"\"#%'*/:=?\\\x7f{[]^")
"""The characters that url encoding writes as ``%XX``."""

_ESCAPED_CLASS = re.compile("[" + re.escape("".join(ESCAPED)) + "]")
_PARTITION_FILE = ".hoodie_partition_metadata"
_HUDI_PREFIX = ".hoodie"
_RESERVED_FOLDERS = frozenset({"metadata", "_delta_log"})
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRules:
    """The rules by which a table spells its record keys and partition paths.

    ``named_key`` puts ``field:`` before every part of the key (if there are several fields, or if the table's
    writer did so for one). An empty ``record_key`` means generated keys.
    """

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    hive_style: bool
    url_encode: bool
    named_key: bool

    @classmethod
    def of(cls, config: TableConfig, *, named_key: bool) -> Self:
        """Return the rules of a table with these properties.

        ``named_key`` is an argument because the properties do not record it.
        """
        return cls(
            record_key=config.record_key,
            partition_by=config.partition_by,
            hive_style=config.hive_style,
            url_encode=config.url_encode,
            named_key=named_key,
        )


def escape_value(text: str) -> str:
    """Return a partition value in which the characters that Hudi escapes are written as ``%XX``."""
    return _ESCAPED_CLASS.sub(lambda m: f"%{ord(m[0]):02X}", text)


def partition_path(rules: KeyRules, values: Mapping[str, Any]) -> str:
    """Return the partition path for one value of each partition column, as SQL computes it for rows.

    Raises:
        InvalidDataError: If a partition column is missing, another column is named, or a value has a type
            that cannot name a partition.

    """
    if set(values) != set(rules.partition_by):
        raise InvalidDataError(
            "a partition is named by {expected}, not by {found}; give each once",
            expected=rules.partition_by,
            found=sorted(values),
        )
    texts = [(_python_text(values[f]), isinstance(values[f], str)) for f in rules.partition_by]
    return path_of_texts(rules, texts)


def path_of_texts(rules: KeyRules, texts: Sequence[tuple[str | None, bool]]) -> str:
    """Return the partition path for one text of each partition column.

    Each pair is a text, and whether its column is of type string, whose values may need escaping.
    """
    levels = []
    for field, (text, is_text) in zip(rules.partition_by, texts, strict=True):
        value = escape_value(text) if text and is_text and rules.url_encode else text
        level = value or NULL_PARTITION
        levels.append(f"{field}={level}" if rules.hive_style else level)
    return "/".join(levels)


def _python_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dt.datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return str((aware - _EPOCH) // dt.timedelta(microseconds=1))
        case str() | int() | dt.date():
            return str(value)
        case decimal.Decimal():
            return str(value)
        case _:
            raise InvalidDataError(
                "{found} of type {type} cannot name a partition; pass a string, int, Decimal, date, "
                "bool or datetime",
                found=quoted_library_text(repr(value)),
                type=type(value).__name__,
            )


def check_partition_path(rules: KeyRules, path: str) -> None:
    """Raise InvalidDataError unless every reader finds ``path`` as a folder of the table.

    A value of a single plain column may contain ``/`` (``2013/06/01``). :func:`check_nesting` then checks
    whether one partition is inside another.
    """
    if not rules.partition_by:
        return
    levels = path.split("/")
    where = Message(
        "partition {partition} of {columns}",
        partition=Value.partition(path),
        columns=rules.partition_by,
    )
    if "\0" in path:
        raise InvalidDataError(
            "{place}: a value contains the character NUL, which no folder name can contain; remove it "
            "in the source's select: replace(COLUMN, chr(0), '')",
            place=where,
        )
    if any(level in ("", ".", "..") for level in levels):
        raise InvalidDataError(
            "{place}: a value is '.' or '..' or has an empty level, which is not a valid folder name; "
            "create the table with hive_style and url_encode (the defaults)",
            place=where,
        )
    # Readers skip Hudi's names at any level, not only in the folder of the table.
    reserved = [level for level in levels if level.startswith(_HUDI_PREFIX)]
    reserved += _RESERVED_FOLDERS.intersection(levels[:1])
    if reserved:
        raise InvalidDataError(
            "{place}: readers take the folder {folder!r} for one of the table's own; create the table "
            "with hive_style: true (the default)",
            place=where,
            folder=reserved[0],
        )
    may_nest = len(rules.partition_by) == 1 and not rules.hive_style
    if len(levels) != len(rules.partition_by) and not may_nest:
        raise InvalidDataError(
            "{place}: a value contains '/', which makes folders that readers cannot tell apart; create "
            "the table with url_encode: true (the default)",
            place=where,
        )


def check_nesting(store: ObjectStore, rules: KeyRules, paths: Iterable[str]) -> None:
    """Raise InvalidDataError if a partition of ``paths`` would be inside another one.

    Hudi does not search for partitions inside a partition, so their rows would be missing. The store is read
    only if values may contain ``/``.
    """
    if rules.url_encode or rules.hive_style or len(rules.partition_by) != 1:
        return
    known = set(paths)
    for path in sorted(known):
        levels = path.split("/")
        above = ["/".join(levels[:n]) for n in range(1, len(levels))]
        outer = next((a for a in above if a in known or store.stat(f"{a}/{_PARTITION_FILE}")), None)
        inner = None if outer else next(iter(store.list_folders(path)), None)
        if outer or inner:
            raise InvalidDataError(
                "partition {partition} of {column} and partition {other_partition} would be inside "
                "each other, so Hudi would miss rows; create the table with url_encode: true (the "
                "default)",
                partition=Value.partition(path),
                column=rules.partition_by[0],
                other_partition=Value.partition(str(outer or inner)),
            )
