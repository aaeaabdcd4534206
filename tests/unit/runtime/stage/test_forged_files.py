"""Files of a stage that somebody else who writes to the table's storage has replaced."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.errors import StorageError
from parquetry.runtime.stage.batches import BatchSink
from parquetry.runtime.stage.lists import StagedList, read_list, write_list
from parquetry.runtime.stage.location import StoreStage
from parquetry.runtime.stage.part import PARTITION, StageSpec, rows_schema, stage_rows
from parquetry.runtime.stage.reader import StageReader
from parquetry.runtime.stage.staged import staged_rows
from parquetry.runtime.storage.open import open_store

SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64()})
ROWS = pa.RecordBatch.from_pydict({"k": ["a", "b", "c"], "n": [1, 2, 3]}, schema=SCHEMA)
OFFSETS, FORGED = struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", 0, 1, 2, 0x7FFFFF00)

READS = {
    "rows": "rows = b''.join(b.column('k')[2].as_buffer() for b in StageReader(*given).rows('p', 0, 3))",
    "list": "rows = [b.to_pylist() for b in StagedList(*given).batches(10)]",
    "whole list": "rows = read_list(*given).to_pylist()",
    "totals": "rows = staged_rows(*given).totals",
}


def read_in_a_child(tmp_path, kind, given):
    """Read in a process of its own, whose end by a signal is seen."""
    (tmp_path / "given").write_bytes(pickle.dumps(given))
    code = "\n".join(
        [
            "import pickle, pathlib, sys",
            "from parquetry.errors import ParquetryError",
            "from parquetry.runtime.stage.lists import StagedList, read_list",
            "from parquetry.runtime.stage.staged import staged_rows",
            "from parquetry.runtime.stage.reader import StageReader as _Reader",
            "def StageReader(spec, index): return _Reader(spec, index, instant='1')",
            "given = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())",
            "try:",
            f"    {READS[kind]}",
            "except ParquetryError as error:",
            "    sys.exit(f'refused: {type(error).__name__}: {error}')",
            "print(rows)",
        ]
    )
    return subprocess.run(
        [sys.executable, "-c", code, tmp_path / "given"], capture_output=True, text=True, check=False
    )


def staged(tmp_path):
    place = StoreStage(store=open_store(tmp_path / "t"), folder="stage")
    stage = StageSpec(
        location=place, schema=SCHEMA, key_column="k", ordering=None, required=(), rows=True, keys=True
    )
    arrived = ROWS.append_column(PARTITION, pa.array(["p"] * 3))
    summary = [row for found in stage_rows(stage, 0, [arrived]) for row in found.to_pylist()]
    return stage, summary


def forged(content):
    assert content.count(OFFSETS) == 1
    return content.replace(OFFSETS, FORGED)


def with_forged_rows(stage, summary):
    """Rows whose last offset is out of bounds, and an index that leads to them."""
    index = staged_rows(stage, summary).index
    sink = pa.BufferOutputStream()
    whole = ROWS.append_column("hash", pa.array([1, 2, 3], pa.int64()))
    rows = pa.RecordBatch.from_arrays(whole.columns, schema=rows_schema(stage))
    (written,) = BatchSink(sink, rows.schema, compress=False).write(rows, first=0)
    stage.location.store.put(f"stage/{index.files[0]}", forged(sink.getvalue().to_pybytes()))
    return replace(index, offset=np.array([written["offset"]]), size=np.array([written["size"]]))


def with_forged_list(place):
    name = write_list(place, [ROWS])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as file:
        file.write_batch(ROWS)
    place.store.put(f"stage/{name}", forged(sink.getvalue().to_pybytes()))
    return name


@pytest.mark.parametrize("kind", READS)
def test_offsets_out_of_bounds_are_refused_with_the_place_and_a_remedy(tmp_path, kind):
    stage, summary = staged(tmp_path)
    match kind:
        case "rows":
            given = (stage, with_forged_rows(stage, summary))
        case "list" | "whole list":
            given = (stage.location, with_forged_list(stage.location))
        case "totals":
            (info,) = (info for info in stage.location.store.list("stage") if "totals" in info.path)
            content = stage.location.store.read(info.path)
            # The offsets of the one partition's name.
            stage.location.store.put(
                info.path, content.replace(struct.pack("<2i", 0, 1), struct.pack("<2i", 0, 1 << 30))
            )
            given = (stage, summary)
    done = read_in_a_child(tmp_path, kind, given)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.startswith("refused: StorageError: cannot read the staged rows in "), done.stderr
    assert f"{tmp_path}/t/stage/" in done.stderr
    assert done.stderr.endswith("; run again\n")


def test_rows_as_they_were_written_are_read(tmp_path):
    stage, summary = staged(tmp_path)
    assert (
        "'a'"
        in read_in_a_child(
            tmp_path, "whole list", (stage.location, write_list(stage.location, [ROWS]))
        ).stdout
    )
    with StageReader(stage, staged_rows(stage, summary).index, instant="1") as reader:
        assert [n for rows in reader.rows("p", 0, 3) for n in rows.column("n").to_pylist()] == [1, 2, 3]


def test_what_is_no_arrow_and_a_batch_with_other_rows_are_refused(tmp_path):
    stage, summary = staged(tmp_path)
    index = staged_rows(stage, summary).index
    with (
        StageReader(stage, replace(index, rows=index.rows + 1), instant="1") as reader,
        pytest.raises(StorageError, match="the number of rows that was written"),
    ):
        list(reader.rows("p", 0, 3))
    name = write_list(stage.location, [ROWS])
    stage.location.store.put(f"stage/{name}", b"no Arrow")
    for read in (
        lambda: read_list(stage.location, name),
        lambda: list(StagedList(stage.location, name).batches(9)),
    ):
        with pytest.raises(StorageError, match="cannot read the staged rows in"):
            read()
    for info in stage.location.store.list("stage"):
        stage.location.store.put(info.path, b"no Arrow")
    with pytest.raises(StorageError, match="cannot read the staged rows in"):
        staged_rows(stage, summary)
