"""Arrow batches of a frame are cut by count; a row too wide for that has them cut by bytes instead."""

from __future__ import annotations

import pyarrow as pa
import pytest

import parquetry
from parquetry.runtime.spark.prepare import materialise
from parquetry.runtime.spark.prepare.row_width import MOST_ROW_BYTES, ROWS_OF_A_BATCH, without_wide_rows
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.stage.part import PARTITION
from tests.support import hudi_rs

pytestmark = pytest.mark.spark

ROWS = 3 * ROWS_OF_A_BATCH


@pytest.fixture
def attempts(monkeypatch) -> list[int | None]:
    """For each time that rows were staged: after how many rows their batches were cut."""
    found: list[int | None] = []
    run_stage = materialise.run_stage

    def noted(*args, rows_of_a_batch=None, **kwargs):
        found.append(rows_of_a_batch)
        return run_stage(*args, rows_of_a_batch=rows_of_a_batch, **kwargs)

    monkeypatch.setattr(materialise, "run_stage", noted)
    return found


def written(path, frame, text: str) -> dict[str, int]:
    """The length of each row's text as hudi-rs reads it, after an insert."""
    columns = (Column(name="id", type="string", nullable=False), Column(name="v", type=text))
    parquetry.create(str(path), TableSpec(name="t", columns=columns, record_key=("id",)))
    parquetry.open(str(path)).insert(frame)
    table = hudi_rs.read(str(path)).select(["id", "v"])
    return {row["id"]: len(row["v"]) for row in table.to_pylist()}


@pytest.mark.parametrize(
    ("text", "value", "kind", "length", "cuts"),
    [
        ("narrow", "repeat('x', 10)", "string", 10, [ROWS_OF_A_BATCH]),
        (
            "just not wide",
            f"repeat('x', {MOST_ROW_BYTES} - octet_length(id))",
            "string",
            None,
            [ROWS_OF_A_BATCH],
        ),
        (
            "wide text",
            f"repeat('é', {MOST_ROW_BYTES // 2})",
            "string",
            MOST_ROW_BYTES // 2,
            [ROWS_OF_A_BATCH, None],
        ),
        (
            "wide bytes",
            f"encode(repeat('x', {MOST_ROW_BYTES}), 'UTF-8')",
            "binary",
            None,
            [ROWS_OF_A_BATCH, None],
        ),
        (
            "wide list",
            f"array_repeat(1, {MOST_ROW_BYTES // 16})",
            "array<int>",
            None,
            [ROWS_OF_A_BATCH, None],
        ),
        ("texts in a list", "array('x')", "array<string>", 1, [None]),
    ],
)
def test_one_wide_row(spark, tmp_path, attempts, text, value, kind, length, cuts):
    rows = spark.range(0, 50, 1, 2).selectExpr("string(id) AS id")
    empty = {"string": "''", "binary": "encode('', 'UTF-8')"}.get(kind, f"CAST(array() AS {kind})")
    frame = rows.selectExpr("id", f"CASE WHEN id = '17' THEN {value} ELSE {empty} END AS v")
    found = written(tmp_path / "t", frame, kind)
    assert attempts == cuts
    assert set(found) == {str(n) for n in range(50)}
    assert {key for key, size in found.items() if size} == {"17"}
    assert length is None or found["17"] == length


def test_the_batches_of_narrow_rows(spark):
    frame = spark.range(0, ROWS, 1, 1).selectExpr("id", "repeat('x', 10) AS v", f"'' AS {PARTITION}")
    bounded = without_wide_rows(frame)
    assert bounded is not None and bounded.frame.dtypes == frame.dtypes
    assert bounded.rows_of_a_batch == ROWS_OF_A_BATCH

    def sizes(batches):
        for batch in batches:
            yield pa.record_batch({"rows": pa.array([batch.num_rows])})

    with materialise.session_settings(spark, materialise.arrow_settings(spark, rows=ROWS_OF_A_BATCH)):
        found = [row["rows"] for row in bounded.frame.mapInArrow(sizes, "rows bigint").collect()]
    assert found == [ROWS_OF_A_BATCH] * 3


@pytest.mark.parametrize(("columns", "times"), [(1, 1), (62, 1), (200, 4), (500, 8)])
def test_a_row_of_many_columns_has_as_much_more_room(spark, columns, times):
    most = MOST_ROW_BYTES * times
    names = [f"c{number}" for number in range(columns)]
    share, rest = divmod(most, columns)

    def frame(more: int):
        # Of one text a column, and in no column that is the last; nulls and a struct count as they should.
        texts = [f"repeat('x', {share})" for _ in names]
        texts[0] = f"concat({texts[0]}, repeat('x', {rest + more}))"
        row = spark.range(1).selectExpr(
            *(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
        )
        return row.selectExpr("*", "CAST(NULL AS string) AS n", f"'' AS {PARTITION}")

    bounded, wide = without_wide_rows(frame(0)), without_wide_rows(frame(1))
    assert bounded is not None and wide is not None
    assert bounded.rows_of_a_batch * most == ROWS_OF_A_BATCH * MOST_ROW_BYTES
    assert len(bounded.frame.collect()) == 1
    with pytest.raises(Exception, match="a wide row"):
        wide.frame.collect()


def test_what_else_a_query_fails_with_is_its_failure(spark, tmp_path, attempts):
    frame = spark.range(3).selectExpr("string(id) AS id", "string(raise_error('a wide row')) AS v")
    with pytest.raises(parquetry.InvalidDataError, match="a wide row"):
        written(tmp_path / "t", frame, "string")
    assert attempts == [ROWS_OF_A_BATCH]
