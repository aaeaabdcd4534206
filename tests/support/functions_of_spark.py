"""The functions that a version of Spark has, by its own registry."""

from __future__ import annotations

from parquetry.text.sql_functions import FUNCTIONS
from parquetry.text.sql_rules import REFUSED_FUNCTIONS


def unlisted_functions(spark):
    """Return the names of Spark's own functions that SQL of specs is neither allowed nor refused."""
    analysis = spark._jvm.org.apache.spark.sql.catalyst.analysis
    registry = getattr(getattr(analysis, "FunctionRegistry$"), "MODULE$").builtin()
    names = registry.listFunction().iterator()
    found = set()
    while names.hasNext():
        # Spark 4.2 and later list each by its qualified name too.
        found.add(names.next().funcName())
    assert len(found) > 400
    return found - FUNCTIONS - REFUSED_FUNCTIONS.keys()
