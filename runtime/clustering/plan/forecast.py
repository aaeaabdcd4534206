"""The predictions for the groups of a clustering plan, and their storage in the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parquetry.runtime.clustering.forecast.by_sample import PredictedGroups, predict
from parquetry.runtime.clustering.forecast.queries import GroupForecast
from parquetry.runtime.clustering.forecast.records import prediction_metadata
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.rewrite.kept_sample import SAMPLE_KEY, encode_samples
from parquetry.runtime.layout.clustering.model import PlannedGroup
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan
from parquetry.runtime.timeline.rereading import retry_stale
from parquetry.runtime.timeline.sidecars import sample_path


@retry_stale
def predict_groups(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    known: PredictedGroups | None,
    limits: SampleLimits | None = None,
) -> Mapping[FileKey, GroupForecast]:
    """Return the forecast of each group under the applied policy, by its first file.

    Call it before taking a lock, because it reads rows.

    Args:
        table: The table.
        groups: The groups of the plan.
        known: Predictions from the choice of scope. Rows of these groups are not read again.
        limits: The limits of the sample.

    Returns:
        The forecasts, empty if no query is declared.

    """
    spec = table.effective_spec(table.timeline())
    return predict(table.store, spec, groups, known=known, limits=limits)


def keep_samples(
    store: ObjectStore, instant: str, predicted: Mapping[FileKey, GroupForecast]
) -> Mapping[FileKey, int]:
    """Store the samples of the predictions in a sidecar, and return the number of each, by first file.

    This happens before the lock is taken, so the sidecar may contain groups that do not get into the plan.
    """
    samples = encode_samples([forecast.sample for forecast in predicted.values()])
    if samples is None:
        return {}
    store.put(sample_path(instant), samples)
    return {
        key: number for number, (key, forecast) in enumerate(predicted.items()) if forecast.sample is not None
    }


def with_forecast(
    plan: ClusteringPlan,
    instant: str,
    predicted: Mapping[FileKey, GroupForecast],
    samples: Mapping[FileKey, int],
) -> ClusteringPlan:
    """Return the plan with the forecast of each group and the reference to its sample.

    Args:
        plan: The plan.
        instant: The instant of the plan, which names the sidecar of samples.
        predicted: The forecasts, by first file.
        samples: The numbers of the samples in the sidecar, by first file.

    """
    extra = {**plan.extra, SAMPLE_KEY: sample_path(instant)} if samples else plan.extra
    groups = tuple(_predicted_group(group, predicted, samples) for group in plan.groups)
    return replace(plan, extra=extra, groups=groups)


def _predicted_group(
    group: ClusteringGroup, predicted: Mapping[FileKey, GroupForecast], samples: Mapping[FileKey, int]
) -> ClusteringGroup:
    key = group.slices[0].key
    metadata = prediction_metadata(predicted[key]) if key in predicted else {}
    if key in samples:
        metadata[SAMPLE_KEY] = str(samples[key])
    return replace(group, extra={**group.extra, **metadata})
