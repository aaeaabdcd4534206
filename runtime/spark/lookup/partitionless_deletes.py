"""Deletes without the partition of their row.

Change data capture often knows only the key of a deleted row. Such a delete first removes the row with its
key in the default partition, which is that of rows whose partition columns are null. Only if there is none,
it searches all other partitions.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.base_file.model import DELETE, POSITION
from parquetry.runtime.spark.lookup.tagging import FILE, STORED_KEY, STORED_PARTITION, TO_LOCATE, tag
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import PARTITION
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.table.partition_path import KeyRules, path_of_texts

_KEY, _OTHER_PARTITION = "__key_to_locate", "__settled_in"


def default_partition(rules: KeyRules, staged: StagedRows) -> str | None:
    """Return the partition of rows without partition values, or None if the batch has no deletes for it."""
    if not rules.partition_by:
        return None
    default = path_of_texts(rules, [(None, True) for _ in rules.partition_by])
    totals = staged.totals.get(default)
    return default if totals is not None and totals.deletes else None


def with_deletes_to_locate(keys: DataFrame, matches: DataFrame | None, *, default: str) -> DataFrame:
    """Return the rows of a batch, with copies of the deletes to locate in all partitions of their keys.

    The deletes to locate are marked. They are those for ``default`` whose keys have no row there, neither in
    files nor in the batch. A copy is added for each partition in which the batch itself has rows of the key.

    Args:
        keys: The rows of the batch.
        matches: The positions of the keys in all partitions, or None if no file contains one.
        default: The default partition.

    """
    is_in_default = F.col(PARTITION) == F.lit(default)
    settled = keys.where(is_in_default & ~F.col(DELETE)).select(F.col(RECORD_KEY).alias(_KEY))
    if matches is not None:
        stored = matches.where(F.col(STORED_PARTITION) == F.lit(default))
        settled = settled.unionAll(stored.select(F.col(STORED_KEY).alias(_KEY)))
    deletes = keys.where(is_in_default & F.col(DELETE))
    to_locate = deletes.join(settled, F.col(RECORD_KEY) == F.col(_KEY), "left_anti")
    elsewhere = (
        keys.where(~is_in_default)
        .select(F.col(RECORD_KEY).alias(_KEY), F.col(PARTITION).alias(_OTHER_PARTITION))
        .distinct()
    )
    copies = to_locate.join(elsewhere, F.col(RECORD_KEY) == F.col(_KEY)).withColumn(
        PARTITION, F.col(_OTHER_PARTITION)
    )
    located_later = F.lit(True).alias(TO_LOCATE)  # noqa: FBT003 - pyspark's signature
    still = F.lit(False).alias(TO_LOCATE)  # noqa: FBT003 - pyspark's signature
    stay = keys.where(~(is_in_default & F.col(DELETE))).unionAll(
        deletes.join(settled, F.col(RECORD_KEY) == F.col(_KEY), "left_semi")
    )
    return (
        stay.select("*", still)
        .unionAll(to_locate.select("*", located_later))
        .unionAll(copies.select(*keys.columns, located_later))
    )


def locate_deletes(tagged: DataFrame, matches: DataFrame | None, *, default: str) -> DataFrame:
    """Return the tagged rows, with each delete to locate once for each partition that stores its key.

    A partition for which the batch has rows of the key is left out, as the batch has a copy of the delete
    there.

    Args:
        tagged: The rows of the batch, tagged by partition.
        matches: The positions of the keys in all partitions, or None if no file contains one.
        default: The default partition.

    """
    is_to_locate = F.col(TO_LOCATE) & (F.col(PARTITION) == F.lit(default))
    is_nowhere = F.col(TO_LOCATE) & F.col(DELETE) & F.col(FILE).isNull()
    to_locate = tagged.where(is_to_locate).drop(TO_LOCATE)
    settled = tagged.where(~is_to_locate & ~is_nowhere).drop(TO_LOCATE)
    if matches is None:
        return settled.unionByName(to_locate)
    taken = tagged.where(~is_to_locate).select(
        F.col(RECORD_KEY).alias(_KEY), F.col(PARTITION).alias(_OTHER_PARTITION)
    )
    elsewhere = (
        tag(to_locate.drop(FILE, POSITION, STORED_PARTITION), matches, by_partition=False)
        .join(
            taken,
            (F.col(RECORD_KEY) == F.col(_KEY)) & (F.col(STORED_PARTITION) == F.col(_OTHER_PARTITION)),
            "left_anti",
        )
        .select(*to_locate.columns)
    )
    return settled.unionByName(elsewhere)
