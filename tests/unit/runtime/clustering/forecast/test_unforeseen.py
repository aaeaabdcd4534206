"""A forecast that fails stops neither a plan nor a write: a plan can do without."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pyarrow as pa
import pytest

from parquetry.runtime.allowed import Allowed
from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spark.cluster_inline import cluster_inline
from parquetry.runtime.spec import plug_ins
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, Trigger
from parquetry.runtime.storage.open import open_store
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_queries, table_in_debt
from tests.support.small_table import FAST

ORDER = RowOrder(strategy="theirs", columns=("v",))
THEIRS = ClusteringSpec(trigger=Trigger.INLINE, execution=ExecutionPolicy(strategy="theirs", columns=("v",)))


class Theirs:
    """A strategy of somebody else, which orders by the columns; it fails ``failures`` times before that."""

    def __init__(self, failure=None, *, failures=10**6):
        self.failure = failure
        self.failures = failures

    def __call__(self, columns, _):
        def keys(rows):
            if self.failure is not None and self.failures:
                self.failures -= 1
                raise self.failure
            return [rows.column(name) for name in columns]

        return keys


@pytest.fixture
def installed(monkeypatch):
    """What installs a strategy, or something that cannot be loaded, under the name ``theirs``."""

    def install(strategy=None, *, load=None):
        point = SimpleNamespace(name="theirs", load=load or (lambda: strategy))
        monkeypatch.setattr(plug_ins, "entry_points", lambda group: [point])

    return install


@pytest.fixture
def table(tmp_path):
    allowed = Allowed(strategies=frozenset(["theirs"]))
    return table_in_debt(open_store(tmp_path / "table", None, allowed), THEIRS)


def broken():
    raise ImportError("no module named numpyy")


@pytest.mark.parametrize(
    "failure", [KeyError("v"), ValueError("no"), pa.ArrowInvalid("no"), ZeroDivisionError()], ids=repr
)
def test_whatever_a_strategy_raises_names_the_strategy(installed, failure):
    rows = pa.table({"v": [1]})
    installed(Theirs(failure))
    keys = OrderKeys(ORDER, rows)
    with pytest.raises(InvalidDataError, match=f"'theirs' failed: {type(failure).__name__}"):
        keys.of(rows)


def test_what_is_no_strategy_is_named_too(installed):
    rows = pa.table({"v": [1, 2]})
    installed(lambda: None)
    with pytest.raises(InvalidDataError, match="'theirs' failed: TypeError"):
        OrderKeys(ORDER, rows)
    installed(lambda _columns, _sample: lambda _rows: [[1], [1, 2]])
    with pytest.raises(InvalidDataError, match="'theirs' failed: ArrowInvalid"):
        OrderKeys(ORDER, rows).of(rows)
    installed(lambda _columns, _sample: lambda _rows: [pa.array([1])])
    with pytest.raises(
        InvalidDataError, match=r"'theirs' failed: ValueError: it returned 1 sort keys for 2 rows"
    ):
        OrderKeys(ORDER, rows).of(rows)
    installed(load=broken)
    with pytest.raises(InvalidDataError, match=r"'theirs' failed: ImportError: no module named numpyy"):
        OrderKeys(ORDER, rows)


@pytest.mark.parametrize("failure", [KeyError("v"), pa.ArrowInvalid("no")], ids=repr)
def test_a_write_is_not_ended_by_a_strategy_that_fails(installed, table, failure):
    installed(Theirs(failure))
    written = table.insert({"k": (1, "a")})
    result = cluster_inline(OneProcessSpark(), table.handle, written, timing=FAST)
    assert result.instant == written.instant
    assert result.files_clustered == 0
    assert "'theirs' failed" in "".join(map(str, result.warnings))


def test_nor_by_one_that_cannot_be_loaded(installed, table):
    installed(load=broken)
    written = table.insert({"k": (1, "a")})
    result = cluster_inline(OneProcessSpark(), table.handle, written, timing=FAST)
    assert "'theirs' failed: ImportError" in "".join(map(str, result.warnings))


def test_a_table_is_clustered_though_nothing_could_be_foreseen(installed, table, caplog):
    installed(Theirs(KeyError("v"), failures=1))
    apply_queries(table, {"name": "few", "where": "v = 5"})
    with caplog.at_level(logging.WARNING):
        done = cluster(OneProcessSpark(), table.handle, timing=FAST)
    assert done.files_before == 6
    (query,) = done.queries
    assert query.expected is None
    assert "the clustering has no forecast: " in caplog.text


def test_a_plan_is_made_though_a_file_cannot_be_read(installed, table, caplog):
    installed(Theirs())
    (whole, *_) = table.handle.view(table.handle.timeline()).all_slices()
    table.store.put(whole.path, table.store.read(whole.path)[:-10] + bytes(10))
    with caplog.at_level(logging.WARNING):
        scheduled = schedule_clustering(table.handle, timing=FAST)
    assert scheduled.forecast.debt.files_before == 6
    assert f"the clustering has no forecast: {table.store.uri}/{whole.path} is no" in caplog.text
