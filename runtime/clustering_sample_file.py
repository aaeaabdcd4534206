"""The sample of a clustering plan, as it is kept beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.base_file_conform import Conformer
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.statistics import FOLDER
from parquetry.runtime.storage_model import ObjectStore
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan

SAMPLE_KEY: Final = "parquetry.sample"
"""Where a plan says in which file its sample is, and a group which one of that file is its own."""

_GROUP: Final = "__group"


def sample_path(instant: str) -> str:
    """Where the sample of the plan of that instant is; it goes when the instant is rolled back."""
    return f"{FOLDER}/{instant}.sample.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSample:
    """Where the sample of a group is: the file of its plan, and its number in that."""

    path: str
    number: int

    def read(self, store: ObjectStore, schema: pa.Schema) -> pa.Table | None:
        """The rows as the table's schema has these columns now; None when they are not there any more."""
        try:
            with store.open_input(self.path) as content:
                found = decode_sample(content, self.number)
        except NotFoundError:
            return None
        if found is None:
            return None
        wanted = pa.schema([column for column in schema if column.name in found.column_names])
        conformer = Conformer(found.schema, wanted, place=f"{store.uri}/{self.path}")
        return pa.Table.from_batches([conformer(batch) for batch in found.to_batches()], schema=wanted)


def kept_sample(plan: ClusteringPlan, group: ClusteringGroup) -> KeptSample | None:
    """Where the sample of a group of the plan is; None where it has none."""
    path, number = plan.extra.get(SAMPLE_KEY), group.extra.get(SAMPLE_KEY, "")
    return KeptSample(path=path, number=int(number)) if path is not None and number.isdecimal() else None


def encode_samples(samples: Sequence[pa.Table | None]) -> bytes | None:
    """The samples of groups as one file, each under its place among them; None when no group has one."""
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


def decode_sample(content: pa.NativeFile, number: int) -> pa.Table | None:
    """The sample of group ``number``, None where it has none; only that part of the file is read."""
    file = pq.ParquetFile(content)
    at = file.schema_arrow.get_field_index(_GROUP)
    for row_group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(row_group).column(file.metadata.num_columns - 1).statistics
        if statistics is not None and statistics.min == number:
            return file.read_row_group(row_group, use_threads=False).remove_column(at)
    return None
