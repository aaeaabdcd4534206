"""Reads of a table with Spark: as it is now, as of a time, or the rows written between two times."""

from __future__ import annotations

import datetime as dt
import zoneinfo

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.read.files import When, files_to_read, is_written_in
from parquetry.runtime.spark.read.scan import scan_files
from parquetry.runtime.spark.session.connect import check_timestamp_type
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.sql_guard import check_expression
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, META_COLUMNS
from parquetry.runtime.table.handle import TableHandle


def read_table(
    spark: SparkSession,
    handle: TableHandle,
    *,
    as_of: When | None = None,
    since: When | None = None,
    until: When | None = None,
    where: str | None = None,
    meta: bool = False,
) -> DataFrame:
    """Return the table's rows as a lazy DataFrame.

    The arguments and errors are those of :func:`files_to_read`, and these:

    Args:
        spark: The session, in whose time zone local times in the condition are.
        handle: The table.
        as_of: The time of the table's state to read; None for now.
        since: The time after which the rows were written, exclusive; None for the beginning.
        until: The time until which the rows were written, inclusive; None for now.
        where: A condition in SQL. Files that cannot contain a matching row are not opened.
        meta: Whether to add Hudi's five columns in front.

    Raises:
        InvalidDataError: If the condition is not valid SQL or runs other programs.

    """
    check_timestamp_type(spark)
    if where is not None:
        check_expression(spark, where, place="where")
    read = files_to_read(
        handle, as_of=as_of, since=since, until=until, where=where, time_zone=_session_zone(spark)
    )
    frame = scan_files(spark, handle, read.timeline, read.files, read.columns, meta=META_COLUMNS)
    if read.increment is not None:
        frame = frame.where(is_written_in(read.increment, F.col(COMMIT_TIME)))
    if where is not None:
        with failures_translated(f"where={where!r}"):
            frame = frame.where(where)
    return frame if meta else frame.drop(*META_COLUMNS)


def _session_zone(spark: SparkSession) -> dt.tzinfo | None:
    """Return the session's time zone, or None if only Java knows its name."""
    try:
        return zoneinfo.ZoneInfo(spark.conf.get("spark.sql.session.timeZone") or "")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return None
