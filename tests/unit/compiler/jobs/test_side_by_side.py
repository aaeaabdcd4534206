"""Tables that are rewritten side by side, and how an interruption ends them."""

from __future__ import annotations

from threading import Condition, Event

import pytest

from parquetry.compiler.jobs import side_by_side
from parquetry.runtime.interruption import is_interrupted


class FakeContext:
    """Jobs of Spark that end only by a cancel, which ends those that run at that moment."""

    def __init__(self):
        self.cancels, self._changed = 0, Condition()

    def cancel(self):
        with self._changed:
            self.cancels += 1
            self._changed.notify_all()

    def run_job(self):
        with self._changed:
            seen = self.cancels
            assert self._changed.wait_for(lambda: self.cancels > seen, timeout=20), "nothing cancels the job"


def test_an_interruption_cancels_each_further_job_of_a_thread(monkeypatch):
    spark, begun, seen = FakeContext(), Event(), []
    monkeypatch.setattr(side_by_side, "cancel_spark_jobs", spark.cancel)
    monkeypatch.setattr(side_by_side, "_SECONDS_BETWEEN_CANCELS", 0.01)

    def work():
        begun.set()
        for _ in range(3):
            spark.run_job()
        seen.append(is_interrupted())

    def interrupted():
        with side_by_side.SideBySide(2) as tables:
            tables.start(None, work)
            assert begun.wait(20)
            assert not is_interrupted()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == [True]
    assert not is_interrupted()


def test_a_run_of_one_table_after_the_other_is_cancelled_too(monkeypatch):
    spark = FakeContext()
    monkeypatch.setattr(side_by_side, "cancel_spark_jobs", spark.cancel)

    def interrupt():
        raise KeyboardInterrupt

    def interrupted():
        with side_by_side.SideBySide(1) as tables:
            tables.start(None, interrupt)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert spark.cancels == 1
