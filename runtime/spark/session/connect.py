"""Sessions of Spark Connect: clients of a Spark server, without a JVM, a context or a visible plan.

Functions that need only DataFrames work there. The others refuse such a session with an error that names
them.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from parquetry.runtime.errors import UnsupportedSessionError

_MODULE = "pyspark.sql.connect."
_OWN_SESSION = "use a Spark session that has its own JVM: that of a job, spark-submit, or builder.master()"


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session is a client of a Spark Connect server."""
    # By name, as importing PySpark's client needs packages that only its users have.
    return any(kind.__module__.startswith(_MODULE) for kind in type(spark).__mro__)


def refuse_connect(spark: SparkSession, what: str, *, reason: str, instead: str = _OWN_SESSION) -> None:
    """Raise UnsupportedSessionError, which names ``what``, if the session is a client of Spark Connect.

    Args:
        spark: The session.
        what: The function that does not work there.
        reason: The reason why it does not work.
        instead: The remedy.

    """
    if is_connect(spark):
        raise UnsupportedSessionError(
            "{action} does not work on Spark Connect: {reason}; {remedy}",
            action=what,
            reason=reason,
            remedy=instead,
        )


def check_timestamp_type(spark: SparkSession) -> None:
    """Raise UnsupportedSessionError if a Spark Connect session would give columns undeclared types.

    A server analyses a plan when it runs, and not when it is made. The settings under which this process
    builds expressions therefore have no effect there, and the session itself must have them.
    """
    if is_connect(spark) and spark.conf.get("spark.sql.timestampType", "TIMESTAMP_LTZ") != "TIMESTAMP_LTZ":
        raise UnsupportedSessionError(
            "spark.sql.timestampType is TIMESTAMP_NTZ in this Spark Connect session, and the "
            "timestamps of tables are points in time; set it to TIMESTAMP_LTZ, and write timestamp_ntz "
            "where it is meant"
        )
