"""A table written by parquetry on Spark, with the model of what it must hold."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import parquetry
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import (
    DEFAULT_TABLE_VERSION,
    Column,
    KeyScope,
    RetentionPolicy,
    TableSpec,
)
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from tests.support.hudi_spark import HudiTable, newest_write
from tests.support.model import Row, TableModel, frozen_table
from tests.support.rows import TYPES, arrow_schema, make_row, to_arrow

KEYS = {"id": pa.string(), "region": pa.string(), "version": pa.int64()}
REGIONS = ("eu", "us", "Ωmega", "a b")
PLAIN = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.bool_(): "boolean",
}
DAYS = (date(2026, 1, 31), date(1969, 12, 31), None)


@dataclass(slots=True)
class OurTable:
    """Writes go to the table and into the model; `path` may be that of a table that real Hudi made."""

    spark: Any
    path: Path
    schema: pa.Schema
    model: TableModel
    name: str = "ours"
    spills: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    def rows(
        self, rnd: random.Random, ids: Iterable[int], version: int, **fixed: Any
    ) -> list[dict[str, Any]]:
        """Rows for the ids; an id stays in its region."""
        typed = [name for name in self.schema.names if name in TYPES and name not in fixed]
        return [
            {"id": f"k{i}", "region": REGIONS[i % 4], "version": version, **make_row(rnd, typed), **fixed}
            for i in ids
        ]

    def frame(self, rows: Sequence[Row], *, columns: Iterable[str] | None = None) -> Any:
        """A Spark frame of the rows, of all columns or those named."""
        names = list(columns or self.schema.names)
        schema = pa.schema([self.schema.field(name) for name in names])
        self.spills += 1
        spill = self.path.parent / f"{self.path.name}-input-{self.spills}.parquet"
        pq.write_table(to_arrow(rows, schema), spill, store_schema=False)
        return self.spark.read.parquet(str(spill))

    @property
    def table(self) -> parquetry.Table:
        """The public object."""
        return parquetry.open(self.path, keys=self.keys)

    def upsert(self, rows: Sequence[Row], **settings: Any) -> str:
        """Upsert; the model takes the rows as they are, with `delete_when` it has to be told."""
        instant = committed(self.table.upsert(self.frame(rows), **settings))
        self.model.upsert(instant, rows)
        return instant

    def insert(self, rows: Sequence[Row]) -> str:
        instant = committed(self.table.insert(self.frame(rows)))
        self.model.insert(instant, rows)
        return instant

    def bulk_insert(self, rows: Sequence[Row]) -> str:
        instant = committed(self.table.bulk_insert(self.frame(rows)))
        self.model.insert(instant, rows)
        return instant

    def insert_overwrite(self, rows: Sequence[Row]) -> str:
        instant = committed(self.table.insert_overwrite(self.frame(rows)))
        self.model.insert_overwrite(instant, rows)
        return instant

    def insert_overwrite_table(self, rows: Sequence[Row]) -> str:
        instant = committed(self.table.insert_overwrite_table(self.frame(rows)))
        self.model.insert_overwrite_table(instant, rows)
        return instant

    def delete_partition(self, paths: Sequence[str]) -> str:
        instant = committed(self.table.delete_partition(paths))
        self.model.delete_partition(instant, paths)
        return instant

    def delete(self, rows: Sequence[Row], *, with_ordering: bool = False) -> str:
        """Delete by key and partition, or with the ordering column too."""
        names = [
            *self._place_columns(),
            *([self.model.ordering] if with_ordering and self.model.ordering else []),
        ]
        instant = committed(self.table.delete(self.frame(rows, columns=names)))
        self.model.delete(instant, [{name: row[name] for name in names} for row in rows])
        return instant

    def evolve(self, schema: pa.Schema) -> str:
        """Apply the table's spec with the columns of the schema; the instant of the schema's commit."""
        store = open_store(str(self.path))
        applied = read_applied(store)
        assert applied is not None
        spec = replace(applied.spec, columns=tuple(column(field) for field in schema))
        known = Requirements(exists=True, applied_number=applied.ref.number)
        wish = TableChange(spec=spec, requirements=known, alters_schema=True, project="interop")
        instant = apply_change(store, wish).instant
        assert instant is not None
        self.schema = schema
        self.model.columns = tuple(schema.names)
        self.model.unchanged(instant)
        return instant

    def clean(self, policy: RetentionPolicy | None = None) -> Any:
        """What our clean did."""
        return clean(open_table(open_store(str(self.path))), policy=policy)

    def archive(self, policy: RetentionPolicy | None = None) -> tuple[str, ...]:
        """The instants that left the timeline."""
        return archive(open_table(open_store(str(self.path))), policy=policy).instants

    def read(self, **settings: Any) -> Counter[tuple[Any, ...]]:
        """What our own reader gives, in the form of the model's answers."""
        frame = self.table.read(self.spark, meta=True, **settings)
        return frozen_table(to_table(frame), self.model.columns)

    def hudi(self, **settings: Any) -> HudiTable:
        """What a job of real Hudi says about the table."""
        return HudiTable(
            path=str(self.path),
            name=self.name,
            key=self.model.key,
            ordering=self.model.ordering,
            partition_by=self.model.partition_by,
            hive_style=self.model.hive_style,
            url_encode=self.model.url_encode,
            **settings,
        )

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        """The rows as real Hudi gets them."""
        return to_arrow(rows, self.schema)

    def _place_columns(self) -> list[str]:
        named = [name.split(".")[0] for name in (*self.model.key, *self.model.partition_by)]
        return list(dict.fromkeys(named))


