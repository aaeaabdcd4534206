"""How many requests a read of rows sends to S3, and how many bytes it fetches: fewer where less is needed."""

from __future__ import annotations

import io
import random
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.ranged_input import TAIL_BYTES
from parquetry.table import Table
from tests.support.s3_server import BUCKET, Answer, s3_server
from tests.support.small_table import make_table

PARTITIONS = "abcd"
ROWS = 10_000
FOOTER_BYTES = 4096
"""More than the footer of one of these files and its page index."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A table in S3 with its rows, the sizes of its files and of each column, and the answers of the server."""

    table: Table
    rows: dict[str, tuple[int, str]]
    file_bytes: dict[str, int]
    column_bytes: Counter[str]
    answers: list[Answer]

    def read(self, **asked: Any) -> tuple[pa.Table, Counter[str], Counter[str]]:
        """The rows of a read, how many requests of each kind it sent, and what it got of each partition's files."""
        self.answers.clear()
        rows = self.table.to_arrow(**asked)
        fetched: Counter[str] = Counter()
        for answer in self.answers:
            *_, partition, name = answer.path.split("/")
            if name.endswith(".parquet") and partition in self.file_bytes:
                fetched[partition] += answer.size_bytes
        return rows, Counter(answer.kind for answer in self.answers), fetched


@pytest.fixture(scope="module")
def stored():
    """Four files of random keys, larger than the end of a file that is fetched with its footer."""
    chance = random.Random(1)
    keys = [(f"{p}{chance.randbytes(16).hex()}", p) for p in PARTITIONS for _ in range(ROWS)]
    rows = {key: (chance.getrandbits(60), partition) for key, partition in keys}
    answers: list[Answer] = []
    with s3_server(answers=answers) as options:
        store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}/t", options)
        writer = make_table(store)
        writer.insert(rows)
        files, columns = {}, Counter()
        for file in writer.handle.view(writer.handle.timeline()).all_slices():
            content = store.read(file.path)
            files[file.partition] = len(content)
            group = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0).to_dict()
            columns.update({c["path_in_schema"]: c["total_compressed_size"] for c in group["columns"]})
        yield Stored(Table(store), rows, files, columns, answers)


def test_a_whole_read_fetches_each_file_by_two_requests_and_no_meta_columns(stored):
    rows, requests, fetched = stored.read()
    assert dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == {
        key: value for key, (value, _) in stored.rows.items()
    }
    # Got: two small files of the table that the process has not read yet, and one of them again behind the timeline; of each base file, its end and the other bytes of the columns.
    assert requests == {"GET": 3 + 2 * 4, "LIST": 5}
    own = sum(stored.column_bytes[name] for name in ("id", "v", "p"))
    assert fetched.keys() == stored.file_bytes.keys()
    assert own < fetched.total() < own + 4 * FOOTER_BYTES


def test_a_column_within_the_ends_of_files_needs_no_further_request(stored):
    rows, requests, fetched = stored.read(columns=["v"])
    assert sorted(rows["v"].to_pylist()) == sorted(value for value, _ in stored.rows.values())
    assert requests == {"GET": 3 + 4, "LIST": 5}
    assert fetched == dict.fromkeys(stored.file_bytes, TAIL_BYTES)


def test_a_condition_on_the_partition_opens_its_file_alone(stored):
    rows, requests, fetched = stored.read(columns=["v"], where="p = 'b'")
    assert sorted(rows["v"].to_pylist()) == sorted(value for value, p in stored.rows.values() if p == "b")
    # Got besides the end of the file: the statistics of the commit.
    assert requests == {"GET": 4 + 1, "LIST": 5}
    assert fetched == {"p=b": TAIL_BYTES}


def test_a_condition_on_the_key_opens_one_file(stored):
    key = next(key for key, (_, partition) in stored.rows.items() if partition == "b")
    rows, requests, fetched = stored.read(columns=["v"], where=f"id = '{key}'")
    assert rows["v"].to_pylist() == [stored.rows[key][0]]
    assert requests == {"GET": 4 + 2, "LIST": 5}
    assert fetched.keys() == {"p=b"}
    assert TAIL_BYTES < fetched["p=b"] < 0.6 * stored.file_bytes["p=b"]


def test_a_condition_that_no_file_can_fulfil_opens_none(stored):
    rows, requests, fetched = stored.read(columns=["v"], where="v = -1")
    assert rows.num_rows == 0
    assert requests == {"GET": 4, "LIST": 5}
    assert not fetched
