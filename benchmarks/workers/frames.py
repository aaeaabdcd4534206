"""The frames that are written: an input as it is, or with a column computed."""

from __future__ import annotations

from typing import Any


def frame_of(spark: Any, source: str, *, computes: bool) -> Any:
    """The rows of a parquet file; where the frame ``computes``, every comment is a character longer."""
    frame = spark.read.parquet(source)
    if not computes:
        return frame
    columns = [
        name if name != "l_comment" else "concat(l_comment, 'x') AS l_comment" for name in frame.columns
    ]
    return frame.selectExpr(*columns)
