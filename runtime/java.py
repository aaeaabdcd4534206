"""The Java that Spark would use, and its version, without a start of Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from parquetry.runtime.errors import MissingJavaError
from parquetry.runtime.spark_environment import spark_environment

OLDEST_JAVA = 17
REMEDY = "apt-get install openjdk-17-jre-headless"

_ENCODING = re.compile(r"^ *sun\.jnu\.encoding = (?P<encoding>\S+)", re.MULTILINE)
_VERSION = re.compile(r'version "(?P<first>\d+)(?:\.(?P<second>\d+))?[^"]*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java executable and its major version. ``names`` is the encoding of file names in Spark's JVM."""

    executable: str
    major: int
    names: str | None


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the Java that Spark's launcher uses: that of ``JAVA_HOME``, or else that of the path.

    Raises:
        MissingJavaError: If there is no Java, or it is too old. The message has the remedy.

    """
    home = environment.get("JAVA_HOME")
    where = f"JAVA_HOME={home}" if home else "PATH"
    executable = (
        str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH", ""))
    )
    if executable is None or not os.access(executable, os.X_OK):
        raise MissingJavaError(
            "Spark needs Java {oldest_version} or newer, but there is none ({searched}); "
            "install it: `{command}`",
            oldest_version=OLDEST_JAVA,
            searched=where,
            command=REMEDY,
        )
    output = _version_output(executable)
    major = _major(output)
    if major is None or major < OLDEST_JAVA:
        found = f"Java {major}" if major else "a program without a version"
        raise MissingJavaError(
            "Spark needs Java {oldest_version} or newer; found {found} at {program} ({searched}); install "
            "a newer one: `{command}`{further_remedy}",
            oldest_version=OLDEST_JAVA,
            found=found,
            program=executable,
            searched=where,
            command=REMEDY,
            further_remedy=", and point JAVA_HOME at it" if home else "",
        )
    names = _ENCODING.search(output)
    return Java(executable=executable, major=major, names=names["encoding"] if names else None)


def _version_output(executable: str) -> str:
    try:
        done = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=60,
            env=spark_environment(()),
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _major(output: str) -> int | None:
    version = _VERSION.search(output)
    if version is None:
        return None
    first = int(version["first"])
    # Up to Java 8 the version began with 1.
    return int(version["second"] or 0) if first == 1 else first
