"""In the locale of cron and of many images, which knows ASCII alone, names of files are what they are."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support import hudi_rs
from tests.support.command_script import environment, parquetry
from tests.support.fast_java import java_options
from tests.support.project_folder import ProjectFolder, with_leave

pytestmark = pytest.mark.spark

ASCII = {"LC_ALL": "C", "LANG": None}
WITHOUT_UTF8 = ASCII | {"PYTHONUTF8": "0"}
CONF = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": java_options()}

OF_ANOTHER = """
import sys
import parquetry
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = parquetry.open(sys.argv[1])
try:
    table.read(spark).count()
except parquetry.UnsupportedSessionError as error:
    print(error)
"""


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "Bücher" / "shop")
    folder.orders(
        sources=[{"name": "feed", "format": "csv", "path": "landing/größe*.csv", "operation": "upsert"}]
    )
    return folder


def deliver(folder, number, cities):
    rows = "".join(f"{n},{city},1.5,2,{number}\n" for n, city in enumerate(cities))
    folder.deliver(f"größe {number}.csv", f"order_id,city,amount,items,revision\n{rows}")


def done(folder, *words, **variables):
    answer = parquetry(*words, "-p", folder.root, **(variables or ASCII))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def of_launcher(folder, launcher):
    spark = {"master": "local[1]", "launcher": launcher, "conf": CONF}
    folder.project(targets={"dev": with_leave({"warehouse": "./warehouse", "spark": spark})})


def cities(folder):
    return {row["order_id"]: row["city"] for row in hudi_rs.read(str(folder.table)).to_pylist()}


@pytest.fixture
def ingested(folder):
    """The project whose first file was ingested by a run that starts Spark itself."""
    of_launcher(folder, "in-process")
    deliver(folder, 1, ["Zürich", "Rome", "Łódź"])
    for words in (["validate"], ["plan"], ["apply", "--auto-approve"]):
        done(folder, *words, **WITHOUT_UTF8)
    done(folder, "run")
    assert cities(folder) == {0: "Zürich", 1: "Rome", 2: "Łódź"}
    layout = json.loads(done(folder, "inspect", "orders", "--format", "json", **WITHOUT_UTF8))
    assert {"city=Zürich", "city=Łódź"} <= {part["path"] for part in layout["partitions"]}
    return folder


@pytest.mark.long
def test_names_of_files_in_a_locale_of_ascii_under_spark_submit(ingested):
    of_launcher(ingested, "spark-submit")
    done(ingested, "apply", "--auto-approve")
    deliver(ingested, 2, ["Zürich", "Rome", "Łódź", "東京"])
    done(ingested, "run")
    assert cities(ingested) == {0: "Zürich", 1: "Rome", 2: "Łódź", 3: "東京"}


def test_names_of_files_in_a_locale_of_ascii(ingested):
    said = subprocess.run(
        [sys.executable, "-c", OF_ANOTHER, str(ingested.table)],
        env=environment(**ASCII),
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr[-4000:]
    (refused,) = said.stdout.splitlines()
    assert "ANSI_X3.4-1968" in refused and refused.endswith(
        "LC_ALL=C.UTF-8 in the environment, as parquetry does"
    )
