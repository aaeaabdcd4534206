"""Tables with delta-encoded texts, read by hudi-rs, by both real Hudis and by Spark."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.spec.table_spec import FilesPolicy, TextEncodings
from tests.support import our_table
from tests.support.clustering import FEW, clustering_of, spec_of
from tests.support.judges import assert_latest
from tests.support.our_table import OurReader
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def test_every_reader_takes_delta_encoded_texts(spark, tmp_path, judges):
    rnd = random.Random(5)
    spec = spec_of(clustering_of())
    files = FilesPolicy(text_encodings=TextEncodings.DELTA)
    ours = our_table.create(spark, tmp_path / "table", typed=list(FEW), spec=replace(spec, files=files))
    rows = ours.rows(rnd, range(0, 4800, 4), 1)
    ours.insert([{**row, "c_string": f"a shared prefix {number:06}"} for number, row in enumerate(rows)])
    ours.upsert(ours.rows(rnd, range(0, 400, 4), 2))
    footers = [pq.read_metadata(path) for path in ours.path.glob("region=*/*.parquet")]
    encodings = {
        column.path_in_schema: {*column.encodings}
        for footer in footers
        for column in map(footer.row_group(0).column, range(footer.num_columns))
    }
    assert "DELTA_BYTE_ARRAY" in encodings["_hoodie_record_key"] & encodings["c_string"]
    assert unsound(ours.path) == []
    assert_latest([*judges, OurReader(spark)], str(ours.path), ours.model)
