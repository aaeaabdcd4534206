"""Spark's JVM and its workers get the environment variables that are listed, and no credential of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.command_script import environment, parquetry
from tests.support.fast_java import java_options
from tests.support.project_folder import ProjectFolder, with_leave
from tests.support.repository import ROOT
from tests.support.s3_server import BUCKET

pytestmark = pytest.mark.spark

HIDDEN = "hunter22-Zq9"
UNLISTED = {
    "DATABASE_URL": f"postgres://u:{HIDDEN}@db/x",
    "GITHUB_TOKEN": HIDDEN,
    "AWS_SECRET_ACCESS_KEY": HIDDEN,
    "GOOGLE_APPLICATION_CREDENTIALS": f"/run/{HIDDEN}",
    "HTTPS_PROXY": f"http://u:{HIDDEN}@127.0.0.1:9",
    "no_proxy": HIDDEN,
    "SPARK_AUTH_TOKEN": HIDDEN,
    "PYTHON_PASSWORD": HIDDEN,
    "PARQUETRY_SECRET_OTHER": HIDDEN,
    "PLAIN": HIDDEN,
}
"""What an operator's shell has; no project file names one of them, and no storage needs one."""

OPTION = "an-option-of-the-storage"
SPARK = {
    "master": "local[2]",
    "conf": {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    },
}
CLUSTER = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",
    "spark.executor.extraJavaOptions": java_options(),
}
PROBE = """\
import json, os, sys

def variables(process):
    with open(f"/proc/{process}/environ", "rb") as file:
        pairs = file.read().decode(errors="replace").split("\\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)

def noted(kind, values):
    with open(f"{FOLDER}/{kind}-{os.getpid()}.json", "w") as file:
        json.dump(values, file)

words = sys.orig_argv
if "pyspark.daemon" in words:
    noted("worker", dict(os.environ))
    noted("jvm of workers", variables(os.getppid()))
elif any(word.endswith("ingest_landing.py") for word in words):
    noted("driver", dict(os.environ))
    noted("jvm of driver", variables(os.getppid()))
"""


@pytest.fixture
def probe(tmp_path):
    """A folder for the path of Python, where each process that Python starts in notes its environment."""
    place = tmp_path / "probe"
    place.mkdir()
    (place / "sitecustomize.py").write_text(f"FOLDER = {str(place)!r}\n{PROBE}")
    return place


def seen(probe) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for file in sorted(probe.glob("*.json")):
        found.setdefault(file.name.partition("-")[0], []).append(json.loads(file.read_text()))
    return found


def run(tmp_path, probe, **spark) -> dict[str, list[dict[str, str]]]:
    """The environments of the processes of a run, by their kind."""
    folder = ProjectFolder.create(tmp_path / "shop")
    conf = SPARK["conf"] | spark.pop("conf", {})
    storage = {"secret": "{{ env_var('PARQUETRY_SECRET_LAKE') }}"}
    target = {"warehouse": "./warehouse", "spark": SPARK | {"conf": conf} | spark, "storage": storage}
    folder.project(environment=["LAKE_REGION"], targets={"dev": with_leave(target)})
    folder.deliver("a.csv", "order_id,city,amount,items,revision\n1,Oslo,1.5,1,1\n")
    given = {
        **UNLISTED,
        "LAKE_REGION": "north",
        "PARQUETRY_SECRET_LAKE": OPTION,
        "PYTHONPATH": os.pathsep.join([str(probe), str(ROOT)]),
    }
    for words in (("apply", "--auto-approve"), ("run", "--only", "ingest")):
        done = parquetry(*words, "-p", folder.root, **given)
        assert done.returncode == 0, done.stderr[-4000:]
    return seen(probe)


def assert_listed(processes) -> None:
    for each in processes:
        assert {name for name, value in each.items() if HIDDEN in value} == set()
        assert each["LAKE_REGION"] == "north"
        assert each["PATH"]


@pytest.mark.long  # the run on S3 below shows the same of its JVM and workers
def test_the_jvm_and_the_workers_of_a_run(tmp_path, probe):
    found = run(tmp_path, probe)
    assert set(found) == {"worker", "jvm of workers"}
    assert_listed(found["worker"] + found["jvm of workers"])
    # The driver reads it for the store; what its tasks need of it is part of them.
    assert OPTION not in str(found)


