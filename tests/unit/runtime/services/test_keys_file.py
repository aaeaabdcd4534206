"""Files of keys: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.services.keys_file import read_keys


def test_csv_and_parquet_in_any_order_of_columns(tmp_path: Path) -> None:
    csv, parquet = tmp_path / "keys.csv", tmp_path / "keys.parquet"
    csv.write_text('\ufeffday,id\n2026-01-01,"a, b"\n\n2026-01-02,c\n', encoding="utf-8")
    pq.write_table(pa.table({"day": ["2026-01-01", "2026-01-02"], "id": ["a, b", "c"]}), parquet)
    for path in (csv, parquet):
        keys = read_keys(path, ("id", "day"), most_rows=2)
        assert keys.columns == ("id", "day")
        assert keys.rows == (("a, b", "2026-01-01"), ("c", "2026-01-02"))
        assert "a, b" not in repr(keys)


def test_numbers_of_parquet_become_texts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"_hoodie_record_key": [1, None]}), tmp_path / "k")
    assert read_keys(tmp_path / "k", ("id",), most_rows=9).rows == (("1",), (None,))


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (b"", "does not contain a list of keys"),
        (b"id\na,b\n", "key 1 has 2 cells"),
        (b"name\na\n", "has the columns name, but must have exactly id"),
        (b"id,name\na,b\n", "has the columns id, name, but must have exactly id"),
        (b"id\na\nb\nc\n", "more than 2 keys; split it"),
        (b"id\n\xff\n", "does not contain a list of keys"),
        (b"PAR1", "does not contain a list of keys"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_list_of_keys_is_refused(tmp_path: Path, content: bytes | None, refused: str) -> None:
    if content is not None:
        (tmp_path / "k").write_bytes(content)
    with pytest.raises(InvalidDataError, match=refused):
        read_keys(tmp_path / "k", ("id",), most_rows=2)
