"""Deletes that do not say in which partition their row lies.

A key alone is what change data capture often knows of a row that is gone. Such a delete first takes
the row of its key where the columns are null for rows too, in the default partition; only where there
is none it searches all others.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.base_file.model import DELETE, HASH, POSITION
from parquetry.runtime.spark.lookup.tagging import FILE, STORED_PARTITION, tag
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import ORDERING, PARTITION, REFERENCE
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.table.partition_path import KeyRules, path_of_texts

_KEY, _RANK, _PLACE = "__roaming_key", "__roaming_rank", "__settled_in"


def default_partition(rules: KeyRules, staged: StagedRows) -> str | None:
    """The partition of rows without partition values, if deletes are for it; else None."""
    if not rules.partition_by:
        return None
    home = path_of_texts(rules, [(None, True) for _ in rules.partition_by])
    totals = staged.totals.get(home)
    return home if totals is not None and totals.deletes else None


def locate_deletes(tagged: DataFrame, matches: DataFrame | None, *, home: str) -> DataFrame:
    """``tagged`` by partition, with the deletes that ``home`` has no row for wherever their keys lie.

    ``matches`` are places of the keys in all partitions, None if no file has one. Rows of the same
    batch compete as if they were in one partition: those that such a delete wins over are left out,
    and where a later one goes the delete does not.
    """
    rank = F.struct(*([ORDERING] if ORDERING in tagged.columns else []), DELETE, HASH, REFERENCE)
    is_unlocated = F.col(DELETE) & (F.col(PARTITION) == F.lit(home)) & F.col(FILE).isNull()
    unlocated = tagged.where(is_unlocated)
    ranks = unlocated.select(F.col(RECORD_KEY).alias(_KEY), rank.alias(_RANK))
    settled = (
        tagged.where(~is_unlocated)
        .join(ranks, F.col(RECORD_KEY) == F.col(_KEY), "left")
        .where(F.col(_KEY).isNull() | (rank > F.col(_RANK)))
        .select(*tagged.columns)
    )
    if matches is None:
        return settled.unionByName(unlocated)
    taken = settled.select(F.col(RECORD_KEY).alias(_KEY), F.col(PARTITION).alias(_PLACE))
    elsewhere = (
        tag(unlocated.drop(FILE, POSITION, STORED_PARTITION), matches, by_partition=False)
        .join(
            taken,
            (F.col(RECORD_KEY) == F.col(_KEY)) & (F.col(STORED_PARTITION) == F.col(_PLACE)),
            "left_anti",
        )
        .select(*tagged.columns)
    )
    return settled.unionByName(elsewhere)
