"""Base files that are encrypted as a whole: written, merged, rewritten, and read with the key or without."""

from __future__ import annotations

import base64
import gc
import importlib
import io
import math
import re
import subprocess
import sys
import tomllib
import traceback
import uuid
from dataclasses import replace
from datetime import date
from decimal import Decimal
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from parquetry.runtime.allowed import Allowed
from parquetry.runtime.base_file.reader import open_base_file
from parquetry.runtime.clustering.rewrite import runs
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.errors import ConflictError, KeyUnavailableError, NotFoundError
from parquetry.runtime.parquet import encryption, key_management
from parquetry.runtime.parquet.encryption import (
    encryption_properties,
    is_encrypted,
    open_footer,
    open_parquet,
)
from parquetry.runtime.parquet.footer import MAX_KEY, read_metadata
from parquetry.runtime.parquet.key_management import LocalKeys, kms_client
from parquetry.runtime.spark.lookup.tagging import FILE
from parquetry.runtime.spark.read.encrypted import _reader
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spec import plug_ins
from parquetry.runtime.spec.table_spec import BloomFilter, Column, FilesPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.statistics import decode_statistics, encode_statistics, look_up
from parquetry.runtime.task_failures import TaskFailureError, failures_encoded
from tests.support.base_files import FIRST, SECOND, Alive, Incoming, bucket, context, merging, slice_of, write
from tests.support.repository import ROOT
from tests.support.s3_server import BUCKET
from tests.support.stores import WrappedStore

KEY = base64.b64encode(bytes(range(32))).decode()
COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="secret", type="string"),
    Column(name="x", type="double"),
    Column(name="day", type="date"),
    Column(name="price", type="decimal(12,2)"),
    Column(name="place", type="struct<city:string,tags:array<string>>"),
    Column(name="by_name", type="map<string,int>"),
)
ENCRYPTED = FilesPolicy(encryption_key="env:PARQUETRY_TEST_KEY")
IN_THE_CLEAR = FilesPolicy(former_encryption_keys=ENCRYPTED.keys)
MANUAL = ROOT / "docs" / "how-to" / "encrypt.md"
WORDS = [b"confidential", b"secret-city", b"secret-tag", b"key-of-", KEY.encode(), base64.b64decode(KEY)]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("PARQUETRY_TEST_KEY", KEY)


def allowing(*references: str) -> Allowed:
    return Allowed(keys=frozenset(references))


def rows(count: int) -> list[Incoming]:
    return [
        Incoming(
            key=f"key-of-{number:05}",
            values={
                "n": number,
                "secret": None if number % 7 == 0 else f"confidential {number % 50}",
                "x": math.nan if number % 5 == 0 else number / 3,
                "day": date.fromordinal(730_000 + number),
                "price": Decimal(number) / 100,
                "place": {"city": f"secret-city {number}", "tags": ["secret-tag", None]},
                "by_name": [("a", number)],
            },
        )
        for number in range(count)
    ]


def read(ctx, files) -> pa.Table:
    tables = []
    for file in files:
        with ctx.store.open_input(file.stat.path) as source:
            tables.append(open_parquet(source, ctx.store.allowed, place=file.stat.path).read())
    return pa.concat_tables(tables).drop_columns(["_hoodie_file_name"])


def read_column(ctx, files, name) -> list:
    return read(ctx, files).column(name).to_pylist()


def content(ctx, file) -> bytes:
    return ctx.store.read(file.stat.path)


def assert_sealed(ctx, files):
    for file in files:
        found = content(ctx, file)
        assert found.endswith(b"PARE")
        assert len(found) == file.stat.file_size_bytes
        assert [word for word in WORDS if word in found] == []


def values(table: pa.Table) -> str:
    """Rows as text: NaN equals itself there."""
    return repr(table.to_pylist())


def both(tmp_path, incoming, **changes):
    """The same rows written in the clear and encrypted."""
    clear = context(tmp_path / "clear", COLUMNS, **changes)
    sealed = context(tmp_path / "sealed", COLUMNS, files=ENCRYPTED, **changes)
    return (clear, write(clear, bucket(clear), incoming)), (sealed, write(sealed, bucket(sealed), incoming))


@pytest.mark.parametrize("budget_bytes", [512 * 2**20, 8 * 2**20])
def test_what_is_written_encrypted_is_what_would_be_written_in_the_clear(tmp_path, budget_bytes):
    policy = {"memory_budget_bytes": budget_bytes, "max_file_size_bytes": 48 * 1024}
    (clear, plain), (sealed, hidden) = both(tmp_path, rows(6_000), **policy)
    assert len(hidden.files) > 1
    assert values(read(sealed, hidden.files)) == values(read(clear, plain.files))
    assert_sealed(sealed, hidden.files)
    assert all(word in content(clear, plain.files[0]) for word in [b"key-of-00000"])


