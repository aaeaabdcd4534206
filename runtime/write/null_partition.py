"""The null partition, whose folder also contains rows with an empty text.

In Hudi's format null, an empty text and the text ``__HIVE_DEFAULT_PARTITION__`` share one folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from parquetry.message import Value
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.announcement import announce_chunks
from parquetry.runtime.parquet.encryption import open_parquet
from parquetry.runtime.parquet.footer import read_metadata
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.partition_path import NULL_PARTITION, KeyRules


def check_null_partitions(
    store: ObjectStore, rules: KeyRules, slices: Mapping[str, Sequence[FileSlice]]
) -> None:
    """Check that in the null partition all rows have null in the partition column.

    The function reads the partition columns that are null according to the path, in all files.

    Raises:
        InvalidDataError: If other rows exist. The message has their number.

    """
    for path, files in slices.items():
        for column in _null_levels(rules, path):
            if others := sum(map_each(files, partial(_rows_with_a_value, store, column))):
                raise InvalidDataError(
                    "partition {partition} has {rows} rows whose {column} is an empty text or "
                    "{null_partition}, not null, and they would be deleted too; delete or change them "
                    "first (delete with match), or delete the whole partition by its path",
                    partition=Value.partition(path),
                    rows=others,
                    column=column,
                    null_partition=NULL_PARTITION,
                )


def _null_levels(rules: KeyRules, path: str) -> Iterator[str]:
    """Yield the names of the partition columns that are null according to the path."""
    levels = path.split("/")
    if len(levels) == len(rules.partition_by):
        for name, level in zip(rules.partition_by, levels, strict=True):
            if level == (f"{name}={NULL_PARTITION}" if rules.hive_style else NULL_PARTITION):
                yield name


def _rows_with_a_value(store: ObjectStore, column: str, file: FileSlice) -> int:
    read_metadata(store, file.path)  # its error names a damaged file
    place = Value.uri(f"{store.uri}/{file.path}")
    with store.open_input(file.path) as source, open_parquet(source, store.allowed, place=place) as parquet:
        if column not in parquet.schema_arrow.names:
            return 0
        announce_chunks(source, parquet.metadata, [column])
        return sum(len(rows) - rows.column(0).null_count for rows in parquet.iter_batches(columns=[column]))
