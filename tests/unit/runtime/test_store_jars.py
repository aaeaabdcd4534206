"""Where Spark finds Hadoop's clients of object stores: settings, its defaults, the class path and its own jars."""

from __future__ import annotations

import os

import pytest

from parquetry.runtime.store_jars import GCS, S3, clients, missing_client, versions

COORDINATES = "org.apache.hadoop:hadoop-aws:3.4.1"
JAR = "hadoop-aws-3.4.1.jar"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "spark/jars").mkdir(parents=True)
    (tmp_path / "spark/conf").mkdir()
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / JAR).touch()
    return tmp_path


def found(home, conf=None, arguments=(), **environment):
    return versions(S3, conf or {}, arguments, {"SPARK_HOME": str(home / "spark")} | environment)


def defaults(folder, text):
    (folder / "spark-defaults.conf").write_text(f"# of all jobs\n\nspark.master  local[2]\n{text}\n")


def test_a_spark_without_the_client(home):
    defaults(home / "spark/conf", f"# spark.jars.packages {COORDINATES}")
    assert found(home) == []


@pytest.mark.parametrize("sign", [" ", "=", " : ", "\t"])
def test_defaults_of_spark_bring_it(home, sign):
    defaults(home / "spark/conf", f"spark.jars.packages{sign}a:b:1,{COORDINATES}")
    assert found(home) == ["3.4.1"]
    assert found(home, {"spark.jars.packages": "a:b:1"}) == []  # the target's own setting replaces it


def test_defaults_lie_where_the_environment_says(home):
    defaults(home / "libs", f"spark.jars /opt/{JAR}")
    assert found(home) == []
    assert found(home, SPARK_CONF_DIR=str(home / "libs")) == ["3.4.1"]


@pytest.mark.parametrize("entry", ["*", JAR])
def test_the_class_path_brings_it(home, entry):
    path = os.pathsep.join(["/etc/hadoop", f"{home}/libs/{entry}", "/nowhere/*"])
    defaults(home / "spark/conf", f"spark.driver.extraClassPath {path}")
    assert found(home) == ["3.4.1"]
    assert found(home, {"spark.driver.extraClassPath": "/etc/hadoop"}, SPARK_DIST_CLASSPATH=path) == ["3.4.1"]


def test_targets_arguments_and_the_jars_of_spark_bring_it(home):
    assert found(home, {"spark.jars.packages": COORDINATES}) == ["3.4.1"]
    assert found(home, arguments=["--packages", COORDINATES]) == ["3.4.1"]
    assert found(home, PYSPARK_SUBMIT_ARGS=f"--jars /opt/{JAR} pyspark-shell") == ["3.4.1"]
    (home / "spark/jars" / JAR).touch()
    assert found(home) == ["3.4.1"]


def test_the_client_of_google_comes_with_hadoop_and_before_that_as_one_jar(home):
    environment = {"SPARK_HOME": str(home / "spark")}
    (_, own), (_, googles) = clients("3.5.0"), clients("3.4.2")
    assert own.remedy("3.5.0") == "list org.apache.hadoop:hadoop-gcp:3.5.0 under spark.packages of the target"
    assert clients(None) == (S3, own)
    assert " to gcs-connector-hadoop3-" in googles.remedy("3.4.2")
    conf = {"spark.jars": f"/opt/{googles.jar},/opt/{JAR}"}
    assert versions(googles, conf, (), environment) == ["hadoop3-2.2.26"]
    assert versions(own, conf, (), environment) == []
    package = {"spark.jars.packages": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26"}
    assert versions(googles, package, (), environment) == []  # its libraries clash with those of Spark


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", S3),
        ('No FileSystem for scheme "gs"', GCS),
        ("ClassNotFoundException: Class org.apache.hadoop.fs.gs.GoogleHadoopFileSystem not found", GCS),
        ('No FileSystem for scheme "gsx"', None),
    ],
)
def test_a_failure_names_the_client_that_is_missing(text, client):
    assert missing_client(text, "3.5.0") is client