def test_an_update_and_a_delete_keep_a_file_encrypted(tmp_path):
    (clear, plain), (sealed, hidden) = both(tmp_path, rows(3000))
    merged = []
    for ctx, written in ((clear, plain), (sealed, hidden)):
        later = replace(ctx, instant=SECOND)
        changes = [
            Incoming(key="key-of-00003", position=3, values={"n": -1, "secret": "confidential, changed"}),
            Incoming(key="key-of-00005", position=5, delete=True),
            Incoming(key="key-of-new", values={"n": 7, "secret": "confidential, new"}),
        ]
        merged.append((later, write(later, merging(written.files[0]), changes).files))
    (clear, plain), (sealed, hidden) = merged
    assert values(read(sealed, hidden)) == values(read(clear, plain))
    assert_sealed(sealed, hidden)


@pytest.mark.parametrize("order", [None, RowOrder(strategy="sort", columns=("secret", "n"))])
@pytest.mark.parametrize("budget_bytes", [512 * 2**20, 2**20])
def test_a_rewrite_encrypts_clear_files_and_opens_them_again(tmp_path, order, budget_bytes):
    first = context(tmp_path, COLUMNS, instant=FIRST)
    files = write(first, bucket(first), rows(4000)).files
    # A sort numbers the rows anew.
    left_out = [] if order is None else ["_hoodie_commit_seqno"]
    before = values(read(first, files).sort_by("n").drop_columns(left_out))
    for instant, policy in ((SECOND, ENCRYPTED), ("20260105000000000", IN_THE_CLEAR)):
        ctx = context(tmp_path, COLUMNS, instant=instant, files=policy, memory_budget_bytes=budget_bytes)
        slices = tuple(slice_of(file) for file in files)
        group = GroupWork(index=0, partition="p=1", slices=slices, target_bytes=2**20, order=order)
        files = rewrite_group(replace(ctx, clustering="0123456789abcdef"), group).files
        found = values(read(ctx, files).sort_by("n").drop_columns(left_out))
        assert found == before
        assert files[0].statistics.clustering == "0123456789abcdef"
        if policy is ENCRYPTED:
            assert_sealed(ctx, files)
    assert not any(is_encrypted(file.metadata) for file in files)


def test_sorted_rows_of_an_encrypted_table_are_sealed_on_the_local_disk(tmp_path, monkeypatch):
    found = {}
    read = runs.SpilledRun.range

    def watched(run, number):
        found[run._path] = run._path.read_bytes()
        return read(run, number)

    monkeypatch.setattr(runs.SpilledRun, "range", watched)
    first = context(tmp_path, COLUMNS)
    slices = tuple(slice_of(file) for file in write(first, bucket(first), rows(4000)).files)
    group = GroupWork(
        index=0,
        partition="p=1",
        slices=slices,
        target_bytes=2**20,
        order=RowOrder(strategy="sort", columns=("n",)),
    )
    words = {}
    for instant, policy in ((SECOND, FilesPolicy()), ("20260105000000000", ENCRYPTED)):
        found.clear()
        ctx = context(tmp_path, COLUMNS, instant=instant, files=policy, memory_budget_bytes=300_000)
        files = rewrite_group(ctx, group).files
        assert read_column(ctx, files, "n") == list(range(4000))
        assert found
        words[policy] = {word for content in found.values() for word in WORDS if word in content}
        assert all(content[:12] != content[-12:] for content in found.values())
    assert words[FilesPolicy()] == {b"confidential", b"secret-city", b"secret-tag", b"key-of-"}
    assert words[ENCRYPTED] == set()


def test_sealed_rows_need_their_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(KeyUnavailableError, match=r"run `pip install cryptography`"):
        runs.SpillCipher()


