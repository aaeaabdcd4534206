"""Deletes that do not say in which partition their row lies.

A key alone is what change data capture often knows of a row that is gone. Such a delete first takes
the row of its key where the columns are null for rows too, in the default partition; only where there
is none it searches all others.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.base_file.model import DELETE, POSITION
from parquetry.runtime.spark.lookup.tagging import FILE, ROAMS, STORED_KEY, STORED_PARTITION, tag
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import PARTITION
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.table.partition_path import KeyRules, path_of_texts

_KEY, _PLACE = "__roaming_key", "__settled_in"


def default_partition(rules: KeyRules, staged: StagedRows) -> str | None:
    """The partition of rows without partition values, if deletes are for it; else None."""
    if not rules.partition_by:
        return None
    home = path_of_texts(rules, [(None, True) for _ in rules.partition_by])
    totals = staged.totals.get(home)
    return home if totals is not None and totals.deletes else None


def with_roaming_deletes(keys: DataFrame, matches: DataFrame | None, *, home: str) -> DataFrame:
    """Return the rows of a batch, with its deletes for ``home`` that roam marked, and one for each partition.

    Those are deletes of keys that have no row in ``home``, neither in files nor in the batch. ``matches`` are
    places of the keys in all partitions, None if no file has one.
    """
    at_home = F.col(PARTITION) == F.lit(home)
    settled = keys.where(at_home & ~F.col(DELETE)).select(F.col(RECORD_KEY).alias(_KEY))
    if matches is not None:
        stored = matches.where(F.col(STORED_PARTITION) == F.lit(home))
        settled = settled.unionAll(stored.select(F.col(STORED_KEY).alias(_KEY)))
    deletes = keys.where(at_home & F.col(DELETE))
    roaming = deletes.join(settled, F.col(RECORD_KEY) == F.col(_KEY), "left_anti")
    elsewhere = (
        keys.where(~at_home).select(F.col(RECORD_KEY).alias(_KEY), F.col(PARTITION).alias(_PLACE)).distinct()
    )
    copies = roaming.join(elsewhere, F.col(RECORD_KEY) == F.col(_KEY)).withColumn(PARTITION, F.col(_PLACE))
    roams = F.lit(True).alias(ROAMS)  # noqa: FBT003 - pyspark's signature
    still = F.lit(False).alias(ROAMS)  # noqa: FBT003 - pyspark's signature
    stay = keys.where(~(at_home & F.col(DELETE))).unionAll(
        deletes.join(settled, F.col(RECORD_KEY) == F.col(_KEY), "left_semi")
    )
    return (
        stay.select("*", still)
        .unionAll(roaming.select("*", roams))
        .unionAll(copies.select(*keys.columns, roams))
    )


def locate_deletes(tagged: DataFrame, matches: DataFrame | None, *, home: str) -> DataFrame:
    """Return ``tagged`` by partition, with the deletes that roam wherever their keys lie.

    In partitions for which the batch has rows of the key, it has the delete too.
    """
    is_roaming = F.col(ROAMS) & (F.col(PARTITION) == F.lit(home))
    is_nowhere = F.col(ROAMS) & F.col(DELETE) & F.col(FILE).isNull()
    roaming = tagged.where(is_roaming).drop(ROAMS)
    settled = tagged.where(~is_roaming & ~is_nowhere).drop(ROAMS)
    if matches is None:
        return settled.unionByName(roaming)
    taken = tagged.where(~is_roaming).select(F.col(RECORD_KEY).alias(_KEY), F.col(PARTITION).alias(_PLACE))
    elsewhere = (
        tag(roaming.drop(FILE, POSITION, STORED_PARTITION), matches, by_partition=False)
        .join(
            taken,
            (F.col(RECORD_KEY) == F.col(_KEY)) & (F.col(STORED_PARTITION) == F.col(_PLACE)),
            "left_anti",
        )
        .select(*roaming.columns)
    )
    return settled.unionByName(elsewhere)
