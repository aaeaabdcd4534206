"""A session without Hadoop's client of S3, whoever started it, says which one to add."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import UnsupportedSessionError
from parquetry.runtime.spark.session.settings import failures_translated, load_files
from parquetry.runtime.store_jars import S3, hadoop_version, spark_jars

pytestmark = pytest.mark.spark


def test_the_error_names_the_client_of_the_version_of_hadoop(spark):
    assert hadoop_version(spark_jars()) == spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    client = S3.coordinates(hadoop_version(spark_jars()))
    for format_ in ("csv", "json", "parquet"):
        with pytest.raises(UnsupportedSessionError, match=client):
            load_files(spark, spark.read.format(format_), ["s3a://lake/a"])
    with pytest.raises(UnsupportedSessionError, match=client), failures_translated("the rows"):
        spark.read.parquet("s3a://lake/a").collect()
