"""How many tasks a job gets where executors come as tasks wait for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from parquetry.runtime.spark.session.settings import reachable_parallelism


class Session:
    def __init__(self, master: str, conf: dict[str, str]) -> None:
        self.conf = conf
        self.sparkContext = SimpleNamespace(master=master, defaultParallelism=3)


@pytest.mark.parametrize(
    ("master", "settings", "tasks"),
    [
        ("yarn", {}, 3),
        ("yarn", {"dynamicAllocation.enabled": "true"}, 200),
        ("yarn", {"dynamicAllocation.enabled": "true", "sql.shuffle.partitions": "1000"}, 1000),
        ("yarn", {"dynamicAllocation.enabled": "true", "sql.shuffle.partitions": "2"}, 3),
        ("yarn", {"dynamicAllocation.enabled": "true", "sql.shuffle.partitions": "auto"}, 200),
        ("yarn", {"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": "10"}, 10),
        (
            "spark://there:7077",
            {
                "dynamicAllocation.enabled": "true",
                "dynamicAllocation.maxExecutors": "10",
                "executor.cores": "4",
            },
            40,
        ),
        ("local[3]", {"dynamicAllocation.enabled": "true"}, 3),
    ],
)
def test_jobs_have_tasks_for_the_executors_that_may_come(master, settings, tasks):
    conf = {f"spark.{name}": value for name, value in settings.items()}
    assert reachable_parallelism(Session(master, conf)) == tasks
