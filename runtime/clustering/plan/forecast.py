"""What is predicted of a clustering plan, and how it travels with the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parquetry.runtime.clustering.forecast.by_sample import PredictedGroups, predict
from parquetry.runtime.clustering.forecast.queries import GroupForecast
from parquetry.runtime.clustering.forecast.records import in_plan
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.rewrite.kept_sample import SAMPLE_KEY, encode_samples
from parquetry.runtime.layout.clustering.model import FileKey, PlannedGroup
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan
from parquetry.runtime.timeline.rereading import read_again
from parquetry.runtime.timeline.sidecars import sample_path


@read_again
def predict_groups(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    known: PredictedGroups | None,
    limits: SampleLimits | None = None,
) -> Mapping[FileKey, GroupForecast]:
    """What groups are good for by the policy in force, by their first file; nothing where none is asked for.

    Rows are read here, so it is done before anything is locked; not those of groups of which it is
    ``known``, from when their scope was chosen.
    """
    spec = table.effective_spec(table.timeline())
    return predict(table.store, spec, groups, known=known, limits=limits)


def keep_samples(
    store: ObjectStore, instant: str, predicted: Mapping[FileKey, GroupForecast]
) -> Mapping[FileKey, int]:
    """Put the samples of what is predicted beside the timeline; the number of each, by first file.

    That is done before anything is locked, so some groups of the file may not come into the plan.
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
    """The plan with what is predicted of each group, and where its sample is."""
    extra = {**plan.extra, SAMPLE_KEY: sample_path(instant)} if samples else plan.extra
    groups = tuple(_predicted_group(group, predicted, samples) for group in plan.groups)
    return replace(plan, extra=extra, groups=groups)


def _predicted_group(
    group: ClusteringGroup, predicted: Mapping[FileKey, GroupForecast], samples: Mapping[FileKey, int]
) -> ClusteringGroup:
    key = group.slices[0].partition, group.slices[0].file_id
    said = in_plan(predicted[key]) if key in predicted else {}
    if key in samples:
        said[SAMPLE_KEY] = str(samples[key])
    return replace(group, extra={**group.extra, **said})
