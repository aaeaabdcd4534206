"""What rewriting files takes, from what past clusterings took."""

from __future__ import annotations

from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.work import ClusteringWork, forecast_work

MIB = 2**20


def took(published, attempted, milliseconds):
    nothing = PredictionInterval.exactly(0)
    return ClusteringWork(
        files=4,
        read_bytes=published,
        written_files=1,
        written_bytes=published,
        attempted_bytes=attempted,
        core_milliseconds=milliseconds,
        expected_bytes=nothing,
        expected_core_milliseconds=nothing,
    )


def test_groups_that_were_not_published_make_no_core_slower():
    past = [took(10 * MIB, 40 * MIB, 2_000), took(0, 40 * MIB, 2_000), took(40 * MIB, 40 * MIB, 2_000)]
    forecast = forecast_work(past, files=8, read_bytes=80 * MIB, written_files=2)
    assert (forecast.basis.throughput, forecast.basis.past_throughputs) == (20 * MIB, 3)
    assert 4_000 in forecast.core_milliseconds
