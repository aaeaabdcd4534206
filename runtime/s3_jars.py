"""The jars with which Spark reads S3: Hadoop's client, in the version of Spark's own Hadoop."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CLIENT: Final = "org.apache.hadoop:hadoop-aws"

_HADOOP: Final = re.compile(r"hadoop-client-api-(?P<version>\d[\w.-]*)\.jar")
_MISSING: Final = re.compile(
    r"Class org\.apache\.hadoop\.fs\.s3a\.\w+ not found|No FileSystem for scheme \"?s3a?\b"
    r"|NoClassDefFoundError: (software|com)/amazon"
)


def spark_jars(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of the jars of the Spark that starts here: ``SPARK_HOME``, else PySpark's own."""
    if home := environment.get("SPARK_HOME"):
        return Path(home, "jars")
    found = find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent / "jars"


def hadoop_version(jars: Path | None) -> str | None:
    """Return the version of the Hadoop among the jars, or None if its name does not tell."""
    names = [] if jars is None or not jars.is_dir() else [path.name for path in jars.iterdir()]
    return next((found["version"] for name in names if (found := _HADOOP.fullmatch(name))), None)


def client_of(version: str | None) -> str:
    """Return the Maven coordinates of the client that fits a version of Hadoop."""
    return f"{CLIENT}:{version}" if version else f"{CLIENT} in the version of Spark's Hadoop"


def is_missing(failure: str) -> bool:
    """Return whether the text of a failure of Spark says that the client, or what it needs, is not there."""
    return _MISSING.search(failure) is not None
