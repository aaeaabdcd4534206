"""The tables of the matrix of readers: how each kind is made, and the rows that it must return."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.runtime.publish.delta import DeltaLog
from parquetry.runtime.publish.publishing import formats_of
from parquetry.runtime.publish.publishing import publish as publish_in
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import (
    Column,
    DeltaFormat,
    Extra,
    FilesPolicy,
    IcebergFormat,
    Publish,
    TableSpec,
)
from parquetry.runtime.storage.open import open_store
from tests.support.arrow_writer import ArrowWriter

KEY_VARIABLE = "PARQUETRY_TEST_READERS_KEY"
_KEY = "000102030405060708090a0b0c0d0e0f"
PLACES = ("oslo", "bergen")
PUBLISHED = Publish(delta=DeltaFormat(), iceberg=IcebergFormat())


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTable:
    """A table on disk, its rows, and the references to the keys of its files.

    ``published_path`` is that of a table with the same rows that is published in all formats. ``failures`` are the
    errors of publishing it by format.
    """

    path: Path
    rows: pa.Table
    published_path: Path
    failures: Mapping[str, ParquetryError]
    keys: tuple[str, ...] = ()


def make(kind: str, folder: Path) -> MadeTable:
    """Make the table of a kind below a folder."""
    path = published_path = folder / kind
    failures: dict[str, ParquetryError] = {}
    with the_key():
        table = KINDS[kind](path)
        if kind not in NOT_PUBLISHED:
            published_path = folder / "published" / kind
            handle = KINDS[kind](published_path, publish=PUBLISHED).handle
            for each in formats_of(handle):
                try:
                    publish_in(handle, [each])
                except ParquetryError as error:
                    failures[each.name] = error
    return MadeTable(
        path=path,
        rows=table.expected(),
        published_path=published_path,
        failures=failures,
        keys=table.spec.files.keys,
    )


@contextmanager
def the_key() -> Iterator[None]:
    """Have the key of encrypted tables in the environment."""
    with mock.patch.dict(os.environ, {KEY_VARIABLE: _KEY}):
        yield


def _table(
    path: Path,
    *columns: Column,
    files: FilesPolicy | None = None,
    version: int = 6,
    clustered: bool = False,
    publish: Publish | None = None,
) -> ArrowWriter:
    """A new table with the key ``id``, the partition column ``place`` and the column ``v``."""
    section = ClusteringSpec(execution=ExecutionPolicy(strategy="sort", columns=("v",)))
    return ArrowWriter(
        path,
        TableSpec(
            name="orders",
            columns=(
                Column(name="id", type="string", nullable=False),
                Column(name="v", type="bigint"),
                *columns,
                Column(name="place", type="string"),
            ),
            record_key=("id",),
            partition_by=("place",),
            files=files or FilesPolicy(),
            table_version=version,
            publish=publish,
            extra=Extra(clustering=section) if clustered else Extra(),
        ),
    )


def _rows(first: int, end: int, *, add: int = 0, **values: Any) -> list[Mapping[str, Any]]:
    return [{"id": f"k{n}", "v": n + add, "place": PLACES[n % 2], **values} for n in range(first, end)]


def _plain(path: Path, **settings: Any) -> ArrowWriter:
    table = _table(path, **settings)
    table.insert(_rows(0, 8))
    return table


def _upserted(path: Path, **settings: Any) -> ArrowWriter:
    """The versions of files before an upsert still lie beside the newest ones."""
    table = _plain(path, **settings)
    table.upsert(_rows(0, 3, add=100))
    table.upsert(_rows(6, 10, add=100))
    return table


def _clustered(path: Path, **settings: Any) -> ArrowWriter:
    """The files that a clustering replaced still lie beside the new ones."""
    table = _plain(path, clustered=True, **settings)
    table.insert(_rows(8, 16))
    table.cluster()
    return table


def _cleaned(path: Path, **settings: Any) -> ArrowWriter:
    table = _clustered(path, **settings)
    table.clean()
    return table


def _partition_deleted(path: Path, **settings: Any) -> ArrowWriter:
    table = _plain(path, **settings)
    table.delete_partition("bergen")
    return table


def _unfinished(path: Path, **settings: Any) -> ArrowWriter:
    """The files of a write lie there, and its commit does not: it is still running, or its process has died."""
    table = _plain(path, **settings)
    rows = dict(table.rows)
    table.insert(_rows(8, 12))
    (_, commit) = sorted((path / ".hoodie").glob("*.commit"))[-2:]
    commit.unlink()
    table.rows = rows
    return table


def _column_added(path: Path, **settings: Any) -> ArrowWriter:
    """Old files, which come first in the order of paths, lack a column."""
    table = _table(path, **settings)
    table.insert([{**row, "place": min(PLACES)} for row in _rows(0, 8)])
    table.apply(columns=(*table.spec.columns, Column(name="note", type="string")))
    table.insert([{**row, "place": max(PLACES)} for row in _rows(8, 12, note="new")])
    return table


def _column_widened(path: Path, **settings: Any) -> ArrowWriter:
    """In old files, which come first in the order of paths, a column is narrower."""
    table = _table(path, Column(name="count", type="int"), **settings)
    table.insert([{**row, "place": min(PLACES)} for row in _rows(0, 8, count=1)])
    _retype(table, "count", "bigint")
    table.insert([{**row, "place": max(PLACES)} for row in _rows(8, 12, count=2**40)])
    return table


def _field_added(path: Path, **settings: Any) -> ArrowWriter:
    """Old files, which come first in the order of paths, lack a field of a struct."""
    table = _with_struct(path, **settings)
    _retype(table, "part", "struct<a:int,b:string>")
    for row in table.rows.values():
        row["part"]["b"] = None
    table.insert([{**row, "place": max(PLACES)} for row in _rows(8, 12, part={"a": 2, "b": "new"})])
    return table


def _field_widened(path: Path, **settings: Any) -> ArrowWriter:
    """In old files, which come first in the order of paths, a field of a struct is narrower."""
    table = _with_struct(path, **settings)
    _retype(table, "part", "struct<a:bigint>")
    table.insert([{**row, "place": max(PLACES)} for row in _rows(8, 12, part={"a": 2**40})])
    return table


def _with_struct(path: Path, **settings: Any) -> ArrowWriter:
    table = _table(path, Column(name="part", type="struct<a:int>"), **settings)
    table.insert([{**row, "place": min(PLACES)} for row in _rows(0, 8, part={"a": 1})])
    return table


def _retype(table: ArrowWriter, name: str, type_text: str) -> None:
    columns = table.spec.columns
    table.apply(columns=tuple(replace(c, type=type_text) if c.name == name else c for c in columns))


def _of_version_8(path: Path, **settings: Any) -> ArrowWriter:
    """A downgraded table: no new one can have this version."""
    table = _upserted(path, version=9, **settings)
    table.apply(table_version=8)
    return table


def _nested(path: Path, **settings: Any) -> ArrowWriter:
    """Structs, arrays and maps, also empty and null, and null elements of arrays."""
    kinds = {"part": "struct<a:int,b:array<string>>", "many": "array<bigint>", "named": "map<string,double>"}
    table = _table(path, *(Column(name=name, type=kind) for name, kind in kinds.items()), **settings)
    some: list[dict[str, Any]] = [
        {"part": {"a": 1, "b": ["x", None]}, "many": [1, None, 3], "named": [("a", 0.5), ("b", None)]},
        {"part": {"a": None, "b": []}, "many": [], "named": []},
        {"part": None, "many": None, "named": None},
    ]
    table.insert([{**row, **some[number % 3]} for number, row in enumerate(_rows(0, 6))])
    return table


def _nested_deeply(path: Path, **settings: Any) -> ArrowWriter:
    """Arrays and maps of structs and arrays, also empty and null, and null elements."""
    kinds = {
        "items": "array<struct<a:int,b:string>>",
        "lists": "array<array<int>>",
        "by_name": "map<string,struct<a:int>>",
    }
    table = _table(path, *(Column(name=name, type=kind) for name, kind in kinds.items()), **settings)
    some: list[dict[str, Any]] = [
        {
            "items": [{"a": 1, "b": "x"}, {"a": None, "b": None}],
            "lists": [[1, None], []],
            "by_name": [("a", {"a": 1})],
        },
        {"items": [None], "lists": [None], "by_name": [("a", None)]},
        {"items": [], "lists": [], "by_name": []},
        {"items": None, "lists": None, "by_name": None},
    ]
    table.insert([{**row, **some[number % 4]} for number, row in enumerate(_rows(0, 8))])
    return table


def _decimals(path: Path, **settings: Any) -> ArrowWriter:
    """Decimals of 4, 8 and 16 bytes."""
    kinds = {"small": "decimal(7,2)", "middle": "decimal(18,4)", "large": "decimal(38,10)"}
    table = _table(path, *(Column(name=name, type=kind) for name, kind in kinds.items()), **settings)
    some: list[dict[str, Any]] = [
        {
            "small": Decimal("-99999.99"),
            "middle": Decimal("0.0001"),
            "large": Decimal("1e27") + Decimal("1e-10"),
        },
        {"small": Decimal("0.10"), "middle": Decimal("-12345678901234.5678"), "large": Decimal("-1e-10")},
        {"small": None, "middle": None, "large": None},
    ]
    table.insert([{**row, **some[number % 3]} for number, row in enumerate(_rows(0, 6))])
    return table


def _ancient(path: Path, **settings: Any) -> ArrowWriter:
    """Times and dates before 1970, with microseconds, also before the Gregorian calendar."""
    table = _table(path, Column(name="at", type="timestamp"), Column(name="day", type="date"), **settings)
    times = [(1969, 12, 31, 23, 59, 59, 999_999), (1883, 11, 18, 12, 3, 58, 1), (1500, 2, 28, 0, 0, 0, 5)]
    some = [
        {"at": dt.datetime(*time, tzinfo=dt.UTC), "day": dt.date(*time[:3])}  # type: ignore[misc,arg-type]
        for time in times
    ]
    table.insert([{**row, **some[number % 3]} for number, row in enumerate(_rows(0, 6))])
    return table


def _special(path: Path, **settings: Any) -> ArrowWriter:
    """Values of partitions with characters that paths escape, an empty one and null."""
    table = _table(path, **settings)
    values = ("a b", "x/y", "50%", "q?#&=+", "Ω", "it's", None)
    table.insert([{"id": f"k{n}", "v": n, "place": value} for n, value in enumerate(values)])
    return table


def _with_log(path: Path, *, publish: Publish | None = None) -> ArrowWriter:
    """The table is published as Delta, and its log has a checkpoint, which is a Parquet file."""
    table = _plain(path)
    log = DeltaLog(open_store(path), commits_per_checkpoint=1)
    publish_in(table.handle, [log])
    table.insert(_rows(8, 12))
    publish_in(table.handle, [log])
    if publish is not None:
        table.apply(publish=publish)
    return table


def _with_metadata(path: Path, **settings: Any) -> ArrowWriter:
    """The table is published as Iceberg."""
    return _plain(path, **{"publish": Publish(iceberg=IcebergFormat()), **settings})


def _stopped(path: Path) -> ArrowWriter:
    """The table was published; rows came after that was ended."""
    table = _plain(path, publish=PUBLISHED)
    table.apply(publish=None)
    table.insert(_rows(8, 12))
    return table


KINDS: Mapping[str, Callable[..., ArrowWriter]] = {
    "plain": _plain,
    "upserted": _upserted,
    "unfinished": _unfinished,
    "clustered": _clustered,
    "cleaned": _cleaned,
    "partition_deleted": _partition_deleted,
    "column_added": _column_added,
    "column_widened": _column_widened,
    "nested": _nested,
    "nested_deeply": _nested_deeply,
    "field_added": _field_added,
    "field_widened": _field_widened,
    "decimals": _decimals,
    "before_1970": _ancient,
    "special_partitions": _special,
    "encrypted": lambda path, **settings: _plain(
        path, files=FilesPolicy(encryption_key=f"env:{KEY_VARIABLE}"), **settings
    ),
    "without_meta_columns": lambda path, **settings: _upserted(
        path, files=FilesPolicy(meta_columns=MetaColumns.NONE), **settings
    ),
    "version_8": _of_version_8,
    "version_9": lambda path, **settings: _upserted(path, version=9, **settings),
    "published_delta": _with_log,
    "published_iceberg": _with_metadata,
    "unpublished": _plain,
    "publishing_stopped": _stopped,
}

NOT_PUBLISHED = frozenset({"unpublished", "publishing_stopped"})
"""The kinds that readers of published tables meet as they are. The others are published for them."""
