"""Values are found whole, in whatever form a file of a table has them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.commit.workload_profile import INSERTED_KEYS
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.parquet.footer import MAX_KEY, MIN_KEY
from parquetry.runtime.services.value_search import matches_in_file, matches_in_footer
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.statistics import encode_statistics
from parquetry.runtime.timeline.archive_log import encode_log

MAIL = "anna@example.com"


def places(tmp_path: Path, content: bytes, *values: str, name: str = ".hoodie/x") -> list[str]:
    store = open_store(tmp_path)
    store.put(name, content)
    return matches_in_file(store, name, frozenset(values))


def avro(text: str) -> bytes:
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "string"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"f": text}], codec="deflate")
    return sink.getvalue()


def statistics(low: str, high: str) -> bytes:
    column = ColumnStatistics(type="string", minimum=low, maximum=high)
    group = RowGroupStatistics(rows=1, data_bytes=1, columns={"c": column})
    return encode_statistics([FileStatistics(path="f.parquet", size_bytes=1, row_groups=(group,))])


def archived(extra: dict[str, str]) -> bytes:
    commit = {"extraMetadata": extra, "version": 1}
    return encode_log([{"commitTime": "1", "actionType": "commit", "hoodieCommitMetadata": commit}])


def history(text: str) -> bytes:
    """A file of an archive whose instants are Avro within Parquet."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"instantTime": ["1"], "metadata": pa.array([avro(text)])}), sink)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (json.dumps({"a": {"b": [MAIL]}}).encode(), "b"),
        (json.dumps({"a": json.dumps({"p": ["a", MAIL]})}).encode(), "p"),
        (json.dumps({"where": f"mail = '{MAIL}'"}).encode(), "where"),
        (json.dumps({"path": f"/landing/{MAIL}/x.csv"}).encode(), "path"),
        (json.dumps({MAIL: 1}).encode(), "names"),
        (f"#c\nname={MAIL}\n".encode(), "text"),
        (b"\x00\x01\xff" + MAIL.encode() + b"\xfe", "text"),
        (avro(MAIL), "f"),
        (archived({INSERTED_KEYS: json.dumps({"p": ["a", MAIL]})}), "p"),
        (statistics("a", MAIL), "maximum"),
        (history(MAIL), "f"),
    ],
)
def test_a_value_is_found_in_each_form_and_place(tmp_path: Path, content: bytes, place: str) -> None:
    assert places(tmp_path, content, MAIL) == [place]
    assert places(tmp_path, content.replace(MAIL.encode(), b"bert@example.com"), "anna@example") == []


def test_keys_that_prefix_one_another_are_told_apart(tmp_path: Path) -> None:
    content = json.dumps({INSERTED_KEYS: json.dumps({"p": ["a1", "a10"]})}).encode()
    assert places(tmp_path, content, "a1") == places(tmp_path, content, "a10") == ["p"]
    assert places(tmp_path, content, "a", "a100", "1") == []
    assert places(tmp_path, b"user-1234", "user-123") == []


def test_short_values_count_as_bounds_only(tmp_path: Path) -> None:
    assert places(tmp_path, json.dumps({"numWrites": "7", "x": "ab"}).encode(), "7", "ab") == []
    assert places(tmp_path, json.dumps({INSERTED_KEYS: '{"p": ["7", "ab"]}'}).encode(), "7") == ["p"]
    assert places(tmp_path, statistics("7", "9"), "7") == ["minimum"]


def test_a_path_holds_a_value(tmp_path: Path) -> None:
    assert places(tmp_path, b"", "a/b c", name="who=a%2Fb%20c/.hoodie_partition_metadata") == ["path"]
    assert places(tmp_path, b"", "anna", name="who=annabel/.hoodie_partition_metadata") == []


def test_bounds_of_a_footer(tmp_path: Path) -> None:
    pairs = {MIN_KEY: "a1", MAX_KEY: "z"}
    table = pa.table({"_hoodie_record_key": ["a10", "z"]}).replace_schema_metadata(pairs)
    pq.write_table(table, tmp_path / "f.parquet")
    store = open_store(tmp_path)
    assert matches_in_footer(store, "f.parquet", frozenset({"a1"})) == [MIN_KEY]
    assert matches_in_footer(store, "f.parquet", frozenset({"a10"})) == ["bounds of _hoodie_record_key"]
    assert matches_in_footer(store, "f.parquet", frozenset({"a", "y"})) == []