def test_what_spark_submit_starts(tmp_path, probe):
    found = run(tmp_path, probe, launcher="spark-submit")
    assert set(found) == {"worker", "jvm of workers", "driver", "jvm of driver"}
    for processes in found.values():
        assert_listed(processes)
    assert {each["PARQUETRY_SECRET_LAKE"] for each in found["driver"]} == {OPTION}


def test_executors_of_a_cluster_get_nothing_of_the_driver(tmp_path, probe, standalone):
    conf = {**CLUSTER, "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(probe), str(ROOT)])}
    found = run(tmp_path, probe, master=standalone, conf=conf)
    assert set(found) == {"worker", "jvm of workers"}
    for processes in found.values():
        assert {name for each in processes for name, value in each.items() if HIDDEN in value} == set()


def test_a_target_on_s3_gets_the_credentials_of_s3_alone(tmp_path, probe, s3_options):
    """Tasks write with what the environment says, as no option of the target has it."""
    folder = ProjectFolder.create(tmp_path / "shop")
    storage = {name: value for name, value in s3_options.items() if name not in ("key", "secret")}
    target = {"warehouse": f"s3://{BUCKET}/{tmp_path.name}", "spark": SPARK, "storage": storage}
    folder.project(environment=["LAKE_REGION"], targets={"dev": with_leave(target)})
    folder.deliver("a.csv", "order_id,city,amount,items,revision\n1,Oslo,1.5,1,1\n")
    own = {"AWS_ACCESS_KEY_ID": s3_options["key"], "AWS_SECRET_ACCESS_KEY": s3_options["secret"]}
    path = os.pathsep.join([str(probe), str(ROOT)])
    given = {**UNLISTED, **own, "HTTPS_PROXY": None, "no_proxy": None, "LAKE_REGION": "north"}
    for words in (("apply", "--auto-approve"), ("run", "--only", "ingest")):
        done = parquetry(*words, "-p", folder.root, **given, PYTHONPATH=path)
        assert done.returncode == 0, done.stderr[-4000:]
    assert "1 inserted" in done.stdout
    processes = [*seen(probe)["worker"], *seen(probe)["jvm of workers"]]
    assert_listed(processes)
    for each in processes:
        assert {name: each[name] for name in own} == own


TABLES = """\
import os, sys
import parquetry
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, TableSpec
import pyarrow as pa

columns = (Column(name="id", type="bigint", nullable=False), Column(name="v", type="string"))
for number, name in enumerate(("FIRST", "SECOND")):
    files = FilesPolicy(encryption_key=f"env:{name}_KEY")
    spec = TableSpec(name=name.lower(), columns=columns, record_key=("id",), files=files)
    table = parquetry.create(f"{sys.argv[1]}/{name}", spec)
    done = table.upsert(pa.table({"id": [1], "v": ["a"]}))
    assert done.inserted_rows == 1, done
    done = table.upsert(pa.table({"id": [1, 2], "v": ["b", "c"]}))
    assert (done.updated_rows, done.inserted_rows) == (1, 1), done
"""


def test_a_session_is_used_for_a_second_table_with_a_key_of_its_own(tmp_path, probe):
    """The JVM keeps the variables that it started with; the second table was not known then."""
    keys = {"FIRST_KEY": "MDEyMzQ1Njc4OWFiY2RlZg==", "SECOND_KEY": "ZmVkY2JhOTg3NjU0MzIxMA=="}
    path = os.pathsep.join([str(probe), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", TABLES, str(tmp_path / "lake")],
        env=environment(**keys, DATABASE_URL=HIDDEN, PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = seen(probe)
    (jvm,) = {json.dumps(each, sort_keys=True) for each in found["jvm of workers"]}
    assert "FIRST_KEY" in jvm and "SECOND_KEY" not in jvm
    first, second = (json.dumps(each) for each in sorted(found["worker"], key=len))
    assert "SECOND_KEY" not in first and "SECOND_KEY" in second
    assert HIDDEN not in str(found)
