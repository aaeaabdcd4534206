"""A session without Hadoop's client of a store, whoever started it, says which one to add."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import UnsupportedSessionError
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.settings import load_files
from parquetry.runtime.store_jars import clients, hadoop_version, spark_jars

pytestmark = pytest.mark.spark

HADOOP = hadoop_version(spark_jars())


@pytest.mark.parametrize(("scheme", "client"), [*zip(("s3a", "gs"), clients(HADOOP), strict=True)])
def test_the_error_names_the_client_for_the_version_of_hadoop(spark, scheme, client):
    assert spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion() == HADOOP
    package = client.named(HADOOP)
    for format_ in ("csv", "json", "parquet"):
        with pytest.raises(UnsupportedSessionError, match=package):
            load_files(spark, spark.read.format(format_), [f"{scheme}://lake/a"])
    with pytest.raises(UnsupportedSessionError, match=package), failures_translated("the rows"):
        spark.read.parquet(f"{scheme}://lake/a").collect()
