"""The Spark packages that read formats which Spark itself does not support."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

AVRO_READER: Final = "spark-avro"
"""The text that every name of Spark's Avro reader contains: coordinates, URLs and jars."""

_SCALA_2_12_UNTIL: Final = 3
_NEWEST_AVRO_READER: Final = "4.1.1"
"""The newest version on Maven Central. A test reads with it in Spark 4.3."""


def avro_package() -> str:
    """Return the Maven coordinates of the Avro reader for the PySpark that is installed here.

    PyPI has versions of Spark that Maven Central lacks. For those, it is the newest available reader.
    """
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        spark = _NEWEST_AVRO_READER
    scala = "2.12" if int(spark.split(".")[0]) <= _SCALA_2_12_UNTIL else "2.13"
    reader = _NEWEST_AVRO_READER if _numbers(spark) > _numbers(_NEWEST_AVRO_READER) else spark
    return f"org.apache.spark:{AVRO_READER}_{scala}:{reader}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
