"""The record keys and partition paths of stored rows in a DataFrame, also where files do not store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.lookup.tagging import FILE
from parquetry.runtime.spark.session.keys import record_key_sql
from parquetry.runtime.spark.session.settings import expression_settings, session_settings
from parquetry.runtime.spec.meta_columns import PARTITION_PATH, RECORD_KEY
from parquetry.runtime.table.stored_keys import StoredKeys

_FOLDER: Final = "__folder"


def with_keys(frame: DataFrame, keys: StoredKeys, files: Sequence[FileSlice]) -> DataFrame:
    """Return rows of files with their record keys and partition paths.

    Args:
        frame: Rows with the columns of the key, record key and partition path as stored, and the file name.
        keys: The origin of the keys.
        files: The files of the rows, whose folders are the partition paths.

    """
    sql = None if keys.rules is None else record_key_sql(keys.rules, frame.schema)
    if sql is None:
        return frame
    spark = frame.sparkSession
    folders = [(file.path.rpartition("/")[2], file.partition) for file in files]
    with session_settings(spark, expression_settings(spark)):
        known = spark.createDataFrame(folders, f"{FILE} string, {_FOLDER} string")
        keyed = frame.withColumn(RECORD_KEY, F.expr(sql)).join(F.broadcast(known), FILE)
        return keyed.withColumn(PARTITION_PATH, F.col(_FOLDER)).select(*frame.columns)
