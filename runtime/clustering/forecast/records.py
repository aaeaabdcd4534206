"""Predictions in clustering plans, and what was measured in replacecommits: their JSON, out and in.

What is read may be of another version: it is left out where it is not understood.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from parquetry.runtime.clustering.forecast.queries import (
    DeclaredQuery,
    GroupForecast,
    MeasuredQuery,
    QueryForecast,
)
from parquetry.runtime.clustering.forecast.work import EXPECTED_BYTES_KEY
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.files import Touched
from parquetry.runtime.spec.codec import from_json_value, parsed_json, to_json_value

PREDICTION_KEY: Final = "parquetry.prediction"
"""Where a group of a plan says what declared queries read of its files now, and are expected to."""

MEASURED_KEY: Final = "parquetry.measured"
"""Where a replacecommit says what they had to read, were expected to, and read."""


def in_plan(forecast: GroupForecast) -> dict[str, str]:
    """What a group of a plan says of itself; nothing without queries."""
    promised = sum(file.size_bytes for file in forecast.files)
    expected_bytes = {EXPECTED_BYTES_KEY: str(promised)} if promised else {}
    return expected_bytes | _said(
        PREDICTION_KEY,
        [
            {
                "query": one.query,
                "where": forecast.conditions[one.query],
                "before": to_json_value(one.now),
                "expected": to_json_value(one.expected),
            }
            for one in forecast.queries
        ],
    )


def read_prediction(
    extra: Mapping[str, str], *, asked: Iterable[DeclaredQuery] | None = None
) -> tuple[QueryForecast, ...]:
    """What :func:`in_plan` said; of queries with the conditions of those ``asked``, where they are given."""
    conditions = None if asked is None else {(query.name, query.where) for query in asked}
    try:
        return tuple(
            QueryForecast(
                query=str(said["query"]),
                now=_touched(said["before"], PREDICTION_KEY),
                expected=_touched(said["expected"], PREDICTION_KEY),
            )
            for said in parsed_json(extra.get(PREDICTION_KEY, "[]"))
            if conditions is None or (said["query"], said["where"]) in conditions
        )
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def in_commit(measured: Sequence[MeasuredQuery]) -> dict[str, str]:
    """What a replacecommit says of what was measured; nothing without queries."""
    return _said(
        MEASURED_KEY,
        [{key: value for key, value in to_json_value(one).items() if value is not None} for one in measured],
    )


def read_measured(extra: Mapping[str, str]) -> tuple[MeasuredQuery, ...]:
    """What :func:`in_commit` said."""
    try:
        return tuple(
            MeasuredQuery.of(
                said["query"],
                before=_touched(said["before"], MEASURED_KEY),
                expected=_touched(said["expected"], MEASURED_KEY) if "expected" in said else None,
                after=_touched(said["after"], MEASURED_KEY),
            )
            for said in parsed_json(extra.get(MEASURED_KEY, "[]"))
        )
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def _said(key: str, figures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {key: json.dumps(figures, separators=(",", ":"))} if figures else {}


def _touched(said: Mapping[str, int], place: str) -> Touched:
    touched = from_json_value(Touched, said, place=place)
    if min(value for value in asdict(touched).values() if value is not None) < 0:
        raise ValueError(f"{place}: a count is negative")
    return touched
