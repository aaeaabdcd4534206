from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark import SparkConf

from parquetry.runtime.spark.session.settings import task_memory_bytes
from tests.support.base_files import MIB


def session(master: str, **settings: str) -> SimpleNamespace:
    """What is looked at of a session; local ones have four slots."""
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(f"spark.executor.{name.replace('_', '.')}", value)
    return SimpleNamespace(
        sparkContext=SimpleNamespace(master=master, defaultParallelism=4, getConf=lambda: conf)
    )


@pytest.mark.parametrize(
    ("master", "settings", "mib"),
    [
        ("local[4]", {}, 512),
        ("local[4]", {"pyspark_memory": "10g"}, 1024),
        ("yarn", {"cores": "1"}, 256),
        ("yarn", {"cores": "4"}, 64),
        ("yarn", {"cores": "2", "memory": "100g"}, 512),
        ("yarn", {"cores": "2", "memoryOverhead": "1g"}, 384),
        ("yarn", {"cores": "2", "memoryOverhead": "1g", "pyspark_memory": "1g"}, 64),
        ("yarn", {"cores": "2", "pyspark_memory": "4g"}, 512),
        ("yarn", {"cores": "2", "pyspark_memory": "11g"}, 4096),
        ("yarn", {"cores": "2", "pyspark_memory": f"{11 * 1024**3}b"}, 4096),
        ("yarn", {"cores": "2", "pyspark_memory": f"{11 * 1024**2}k"}, 4096),
        ("k8s://there", {"pyspark_memory": "5632"}, 4096),
        ("k8s://there", {"pyspark_memory": "5632MB"}, 4096),
    ],
)
def test_a_task_may_take_its_share_of_what_python_has(master, settings, mib):
    assert task_memory_bytes(session(master, **settings)) == mib * MIB