def create(
    spark: Any,
    path: Path,
    *,
    typed: Sequence[str] | None = None,
    keys: dict[str, pa.DataType] | None = None,
    spec: TableSpec | None = None,
    project: str = "interop",
    table_version: int = DEFAULT_TABLE_VERSION,
) -> OurTable:
    """A new table with key `id`, partition `region` and ordering `version`, unless `spec` says otherwise.

    The columns of `spec` are filled in from `keys` and the typed ones.
    """
    columns = KEYS if keys is None else keys
    schema = arrow_schema(columns, typed)
    wanted = spec or TableSpec(
        name="ours", columns=(), record_key=("id",), ordering="version", partition_by=("region",)
    )
    declared = tuple(column(field) for field in schema)
    wanted = replace(wanted, columns=declared, table_version=table_version)
    wish = TableChange(
        spec=wanted, requirements=Requirements(exists=False), alters_schema=False, project=project
    )
    apply_change(open_store(str(path)), wish)
    model = TableModel(
        key=wanted.record_key,
        columns=tuple(schema.names),
        ordering=wanted.ordering,
        partition_by=wanted.partition_by,
        hive_style=wanted.hive_style,
        url_encode=wanted.url_encode,
        key_scope="table" if wanted.key_scope is KeyScope.TABLE else "partition",
    )
    model.unchanged(newest_write(str(path)))
    return OurTable(
        spark=spark, path=path, schema=schema, model=model, name=wanted.name, keys=wanted.files.keys
    )


def column(field: pa.Field) -> Column:
    """The declaration of an Arrow field of these tests."""
    declared = TYPES.get(field.name)
    spark = declared.spark if declared and declared.arrow == field.type else PLAIN[field.type]
    return Column(name=field.name, type=spark, nullable=field.name != "id")


def committed(result: parquetry.CommitResult) -> str:
    """The instant of a write that wrote something."""
    assert result.instant is not None
    return result.instant


def to_table(frame: Any) -> pa.Table:
    """A small Spark frame as an Arrow table, on any Spark."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()


class OurReader:
    """parquetry's own reader on Spark, as a judge."""

    name = "parquetry"
    empty_is_null = False
    needs_jvm = True

    def __init__(self, spark: Any, keys: Iterable[str] = ()) -> None:
        self._spark = spark
        self._keys = tuple(keys)

    def read(
        self, path: str, *, as_of: str | None = None, since: str | None = None, until: str | None = None
    ) -> pa.Table:
        """Rows with meta columns: latest, as of an instant, or of the commits in (since, until]."""
        table = parquetry.open(path, keys=self._keys)
        frame = table.read(self._spark, as_of=as_of, since=since, until=until, meta=True)
        return to_table(frame)
