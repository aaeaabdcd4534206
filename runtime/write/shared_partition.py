"""The partition of rows without a value, in whose folder rows with an empty text lie as well.

In Hudi's format null, an empty text and the text ``__HIVE_DEFAULT_PARTITION__`` have one folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from parquetry.message import Message, Value
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.encryption import is_encrypted
from parquetry.runtime.parquet.footer import read_metadata, row_groups_of
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.partition_path import NULL_PARTITION


def check_only_nulls(
    store: ObjectStore, partition_by: Sequence[str], slices: Mapping[str, Sequence[FileSlice]]
) -> None:
    """Return if the partitions have no rows but those whose value is null where their path says so.

    By the null counts in the footers; those of encrypted files are not read. Raises InvalidDataError with the
    number of the other rows.
    """
    for path, files in slices.items():
        for column in _null_levels(partition_by, path):
            if others := sum(map_each(files, partial(_rows_with_a_value, store, column))):
                raise InvalidDataError(
                    Message(
                        "partition ",
                        Value.partition(path),
                        f" has {others} rows whose {column} is an empty text or {NULL_PARTITION}, not null: "
                        "they would go too; delete or change them first (delete with match), or delete the "
                        "whole partition by its path",
                    )
                )


def _null_levels(partition_by: Sequence[str], path: str) -> Iterator[str]:
    levels = path.split("/")
    if len(levels) == len(partition_by):
        yield from (
            name for name, level in zip(partition_by, levels, strict=True) if level.endswith(NULL_PARTITION)
        )


def _rows_with_a_value(store: ObjectStore, column: str, file: FileSlice) -> int:
    metadata = read_metadata(store, file.path)
    if is_encrypted(metadata):
        return 0
    groups = [group for group in row_groups_of(metadata) if group.rows]
    nulls = ((group.columns[column].nulls if column in group.columns else group.rows) for group in groups)
    return sum(group.rows - (count or 0) for group, count in zip(groups, nulls, strict=True))
