"""How many requests a write sends to S3: the same for each table version, and few more for more files."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from parquetry.runtime.commit.outcome import WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.instant import Action
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import SORTED, apply_clustering
from tests.support.s3_server import BUCKET
from tests.support.small_table import COLUMNS, FAST, make_table, view_rows

pytestmark = pytest.mark.parametrize("version", [6, 9])

CALM = replace(FAST, heartbeat_seconds=600.0, dead_after_seconds=6000.0, listing_valid_seconds=600.0)
PARTITIONS = "abcd"


def sent(requests: Counter[str], action: Callable[[], object]) -> Counter[str]:
    """The requests of the action."""
    requests.clear()
    action()
    return Counter(requests)


def empty_table(version, s3_options):
    store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}/t", s3_options)
    table = make_table(store, table_version=version, keep_commits=50)
    table.timing = CALM
    table.services = True
    return table


@pytest.fixture
def table(version, s3_options):
    """A table with one file in each of four partitions, by one commit behind that of the creation."""
    table = empty_table(version, s3_options)
    table.insert({f"k{partition}": (0, partition) for partition in PARTITIONS})
    return table


def test_a_commit_without_files(table, s3_requests):
    def body(txn):
        schema = txn.table.schema_json(txn.timeline, COLUMNS)
        return WriteOutcome(operation="ALTER_SCHEMA", schema_json=schema)

    handle = table.handle
    s3_requests.clear()
    result = run_write(handle, action=Action.COMMIT, operation="ALTER_SCHEMA", body=body, timing=CALM)
    assert result.instant is not None
    # Listed: the timeline before the claim, behind the request, under the lock, and behind the commit.
    assert s3_requests == {"GET": 3, "HEAD": 1, "LIST": 4, "PUT": 6, "DELETE": 2}


def test_an_upsert_of_one_file_and_of_four(table, s3_requests):
    one = sent(s3_requests, lambda: table.upsert({"ka": (1, "a")}))
    # Listed: the applied records, the timeline as above and behind the profile, and the partition twice.
    # The double of the writer reads the keys, the rows and the footers, with a GET each, and sizes.
    assert one == {"GET": 8, "HEAD": 5, "LIST": 8, "PUT": 9, "DELETE": 3}
    table.upsert({f"k{partition}": (2, partition) for partition in PARTITIONS})
    four = sent(s3_requests, lambda: table.upsert({f"k{p}": (3, p) for p in PARTITIONS}))
    assert view_rows(table.store) == {f"k{p}": (3, p) for p in PARTITIONS}
    # For each further file: its marker, the file, and what the double reads.
    assert four - one == {"GET": 3 * 3, "HEAD": 3 * 3, "PUT": 3 * 2}
    assert four["LIST"] == one["LIST"]


def test_a_commit_is_read_once_by_a_process_and_again_if_it_was_replaced(table, s3_options, s3_requests):
    other = open_store(table.store.uri, s3_options)

    def read(store=other):
        timeline = open_table(store).timeline()
        return timeline.commits([write.time for write in timeline.completed_writes])

    assert open_table(other).spec is not None
    opened = sent(s3_requests, lambda: open_table(other).timeline())
    assert sent(s3_requests, read) - opened == {"GET": 2}
    assert sent(s3_requests, read) == opened
    # The writer has put them.
    assert sent(s3_requests, lambda: read(table.store)) == opened
    assert read() == read(table.store)
    table.store.put(table.handle.timeline().completed_writes[-1].path, b"damaged")
    for store in (other, table.store):
        with pytest.raises(CorruptTableError, match="Restore the file from a copy"):
            read(store)


def test_a_delete_that_finds_nothing(table, s3_requests):
    def delete():
        assert table.delete(["missing"]).instant is None

    # Four files are searched, with a GET each.
    assert sent(s3_requests, delete) == {"GET": 6, "LIST": 5, "PUT": 3, "DELETE": 2}


def test_a_clean(table, version, s3_requests):
    for value in (1, 2):
        table.upsert({f"k{partition}": (value, partition) for partition in PARTITIONS})
    handle = table.handle
    requests = sent(s3_requests, lambda: clean(handle, policy=RetentionPolicy(keep_commits=1), timing=CALM))
    # Listed: the timeline four times, the partitions twice with the root and once without it, the notes of
    # abandoned buckets, and all of .hoodie; for a completion time, the timeline once more. The properties are
    # read under the lock, and behind the timeline by which orphans are found.
    assert requests == {"GET": 4, "HEAD": 2, "LIST": 11 + (version == 9), "PUT": 6, "DELETE": 4}


def test_a_clustering(version, s3_options, s3_requests):
    table = empty_table(version, s3_options)
    apply_clustering(table, SORTED)
    results = []

    def clustered(inserts):
        """The requests of a clustering after these inserts; each writes a file in two partitions."""
        for number in range(inserts):
            table.insert({f"{inserts}{number}{partition}": (number, partition) for partition in "ab"})
        handle = table.handle
        return sent(s3_requests, lambda: results.append(cluster(OneProcessSpark(), handle, timing=CALM)))

    few = clustered(2)
    # Listed: the timeline, the root, the partitions and the groups that were left out, for what is due; the
    # timeline before the lock and under it, for the plan; the applied records, the timeline and the
    # partitions, for the execution; the timeline and the partitions under the lock, and the timeline behind
    # the commit.
    assert few == {"GET": 21, "LIST": 12, "PUT": 12, "HEAD": 6, "DELETE": 4}
    many = clustered(5)
    assert [(result.files_before, result.files_after) for result in results] == [(4, 2), (12, 2)]
    # Eight further files: the footer, and the footer with the rows. The statistics of four further commits.
    assert many - few == {"GET": 8 * 2 + 4}
