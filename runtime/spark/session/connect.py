"""Sessions of Spark Connect: clients of a Spark server, without a JVM, a context or a plan to look at.

What needs only DataFrames works there as it does elsewhere. The rest is refused here, by its name.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from parquetry.runtime.errors import UnsupportedSessionError

_MODULE = "pyspark.sql.connect."
_OWN_SESSION = "use a Spark session that has its own JVM: that of a job, spark-submit, or builder.master()"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a Spark Connect server."""
    # By name: to import PySpark's client needs packages that only its users have.
    return any(kind.__module__.startswith(_MODULE) for kind in type(spark).__mro__)


def refuse_connect(spark: SparkSession, what: str, *, reason: str, instead: str = _OWN_SESSION) -> None:
    """UnsupportedSessionError, which names ``what``, in a session of Spark Connect."""
    if is_connect(spark):
        raise UnsupportedSessionError(f"{what} does not work on Spark Connect: {reason}; {instead}")


def check_session(spark: SparkSession) -> None:
    """UnsupportedSessionError for a session of Spark Connect in which types would be others than declared.

    A server analyses a plan when it runs it, not when it is made. So the settings under which expressions
    are made elsewhere do not hold there, and the session itself has to have them.
    """
    if is_connect(spark) and spark.conf.get("spark.sql.timestampType", "TIMESTAMP_LTZ") != "TIMESTAMP_LTZ":
        raise UnsupportedSessionError(
            "spark.sql.timestampType is TIMESTAMP_NTZ in this Spark Connect session, and the timestamps of "
            "tables are points in time; set it to TIMESTAMP_LTZ, and write timestamp_ntz where it is meant"
        )
