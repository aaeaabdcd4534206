"""The JSON of predictions in clustering plans and of measurements in replacecommits, both written and read.

A record may come from another version. If it cannot be understood, it is ignored.
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
from parquetry.runtime.layout.skipping.files import Reads
from parquetry.runtime.spec.codec import from_json_value, parsed_json, to_json_value

PREDICTION_KEY: Final = "parquetry.prediction"
"""The key in a plan's group with the current and the expected reads of declared queries."""

MEASURED_KEY: Final = "parquetry.measured"
"""The key in a replacecommit with the reads of declared queries before, as expected, and after."""


def prediction_metadata(forecast: GroupForecast) -> dict[str, str]:
    """Return the metadata of a plan's group with its forecast, empty without queries."""
    size_bytes = sum(file.size_bytes for file in forecast.files)
    expected_bytes = {EXPECTED_BYTES_KEY: str(size_bytes)} if size_bytes else {}
    return expected_bytes | _json_entry(
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
    """Return the forecasts that :func:`prediction_metadata` recorded, or nothing if they are invalid.

    If ``asked`` is given, only those with the name and condition of one of these queries are returned.
    """
    conditions = None if asked is None else {(query.name, query.where) for query in asked}
    try:
        return tuple(
            QueryForecast(
                query=str(record["query"]),
                now=_parsed_reads(record["before"], PREDICTION_KEY),
                expected=_parsed_reads(record["expected"], PREDICTION_KEY),
            )
            for record in parsed_json(extra.get(PREDICTION_KEY, "[]"))
            if conditions is None or (record["query"], record["where"]) in conditions
        )
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def measured_metadata(measured: Sequence[MeasuredQuery]) -> dict[str, str]:
    """Return the metadata of a replacecommit with the measured queries, empty without queries."""
    return _json_entry(
        MEASURED_KEY,
        [{key: value for key, value in to_json_value(one).items() if value is not None} for one in measured],
    )


def read_measured(extra: Mapping[str, str]) -> tuple[MeasuredQuery, ...]:
    """Return the measured queries that :func:`measured_metadata` recorded, or nothing if they are invalid."""
    try:
        return tuple(
            MeasuredQuery.of(
                record["query"],
                before=_parsed_reads(record["before"], MEASURED_KEY),
                expected=_parsed_reads(record["expected"], MEASURED_KEY) if "expected" in record else None,
                after=_parsed_reads(record["after"], MEASURED_KEY),
            )
            for record in parsed_json(extra.get(MEASURED_KEY, "[]"))
        )
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def _json_entry(key: str, figures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return a metadata entry with the figures as JSON, or no entry without figures."""
    return {key: json.dumps(figures, separators=(",", ":"))} if figures else {}


def _parsed_reads(record: Mapping[str, int], place: str) -> Reads:
    """Return the figures in a JSON object, or raise ValueError if one is negative."""
    reads = from_json_value(Reads, record, place=place)
    if min(value for value in asdict(reads).values() if value is not None) < 0:
        raise ValueError(f"{place}: a count is negative")
    return reads
