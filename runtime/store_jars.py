"""The jars with which Spark reads object stores: one Hadoop client for each store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A Hadoop client in the version of Spark's own Hadoop, or a ``jar`` that needs no particular version."""

    store: str
    schemes: tuple[str, ...]
    artifact: str
    missing: re.Pattern[str]
    """Matches a failure of Spark because the client or one of its dependencies is missing."""
    jar: str | None = None
    extra_setting: str = ""
    """The Spark setting that the jar needs in addition."""

    def named(self, hadoop: str | None) -> str:
        """Return the jar, or the Maven coordinates of the client for a version of Hadoop, if it is known."""
        package = f"org.apache.hadoop:{self.artifact}"
        return self.jar or (
            f"{package}:{hadoop}" if hadoop else f"{package} in the version of Spark's Hadoop"
        )

    def remedy(self, hadoop: str | None) -> str:
        """Return the text of a remedy that adds the client to a target."""
        if self.jar:
            return (
                f"set spark.jars in the target's spark.conf to {self.jar} from Maven Central, and set "
                f"{self.extra_setting}"
            )
        return f"list {self.named(hadoop)} under spark.packages of the target"


S3: Final = Client(
    store="S3",
    schemes=("s3", "s3a"),
    artifact="hadoop-aws",
    missing=re.compile(
        r"Class org\.apache\.hadoop\.fs\.s3a\.\w+ not found|No FileSystem for scheme \"?s3a?\b"
        r"|NoClassDefFoundError: (software|com)/amazon"
    ),
)
GCS: Final = Client(
    store="Google Cloud Storage",
    schemes=("gs",),
    artifact="hadoop-gcp",
    missing=re.compile(
        r"Class (org\.apache\.hadoop\.fs\.gs|com\.google\.cloud\.hadoop\.fs\.gcs)\.\w+ not found"
        r"|No FileSystem for scheme \"?gs\b|NoClassDefFoundError: com/google/cloud"
    ),
)
_GCS_BEFORE: Final = replace(
    GCS,
    artifact="gcs-connector",
    jar="gcs-connector-hadoop3-2.2.26-shaded.jar",
    extra_setting="spark.hadoop.fs.gs.impl to com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
)
"""Google's own client, for a Hadoop without one. As a package, its libraries conflict with Spark's."""

_HADOOP_WITH_GCS: Final = (3, 5)

_JAR_SETTINGS: Final = ("spark.jars.packages", "spark.jars")
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_DEFAULT: Final = re.compile(r"\s*(?P<name>[^\s=:#!][^\s=:]*)[\s=:]\s*(?P<value>.*?)\s*")
_HADOOP: Final = re.compile(r"hadoop-client-api-(?P<version>\d[\w.-]*)\.jar")


def spark_jars(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of Spark's jars, from ``SPARK_HOME`` or else from PySpark, or None."""
    if home := environment.get("SPARK_HOME"):
        return Path(home, "jars")
    found = find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent / "jars"


def versions(
    client: Client,
    conf: Mapping[str, str],
    arguments: Sequence[str],
    environment: Mapping[str, str] = os.environ,
) -> list[str]:
    """Return the versions of a client that Spark finds when it starts here, or an empty list.

    A client can come from ``conf``, from spark-defaults.conf, from the class path, from the jars of Spark, or
    from the arguments.

    Args:
        client: The client to find.
        conf: The Spark properties.
        arguments: The arguments of spark-submit.
        environment: The environment of Spark.

    """
    jars = spark_jars(environment)
    settings = {**_defaults(jars, environment), **conf}
    texts = [settings.get(name, "") for name in _JAR_SETTINGS]
    texts += [*arguments, environment.get("PYSPARK_SUBMIT_ARGS", "")]
    paths = [settings.get(_CLASS_PATH, ""), environment.get("SPARK_DIST_CLASSPATH", "")]
    texts += [name for path in paths for name in _on_class_path(path)]
    texts += [] if jars is None else _on_class_path(f"{jars}/*")
    end = "-shaded" if client.jar else ""
    named = re.compile(rf"{client.artifact}[:-](?P<version>(?:hadoop\d-)?\d+(?:\.\d+)*){end}")
    return [found["version"] for text in texts for found in named.finditer(text)]


def _defaults(jars: Path | None, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties in spark-defaults.conf."""
    folder = environment.get("SPARK_CONF_DIR") or (jars and jars.parent / "conf")
    try:
        text = Path(folder or "", "spark-defaults.conf").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found = (_DEFAULT.fullmatch(line) for line in text.splitlines())
    return {each["name"]: each["value"] for each in found if each}


def _on_class_path(path: str) -> Iterator[str]:
    """Yield the entries of a class path, with the names of the jars for entries that end in ``*``."""
    for entry in path.split(os.pathsep):
        if entry.endswith("*"):
            with suppress(OSError):
                yield from (jar.name for jar in Path(entry[:-1] or ".").iterdir() if jar.suffix == ".jar")
        else:
            yield entry


def hadoop_version(jars: Path | None) -> str | None:
    """Return the version of Hadoop among the jars, or None if no jar name contains it."""
    names = [] if jars is None or not jars.is_dir() else [path.name for path in jars.iterdir()]
    return next((found["version"] for name in names if (found := _HADOOP.fullmatch(name))), None)


def clients(hadoop: str | None) -> tuple[Client, ...]:
    """Return the clients for a version of Hadoop."""
    numbers = tuple(map(int, re.findall(r"\d+", hadoop or "")[:2])) or _HADOOP_WITH_GCS
    return (S3, GCS if numbers >= _HADOOP_WITH_GCS else _GCS_BEFORE)


def missing_client(failure: str, hadoop: str | None) -> Client | None:
    """Return the client that Spark lacks according to the text of a failure, or None."""
    return next((client for client in clients(hadoop) if client.missing.search(failure)), None)
