"""What is foreseen of a clustering plan, and how it travels with the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parquetry.runtime.clustering_execution import row_order
from parquetry.runtime.clustering_forecast import GroupForecast, foresee, prediction_of
from parquetry.runtime.clustering_sample import SampleLimits
from parquetry.runtime.clustering_sample_file import SAMPLE_KEY, encode_samples, sample_path
from parquetry.runtime.clustering_scope_choice import Foreseen, files_of
from parquetry.runtime.layout.clustering_model import FileKey, PlannedGroup
from parquetry.runtime.layout.clustering_policy import ClusteringSpec
from parquetry.runtime.spec import TableSpec
from parquetry.runtime.storage import ObjectStore
from parquetry.runtime.table import TableHandle
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan


def foresee_groups(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    known: Foreseen | None = None,
    limits: SampleLimits | None = None,
) -> Mapping[FileKey, GroupForecast]:
    """What groups are good for by the policy in force, by their first file; nothing where none is asked for.

    Rows are read here, so it is done before anything is locked; not those of groups of which it is
    ``known``, from when their scope was chosen. Of encrypted files none are: a sample would lie beside
    the timeline in the clear.
    """
    spec = table.effective_spec(table.timeline())
    return foresee_under(table.store, spec, groups, known=known, limits=limits)


def foresee_under(
    store: ObjectStore,
    spec: TableSpec,
    groups: Sequence[PlannedGroup],
    *,
    known: Foreseen | None = None,
    limits: SampleLimits | None = None,
) -> Mapping[FileKey, GroupForecast]:
    """The same under a spec that need not be in force."""
    if spec.files.encryption_key is not None:
        return {}
    policy = ClusteringSpec.of_extra(spec.extra, spec.sizing, place=f"{store.uri}: spec.extra")
    found = {
        group.files[0].key: known[files_of(group)] for group in groups if known and files_of(group) in known
    }
    others = [group for group in groups if group.files[0].key not in found]
    return found | foresee(store, spec, policy, row_order(policy.execution), others, limits=limits)


def with_forecast(
    store: ObjectStore, instant: str, plan: ClusteringPlan, foreseen: Mapping[FileKey, GroupForecast]
) -> ClusteringPlan:
    """The plan with what is foreseen of each group; its sample is put beside the timeline."""
    known = [foreseen.get(_key(group)) for group in plan.groups]
    samples = encode_samples([None if forecast is None else forecast.sample for forecast in known])
    if samples is not None:
        store.put(sample_path(instant), samples)
        plan = replace(plan, extra={**plan.extra, SAMPLE_KEY: sample_path(instant)})
    groups = (
        group if forecast is None else replace(group, extra={**group.extra, **prediction_of(forecast)})
        for group, forecast in zip(plan.groups, known, strict=True)
    )
    return replace(plan, groups=tuple(groups))


def _key(group: ClusteringGroup) -> FileKey:
    return group.slices[0].partition, group.slices[0].file_id
