"""The peers besides Hudi, at pinned versions: jars through Spark's own resolver, delta-rs through pip.

Everything lies in `$PARQUETRY_CACHE` beside the environments of the interoperability tests, and is
made once per machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.interop.environment import cache_folder, spark_environment, spark_python

DELTA_RS = ("deltalake==1.6.6", "pyarrow==26.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPackage:
    """A table format for Spark: the Spark it runs on, and its coordinates on Maven Central."""

    name: str
    version: str
    spark: str
    coordinates: str


DELTA = SparkPackage(
    name="delta", version="3.3.2", spark="3.5", coordinates="io.delta:delta-spark_2.12:3.3.2"
)
ICEBERG = SparkPackage(
    name="iceberg",
    version="1.11.0",
    spark="4.1",
    coordinates="org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
)


def jars(package: SparkPackage) -> list[Path]:
    """The jars of a package with what it depends on; fetched when they are not there."""
    folder = cache_folder() / "jars" / f"{package.name}-{package.version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        python = spark_python(package.spark)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            nothing = Path(scratch, "nothing.py")
            nothing.touch()
            submit = str(python.parent / "spark-submit")
            settings = ["--packages", package.coordinates, "--conf", f"spark.jars.ivy={scratch}/ivy"]
            _run([submit, *settings, str(nothing)], environment=spark_environment(python))
            _move(Path(scratch, "ivy", "jars"), folder)
    return sorted(folder.glob("*.jar"))


def delta_rs_python() -> Path:
    """The interpreter of the environment that has delta-rs; made when it is not there."""
    folder = (
        cache_folder()
        / f"{'-'.join(DELTA_RS).replace('==', '-')}-python-{sys.version_info[0]}.{sys.version_info[1]}"
    )
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *DELTA_RS])
        (folder / "complete").touch()
    return folder / "bin" / "python"


def _move(source: Path, target: Path) -> None:
    """Put a folder in its place, unless another process was faster."""
    try:
        source.rename(target)
    except OSError:
        if not target.exists():
            raise


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, env=environment or dict(os.environ), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
