"""A table whose files become encrypted, and stay so: nothing is left on disk in the clear."""

from __future__ import annotations

import base64
import os
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.errors import KeyUnavailableError
from parquetry.runtime.spark.attempt import upsert
from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import FilesPolicy, RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from tests.support import our_table
from tests.support.clustering import FEW, clustering_of, spec_of
from tests.support.judges import HudiRs, assert_history
from tests.support.our_table import KEYS, OurReader

pytestmark = pytest.mark.spark

KEY = base64.b64encode(os.urandom(32))
# Compressed pages would hide the words from a search of the bytes.
FILES = FilesPolicy(compression="uncompressed")
WORDS = (b"confidential", b"key-of-", KEY, base64.b64decode(KEY))


@pytest.fixture
def reference(tmp_path):
    (tmp_path / "key").write_bytes(KEY)
    return f"file:{tmp_path}/key"


def rows(ours, rnd, ids, version):
    found = ours.rows(rnd, ids, version, secret=f"confidential, version {version}")
    return [{**row, "id": f"key-of-{row['id']}"} for row in found]


def table_in_the_clear(spark, path, rnd):
    keys = {**KEYS, "secret": pa.string()}
    spec = spec_of(clustering_of(), files=FILES)
    ours = our_table.create(spark, path, typed=list(FEW), keys=keys, spec=spec)
    ours.insert(rows(ours, rnd, range(40), 1))
    ours.upsert(rows(ours, rnd, range(30, 80), 2))
    return ours


def apply_key(ours, reference):
    """Apply the spec with the key, and with clustering that encrypts what is there."""
    store = open_store(str(ours.path))
    applied = read_applied(store)
    execution = ExecutionPolicy(then=("encrypt",), encryption_key=reference)
    section = replace(clustering_of(), execution=execution)
    spec = replace(
        applied.spec,
        files=replace(applied.spec.files, encryption_key=reference),
        extra=replace(applied.spec.extra, clustering=section),
    )
    known = Requirements(exists=True, applied_number=applied.ref.number)
    apply_change(store, TableChange(spec=spec, requirements=known, alters_schema=False, project="interop"))
    ours.keys = spec.files.keys


def cluster(ours):
    result = ours.table.cluster(ours.spark)
    for instant in result.instants:
        ours.model.unchanged(instant)
    return result


def current_files(ours):
    handle = open_table(open_store(str(ours.path)))
    return [ours.path / part.path for part in handle.view(handle.timeline()).all_slices()]


def are_encrypted(ours):
    return {path.read_bytes().endswith(b"PARE") for path in current_files(ours)}


def words_on_disk(ours, but=frozenset()):
    files = [path for path in ours.path.rglob("*") if path.is_file() and path not in but]
    return {word for path in files for word in WORDS if word in path.read_bytes()}


def test_files_become_encrypted_and_stay_so(spark, tmp_path, reference, monkeypatch):
    rnd = random.Random(3)
    judges = [OurReader(spark, [reference])]
    ours = table_in_the_clear(spark, tmp_path / "table", rnd)
    assert words_on_disk(ours) == {b"confidential", b"key-of-"}
    # Writes from before the key have announced between which keys they insert; archival removes that.
    announced = set(ours.path.glob(".hoodie/*.inflight"))
    apply_key(ours, reference)
    ours.upsert(rows(ours, rnd, [1, 5, 81], 2))
    assert are_encrypted(ours) == {True, False}
    assert_history(judges, str(ours.path), ours.model)

    assert cluster(ours).groups == 4
    assert are_encrypted(ours) == {True}
    assert cluster(ours).groups == 0
    ours.upsert(rows(ours, rnd, [2, 6, 90], 3))
    ours.clean(RetentionPolicy(keep_commits=1))
    assert words_on_disk(ours) == {b"key-of-"}
    assert words_on_disk(ours, but=announced) == set()

    monkeypatch.setattr(upsert, "is_small", lambda *_: False)
    ours.upsert(rows(ours, rnd, [2, 7, 91], 4))
    ours.delete(rows(ours, rnd, [3, 8, 91], 5))
    ours.bulk_insert(rows(ours, rnd, [100, 101], 1))
    assert are_encrypted(ours) == {True}
    assert words_on_disk(ours, but=announced) == set()
    assert ours.read() == ours.model.latest()


def test_other_readers_fail_and_say_why(spark, tmp_path, reference):
    ours = table_in_the_clear(spark, tmp_path / "table", random.Random(4))
    apply_key(ours, reference)
    cluster(ours)
    with pytest.raises(Exception, match="encrypted footer"):
        spark.read.parquet(*map(str, current_files(ours))).collect()
    with pytest.raises(Exception, match=r"(?i)encrypt"):
        HudiRs().read(str(ours.path))


def test_a_write_without_the_key_leaves_the_table_as_it_was(spark, tmp_path):
    rnd = random.Random(5)
    ours = table_in_the_clear(spark, tmp_path / "table", rnd)
    apply_key(ours, f"file:{tmp_path}/no-such-key")
    with pytest.raises(KeyUnavailableError, match="no-such-key cannot be read"):
        ours.table.upsert(ours.frame(rows(ours, rnd, [1], 2)))
    assert ours.read() == ours.model.latest()
