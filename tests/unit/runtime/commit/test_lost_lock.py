"""A lock that is lost while a savepoint or a plan is made: what cannot be checked is told, never passed over."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from parquetry.runtime.clustering.plan import schedule
from parquetry.runtime.errors import StaleTimelineError, StorageError
from parquetry.runtime.services import savepoint
from parquetry.runtime.storage.model import PutOutcome
from parquetry.runtime.timeline.clustering_plan import ClusteringPlan
from parquetry.runtime.timeline.instant import Action
from tests.support.small_table import make_table
from tests.support.timelines import pending

pytestmark = pytest.mark.usefixtures("on_each_version")

LOST = SimpleNamespace(is_held=lambda: False)


def test_a_savepoint_that_cannot_be_checked_again_fails(tmp_path):
    def reload():
        raise StaleTimelineError("a commit left the timeline")

    handle = make_table(tmp_path / "table").handle
    with pytest.raises(StaleTimelineError):
        savepoint._is_valid(handle, SimpleNamespace(reload=reload), "20260101000000000", LOST)


def test_a_plan_that_is_out_of_date_and_cannot_be_taken_back_fails(tmp_path):
    def delete(path):
        raise StorageError(f"cannot delete {path}")

    store = SimpleNamespace(uri="memory:", put_if_absent=lambda path, content: PutOutcome.WON, delete=delete)
    session = SimpleNamespace(store=store, instant="20260101000000000")
    table = make_table(tmp_path / "table")
    requested = pending(table.store, session.instant, Action.REPLACECOMMIT, is_clustering=True)
    with pytest.raises(StorageError, match="cannot delete"):
        schedule._put_plan(session, LOST, requested, ClusteringPlan(groups=()))
