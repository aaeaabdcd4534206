"""The wheel, the sdist and the zip on Spark's path hold the whole package and nothing else."""

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from parquetry.version import VERSION
from tests.support.effort import in_full
from tests.support.repository import ROOT


def run(*command, cwd, **extra):
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, **extra}
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source") / "parquetry"
    tracked = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    for name in tracked:
        if (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    # As a release is built; in full with the packages for building from a registry, as a stranger's pip does.
    isolation = [] if in_full() else ["--no-isolation"]
    run(sys.executable, "-m", "build", *isolation, "--outdir", str(out), str(source), cwd=source)
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    return wheel, sdist


def packages_on_disk():
    """Every folder with an ``__init__.py`` below the mapped ones, under its import name."""
    mapping = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    found = set()
    for package, folder in mapping.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            relative = init.parent.relative_to(ROOT / folder)
            found.add(".".join([package, *relative.parts]))
    return found


def test_every_package_is_declared():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert set(declared) == packages_on_disk()


def test_wheel_holds_every_module_schema_and_template(distributions):
    wheel, sdist = distributions
    names = set(zipfile.ZipFile(wheel).namelist())
    mapping = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    for package, folder in mapping.items():
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".json", ".j2"} or file.name == "py.typed":
                inside = Path(package.replace(".", "/")) / file.relative_to(ROOT / folder)
                assert inside.as_posix() in names
    assert f"parquetry-{VERSION}" in wheel.name
    assert f"parquetry-{VERSION}" in sdist.name
    top = {name.split("/")[0] for name in names}
    assert top == {"parquetry", next(name for name in top if name.endswith(".dist-info"))}
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("/runtime/spec/table_spec.py") for name in archive.getnames())


def test_wheel_works_in_a_clean_environment(distributions, tmp_path):
    wheel, _ = distributions
    venv.create(tmp_path / "env")
    python = str(tmp_path / "env" / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", str(wheel), cwd=tmp_path)
    # The dependencies come from this environment: what is clean is parquetry itself.
    site = subprocess.run(
        [sys.executable, "-c", "import click, os; print(os.path.dirname(os.path.dirname(click.__file__)))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    tail = {"PYTHONPATH": ""}
    code = (
        f"import sys; sys.path.append({site!r}); import parquetry, parquetry.runtime.spec.table_spec;"
        "assert '/env/' in parquetry.__file__, parquetry.__file__;"
        "from parquetry.cli.main import entry; sys.argv = ['parquetry', '--help']; entry()"
    )
    assert "plan" in run(python, "-c", code, cwd=tmp_path, **tail)


def test_runtime_imports_without_the_authoring_libraries(distributions, tmp_path):
    wheel, _ = distributions
    archive = tmp_path / "parquetry.zip"
    archive.write_bytes(wheel.read_bytes())
    code = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'yaml', 'jinja2', 'jsonschema', 'click', 'rich', 'urllib3', 'cel'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.path.insert(0, {str(archive)!r})\n"
        "import parquetry, parquetry.runtime.main, parquetry.runtime.commit.publish\n"
        f"assert parquetry.__file__.startswith({str(archive)!r}), parquetry.__file__\n"
    )
    run(sys.executable, "-I", "-c", code, cwd=tmp_path)


@pytest.mark.spark
def test_zip_on_the_path_of_spark_submit(distributions, tmp_path):
    wheel, _ = distributions
    archive = tmp_path / "parquetry.zip"
    archive.write_bytes(wheel.read_bytes())
    job = tmp_path / "job.py"
    job.write_text(
        "import parquetry, pyarrow as pa\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "def where(batches):\n"
        "    import parquetry.runtime.spec.table_spec as spec\n"
        "    for _ in batches:\n"
        "        yield pa.RecordBatch.from_pydict({'file': [spec.__file__]})\n"
        "rows = spark.range(1).mapInArrow(where, 'file string').collect()\n"
        "print('WORKER', rows[0].file)\n"
        "print('DRIVER', parquetry.__file__)\n"
    )
    submit = Path(sys.executable).parent / "spark-submit"
    out = run(
        str(submit), "--master", "local[1]", "--conf", "spark.ui.enabled=false", "--py-files", str(archive), str(job),
        cwd=tmp_path, PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable,
    )  # fmt: skip
    for side in ("WORKER", "DRIVER"):
        (line,) = [line for line in out.splitlines() if line.startswith(side)]
        assert "parquetry.zip" in line
