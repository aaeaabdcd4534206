"""One bucket by two clients: what tasks write over s3fs, Spark reads through Hadoop's S3A, at every instant.

Keys are joined by Spark in the third write, so the stage and the table are read through S3A there too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.interop.environment import s3a_jars
from tests.support.repository import ROOT
from tests.support.s3_server import BUCKET
from tests.support.view_reader import ViewReader

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long]

SCRIPT = """
import json, sys
import parquetry
from parquetry import Column, TableSpec
from parquetry.runtime.spark.attempt import upsert
from tests.support.local_spark import local_spark
from tests.support.spark_writes import as_on_a_cluster

options, uri, settings = (json.loads(argument) for argument in sys.argv[1:])
spark = local_spark("s3a", settings)
spec = TableSpec(
    name="t",
    columns=tuple(Column(name=n, type=t) for n, t in {"id": "string", "v": "bigint", "p": "string"}.items()),
    record_key=("id",),
    partition_by=("p",),
)
table = parquetry.create(uri, spec, options=options)
held, expected, instants = {}, [], []

def rows(numbers, version):
    listed = [(f"k{n:03}", version * 1000 + n, "a b/Ω"[n % 5]) for n in numbers]
    return spark.createDataFrame(listed, "id string, v bigint, p string"), {k: [v, p] for k, v, p in listed}

def commit(result, change):
    held.update(change)
    instants.append(result.instant)
    expected.append(dict(held))

with as_on_a_cluster():
    frame, new = rows(range(100), 1)
    commit(table.insert(frame), new)
    frame, new = rows(range(50, 150, 3), 2)
    commit(table.upsert(frame), new)
    upsert.is_small = lambda *_: False  # keys of the stage and of the table are joined by Spark, over S3A
    frame, new = rows(range(0, 200, 7), 3)
    commit(table.upsert(frame), new)
    frame, gone = rows(range(0, 200, 9), 0)
    result = table.delete(frame.select("id", "p"))
    for key in gone:
        held.pop(key, None)
    commit(result, {})

by_s3a = []
for instant in instants:
    found = table.read(spark, as_of=instant).collect()
    by_s3a.append({row.id: [row.v, row.p] for row in found})
    assert len(found) == len(by_s3a[-1])
print("SAID " + json.dumps([instants, expected, by_s3a]))
"""


def test_one_history_by_each_client(s3_options, tmp_path):
    settings = {
        "spark.jars": ",".join(map(str, s3a_jars("3.5.0"))),
        "spark.hadoop.fs.s3a.endpoint": s3_options["endpoint_url"],
        "spark.hadoop.fs.s3a.access.key": s3_options["key"],
        "spark.hadoop.fs.s3a.secret.key": s3_options["secret"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }
    uri = f"s3://{BUCKET}/{tmp_path.name}/s3a"
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(json.dumps, (s3_options, uri, settings))],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert run.returncode == 0, run.stderr[-5000:]
    instants, expected, by_s3a = json.loads(run.stdout.partition("SAID ")[2])
    assert by_s3a == expected
    for instant, rows in zip(instants, expected, strict=True):
        found = ViewReader(s3_options).read(uri, as_of=instant).to_pylist()
        assert len(found) == len(rows)
        assert {row["id"]: [row["v"], row["p"]] for row in found} == rows
