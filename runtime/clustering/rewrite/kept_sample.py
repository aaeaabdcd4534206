"""The sample of a clustering plan, stored in a sidecar beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.message import Field, Value
from parquetry.runtime.allowed import NOTHING_ALLOWED
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.parquet.column_reader import ColumnReader
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan

SAMPLE_KEY: Final = "parquetry.sample"
"""The key in a plan with the path of its samples, and in a group with the number of its own sample."""

_GROUP: Final = "__group"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSample:
    """The location of a group's sample: the sample file of its plan, and its number in that file."""

    path: str
    number: int

    def read(self, store: ObjectStore, schema: pa.Schema, *, most_bytes: int) -> pa.Table | None:
        """Return the rows with the current types of the schema, or None if the sample no longer exists.

        If they take more than ``most_bytes``, only every second, fourth and so on of them is returned.
        """
        try:
            with store.open_input(self.path) as content:
                place = Value.uri(f"{store.uri}/{self.path}")
                return decode_sample(content, self.number, schema, most_bytes=most_bytes, place=place)
        except NotFoundError:
            return None


def kept_sample(plan: ClusteringPlan, group: ClusteringGroup) -> KeptSample | None:
    """Return the location of the sample of a plan's group, or None if it has none."""
    path, number = plan.extra.get(SAMPLE_KEY), group.extra.get(SAMPLE_KEY, "")
    return KeptSample(path=path, number=int(number)) if path is not None and number.isdecimal() else None


def encode_samples(samples: Sequence[pa.Table | None]) -> bytes | None:
    """Return the samples of groups as one file, numbered by position, or None if no group has one."""
    known = [(number, sample) for number, sample in enumerate(samples) if sample is not None]
    if not known:
        return None
    target = BytesIO()
    schema = known[0][1].schema.append(pa.field(_GROUP, pa.int32(), nullable=False))
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for number, sample in known:
            numbers = pa.array([number], pa.int32()).take(pa.array([0] * sample.num_rows, pa.int32()))
            writer.write_table(sample.append_column(schema.field(_GROUP), numbers))
    return target.getvalue()


def decode_sample(
    content: pa.NativeFile, number: int, schema: pa.Schema, *, most_bytes: int, place: Field
) -> pa.Table | None:
    """Return the sample of group ``number``, or None if it has none.

    It reads only this part of the file. The sample has the columns of ``schema`` that the file has, and at
    most about ``most_bytes``.
    """
    names = pq.read_schema(content).names
    wanted = pa.schema([column for column in schema if column.name in names])
    reader = ColumnReader(content, wanted, allowed=NOTHING_ALLOWED, place=place)
    for row_group in range(reader.metadata.num_row_groups):
        statistics = reader.metadata.row_group(row_group).column(reader.metadata.num_columns - 1).statistics
        if statistics is not None and statistics.min == number:
            sample = SystematicSample(wanted, most_bytes=most_bytes)
            reader.announce([row_group])
            seen = 0
            for batch in reader.batches(row_group):
                reader.add_to_sample(batch, np.arange(seen, seen + batch.num_rows), sample)
                seen += batch.num_rows
            return sample.rows_by_number()[1]
    return None