def test_unwrapping_a_key_needs_its_package(monkeypatch):
    wrapped = LocalKeys("env", lambda _: KEY).wrap_key(bytes(32), "K")
    for name in ("cryptography.exceptions", "cryptography.hazmat.primitives.ciphers.aead"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(KeyUnavailableError, match=r"run `pip install cryptography`"):
        LocalKeys("env", lambda _: KEY).unwrap_key(wrapped, "K")


def test_encrypted_files_on_s3(s3_options, monkeypatch):
    store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3_options, allowing(*ENCRYPTED.keys))
    ctx = context(store, COLUMNS, files=ENCRYPTED)
    (file,) = write(ctx, bucket(ctx), rows(3000)).files
    later = replace(ctx, instant=SECOND)
    change = Incoming(key="key-of-00003", position=3, values={"n": -1, "secret": "confidential, changed"})
    (merged,) = write(later, merging(file), [change]).files
    assert_sealed(later, [file, merged])
    assert read_column(later, [merged], "n") == [0, 1, 2, -1, *range(4, 3000)]
    with open_base_file(
        store, slice_of(merged), ctx.schema, decoded=frozenset(), batch_bytes=2**20
    ) as reader:
        assert reader.rows == 3000
    # A key stays known to a process for ten minutes.
    encryption._crypto.cache_clear()
    monkeypatch.delenv("PARQUETRY_TEST_KEY")
    with (
        pytest.raises(KeyUnavailableError, match="PARQUETRY_TEST_KEY is not set"),
        open_base_file(store, slice_of(merged), ctx.schema, decoded=frozenset(), batch_bytes=2**20),
    ):
        pass


def test_nothing_of_the_values_is_recorded(tmp_path):
    exact = replace(ENCRYPTED, bloom_filter=BloomFilter.EXACT)
    ctx = context(tmp_path, COLUMNS, files=exact)
    (file,) = write(ctx, bucket(ctx), rows(3000)).files
    assert (file.min_key, file.max_key) == (None, None)
    assert file.statistics.encrypted
    assert file.statistics.rows == 3000
    assert file.statistics.columns == {}
    sidecar = encode_statistics([file.statistics])
    assert decode_statistics(sidecar, location="here") == (file.statistics,)
    plain = pq.read_table(pa.BufferReader(sidecar)).to_pylist()
    assert [word for word in WORDS if word.decode("latin-1") in repr(plain)] == []
    # From the footer, with the key, no more is told.
    part = slice_of(file)
    (found,) = look_up(ctx.store, [part]).values()
    assert found == file.statistics
    assert read_metadata(ctx.store, part.path).metadata[MAX_KEY.encode()] == b"key-of-02999"


def test_numbers_that_may_hide_nan_have_no_bounds(tmp_path):
    ctx = context(tmp_path, COLUMNS, files=ENCRYPTED)
    (file,) = write(ctx, bucket(ctx), rows(3000)).files
    with ctx.store.open_input(file.stat.path) as source:
        metadata, _ = open_footer(source, ctx.store.allowed, place=file.stat.path)
    bounded = {
        metadata.schema.column(i).path: metadata.row_group(0).column(i).is_stats_set
        for i in range(metadata.num_columns)
    }
    assert not bounded["x"]
    assert bounded["n"]
    assert bounded["_hoodie_record_key"]
    assert metadata.row_group(0).column(5).has_column_index


