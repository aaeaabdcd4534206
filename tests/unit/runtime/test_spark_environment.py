"""Which environment variables Spark gets: what it needs, and what is asked for by name."""

from __future__ import annotations

import locale

import pytest

from parquetry.runtime.spark_environment import (
    STORAGE_VARIABLES,
    UTF8_LOCALE,
    key_variables,
    selected_variables,
    spark_environment,
    storage_variables,
)

NEEDED = {
    "PATH": "/bin",
    "HOME": "/root",
    "LC_TIME": "C",
    "JAVA_HOME": "/java",
    "SPARK_HOME": "/spark",
    "PYSPARK_PYTHON": "python3",
    "_PYSPARK_DRIVER_CONN_INFO_PATH": "/tmp/x",
    "HADOOP_CONF_DIR": "/etc/hadoop",
    "HADOOP_TOKEN_FILE_LOCATION": "/run/tokens",
    "KRB5CCNAME": "/tmp/krb",
    "PYTHONPATH": "/lib",
    "PARQUETRY_CACHE": "/cache",
}
OTHERS = {
    "AWS_PROFILE": "a",
    "GOOGLE_APPLICATION_CREDENTIALS": "b",
    "https_proxy": "c",
    "HADOOP_CREDSTORE_PASSWORD": "d",
    "SPARK_AUTH_SECRET": "e",
    "PYTHON_TOKEN": "f",
    "PARQUETRY_SECRET_LAKE": "g",
    "PARQUETRY_TOKEN": "h",
    "PATH_OF_MINE": "i",
    "DATABASE_URL": "j",
}


def test_what_is_needed_stays_and_nothing_else(monkeypatch):
    monkeypatch.setattr(locale, "getencoding", lambda: "UTF-8")
    assert spark_environment((), {**NEEDED, **OTHERS}) == NEEDED
    assert spark_environment(["DATABASE_URL", "AWS_*"], {**NEEDED, **OTHERS}) == {
        **NEEDED,
        "DATABASE_URL": "j",
        "AWS_PROFILE": "a",
    }


def test_names_of_files_are_utf_8_in_any_locale(monkeypatch):
    monkeypatch.setattr(locale, "getencoding", lambda: "ANSI_X3.4-1968")
    assert spark_environment((), {"LC_ALL": "C", "LANG": "C"}) == {"LC_ALL": UTF8_LOCALE, "LANG": "C"}


@pytest.mark.parametrize(
    ("places", "asked"),
    [
        ((), set()),
        (("/lake/orders", "file:///lake", "landing/*.csv", "hdfs://x/y"), set()),
        (("s3://lake/orders", "landing/*.csv"), {"AWS_PROFILE", "HADOOP_CREDSTORE_PASSWORD", "https_proxy"}),
        (("S3A://lake",), {"AWS_PROFILE", "HADOOP_CREDSTORE_PASSWORD", "https_proxy"}),
        (("/lake", "gs://landing/*.csv"), {"GOOGLE_APPLICATION_CREDENTIALS", "https_proxy"}),
    ],
)
def test_credentials_of_a_storage_go_where_it_is_used(places, asked):
    assert selected_variables(storage_variables(*places), OTHERS).keys() == asked
    assert set(storage_variables(*places)) <= set(STORAGE_VARIABLES)


def test_a_key_is_asked_for_by_its_reference():
    assert key_variables(["env:B", "file:/run/key", "vault:x", "env:A", "env:A"]) == ("A", "B")
