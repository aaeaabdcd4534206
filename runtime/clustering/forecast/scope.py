"""The choice of ``scope: auto`` from a sample: the expected reads of declared queries under either scope.

Both scopes are predicted from one bounded sample, with the functions that the forecast and the execution use.
The forecasts of the chosen groups are kept, so that no row is read twice for a plan.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.runtime.clustering.forecast.by_sample import Forecaster, files_of
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, GroupForecast
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.rewrite.order import row_order
from parquetry.runtime.errors import NotFoundError, RetryWrite
from parquetry.runtime.layout.clustering.model import ChosenBy, ClusteringFile, ScopeChoice, ScopeFigures
from parquetry.runtime.layout.clustering.scope import ScopeQuestion, better_scope, by_statistics, costs_of
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.spec.clustering import ClusteringScope, ClusteringSpec
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore

_LOG = logging.getLogger(__name__)


class ScopeBySample:
    """Chooses the scope of ``scope: auto`` from a sample; ``predicted`` has the chosen groups' forecasts.

    The partitions with the best benefit per byte come first. If the limits of the sample are spent, files are
    encrypted, or the forecast fails, statistics choose, and the choice records that.
    """

    def __init__(
        self,
        store: ObjectStore,
        spec: TableSpec,
        policy: ClusteringSpec,
        *,
        limits: SampleLimits | None,
    ) -> None:
        self._store = store
        self._spec = spec
        self._policy = policy
        self._limits = limits
        self.predicted: dict[frozenset[FileKey], GroupForecast] = {}

    def __call__(self, questions: Sequence[ScopeQuestion]) -> list[ScopeChoice]:
        """Return the choices, in the order of the questions."""
        choices = by_statistics(questions, self._policy)
        if self._spec.files.encryption_key is not None:
            return choices
        try:
            return self._by_sample(questions, choices)
        except (NotFoundError, RetryWrite):
            pass
        except (ParquetryError, pa.ArrowException) as failure:
            uri = self._store.uri
            what = f"{uri}: statistics choose the scope of the clustering, because the forecast failed"
            log_failure(_LOG, what, failure, self._spec, location=uri)
        return choices

    def _by_sample(
        self, questions: Sequence[ScopeQuestion], otherwise: Sequence[ScopeChoice]
    ) -> list[ScopeChoice]:
        """Return the choices by a sample, or those of ``otherwise`` for questions without a forecast."""
        order = row_order(self._policy.execution)
        queries = DeclaredQueries.of(self._spec)
        columns = () if order is None else (*order.split_by, *order.columns)
        ranked = sorted(range(len(questions)), key=lambda number: -_benefit(questions[number]))
        asked = [_SampledQuestion.of(questions[number]) for number in ranked]
        by_group = Forecaster(
            self._store,
            self._spec,
            [files for one in asked for files in one.parts],
            columns=columns,
            queries=queries,
            limits=self._limits,
        )
        execution, target_bytes = self._policy.execution, self._policy.plan.target_file_size_bytes
        in_groups = by_group.forecast(execution, target_bytes=target_bytes)
        whole = by_group.regrouped([group.files for one in asked for group in one.question.whole])
        forecasts = {
            ClusteringScope.GROUP: iter(in_groups),
            ClusteringScope.PARTITION: iter(whole.forecast(execution, target_bytes=target_bytes)),
        }
        choices = list(otherwise)
        for number, one in zip(ranked, asked, strict=True):
            predicted = {
                ClusteringScope.GROUP: [next(forecasts[ClusteringScope.GROUP]) for _ in one.parts][
                    : len(one.question.groups)
                ],
                ClusteringScope.PARTITION: [
                    next(forecasts[ClusteringScope.PARTITION]) for _ in one.question.whole
                ],
            }
            if all(forecast.queries for forecasts in predicted.values() for forecast in forecasts):
                choices[number] = self._chosen(one.question, predicted, by_group, queries)
        return choices

    def _chosen(
        self,
        question: ScopeQuestion,
        predicted: Mapping[ClusteringScope, Sequence[GroupForecast]],
        forecaster: Forecaster,
        queries: DeclaredQueries,
    ) -> ScopeChoice:
        """Return the choice for one question, and keep the forecasts of the chosen groups."""
        figures = {
            scope: self._figures(question, scope, predicted[scope], forecaster, queries)
            for scope in predicted
        }
        group, whole = figures[ClusteringScope.GROUP], figures[ClusteringScope.PARTITION]
        assert group.expected_bytes is not None
        assert whole.expected_bytes is not None
        scope = better_scope(group.expected_bytes, whole.expected_bytes)
        for planned, forecast in zip(question.of(scope), predicted[scope], strict=True):
            self.predicted[files_of(planned)] = forecast
        return ScopeChoice(
            partition=question.partition, scope=scope, chosen_by=ChosenBy.SAMPLE, group=group, whole=whole
        )

    def _figures(
        self,
        question: ScopeQuestion,
        scope: ClusteringScope,
        predicted: Sequence[GroupForecast],
        forecaster: Forecaster,
        queries: DeclaredQueries,
    ) -> ScopeFigures:
        """Return the figures of a scope over all files of the question, also those it does not rewrite."""
        groups = question.of(scope)
        rewritten = frozenset[FileKey]().union(*map(files_of, groups))
        kept = (file for file in _all_files(question) if file.key not in rewritten)
        expected = {one.query: one.expected for one in forecaster.whole(kept, predicted)}
        rows, data_bytes = queries.weighted(expected.values())
        return replace(
            costs_of(groups, self._policy),
            queries=expected,
            expected_rows=round(rows),
            expected_bytes=round(data_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SampledQuestion:
    """A question, with its files in parts to sample: the groups, then the files that only the whole has."""

    question: ScopeQuestion
    parts: tuple[tuple[ClusteringFile, ...], ...]

    @staticmethod
    def of(question: ScopeQuestion) -> _SampledQuestion:
        grouped = frozenset[FileKey]().union(*map(files_of, question.groups))
        rest = tuple(file for file in _all_files(question) if file.key not in grouped)
        parts = tuple(group.files for group in question.groups)
        return _SampledQuestion(question=question, parts=(*parts, rest) if rest else parts)


def _all_files(question: ScopeQuestion) -> Sequence[ClusteringFile]:
    """Return each file of the question once."""
    by_key = {file.key: file for group in (*question.groups, *question.whole) for file in group.files}
    return list(by_key.values())


def _benefit(question: ScopeQuestion) -> float:
    return max(group.benefit / max(group.size_bytes, 1) for group in question.groups)