READ = """
import sys
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.parquet.encryption import open_parquet
import pyarrow as pa
allowed = Allowed(keys=frozenset(["env:PARQUETRY_TEST_KEY"]))
try:
    print(open_parquet(pa.OSFile(sys.argv[1]), allowed, place="here").read().num_rows)
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PARQUETRY_TEST_KEY": KEY}, "9"),
        ({}, "KeyUnavailableError here: the environment variable PARQUETRY_TEST_KEY of the key"),
        (
            {"PARQUETRY_TEST_KEY": base64.b64encode(bytes(32)).decode()},
            "KeyUnavailableError here: the file was not encrypted with the key env:PARQUETRY_TEST_KEY",
        ),
        (
            {"PARQUETRY_TEST_KEY": "no key"},
            "KeyUnavailableError here: the key env:PARQUETRY_TEST_KEY is not base64",
        ),
    ],
    ids=["key", "none", "another", "garbage"],
)
def test_a_reader_needs_the_key(tmp_path, environment, said):
    ctx = context(tmp_path, COLUMNS, files=ENCRYPTED)
    (file,) = write(ctx, bucket(ctx), rows(9)).files
    path = str(tmp_path / file.stat.path)
    # Another process: this one knows the key.
    answer = subprocess.run(
        [sys.executable, "-c", READ, path], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith(said)
    assert KEY not in answer.stdout + answer.stderr
    assert "executorEnv" not in answer.stdout, "Spark shows that in its web interface and event log"


def test_other_readers_say_that_the_file_is_encrypted(tmp_path):
    ctx = context(tmp_path, COLUMNS, files=ENCRYPTED)
    (file,) = write(ctx, bucket(ctx), rows(9)).files
    with pytest.raises(OSError, match="encrypted"):
        pq.read_table(tmp_path / file.stat.path)


def test_a_key_in_a_file(tmp_path):
    (tmp_path / "key").write_text(f"{KEY}\n")
    ctx = context(tmp_path / "t", COLUMNS, files=FilesPolicy(encryption_key=f"file:{tmp_path}/key"))
    written = write(ctx, bucket(ctx), rows(9))
    assert read(ctx, written.files).num_rows == 9
    assert_sealed(ctx, written.files)
    reference = f"file:{tmp_path}/other"
    with pytest.raises(KeyUnavailableError, match="cannot be read: No such file"):
        encryption_properties(reference, allowing(reference))


class Service:
    """A key management service: wraps texts by keys that it has under names."""

    def __init__(self):
        self.keys = LocalKeys("service", lambda name: {"transit/patients": KEY}[name])

    def encrypt(self, name, text):
        return self.keys.wrap_key(text.encode(), name)

    def decrypt(self, name, text):
        return self.keys.unwrap_key(text, name).decode()


def test_the_client_in_the_manual_works_as_it_stands_there(tmp_path, monkeypatch):
    blocks = re.findall(r"```(python|toml)\n(.*?)```", MANUAL.read_text(), flags=re.DOTALL)
    code, declared = (dict(blocks)[language] for language in ("python", "toml"))
    (tmp_path / "our_kms.py").write_text(f"{code}\n\ndef connect():\n    return SERVICE\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("our_kms").SERVICE = Service()
    declared = tomllib.loads(declared)["project"]["entry-points"]["parquetry.kms_clients"]
    points = [EntryPoint(name=name, value=value, group="") for name, value in declared.items()]
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: points)
    kms_client.cache_clear()
    try:
        ctx = context(tmp_path, COLUMNS, files=FilesPolicy(encryption_key="vault:transit/patients"))
        written = write(ctx, bucket(ctx), rows(9))
        assert read(ctx, written.files).num_rows == 9
        assert_sealed(ctx, written.files)
    finally:
        kms_client.cache_clear()
        sys.modules.pop("our_kms")


class Unreachable:
    """A service that wraps keys, and then is down; what it says of that has a secret in it."""

    def __init__(self):
        self._keys = LocalKeys("service", lambda _: KEY)
        self.failure: Exception | None = None

    def wrap_key(self, key_bytes, name):
        self._fail()
        return self._keys.wrap_key(key_bytes, name)

    def unwrap_key(self, wrapped_key, name):
        self._fail()
        return self._keys.unwrap_key(wrapped_key, name)

    def _fail(self):
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def service(monkeypatch):
    client = Unreachable()
    monkeypatch.setattr(key_management, "BUILT_IN", {"service": client})
    kms_client.cache_clear()
    encryption._crypto.cache_clear()
    yield client
    kms_client.cache_clear()
    encryption._crypto.cache_clear()


@pytest.mark.parametrize(
    "failure",
    [ConnectionError("https://kms?token=hush"), ValueError("hush"), KeyError("hush")],
    ids=lambda failure: type(failure).__name__,
)
def test_a_service_that_is_down_is_no_corrupt_table(tmp_path, service, failure):
    ctx = context(tmp_path, COLUMNS, files=FilesPolicy(encryption_key="service:patients"))
    (file,) = write(ctx, bucket(ctx), rows(9)).files
    encryption._crypto.cache_clear()  # which keeps the keys that it has asked for
    service.failure = failure
    said = f"the key service:patients \\({type(failure).__name__}\\); check that its service"
    with pytest.raises(KeyUnavailableError, match=said) as footer:
        read_metadata(ctx.store, file.stat.path)
    opened = open_base_file(
        ctx.store, slice_of(file), ctx.schema, decoded=frozenset(), batch_bytes=ctx.batch_bytes
    )
    with pytest.raises(KeyUnavailableError, match=said), opened:
        pass
    with pytest.raises(KeyUnavailableError, match=said):
        write(replace(ctx, instant=SECOND), bucket(ctx), rows(9))
    assert "hush" not in "".join(traceback.format_exception(footer.value))


def test_what_a_client_says_of_a_key_is_told_as_it_is(tmp_path, service):
    ctx = context(tmp_path, COLUMNS, files=FilesPolicy(encryption_key="service:patients"))
    service.failure = KeyUnavailableError("the key service:patients is locked; ask for it")
    with pytest.raises(KeyUnavailableError, match=r"^the key service:patients is locked; ask for it$"):
        write(ctx, bucket(ctx), rows(9))


class Mistaken(Unreachable):
    """Answers one of its methods with what is of another type."""

    def __init__(self, method):
        super().__init__()
        self._method = method

    def wrap_key(self, key_bytes, name):
        text = super().wrap_key(key_bytes, name)
        return text.encode() if self._method == "wrap_key" else text

    def unwrap_key(self, wrapped_key, name):
        key = super().unwrap_key(wrapped_key, name)
        return key.hex() if self._method == "unwrap_key" else key


@pytest.mark.parametrize(
    ("method", "said"), [("wrap_key", "a bytes instead of a str"), ("unwrap_key", "a str instead of a bytes")]
)
def test_a_client_that_answers_with_another_type_is_named(tmp_path, service, monkeypatch, method, said):
    monkeypatch.setitem(key_management.BUILT_IN, "service", Mistaken(method))
    kms_client.cache_clear()
    ctx = context(tmp_path, COLUMNS, files=FilesPolicy(encryption_key="service:patients"))
    told = f"{method} of the client for keys 'service' of .* returned {said}; fix the package"

    def write_and_read():
        (file,) = write(ctx, bucket(ctx), rows(9)).files
        encryption._crypto.cache_clear()  # which keeps the keys that it has asked for
        read_metadata(ctx.store, file.stat.path)

    with pytest.raises(KeyUnavailableError, match=told):
        write_and_read()


@pytest.mark.parametrize("made", [object, lambda: None, "text"])
def test_what_is_no_client_is_named(monkeypatch, made):
    point = SimpleNamespace(name="vault", load=lambda: made)
    monkeypatch.setattr(plug_ins, "entry_points", lambda group: [point])
    kms_client.cache_clear()
    encryption._crypto.cache_clear()
    said = (
        "'vault' of entry-point group parquetry.kms_clients gives (object|NoneType|str), which has no method"
    )
    with pytest.raises(KeyUnavailableError, match=said):
        encryption_properties("vault:flights", allowing("vault:flights"))


class _Gone(io.BytesIO):
    """What was opened in time and is asked for too late."""

    def read(self, *_):
        raise FileNotFoundError("the object was cleaned")


class LateStore(WrappedStore):
    """Opens files whose bytes are gone when they are asked for, as object stores do."""

    def open_input(self, path):
        with self.inner.open_input(path) as content:
            return pa.PythonFile(_Gone(content.read()), mode="r")


def gone_before(ctx, path):
    ctx.store.delete(path)
    return ctx.store


def gone_behind(ctx, _):
    return LateStore(ctx.store)


@pytest.mark.parametrize("cleaned", [gone_before, gone_behind])
def test_a_file_that_is_gone_while_spark_reads_it_is_told_to_the_driver(tmp_path, cleaned):
    """A write whose rows are looked up in a file that was cleaned meanwhile begins anew."""
    ctx = context(tmp_path, COLUMNS, files=ENCRYPTED)
    (file,) = write(ctx, bucket(ctx), rows(9)).files
    numbers = [pa.RecordBatch.from_pydict({"id": [0]})]
    task = _reader(ctx.store, [slice_of(file)], ctx.schema, ["n", FILE])
    assert sum(batch.num_rows for batch in task(numbers)) == 9
    store = cleaned(ctx, file.stat.path)
    task = _reader(store, [slice_of(file)], ctx.schema, ["n", FILE])
    with pytest.raises(TaskFailureError, match="was removed by a clean") as gone:
        list(failures_encoded(task)(numbers))
    # Spark hands the text of a task's failure over.
    text = "".join(traceback.format_exception(gone.value))
    with pytest.raises(NotFoundError, match=file.stat.path), failures_translated("the keys of the rows"):
        raise PySparkException(text)


def test_without_the_key_not_even_a_marker_is_written(tmp_path):
    ctx = context(tmp_path, COLUMNS, files=FilesPolicy(encryption_key="env:PARQUETRY_NO_SUCH_KEY"))
    with pytest.raises(KeyUnavailableError, match="variable PARQUETRY_NO_SUCH_KEY of the key"):
        write(ctx, bucket(ctx), rows(9))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_write_that_fails_leaves_no_writer_behind_that_goes_on(tmp_path, monkeypatch):
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    ctx = context(tmp_path, COLUMNS, files=ENCRYPTED, guard=Alive(answers=0))
    with pytest.raises(ConflictError):
        write(ctx, bucket(ctx), rows(3000))
    gc.collect()
    assert [repr(one.exc_value) for one in ignored] == []
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_client_that_is_not_there():
    with pytest.raises(
        KeyUnavailableError, match="no client for keys 'hsm' is installed here, only env, file"
    ):
        encryption_properties("hsm:flights", allowing("hsm:flights"))
